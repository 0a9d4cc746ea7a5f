"""What a person sees of a run: what will be trained, a progress line, the result."""

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from acx.evaluation import EvaluationResult
from acx.experiment import Experiment
from acx.reports import Report

SECONDS_BETWEEN_LINES = 10.0  # where the output is no terminal
EPISODES_PER_CRITIC_LOSS = 10


def describe(experiment: Experiment, name: str, run_dir: str, device: str) -> Table:
    """A few lines on what is going to be trained."""
    environment, agent = experiment.environment, experiment.agent
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold cyan")
    table.add_column(overflow="fold")
    table.add_row("experiment", f"{name}, seed {experiment.seed}")
    table.add_row(
        "environment",
        f"{environment.env_id} × {environment.num_envs} ({environment.vectorization}), "
        f"{experiment.total_steps:,} steps",
    )
    table.add_row("observations", str(experiment.observation_space))
    table.add_row("actions", str(experiment.action_space))
    shared = " (one torso for both)" if agent.shares_torso else ""
    table.add_row(
        "parameters",
        f"actor {agent.actor.count():,}, critic {agent.critic.count():,}{shared}",
    )
    table.add_row("device", device)
    table.add_row("run folder", run_dir)
    return table


class _Remaining(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed, remaining = task.fields["fps"], task.remaining
        if not speed or remaining is None:
            return Text("-:--", style="dim")
        minutes, seconds = divmod(int(remaining / speed), 60)
        return Text(f"{minutes}:{seconds:02d} left", style="dim")


class ProgressLine:
    """A progress bar in a terminal; elsewhere a plain line every few seconds."""

    def __init__(self, console: Console, total_steps: int) -> None:
        self._console = console
        self._total = total_steps
        self._last_line = time.monotonic()
        self._first: tuple[float, int] | None = None  # when and where the first report came
        self._return: float | None = None
        self._critic_loss: float | None = None
        self._losses: list[float] = []
        self._episodes = 0
        self._bar = Progress(
            BarColumn(bar_width=24, complete_style="cyan", finished_style="cyan"),
            TextColumn("{task.completed:>9,.0f} steps"),
            TextColumn("[green]{task.fields[fps]:>7,.0f}/s"),
            TextColumn("return [bold]{task.fields[ret]}"),
            TextColumn("critic loss {task.fields[loss]}"),
            _Remaining(),
            console=console,
            transient=False,
        )
        self._task = self._bar.add_task("", total=total_steps, fps=0.0, ret="-", loss="-")
        if console.is_interactive:
            self._bar.start()

    def on_report(self, report: Report) -> None:
        """Show the iteration; the critic's loss is its mean over every ten finished episodes."""
        self._return = report.scalars.get("rollout/ep_rew_mean", self._return)
        self._losses.append(report.scalars["train/value_loss"])
        self._episodes += len(report.episodes)
        if self._episodes >= EPISODES_PER_CRITIC_LOSS or self._critic_loss is None:
            self._critic_loss = sum(self._losses) / len(self._losses)
            self._losses, self._episodes = [], 0
        now = time.monotonic()
        if self._first is None:
            self._first = (now, report.env_steps)  # compilation is behind
        seconds, steps = now - self._first[0], report.env_steps - self._first[1]
        fps = steps / seconds if steps else report.scalars["time/fps"]
        mean_return = "-" if self._return is None else f"{self._return:.1f}"
        loss = f"{self._critic_loss:.3g}"
        self._bar.update(
            self._task, completed=report.env_steps, fps=fps, ret=mean_return, loss=loss
        )
        waited = now - self._last_line >= SECONDS_BETWEEN_LINES
        if waited and not self._console.is_interactive:
            self._last_line = now
            self._console.print(
                f"{report.env_steps:,} of {self._total:,} steps, {fps:,.0f}/s, "
                f"return {mean_return}, critic loss {loss}"
            )

    def on_evaluation(self, env_steps: int, result: EvaluationResult, final: bool) -> None:
        """Complete the bar at the end; say the result."""
        if final:
            self.close()
            self._console.print(
                f"[bold cyan]evaluation  [/bold cyan]  mean return [bold]{result.mean:.1f}[/bold] "
                f"± {result.std:.1f} over {len(result.returns)} episodes "
                "of the deterministic policy",
                soft_wrap=True,
            )

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.stop()
