"""What a person sees of a sweep: a live table in a terminal, lines elsewhere."""

import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweeps.axes import describe_axes
from sweeps.folder import Progress
from sweeps.plan import Plan, Trial
from sweeps.scheduler import Scheduler
from sweeps.strategies import Stage

SECONDS_TO_ESTIMATE = 5.0  # before it there is nothing to go by


def duration(seconds: float) -> str:
    """Such as 45 s, 3 min, 2 h 10 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


def counted(count: int, noun: str) -> str:
    """1 seed, 3 seeds."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def header(plan: Plan, folder: str, workers: str) -> Table:
    """A few lines on what is going to be trained."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold cyan")
    table.add_column(overflow="fold")
    size = f"{counted(len(plan.points), 'point')} × {counted(len(plan.seeds), 'seed')}"
    table.add_row("sweep", f"{plan.name}: {size} of {plan.experiment}")
    for name, values in describe_axes(plan).items():
        table.add_row("", f"{name}: {values}")
    if len(plan.stages) > 1:
        table.add_row("stages", stages_in_words(plan.stages))
    table.add_row("workers", workers)
    table.add_row("folder", folder)
    return table


def stages_in_words(stages: Sequence[Stage]) -> str:
    """Such as: all to 11 % of their steps, 9 points to 33 %, 3 points to the end."""
    parts, alive = [], "all"
    for stage in stages:
        parts.append(
            f"{alive} to the end" if stage.fraction >= 1 else f"{alive} to {stage.fraction:.0%}"
        )
        alive = f"{stage.keep} points"
    return ", ".join(parts)


def best_so_far(scheduler: Scheduler) -> tuple[str, float, int] | None:
    """The point of the best mean over those of its seeds that are finished, and their number."""
    finals: dict[str, list[float]] = {}
    for trial in scheduler.plan.trials:
        found = scheduler.progress[trial.name]
        if found.state == "finished" and found.mean_reward is not None:
            finals.setdefault(trial.point, []).append(found.mean_reward)
    if not finals:
        return None
    most = max(map(len, finals.values()))
    means = {p: sum(f) / len(f) for p, f in finals.items() if len(f) == most}
    best = max(means, key=lambda point: means[point])
    return best, means[best], most


def seconds_left(scheduler: Scheduler) -> float | None:
    """What remains, at the speed so far; None while that is unknown."""
    elapsed = time.monotonic() - scheduler.started
    steps = sum(p.env_steps for p in scheduler.progress.values()) - scheduler.steps_before
    if elapsed < SECONDS_TO_ESTIMATE or steps <= 0:
        return None
    return scheduler.steps_missing() / steps * elapsed


class LiveTable:
    """Redraws the state of a sweep in a terminal; elsewhere prints a line for each change."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: dict[str, str] = {}
        self._live = Live(console=console, auto_refresh=False, transient=True)
        if console.is_terminal:
            self._live.start()

    def __call__(self, scheduler: Scheduler) -> None:
        """Show how things are."""
        if self._console.is_terminal:
            self._live.update(state_table(scheduler), refresh=True)
            return
        for trial in scheduler.plan.trials:
            progress = scheduler.progress[trial.name]
            before = self._shown.get(trial.name)
            if before not in (None, progress.state) and progress.state in ("finished", "failed"):
                self._console.print(_line(scheduler, trial, progress), soft_wrap=True)
            self._shown[trial.name] = progress.state

    def close(self) -> None:
        """Take the table off the screen."""
        self._live.stop()


def _line(scheduler: Scheduler, trial: Trial, progress: Progress) -> str:
    over = sum(p.state in ("finished", "failed") for p in scheduler.progress.values())
    result = (
        progress.message.splitlines()[0]
        if progress.state == "failed"
        else (f"return {progress.mean_reward:.1f}")
    )
    return (
        f"{over}/{len(scheduler.plan.trials)} {trial.name}: {progress.state} in "
        f"{duration(progress.seconds)}, {result}"
    )


def state_table(scheduler: Scheduler) -> Group:
    """How many trials are in which state, those that run, the best so far, and the time left."""
    states = Counter(progress.state for progress in scheduler.progress.values())
    total = len(scheduler.plan.trials)
    counts = Table.grid(padding=(0, 2))
    over = states["finished"] + states["failed"]
    cells = [
        f"{states['finished']} of {total} done",
        f"{states['running']} running",
        f"[dim]{states['paused']} paused[/dim]" if states["paused"] else "",
        f"[red]{states['failed']} failed[/red]" if states["failed"] else "",
        _left(scheduler),
    ]
    bar = ProgressBar(total, over, width=24, complete_style="green", finished_style="green")
    counts.add_row(bar, *filter(None, cells))
    running = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", title_justify="left")
    running.add_column("running")
    running.add_column("steps", justify="right")
    running.add_column("time", justify="right")
    running.add_column("", style="yellow")
    for worker, trial in sorted(scheduler.running.items()):
        progress = scheduler.progress[trial.name]
        running.add_row(
            trial.name,
            f"{progress.env_steps:,} of {scheduler.steps_wanted(trial):,.0f}",
            duration(scheduler.seconds_running(worker)),
            f"attempt {progress.deaths + 1}" if progress.deaths else "",
        )
    if not scheduler.running and states["waiting"]:
        running.add_row("[dim]starting workers[/dim]", "", "", "")
    return Group(counts, Text(), running, Text(), _best_line(scheduler))


def _left(scheduler: Scheduler) -> str:
    left = seconds_left(scheduler)
    return "" if not left else f"[dim]{duration(left)} left[/dim]"


def _best_line(scheduler: Scheduler) -> Text:
    best = best_so_far(scheduler)
    if best is None:
        return Text("no trial has finished yet", style="dim")
    point, mean, count = best
    seeds = counted(count, "seed")
    return Text.assemble("best so far  ", (f"{mean:.1f}", "bold"), f"  {point}  ", (seeds, "dim"))
