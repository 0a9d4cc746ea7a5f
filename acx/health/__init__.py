"""Diagnoses: numbers in, findings with advice out. See docs/doctor.md."""

from acx.health.context import Context, context_of, context_of_file
from acx.health.diagnoses import DIAGNOSES, examine
from acx.health.examination import Examination, examined
from acx.health.findings import Diagnosis, Finding, History

__all__ = [
    "DIAGNOSES",
    "Context",
    "Diagnosis",
    "Examination",
    "Finding",
    "History",
    "context_of",
    "context_of_file",
    "examine",
    "examined",
]
