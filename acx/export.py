"""Export a trained policy: python -m acx.export --run_dir=runs/pendulum/...

Writes a TensorFlow SavedModel that needs no acx: raw observations in, the deterministic policy's
actions out, as the environment takes them. Normalization, squashing, clipping, the scale of the
action bounds and the first number of a Discrete space are part of it.

    policy = tf.saved_model.load("policy").signatures["serving_default"]
    actions = policy(observations=observations)["actions"]
"""

from pathlib import Path

from absl import flags, logging
from rich.console import Console

from acx.cli import checkpoint_flags, run_command
from acx.errors import ConfigError

FLAGS = flags.FlagValues()
RUN_DIR = flags.DEFINE_string("run_dir", None, "Folder of the run.", flag_values=FLAGS)
OUT = flags.DEFINE_string(
    "out", None, "Folder to write. Default: policy/ in it.", flag_values=FLAGS
)
CHECKPOINT, ALLOW_IMPORTS = checkpoint_flags(FLAGS)


def main() -> None:
    """Export as the flags say."""
    if not RUN_DIR.value:
        raise ConfigError("name a run: --run_dir=runs/pendulum/...")
    from acx.runtime import load_tensorflow

    load_tensorflow()
    logging.set_verbosity(logging.WARNING)  # saving tells its steps
    from acx import runs, serving

    best = CHECKPOINT.value == "best"
    experiment = runs.restore(RUN_DIR.value, Console(), best, ALLOW_IMPORTS.value)
    folder = Path(OUT.value or Path(RUN_DIR.value, "policy"))
    serving.export(experiment, folder)
    print(f"{folder}: from {experiment.observation_space} to {experiment.action_space}")


if __name__ == "__main__":
    run_command("acx.export", __doc__, FLAGS, main)
