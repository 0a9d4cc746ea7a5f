"""All diagnoses, and how they are asked."""

from acx.health import critic, data, exploration, learning, policy
from acx.health.context import Context
from acx.health.findings import Diagnosis, Finding, History

# Of the configuration alone: it doesn't change, so a run asks them once.
CONFIGURATION: tuple[Diagnosis, ...] = (
    learning.LearningRateEnds(),
    learning.TooFewUpdates(),
    learning.TinyMinibatches(),
)

DIAGNOSES: tuple[Diagnosis, ...] = (
    *CONFIGURATION,
    data.NonFinite(),
    data.RepeatedSteps(),
    data.EqualEnvironments(),
    data.ObservationScale(),
    data.NoReward(),
    data.EpisodesCutShort(),
    data.EvaluationGap(),
    data.SlowParts(),
    learning.DiscountTooHigh(),
    learning.DiscountTooLow(),
    learning.AlwaysClipped(),
    policy.MovesTooFar(),
    policy.BarelyMoves(),
    exploration.EntropyCollapsed(),
    exploration.StaysRandom(),
    exploration.ActionsAtBounds(),
    exploration.TooLittleExploration(),
    policy.IdleUnits(),
    critic.ValueScale(),
    critic.CriticLossHigh(),
    critic.CriticDoesNotLearn(),
    critic.CriticDrownsPolicy(),
)


def examine(history: History, context: Context, known: set[str]) -> list[Finding]:
    """What the diagnoses that are not among `known` find; adds their names to it."""
    findings = []
    for diagnosis in DIAGNOSES:
        if diagnosis.name not in known and history.has(diagnosis.needs):
            finding = diagnosis.examine(history, context)
            if finding is not None:
                findings.append(finding)
                known.add(finding.name)
    return findings
