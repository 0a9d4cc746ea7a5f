"""Make experiments sick on purpose, and measure what the doctor finds and whether its advice works.

python -m benchmarks.sickness --seeds=5

Runs are kept in --folder: what is there is examined again but not trained again, so a campaign
that was stopped goes on where it was. Exits with 1 where a goal is missed.
"""

import json
import sys
from pathlib import Path

from absl import app, flags

FOLDER = flags.DEFINE_string("folder", "runs/sickness", "Where runs are kept.")
SEEDS = flags.DEFINE_integer("seeds", 5, "Seeds of healthy and sick runs.", lower_bound=1)
CURE_SEEDS = flags.DEFINE_integer("cure_seeds", None, "Seeds of cured runs; default: --seeds.")
TRAIN = flags.DEFINE_bool("train", True, "--notrain examines what has been trained, and no more.")
RESULTS = Path("benchmarks/results/doctor.json")


def main(arguments: list[str]) -> None:
    """Train, examine, write the results and the table."""
    from acx.runtime import load_tensorflow

    device = load_tensorflow()
    from benchmarks.sickness.measuring import Clinic, campaign
    from benchmarks.sickness.table import markdown, missed, write_docs

    cure_seeds = SEEDS.value if CURE_SEEDS.value is None else CURE_SEEDS.value
    clinic = Clinic(Path(FOLDER.value), device, TRAIN.value)
    results = campaign(clinic, SEEDS.value, cure_seeds)
    RESULTS.write_text(json.dumps(results.as_json(), indent=1) + "\n", encoding="utf-8")
    write_docs(results)
    print(markdown(results))
    goals = missed(results)
    print(f"missed: {'; '.join(goals)}" if goals else "every goal is met")
    sys.exit(1 if goals else 0)


if __name__ == "__main__":
    app.run(main)
