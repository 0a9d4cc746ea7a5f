"""Modules that a run folder's configuration wants to import: importing a module runs its code."""

import os
import re
from pathlib import Path

from acx.config import Scan
from acx.errors import ConfigError

# Packages whose import registers environments. Everything else asks for --allow_imports.
KNOWN = frozenset(
    {"acx", "ale_py", "envpool", "gymnasium", "gymnasium_robotics", "highway_env", "minigrid"}
)
MODULE_AND_ID = re.compile(r"([\w.]+):[\w./-]+")  # such as 'my_module:MyEnv-v0'


def unknown_imports(found: Scan) -> dict[str, str]:
    """Modules outside `KNOWN` that a configuration imports, with where it says so."""
    modules = dict(found.imports)
    for binding in found.bindings:
        match = MODULE_AND_ID.fullmatch(binding.value) if isinstance(binding.value, str) else None
        if match and binding.parameter in ("", "env_id"):
            modules.setdefault(match[1], binding.origin)
    return {m: origin for m, origin in modules.items() if m.partition(".")[0] not in KNOWN}


def identity(config: Path) -> str:
    """What tells this file from any copy of it: owner, device and inode."""
    status = os.stat(config)
    return f"{status.st_uid}:{status.st_dev}:{status.st_ino}"


def refuse_unknown_imports(config: Path, found: Scan, noted: object) -> None:
    """Refuse the imports of a configuration that was not written here.

    Args:
      config: a run folder's config.gin.
      found: what it says.
      noted: the `identity` that its run noted. A folder that came from elsewhere has another one.

    Raises:
      ConfigError: it imports modules that nobody here has agreed to.
    """
    unknown = unknown_imports(found)
    own = noted == identity(config) and os.stat(config).st_uid == os.getuid()
    if unknown and not own:
        listed = ", ".join(f"{module} ({origin})" for module, origin in unknown.items())
        raise ConfigError(
            f"{config.parent} was not made here, and its configuration imports {listed}: that runs "
            "their code. Where you trust it, add --allow_imports"
        )
