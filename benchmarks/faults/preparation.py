"""Import this before TensorFlow: settings that it reads when it is loaded."""

import os
import tempfile

WORK = tempfile.mkdtemp(prefix="acx-faults-")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Hundreds of processes run the same few programs: compile each once.
os.environ.setdefault("TF_XLA_FLAGS", f"--tf_xla_persistent_cache_directory={WORK}/programs")
