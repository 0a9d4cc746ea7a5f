"""Take the pictures of docs/analysis.md: python tests/analysis/pictures.py RUN RUN

The two runs, seeds of one experiment, are shown by TensorBoard and photographed in a headless
Chromium.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from browser import ask, tensorboard, visit  # noqa: E402

IMAGES = ROOT / "docs" / "images"
SIZE = (1480, 756)  # three charts side by side
SHOWN = "ep_rew_mean|approx_kl|clip_fraction|entropy$|explained_variance|value_loss"


def both_are_there(address):
    return len(ask(address, "/data/runs") or []) == 2


def main(first, second):
    with tempfile.TemporaryDirectory() as scratch:
        runs = Path(scratch, "runs", "pendulum")
        runs.mkdir(parents=True)
        for seed, path in enumerate((first, second)):
            (runs / f"seed{seed}").symlink_to(Path(path).resolve())
        with tensorboard("runs/pendulum", both_are_there, scratch) as address:

            async def take(page):
                await page.resize(*SIZE)
                await page.open(f"{address}/#scalars&tagFilter={SHOWN}")
                await page.text("seed0", "seed1", "rollout/ep_rew_mean", "train/approx_kl")
                await asyncio.sleep(5)
                await page.photograph(IMAGES / "scalars.png", *SIZE)

            visit(Path(scratch, "profile"), take)


if __name__ == "__main__":
    main(*sys.argv[1:])
