"""What driver and workers tell each other of a trial."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """What a worker must know of a trial.

    Attributes:
      folder: of the run.
      files: gin files.
      bindings: on top of them.
      group: the point's name, which its seeds share.
      hyperparameters: what varies, for TensorBoard.
      pause_at: environment steps after which the trial is paused; None trains to the end.
    """

    folder: str
    files: Sequence[str]
    bindings: Sequence[str]
    group: str
    hyperparameters: dict[str, bool | float | str]
    pause_at: float | None = None


@dataclass(frozen=True)
class Outcome:
    """How a trial went. States: finished, paused, failed; a crashed process is not used again."""

    state: str
    message: str = ""
    exit_code: int = 0
    crashed: bool = False
