"""Endings that acx reports in one line instead of a traceback."""


class ConfigError(ValueError):
    """A configuration that can't be run (exit code 2)."""

    def __init__(self, message: str, component: str = "", parameter: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.component = component
        self.parameter = parameter


class RunError(RuntimeError):
    """A run that had to stop: a faulty environment, a value that is not finite (exit code 3)."""


class NonFiniteError(RunError):
    """An observation, reward, loss, gradient or weight that is NaN or infinite."""


class Interrupted(Exception):
    """A run that stopped because it was asked to (exit code 128 + the signal's number)."""

    def __init__(self, signum: int, message: str) -> None:
        super().__init__(message)
        self.signum = signum
