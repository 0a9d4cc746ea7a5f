"""The scheduler's decisions, with workers that do as they are told."""

import json
import time

import pytest
from sweeping import TINY

from acx.errors import RunError
from sweeps.folder import progress_on_disk, training_return
from sweeps.plan import load_plan
from sweeps.scheduler import Scheduler
from sweeps.workers import Answer

DEATH = {"kind": "died", "how": "killed by SIGKILL", "exit_code": -9, "printed": ""}


class Puppets:
    """Two workers. `script` says how the jobs of a point end, the last word all later ones."""

    def __init__(self, script):
        self.count = 2
        self.killed = []
        self.sent = []
        self._script = {name: list(ends) for name, ends in script.items()}
        self._answers = [Answer(worker, {"kind": "ready"}) for worker in range(2)]

    def send(self, worker, kind, jobs):
        (job,) = jobs
        self.sent.append(job.folder)
        ends = self._script.get(job.group, ["finished"])
        end = ends.pop(0) if len(ends) > 1 else ends[0]
        if end == "silent":
            return
        if end == "dead":
            self._answers += [Answer(worker, DEATH), Answer(worker, {"kind": "ready"})]
            return
        outcome = {"state": end, "message": "", "exit_code": 0, "crashed": False}
        self._answers.append(Answer(worker, {"kind": "trained", **outcome}))

    def answers(self, timeout):
        found, self._answers = self._answers, []
        time.sleep(0.001)
        yield from found

    def kill(self, worker):
        self.killed.append(worker)
        self._answers += [Answer(worker, DEATH), Answer(worker, {"kind": "ready"})]

    def stop(self):
        pass


@pytest.fixture
def schedule(tmp_path):
    def scheduled(script, *lines):
        file = tmp_path / "sweep.gin"
        file.write_text(
            f"Sweep.experiment = '{TINY}'\nSweep.strategy = @Grid()\nSweep.seeds = 1\n"
            "Grid.axes = {'gamma': [0.1, 0.2, 0.3]}\n" + "\n".join(lines)
        )
        puppets = Puppets(script)
        return Scheduler(load_plan(str(file)), tmp_path, puppets, lambda _: None), puppets

    return scheduled


def states(scheduler):
    return [progress.state for progress in scheduler.progress.values()]


def test_a_trial_is_given_up_after_its_retries_and_the_others_go_on(schedule):
    scheduler, puppets = schedule({"gamma=0.2": ["dead"]})
    scheduler.run()
    assert states(scheduler) == ["finished", "failed", "finished"]
    assert sum("gamma=0.2" in folder for folder in puppets.sent) == 3  # once, and two retries
    assert "killed by SIGKILL, 3 times" in scheduler.progress["gamma=0.2/seed0"].message
    assert scheduler.progress["gamma=0.2/seed0"].exit_code == -9


def test_a_death_is_forgiven(schedule):
    scheduler, _ = schedule({"gamma=0.2": ["dead", "finished"]})
    scheduler.run()
    assert states(scheduler) == ["finished"] * 3
    assert scheduler.progress["gamma=0.2/seed0"].attempts == 2


def test_failures_of_the_run_itself_are_not_repeated(schedule):
    scheduler, puppets = schedule({"gamma=0.1": ["failed"]})
    scheduler.run()
    assert states(scheduler) == ["failed", "finished", "finished"]
    assert len(puppets.sent) == 3


def test_a_trial_that_gives_no_sign_of_life_is_ended(schedule):
    scheduler, puppets = schedule({"gamma=0.1": ["silent", "finished"]}, "Sweep.patience = 0.05")
    scheduler.run()
    assert puppets.killed == [0]
    assert states(scheduler) == ["finished"] * 3


def test_workers_that_cannot_start_end_the_sweep(schedule):
    scheduler, puppets = schedule({})
    puppets._answers = [Answer(0, DEATH | {"printed": "Traceback\nno disk"})] * 6
    with pytest.raises(RunError, match="workers can't be started: no disk"):
        scheduler.run()


def test_progress_is_read_from_run_folders(tmp_path):
    assert progress_on_disk(tmp_path).state == "waiting"
    (tmp_path / "status.json").write_text(json.dumps({"state": "finished", "mean_reward": 2.5}))
    assert progress_on_disk(tmp_path).state == "waiting"  # without a configuration it is no run
    (tmp_path / "config.gin").write_text("")
    found = progress_on_disk(tmp_path)
    assert (found.state, found.mean_reward) == ("finished", 2.5)
    (tmp_path / "status.json").write_text(json.dumps({"state": "running", "env_steps": 99}))
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "step-000000000064.ckpt").touch()
    found = progress_on_disk(tmp_path)
    assert (found.state, found.env_steps) == ("waiting", 64)  # what is saved counts
    (tmp_path / "status.json").write_text("{")
    assert progress_on_disk(tmp_path).state == "waiting"


def test_the_training_return_at_a_step(tmp_path):
    (tmp_path / "metrics.csv").write_text(
        "step,rollout/ep_rew_mean\n10,\n20,1.5\n30,2.5\n40,\n50,9.0\n"
    )
    assert training_return(tmp_path, 45) == 2.5
    assert training_return(tmp_path, 20) == 1.5
    assert training_return(tmp_path, 15) != training_return(tmp_path, 15)  # NaN
