"""A sweep by Ray Tune: python benchmarks/peers/ray_tune.py '{"experiment": ..., "axes": ...}'

Each trial is a process of its own, as Tune makes it for trainable classes, in which the command acx
runs once. Prints the final return of each trial as one JSON object on the last line.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from ray import tune

ROOT = Path(__file__).parents[2]


def name_of(point: dict[str, Any]) -> str:
    """A trial's values in the order of the axes: also its key in the output."""
    return ",".join(f"{name}={value}" for name, value in point.items())


class Training(tune.Trainable):
    """Trains one acx experiment to its end in a single step."""

    def setup(self, config: dict[str, Any]) -> None:
        """Keep what is to be trained."""
        self._config = config

    def step(self) -> dict[str, Any]:
        """Run the command acx in this process, and read the result from its run folder."""
        from acx import main

        config = self._config
        folder = Path(config["folder"], name_of(config["point"]))
        values = config["shared"] | config["point"]
        bindings = [f"--gin_bindings={name} = {value!r}" for name, value in values.items()]
        sys.argv = ["acx", f"--gin_file={ROOT / config['experiment']}", *bindings]
        sys.argv.append(f"--run_dir={folder}")
        try:
            main.run()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"acx ended with exit code {end.code}") from None
        status = json.loads((folder / "status.json").read_text())
        return {"mean_reward": status["mean_reward"], "process": os.getpid(), "done": True}


def main(work: dict[str, Any]) -> None:
    """Train all combinations of the axes, `workers` at a time."""
    ray.init(
        num_cpus=work["workers"],
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        _node_ip_address="127.0.0.1",
        runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}},
    )
    space = {
        **{name: work[name] for name in ("experiment", "shared", "folder")},
        "point": {name: tune.grid_search(values) for name, values in work["axes"].items()},
    }
    tuner = tune.Tuner(
        tune.with_resources(Training, {"cpu": 1}),
        param_space=space,
        tune_config=tune.TuneConfig(max_concurrent_trials=work["workers"], reuse_actors=False),
        run_config=tune.RunConfig(
            storage_path=str(Path(work["folder"], "tune")),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            verbose=0,
        ),
    )
    results = tuner.fit()
    if results.errors:
        raise SystemExit(f"Ray Tune: {results.errors[0]}")
    processes = {result.metrics["process"] for result in results}
    returns = {name_of(r.config["point"]): r.metrics["mean_reward"] for r in results}
    print(
        json.dumps(
            {
                "version": f"ray {ray.__version__}",
                "processes": len(processes),
                "returns": returns,
            }
        )
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
