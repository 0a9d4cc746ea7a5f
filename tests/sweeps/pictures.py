"""Take the pictures of docs/sweeps.md: python tests/sweeps/pictures.py sweeps/pendulum_grid.gin

The sweep must have been run. The tables are drawn by rich and photographed, like TensorBoard's tab,
by a headless Chromium.
"""

import asyncio
import io
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(Path(__file__).parent)]

from browser import tensorboard, visit  # noqa: E402
from test_hparams import all_known  # noqa: E402

from sweeps.display import header, state_table  # noqa: E402
from sweeps.folder import Progress  # noqa: E402
from sweeps.plan import load_plan  # noqa: E402
from sweeps.scheduler import Scheduler  # noqa: E402
from sweeps.summary import best_point, by_point, trial_scores  # noqa: E402
from sweeps.tables import print_results  # noqa: E402

IMAGES = ROOT / "docs" / "images"
WIDTH = 100  # characters


def console():
    return Console(record=True, width=WIDTH, force_terminal=True, file=io.StringIO())


def at_work(plan, folder, share=0.4, workers=2):
    """The table that a sweep showed when it had come so far, from what it wrote down."""
    scheduler = Scheduler(plan, folder, None, lambda _: None)
    scheduler._enter(plan.stages[0], list(plan.points))
    done, seconds = int(share * len(plan.trials)), 0.0
    for number, trial in enumerate(plan.trials):
        progress = scheduler.progress[trial.name]
        if number < done:
            seconds += progress.seconds / workers
        elif number < done + workers:
            part = (number - done + 1) / (workers + 1)
            progress.state, progress.env_steps = "running", int(trial.total_steps * part)
            scheduler.running[number - done] = trial
            scheduler._since[number - done] = time.time() - progress.seconds * part
        else:
            scheduler.progress[trial.name] = Progress()
    scheduler.steps_before, scheduler.started = 0, time.monotonic() - seconds
    drawn = console()
    workplace = f"{workers} on this machine"
    drawn.print(header(plan, str(folder), workplace), "", state_table(scheduler), "")
    return drawn


def results(plan, folder):
    progress = Scheduler(plan, folder, None, lambda _: None).progress
    drawn = console()
    best = best_point(by_point(trial_scores(plan, progress)))
    print_results(drawn, plan, progress, best)
    drawn.print("")
    return drawn


def main(sweep_file):
    plan = load_plan(sweep_file)
    folder = Path("runs", plan.name)
    ready = all_known(len(plan.trials))
    with tempfile.TemporaryDirectory() as scratch, tensorboard(folder, ready) as address:

        async def take(page):
            for name, drawn in (
                ("live", at_work(plan, folder)),
                ("results", results(plan, folder)),
            ):
                picture = Path(scratch, f"{name}.svg")
                drawn.save_svg(str(picture), title=f"python -m sweeps.run --sweep={sweep_file}")
                box = picture.read_text().partition('viewBox="0 0 ')[2].split('"')[0].split()
                await page.open(picture.as_uri())
                await asyncio.sleep(1)
                await page.resize(*(int(float(side)) for side in box))
                await page.photograph(IMAGES / f"sweep_{name}.png", *map(float, box))
            await page.send("Emulation.clearDeviceMetricsOverride")
            await page.open(f"{address}/#hparams")
            await page.text("clip_norm", "evaluation return")
            await asyncio.sleep(3)
            await page.photograph(IMAGES / "sweep_hparams.png", 1400, 760)

        visit(Path(scratch, "profile"), take)


if __name__ == "__main__":
    main(sys.argv[1])
