"""The projections that a store keeps, in the order they are brought up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from . import attempt_history, halt_payload, panel_outcome, tasks, timeline
from .facts import Projection, TaskFacts


@dataclass(frozen=True)
class View:
    """A `Projection` made of a module's name, version and function."""

    name: str
    version: int
    rows: Callable[[TaskFacts], Mapping[str, bytes]]


PROJECTIONS: Final[tuple[Projection, ...]] = tuple(
    View(module.NAME, module.VERSION, module.rows)
    for module in (tasks, halt_payload, attempt_history, panel_outcome, timeline)
)
