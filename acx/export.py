"""Export a trained policy: python -m acx.export --run_dir=runs/pendulum/... [--format=onnx]

Writes a TensorFlow SavedModel, or an ONNX file, that needs no acx: raw observations in, the
deterministic policy's actions out, as the environment takes them. Normalization, squashing,
clipping, the scale of the action bounds and the first number of a Discrete space are part of it.

    policy = tf.saved_model.load("policy").signatures["serving_default"]
    actions = policy(observations=observations)["actions"]

    policy = onnxruntime.InferenceSession("policy.onnx")
    [actions] = policy.run(["actions"], {"observations": observations})
"""

from pathlib import Path

from absl import flags, logging
from rich.console import Console

from acx.cli import checkpoint_flags, run_command
from acx.errors import ConfigError

FLAGS = flags.FlagValues()
RUN_DIR = flags.DEFINE_string("run_dir", None, "Folder of the run.", flag_values=FLAGS)
FORMAT = flags.DEFINE_enum(
    "format", "savedmodel", ["savedmodel", "onnx"], "What to write.", flag_values=FLAGS
)
OUT = flags.DEFINE_string(
    "out",
    None,
    "Folder or file to write. Default: policy/ or policy.onnx in the run's folder.",
    flag_values=FLAGS,
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
    onnx = FORMAT.value == "onnx"
    path = Path(OUT.value or Path(RUN_DIR.value, "policy.onnx" if onnx else "policy"))
    serving.export(experiment, path, onnx)
    print(f"{path}: from {experiment.observation_space} to {experiment.action_space}")


if __name__ == "__main__":
    run_command("acx.export", __doc__, FLAGS, main)
