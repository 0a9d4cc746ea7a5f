"""What follows an iteration in which something was NaN or infinite."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from acx.errors import NonFiniteError, RunError
from acx.states import State, merged, part

Policy = Literal["halt", "skip", "rollback"]

LIMIT = 10  # dropped iterations in a row, after which a run is beyond help
INTERVAL = 10  # iterations between snapshots


class Recovery:
    """Counts dropped iterations, and keeps the weights to go back to.

    No iteration that fails changes a weight. 'halt' ends the run. 'skip' starts new episodes and
    goes on with the weights as they are. 'rollback' also goes back to a snapshot of weights,
    optimizers and normalizers that is at least one and at most 2·INTERVAL iterations old. The steps
    of dropped rollouts count towards the budget, so a run that fails for ever ends all the same.

    Args:
      policy: 'halt', 'skip' or 'rollback'.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.dropped = 0
        self.in_a_row = 0
        self.snapshot: State = {}  # to go back to
        self._newer: State = {}  # becomes `snapshot` with the next one

    def due(self, iterations: int) -> bool:
        """Whether `keep` is to be called after so many iterations."""
        return self.policy == "rollback" and iterations % INTERVAL == 0 and not self.in_a_row

    def keep(self, training_state: Callable[[], State]) -> None:
        """Take a snapshot; the one before becomes the one to go back to."""
        if self.policy == "rollback":
            state = {name: np.array(array) for name, array in training_state().items()}
            self.snapshot, self._newer = self._newer or state, state

    def count(self, error: NonFiniteError) -> str:
        """Count a failed iteration; returns what to tell the user.

        Raises:
          RunError: the policy is to halt, or has been of no avail LIMIT times in a row.
        """
        if self.policy == "halt":
            raise error
        self.dropped += 1
        self.in_a_row += 1
        if self.in_a_row >= LIMIT:
            raise RunError(
                f"{error} (on_nonfinite = '{self.policy}' dropped {self.in_a_row} iterations in a "
                "row: it can't help here)"
            )
        done = "went back to earlier weights" if self.policy == "rollback" else "dropped it"
        return f"{error}; {done} and started new episodes ({self.dropped} dropped so far)"

    def succeeded(self) -> None:
        """An iteration was completed."""
        self.in_a_row = 0

    def scalars(self) -> dict[str, float]:
        """For TensorBoard, where iterations can be dropped at all."""
        return {} if self.policy == "halt" else {"train/dropped_iterations": self.dropped}

    def state(self) -> State:
        """Counts and snapshots, so that a resumed run goes back to the same weights."""
        if self.policy == "halt":
            return {}
        counts = {"dropped": np.asarray(self.dropped), "in_a_row": np.asarray(self.in_a_row)}
        return {**counts, **merged({"snapshot": self.snapshot, "newer": self._newer})}

    def load_state(self, state: State) -> None:
        """Go on from `state()`."""
        if self.policy == "halt" or not state:
            return
        self.dropped, self.in_a_row = int(state["dropped"]), int(state["in_a_row"])
        self.snapshot, self._newer = part(state, "snapshot"), part(state, "newer")
