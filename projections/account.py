"""One evaluation summed up: how it ended, what it cost, what the judge looked at.

The numbers are those of the law's own fold (`domain/evaluation.py`): none is counted a second way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..domain.errors import BadData
from ..domain.evaluation import Evaluation
from ..domain.events import (
    EvaluationFailed,
    EvaluationOpened,
    Event,
    ModelResponded,
    VerdictGiven,
)
from .facts import Entry


@dataclass
class Account:
    """`state` is the evaluation folded to its end. `closing` is the record that closed it, if one did.

    `model` is the model that served the newest answer, by its own word; the one asked for where none came.
    """

    opened: Entry[EvaluationOpened]
    state: Evaluation
    closing: Entry[VerdictGiven | EvaluationFailed] | None
    model: str

    @property
    def stream(self) -> str:
        """The name of the evaluation's stream."""
        return self.opened.record.stream


def account(entries: Sequence[Entry[Event]]) -> Account:
    """The account of an evaluation's stream, which is not empty.

    Raises `BadData` where it does not begin with `EvaluationOpened`.
    """
    first = entries[0]
    if not isinstance(first.event, EvaluationOpened):
        raise BadData(
            f"{first.place}: expected EvaluationOpened first",
            hint="causebook verify says all that is wrong",
        )
    opened: Entry[EvaluationOpened] = Entry(first.record, first.event)
    summed = Account(opened, Evaluation(first.event), None, first.event.model)
    for entry in entries[1:]:
        summed.state.apply(entry.event)
        match entry.event:
            case ModelResponded() as responded:
                summed.model = responded.model or summed.model
            case VerdictGiven() | EvaluationFailed() as closing:
                summed.closing = Entry(entry.record, closing)
    return summed


def examined(state: Evaluation) -> list[dict[str, Any]]:
    """What the judge looked at, in order: turn, tool, target, disposition (answered, failed, repeat)."""
    return [
        {
            "turn": look.turn,
            "tool": look.tool,
            "target": look.target,
            "disposition": look.disposition,
        }
        for look in state.examined
    ]
