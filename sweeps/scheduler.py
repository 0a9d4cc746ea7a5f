"""Runs a plan's trials on workers: gives them out, retries, pauses, and keeps the table."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from acx.errors import ConfigError, RunError
from sweeps import hparams
from sweeps.axes import columns, domains
from sweeps.folder import (
    Progress,
    last_lines,
    progress_on_disk,
    recall,
    save_table,
    status,
    training_return,
)
from sweeps.jobs import Job, Outcome
from sweeps.plan import Plan, Trial
from sweeps.strategies import Stage
from sweeps.workers import Answer, Workers

SECONDS_BETWEEN_LOOKS = 0.25
DEATHS_BEFORE_READY = 6  # in a row, before workers count as unable to start


class Scheduler:
    """Trains what is missing of a plan.

    Args:
      plan: the trials.
      folder: the sweep's.
      workers: where they are trained.
      look: is called again and again, to show how things are.
    """

    def __init__(
        self, plan: Plan, folder: Path, workers: Workers, look: Callable[["Scheduler"], None]
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.workers = workers
        self.stop_requested = False
        self.running: dict[int, Trial] = {}
        self.started = time.monotonic()
        self.pause_at: float | None = None  # share of the budget, in the present stage
        self.in_stage: list[Trial] = []
        self.progress = {trial.name: progress_on_disk(folder / trial.name) for trial in plan.trials}
        recall(folder, self.progress)
        for progress in self.progress.values():
            if progress.state == "failed":
                progress.state, progress.message = "waiting", ""
        self.steps_before = sum(progress.env_steps for progress in self.progress.values())
        self._columns = columns(plan)
        self._look = look
        self._ready: set[int] = set()
        self._since: dict[int, float] = {}
        self._deaths = 0
        self._described = False  # to TensorBoard

    def check(self) -> None:
        """Have a worker construct what each point describes, before anything is trained.

        Raises:
          ConfigError: a point can't be run, or two are the same.
        """
        firsts = {trial.point: trial for trial in reversed(self.plan.trials)}
        jobs = [self._job(firsts[point], None) for point in self.plan.points]
        answer = self._ask("check", jobs)
        if answer and answer.content["problem"]:
            raise ConfigError(answer.content["problem"])

    def measure(self) -> dict[str, float]:
        """How fast the first trial trains: steps_per_second, and startup in seconds."""
        answer = self._ask("measure", [self._job(self.plan.trials[0], None)])
        return answer.content if answer else {}

    def _ask(self, kind: str, jobs: Sequence[Job]) -> Answer | None:
        """Send the first ready worker a question and wait for its answer; None once stopped."""
        asked: int | None = None
        while not self.stop_requested:
            self._look(self)
            for answer in self.workers.answers(SECONDS_BETWEEN_LOOKS):
                if answer.worker == asked and answer.content["kind"] not in ("ready", "died"):
                    self._ready.add(answer.worker)
                    return answer
                if answer.worker == asked:
                    raise RunError(f"a worker died of the question to {kind}: {_reason(answer)}")
                self._note(answer)
            if asked is None and self._ready:
                asked = self._ready.pop()
                self.workers.send(asked, kind, jobs)
        return None

    def run(self) -> None:
        """Train all stages; ends early once `stop_requested` is set.

        Raises:
          RunError: workers can't be started.
        """
        self.started = time.monotonic()
        points = list(self.plan.points)
        for stage in self.plan.stages:
            self._enter(stage, points)
            self._train([trial for trial in self.in_stage if not self._reached(trial)])
            if self.stop_requested:
                break
            points = self._best(points, stage)
        self._save()

    @property
    def complete(self) -> bool:
        """Whether there is nothing to do."""
        points = list(self.plan.points)
        for stage in self.plan.stages:
            self._enter(stage, points)
            if not all(self._reached(trial) for trial in self.in_stage):
                return False
            points = self._best(points, stage)
        return True

    def _enter(self, stage: Stage, points: Sequence[str]) -> None:
        self.pause_at = None if stage.fraction >= 1 else stage.fraction
        self.in_stage = [trial for trial in self.plan.trials if trial.point in points]

    def steps_missing(self) -> float:
        """Environment steps that remain to be trained, in all stages."""
        total = sum(trial.total_steps for trial in self.plan.trials)
        count, before, share = len(self.plan.points), 0.0, 0.0  # share: of all trials to the end
        for stage in self.plan.stages:
            share += (stage.fraction - before) * count / len(self.plan.points)
            count, before = stage.keep or count, stage.fraction
        done = sum(progress.env_steps for progress in self.progress.values())
        return max(share * total - done, 0.0)

    def seconds_running(self, worker: int) -> float:
        """How long a worker has been at its trial."""
        return time.time() - self._since[worker]

    def settle(self) -> None:
        """Once the workers are gone, note how far they came."""
        for worker in list(self.running):
            trial, progress = self._end(worker)
            progress.state = progress_on_disk(self.folder / trial.name).state
        self._save()

    def steps_wanted(self, trial: Trial) -> float:
        """Environment steps that a trial is trained to in the present stage."""
        return trial.total_steps * (self.pause_at or 1.0)

    def _reached(self, trial: Trial) -> bool:
        progress = self.progress[trial.name]
        if self.pause_at is not None and progress.state == "paused":
            return progress.env_steps >= self.steps_wanted(trial)
        return progress.state in ("finished", "failed")

    def _best(self, points: Sequence[str], stage: Stage) -> list[str]:
        """The points that go on to the next stage, in their old order."""

        def score(point: str) -> float:
            trials = [trial for trial in self.in_stage if trial.point == point]
            found = [training_return(self.folder / t.name, self.steps_wanted(t)) for t in trials]
            return float(np.nan_to_num(np.mean(found), nan=-np.inf))

        ranked = sorted(points, key=score, reverse=True)[: stage.keep]
        return [point for point in points if point in ranked]

    def _train(self, trials: Sequence[Trial]) -> None:
        queue = deque(trials)
        self._save()
        while (queue or self.running) and not self.stop_requested:
            while queue and self._ready:
                self._give(queue.popleft())
            self._look(self)
            for answer in self.workers.answers(SECONDS_BETWEEN_LOOKS):
                trial = self._note(answer)
                if trial is not None:
                    queue.appendleft(trial)
            self._watch()
        self._look(self)

    def _give(self, trial: Trial) -> None:
        worker = min(self._ready)
        self._ready.remove(worker)
        self.running[worker] = trial
        self._since[worker] = time.time()
        progress = self.progress[trial.name]
        progress.state, progress.attempts = "running", progress.attempts + 1
        pause_at = None if self.pause_at is None else self.steps_wanted(trial)
        self.workers.send(worker, "train", [self._job(trial, pause_at)])
        self._save()

    def _job(self, trial: Trial, pause_at: float | None) -> Job:
        folder = str(self.folder / trial.name)
        shown = self._columns[trial.point]
        return Job(folder, trial.files, trial.bindings, trial.point, shown, pause_at)

    def _note(self, answer: Answer) -> Trial | None:
        """Take an answer in; returns a trial that is to be tried again."""
        kind, worker = answer.content["kind"], answer.worker
        if kind == "died":
            return self._note_death(worker, answer.content)
        self._deaths = 0
        again = None
        if kind == "trained":
            fields = {k: v for k, v in answer.content.items() if k != "kind"}
            again = self._note_outcome(worker, Outcome(**fields))
            if fields["crashed"]:
                self.workers.kill(worker)
                return again
        self._ready.add(worker)
        return again

    def _note_outcome(self, worker: int, outcome: Outcome) -> Trial | None:
        trial, progress = self._end(worker)
        progress.state, progress.exit_code = outcome.state, outcome.exit_code
        progress.message = outcome.message
        if outcome.state == "paused" and not self._reached(trial):
            return self._again(trial, f"stopped by signal {outcome.exit_code - 128}")
        self._close(trial)
        return None

    def _note_death(self, worker: int, death: dict[str, Any]) -> Trial | None:
        self._ready.discard(worker)
        if worker not in self.running:
            self._deaths += 1
            if self._deaths >= DEATHS_BEFORE_READY:
                raise RunError(f"workers can't be started: {_reason(Answer(worker, death))}")
            return None
        trial, progress = self._end(worker)
        progress.exit_code = death["exit_code"]
        return self._again(trial, f"its process died: {death['how']}")

    def _end(self, worker: int) -> tuple[Trial, Progress]:
        trial = self.running.pop(worker)
        progress = self.progress[trial.name]
        progress.seconds += time.time() - self._since.pop(worker)
        found = progress_on_disk(self.folder / trial.name)
        progress.env_steps = found.env_steps
        progress.mean_reward, progress.std_reward = found.mean_reward, found.std_reward
        return trial, progress

    def _again(self, trial: Trial, reason: str) -> Trial | None:
        """Put a trial back that was cut off, unless that happened too often."""
        progress = self.progress[trial.name]
        progress.message, progress.deaths = reason, progress.deaths + 1
        if progress_on_disk(self.folder / trial.name).state == "finished":
            progress.state, progress.exit_code, progress.message = "finished", 0, ""
        elif progress.deaths <= self.plan.retries:
            progress.state = "waiting"
            self._save()
            return trial
        else:
            lines = last_lines(self.folder / trial.name)
            progress.state = "failed"
            progress.message = f"{reason}, {progress.deaths} times. Last lines:\n{lines}"
        self._close(trial)
        return None

    def describe_finished(self) -> None:
        """Describe to TensorBoard what finished when the driver was gone already."""
        for trial in self.plan.trials:
            folder = self.folder / trial.name
            if self.progress[trial.name].state == "finished" and not hparams.has_end(folder):
                if not hparams.has_start(folder):
                    hparams.write_start(folder, trial.point, self._columns[trial.point])
                self._describe(trial, True)

    def _close(self, trial: Trial) -> None:
        """Write down that a trial is over, or paused."""
        state = self.progress[trial.name].state
        if state in ("finished", "failed") and (self.folder / trial.name).is_dir():
            self._describe(trial, state == "finished")
        self._save()

    def _describe(self, trial: Trial, succeeded: bool) -> None:
        folder = self.folder / trial.name
        hparams.write_end(folder, succeeded)
        if not self._described:
            hparams.write_experiment(self.folder, folder, domains(self.plan))
            self._described = True

    def _watch(self) -> None:
        """See how far the running trials are; end workers that give no sign of life."""
        for worker, trial in self.running.items():
            found, progress = status(self.folder / trial.name), self.progress[trial.name]
            updated = float(found.get("updated", 0.0))
            if updated >= self._since[worker]:
                progress.env_steps = int(found.get("env_steps") or 0)
            if time.time() - max(updated, self._since[worker]) > self.plan.patience:
                self.workers.kill(worker)

    def _save(self) -> None:
        save_table(self.folder, self.plan.trials, self.progress)


def _reason(death: Answer) -> str:
    """The last line that a dead worker printed, or else how it died."""
    lines = str(death.content["printed"]).splitlines()
    return lines[-1] if lines else str(death.content["how"])
