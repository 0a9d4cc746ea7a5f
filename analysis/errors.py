"""The error of input that its user can put right."""


class AnalysisError(ValueError):
    """Runs, tags or groups aren't as a call needs them; the message is all a user has to read."""


class EventLogWarning(UserWarning):
    """Something in the logs was lost or ambiguous; the message says what was done about it."""
