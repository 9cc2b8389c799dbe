"""Reading a ledger for an answer: a snapshot, retried in place where somebody is writing."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import TypeVar

from ...domain.errors import Busy, IOFailure
from ..store.location import display
from ..store.snapshot import Snapshot, open_snapshot
from . import defaults

T = TypeVar("T")


def read(url: str, use: Callable[[Snapshot], T]) -> T:
    """What `use` makes of a snapshot of the ledger at `url`.

    Nothing is left behind beside a ledger that lies still. One that is written to meanwhile is read in place,
    in one transaction.
    """
    try:
        with open_snapshot(url) as snapshot:
            return use(snapshot)
    except (Busy, IOFailure) as first:
        try:
            with open_snapshot(url, live=True) as snapshot:
                return use(snapshot)
        except (Busy, IOFailure):
            raise first from None


def at_ledger(url: str) -> str:
    """The option that names this ledger in a command to be typed next; empty where none is needed."""
    if url in (defaults.LEDGER, os.environ.get("CAUSEBOOK_LEDGER")):
        return ""
    return f" --ledger {shlex.quote(display(url))}"


def at_keys(folder: str) -> str:
    """The option that names the folder of the keys in a command to be typed next, likewise."""
    if folder in (defaults.KEYS, os.environ.get("CAUSEBOOK_KEYS")):
        return ""
    return f" --keys {shlex.quote(folder)}"
