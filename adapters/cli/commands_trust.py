"""`causebook pins …` and `causebook witness …` as a person types them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import typer

from .options import help_where_alone


def pins_root(context: typer.Context) -> int:
    """What was verified before, and what later looks are held against."""
    return help_where_alone(context)


def witness_root(context: typer.Context) -> int:
    """A witness: it cosigns the checkpoints of logs that only ever grow."""
    return help_where_alone(context)


PINS: Final[Mapping[str, Callable[..., int]]] = {}
"""The commands of the group `pins`."""

WITNESS: Final[Mapping[str, Callable[..., int]]] = {}
"""The commands of the group `witness`."""
