"""Commands that start as copies of a warm process do what they do without one."""

import os
import signal
import subprocess
import sys

import pandas as pd
import pytest
from commands import TESTS, TINY, process_exists, wait_for

FOREVER = "--gin_bindings=Experiment.total_steps = 10_000_000"


def environment(cache):
    path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    return os.environ | {"PYTHONPATH": path, "XDG_CACHE_HOME": str(cache)}


def start_warm(cache):
    return subprocess.Popen(
        [sys.executable, "-m", "acx.warm"],
        env=environment(cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Where a warm process listens."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", autouse=True)
def warm(cache):
    """That process; checks in the end that it goes as it should."""
    process = start_warm(cache)
    assert process.stdout.readline() == "loading TensorFlow\n"
    assert process.stdout.readline().startswith("ready")
    yield process
    assert list(cache.glob("acx/*.sock"))
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")
    assert not list(cache.glob("acx/*.sock"))


def usual_signals():
    """Whatever these tests were started with."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for signum in (signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(signum, signal.SIG_DFL)


def ignored_signals():
    """As nohup and a shell's & leave them."""
    for signum in (signal.SIGHUP, signal.SIGINT):
        signal.signal(signum, signal.SIG_IGN)


def start(cache, *arguments, cwd, preparation=usual_signals, **variables):
    """acx's command, which says what its first process imports."""
    return subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "acx.main", *map(str, arguments)],
        cwd=cwd,
        env=environment(cache) | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=preparation,
    )


def run(*arguments, **options):
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=120)
    was_warm = "acx.config" not in err  # the first thing that a command needs
    said = [line for line in err.splitlines() if not line.startswith("import time:")]
    return process.returncode, out, said, was_warm


def start_training(cache, cwd, preparation=usual_signals):
    """A run that has begun, and the process that it is in."""
    arguments = (f"--gin_file={TINY}", "--run_dir=run", FOREVER)
    process = start(cache, *arguments, cwd=cwd, preparation=preparation)
    metrics = cwd / "run/metrics.csv"
    wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0)
    [copy] = [int(f.name[8:]) for f in cache.glob("acx/executables-*/process-*")]
    return process, copy


def test_the_numbers_are_those_of_a_run_of_its_own(cache, tmp_path):
    metrics = {}
    for name, folder in (("cold", tmp_path / "elsewhere"), ("warm", cache)):
        code, out, said, was_warm = run(
            folder, f"--gin_file={TINY}", f"--run_dir={name}", cwd=tmp_path
        )
        assert (code, said, was_warm) == (0, [], name == "warm")
        assert "evaluation" in out
        metrics[name] = pd.read_csv(tmp_path / name / "metrics.csv")
        assert list(folder.glob("acx/executables-*/*.pb"))  # XLA's programs are kept
        assert not list(folder.glob("acx/executables-*/process-*"))
    measured = [name for name in metrics["cold"].columns if name.startswith("time/")]
    measured.remove("time/total_timesteps")
    pd.testing.assert_frame_equal(
        *(each.drop(columns=measured) for each in metrics.values()), check_exact=True
    )


def test_errors_and_exit_codes_come_through(cache, tmp_path):
    (tmp_path / "own.gin").write_text(f"include '{TINY}'\ngamma = 'high'\n")
    code, _, said, was_warm = run(cache, "--gin_file=own.gin", cwd=tmp_path)
    assert (code, was_warm) == (2, True)
    assert "own.gin:2" in said[0]
    assert len(said) == 1


def test_a_command_with_other_variables_loads_tensorflow_itself(cache, tmp_path):
    arguments = (f"--gin_file={TINY}", "--run_dir=run")
    code, _, said, was_warm = run(cache, *arguments, cwd=tmp_path, TF_ENABLE_ONEDNN_OPTS="0")
    assert (code, said, was_warm) == (0, [], False)


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, -1)]
)
def test_signals_are_passed_on(cache, tmp_path, signum, code):
    process, copy = start_training(cache, tmp_path)
    os.killpg(process.pid, signum)
    process.communicate(timeout=60)
    assert process.returncode == code
    wait_for(lambda: not process_exists(copy))


def test_ignored_signals_are_ignored_as_without_a_warm_process(cache, tmp_path):
    process, copy = start_training(cache, tmp_path, ignored_signals)
    file = tmp_path / "run/metrics.csv"
    process.send_signal(signal.SIGHUP)
    size = file.stat().st_size
    wait_for(lambda: file.stat().st_size > size)
    process.send_signal(signal.SIGINT)  # training has a handler of its own
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert not process_exists(copy)


def test_a_stopped_command_goes_on_when_it_is_told_to(cache, tmp_path):
    process, copy = start_training(cache, tmp_path)
    file = tmp_path / "run/metrics.csv"
    process.send_signal(signal.SIGTSTP)
    wait_for(lambda: state(process.pid) == state(copy) == "T")
    process.send_signal(signal.SIGCONT)
    size = file.stat().st_size
    wait_for(lambda: file.stat().st_size > size)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143


def state(pid):
    """R, S, T and so on, as ps says."""
    command = ["ps", "-o", "state=", "-p", str(pid)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout[0]


def test_a_killed_command_ends_its_copy_with_its_work_saved(cache, tmp_path):
    process, copy = start_training(cache, tmp_path)
    process.kill()
    process.communicate(timeout=60)
    wait_for(lambda: not process_exists(copy))
    assert '"interrupted"' in (tmp_path / "run/status.json").read_text()


def test_a_killed_copy_ends_its_command_in_the_same_way(cache, tmp_path):
    process, copy = start_training(cache, tmp_path)
    os.kill(copy, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


def test_a_stopped_warm_process_is_done_without(cache, warm, tmp_path):
    warm.send_signal(signal.SIGSTOP)
    code, out, _, was_warm = run(cache, f"--gin_file={TINY}", "--run_dir=run", cwd=tmp_path)
    warm.send_signal(signal.SIGCONT)
    assert (code, was_warm) == (0, False)
    assert "evaluation" in out
    assert run(cache, "--gin_file=none.gin", cwd=tmp_path)[3]


def test_a_second_one_is_refused_and_the_first_goes_on(cache, tmp_path):
    second = start_warm(cache)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "running already" in err
    assert run(cache, "--gin_file=none.gin", cwd=tmp_path)[3]
