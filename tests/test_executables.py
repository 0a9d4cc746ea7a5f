"""Compiled programs are kept between processes, and only sound ones are used."""

import csv
import os
import subprocess
import sys

import pytest
from commands import TINY, run_process

from acx.executables import KEPT, ExecutableCache, use_kept_programs


def values(folder):
    with open(folder / "metrics.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]


def test_kept_programs_give_the_same_run_and_damaged_ones_are_dropped(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TF_XLA_FLAGS", raising=False)

    def train(name):
        outcome = run_process(f"--gin_file={TINY}", f"--run_dir={tmp_path / name}", cwd=tmp_path)
        assert outcome.code == 0, outcome.err
        [store] = (tmp_path / "cache/acx").iterdir()
        assert not list(store.glob("process-*"))
        [program] = store.iterdir()  # one minibatch: actor and critic are one program
        return program

    kept = train("first")
    before = kept.stat()
    assert train("second").stat().st_ino == before.st_ino  # used, not compiled again
    kept.write_bytes(kept.read_bytes()[:1000])
    again = train("third")
    assert again.stat().st_ino != before.st_ino
    assert again.name.partition("-")[2] == kept.name.partition("-")[2]
    assert values(tmp_path / "first") == values(tmp_path / "second") == values(tmp_path / "third")


@pytest.fixture
def cache(tmp_path):
    return ExecutableCache(tmp_path / "store")


def test_what_was_compiled_is_linked_next_time(cache, tmp_path):
    cache.open()
    (cache.own / "a.pb").write_bytes(b"program")
    cache.close()
    assert not cache.own.exists()
    again = ExecutableCache(tmp_path / "store")
    again.open()
    assert (again.own / "a.pb").read_bytes() == b"program"
    again.close()
    assert len(list(cache.store.iterdir())) == 1


def test_a_changed_byte_is_noticed(cache, tmp_path):
    cache.open()
    (cache.own / "a.pb").write_bytes(b"program")
    cache.close()
    [file] = cache.store.iterdir()
    file.write_bytes(b"pr0gram")
    again = ExecutableCache(tmp_path / "store")
    again.open()
    assert list(again.own.iterdir()) == []
    assert not file.exists()


def test_the_newest_are_kept(cache, tmp_path):
    cache.open()
    for number in range(KEPT + 5):
        (cache.own / f"{number}.pb").write_bytes(b"%d" % number)
    cache.close()
    ExecutableCache(tmp_path / "store").open()
    assert len(list(cache.store.glob("*.pb"))) == KEPT


def test_folders_of_ended_processes_are_removed(cache):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = cache.store / f"process-{ended.pid}"
    left.mkdir(parents=True)
    cache.open()
    assert not left.exists()
    assert cache.own.exists()


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_some_flag")
    use_kept_programs()
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_some_flag"
