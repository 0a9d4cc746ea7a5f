"""Write tests/analysis/rliable_oracle.json: what rliable says about fixed scores.

rliable needs pandas below 3, so it runs in an environment of its own, .venv-peers/rliable, which is
made when it is missing.

    python benchmarks/statistics_oracle.py
"""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEER = ROOT / ".venv-peers" / "rliable"
ORACLE = ROOT / "tests" / "analysis" / "rliable_oracle.json"

# Runs inside the peer's environment; its only argument is the file to write.
SCRIPT = """
import json, sys
import numpy as np
from rliable import library, metrics

generator = np.random.default_rng(7)
first = generator.normal(0.8, 0.4, (10, 5)) + np.linspace(0, 0.5, 5)
second = generator.normal(0.9, 0.3, (7, 5)) + np.linspace(0, 0.5, 5)
second[:3, 0] = first[:3, 0]  # ties
uneven = generator.lognormal(0, 1, (6, 3))


def numbers(array):
    return np.asarray(array, float).tolist()


oracle = {}
for name, scores in {"first": first, "second": second, "uneven": uneven}.items():
    oracle[name] = {
        "scores": numbers(scores),
        "interquartile_mean": metrics.aggregate_iqm(scores),
        "mean": metrics.aggregate_mean(scores),
        "median": metrics.aggregate_median(scores),
        "optimality_gap": metrics.aggregate_optimality_gap(scores),
    }
thresholds = np.linspace(-0.5, 2.5, 31)
profile, _ = library.create_performance_profile({"first": first}, thresholds, reps=10)
oracle["profile"] = {"thresholds": numbers(thresholds), "first": numbers(profile["first"])}
oracle["probability_of_improvement"] = metrics.probability_of_improvement(first, second)

names = ("iqm", "mean", "median", "optimality_gap")
resamples = []


def statistic(scores):
    if not np.array_equal(scores, first):  # the estimate itself is asked for as well
        resamples.append(scores.copy())
    return np.array([getattr(metrics, "aggregate_" + name)(scores) for name in names])


np.random.seed(3)  # rliable draws from the global generator, whatever it is given
bootstrap = library.StratifiedBootstrap(first)
low, high = bootstrap.conf_int(statistic, 200, size=0.95, method="percentile")
assert len(resamples) == 200
oracle["intervals"] = dict(zip(names, zip(numbers(low), numbers(high))))
# The runs that were drawn, found again by their scores, which are unique.
oracle["indices"] = [
    (sample[:, None, :] == first[None, :, :]).argmax(axis=1).tolist() for sample in resamples
]
with open(sys.argv[1], "w") as file:
    json.dump(oracle, file)
    file.write(chr(10))
"""


def main() -> None:
    python = PEER / "bin" / "python"
    if not python.exists():
        venv.create(PEER, with_pip=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "rliable==1.2.0", "pandas<3"], check=True
        )
    subprocess.run([python, "-c", SCRIPT, ORACLE], check=True, cwd=PEER)
    print(f"wrote {ORACLE.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
