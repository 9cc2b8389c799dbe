"""What is due at the end of a task's stream: stored in one transaction with the decision, so never open.

A stream that ends there was cut. What was decided is known all the same, from the decision itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...domain.task import Stage, Task
from ...projections.facts import TaskFacts

_MISSING: Final[Mapping[Stage, str]] = {
    "decided_halt": "the record of the halt",
    "decided_escalate": "the record of the halt",
    "passed": "the record that closes the attempt",
    "halted": "the record that closes the attempt",
    "finishing": "the record that completes the task",
}


def due(facts: TaskFacts) -> str | None:
    """The record that is missing at the end of the stream, in words; None where nothing is due."""
    law = Task(facts.task)
    for entry in facts.own:
        law.apply(entry.event, entry.record.digest)
    return _MISSING.get(law.stage)
