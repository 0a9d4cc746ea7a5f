import csv
import json
import os
import re
import threading

import numpy as np
import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from acx.evaluation import EvaluationResult
from acx.observers import CsvWriter, StatusWriter, TensorBoardWriter
from acx.progress import ProgressLine
from acx.reports import Report
from acx.rollouts import Episode


def report(step, **scalars):
    tags = {name.replace("__", "/"): value for name, value in scalars.items()}
    return Report(step, step // 10, tags, [])


def scalars(folder, tag):
    """(step, value) of a tag as TensorBoard reads them."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


EVALUATION = EvaluationResult(np.array([1.0, 3.0]), np.array([4, 6]))


def test_T68_every_report_is_on_disk_before_the_writer_is_closed(tmp_path):
    writer = TensorBoardWriter(tmp_path, "GAE.gamma = 0.9")
    for step in (10, 20, 30):
        writer.on_report(report(step, train__value_loss=step / 10))
        assert scalars(tmp_path, "train/value_loss")[-1] == (step, step / 10)
    writer.on_evaluation(30, EVALUATION, True)
    assert scalars(tmp_path, "eval/mean_reward") == [(30, 2.0)]
    assert scalars(tmp_path, "eval/std_reward") == [(30, 1.0)]
    assert scalars(tmp_path, "eval/mean_ep_length") == [(30, 5.0)]
    writer.close()


def test_T68_the_configuration_and_a_chart_layout_are_written_at_the_start(tmp_path):
    writer = TensorBoardWriter(tmp_path, "GAE.gamma = 0.9\nGAE.gae_lambda = 0.5")
    events = EventAccumulator(str(tmp_path)).Reload()
    [text] = events.Tensors("config/resolved_gin")
    value = text.tensor_proto.string_val[0].decode()
    assert "    GAE.gamma = 0.9\n    GAE.gae_lambda = 0.5" in value
    assert "custom_scalars__config__" in events.Tags()["tensors"]
    writer.close()


def test_event_files_started_in_the_same_second_are_different_files(tmp_path):
    for step in (10, 20):
        writer = TensorBoardWriter(tmp_path, "")
        writer.on_report(report(step, train__value_loss=step / 10))
        writer.close()
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_an_event_that_cannot_be_written_is_an_error_with_the_files_name(tmp_path):
    writer = TensorBoardWriter(tmp_path, "")
    [path] = tmp_path.glob("events.out.tfevents.*")
    writer._file = open("/dev/full", "wb")  # noqa: SIM115
    with pytest.raises(OSError, match="No space left") as failure:
        writer.on_report(report(10, train__value_loss=1.0))
    assert failure.value.filename == str(path)


def rows(folder):
    with open(folder / "metrics.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_has_a_row_for_each_report_at_once(tmp_path):
    writer = CsvWriter(tmp_path)
    writer.on_report(report(10, train__value_loss=0.5))
    assert [(r["step"], r["train/value_loss"]) for r in rows(tmp_path)] == [("10", "0.5")]
    writer.on_evaluation(10, EVALUATION, False)
    writer.on_report(report(20, train__value_loss=0.25, rollout__ep_rew_mean=7.0))
    writer.close()
    first, evaluation, last = rows(tmp_path)
    assert first["rollout/ep_rew_mean"] == evaluation["train/value_loss"] == ""
    assert (evaluation["step"], evaluation["eval/mean_reward"]) == ("10", "2.0")
    assert (last["step"], last["rollout/ep_rew_mean"]) == ("20", "7.0")


def test_an_evaluation_before_the_first_report_takes_no_columns_away(tmp_path):
    writer = CsvWriter(tmp_path)
    writer.on_evaluation(10, EVALUATION, False)
    writer.on_report(report(10, train__value_loss=0.5))
    writer.close()
    found = {tag: value for row in rows(tmp_path) for tag, value in row.items() if value}
    assert (found["train/value_loss"], found["eval/mean_reward"]) == ("0.5", "2.0")


def test_an_evaluation_before_the_first_report_survives_a_kill(tmp_path):
    CsvWriter(tmp_path).on_evaluation(10, EVALUATION, False)  # killed: never closed
    writer = CsvWriter(tmp_path, start_steps=10)
    writer.on_report(report(20, train__value_loss=0.5))
    writer.close()
    evaluation, last = rows(tmp_path)
    assert (evaluation["step"], evaluation["eval/mean_reward"]) == ("10", "2.0")
    assert (last["step"], last["train/value_loss"]) == ("20", "0.5")


def test_a_tag_that_comes_late_gets_a_column(tmp_path):
    writer = CsvWriter(tmp_path)
    writer.on_report(report(10, train__value_loss=0.5))
    writer.on_report(report(20, train__value_loss=0.5, train__approx_kl=0.125))
    writer.close()
    assert [row["train/approx_kl"] for row in rows(tmp_path)] == ["", "0.125"]


def test_synced_rows_are_on_the_disk_itself(tmp_path, monkeypatch):
    """What `sync` has not handed to the disk, a power failure may take."""
    synced = {}

    def fsync(descriptor):
        synced[os.fstat(descriptor).st_ino] = os.fstat(descriptor).st_size

    monkeypatch.setattr(os, "fsync", fsync)
    writer = CsvWriter(tmp_path)
    writer.on_report(report(10, train__value_loss=0.5))
    assert not synced
    writer.sync()
    writer.close()
    table = os.stat(tmp_path / "metrics.csv")
    assert synced[table.st_ino] == table.st_size > 0
    assert os.stat(tmp_path).st_ino in synced  # its name


def test_T47_a_resumed_table_goes_on_after_its_checkpoint(tmp_path):
    writer = CsvWriter(tmp_path)
    for step in (10, 20, 30):
        writer.on_report(report(step, train__value_loss=float(step)))
    writer.close()
    writer = CsvWriter(tmp_path, start_steps=20)
    writer.on_report(report(30, train__value_loss=-1.0))
    writer.close()
    found = [(row["step"], row["train/value_loss"]) for row in rows(tmp_path)]
    assert found == [("10", "10.0"), ("20", "20.0"), ("30", "-1.0")]


def test_the_status_is_whole_at_every_moment(tmp_path):
    writer = StatusWriter(tmp_path, {"experiment": "toy", "seed": 3})
    broken, done = [], threading.Event()

    def read():
        while not done.is_set():
            try:
                json.loads((tmp_path / "status.json").read_text())
            except ValueError as error:
                broken.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for step in range(300):
        writer.write(env_steps=step)
    done.set()
    reader.join()
    assert not broken
    writer.on_evaluation(299, EVALUATION, True)
    status = json.loads((tmp_path / "status.json").read_text())
    assert status["state"] == "finished"
    assert (status["experiment"], status["seed"], status["env_steps"]) == ("toy", 3, 299)
    assert (status["mean_reward"], status["std_reward"]) == (2.0, 1.0)


def test_the_progress_line_shows_the_mean_critic_loss_of_every_ten_episodes(monkeypatch):
    monkeypatch.setattr("acx.progress.SECONDS_BETWEEN_LINES", 0.0)
    console = Console(width=200, record=True, force_terminal=False, quiet=False, file=None)
    line = ProgressLine(console, 100)
    for step, loss, episodes in ((10, 1.0, 4), (20, 2.0, 4), (30, 6.0, 4), (40, 9.0, 4)):
        tags = {"train/value_loss": loss, "time/fps": 5.0, "rollout/ep_rew_mean": float(step)}
        line.on_report(Report(step, 1, tags, [Episode(1.0, 1)] * episodes))
    line.on_evaluation(100, EVALUATION, True)
    line.close()
    text = console.export_text()
    shown = re.findall(r"return (\S+), critic loss (\S+)", text)
    # The first report is shown at once; then the mean of reports that saw ten episodes.
    assert shown[0] == ("10.0", "1")
    assert shown[-1][0] == "40.0"
    assert any(loss == "4" or loss == "5.67" for _, loss in shown[1:]), shown
    assert re.search(r"mean return 2\.0 ± 1\.0 over 2 episodes", text)
