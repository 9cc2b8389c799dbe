"""`causebook keys …` as a person types it: who may sign, since when, until when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import typer

from . import defaults
from .options import Json, Ledger, help_where_alone


def root(context: typer.Context) -> int:
    """The keys that may sign."""
    return help_where_alone(context)


def list_(ledger: Ledger = defaults.LEDGER, json: Json = False) -> int:
    """List every key that the ledger enrolled."""
    from .founding import keys_list as do

    return do(ledger, as_json=json)


KEYS: Final[Mapping[str, Callable[..., int]]] = {
    "list": list_,
}
"""The commands of the group `keys`, in the order of the help."""
