"""`causebook seal` and `causebook checkpoint`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ...domain.checkpoint import SignedCheckpoint
from ...domain.encoding import base64_text, decimal
from ...domain.errors import BadData, CausebookError, Misuse
from ...domain.policy import POLICY_BYTES_MAX, Policy
from ...domain.streams import shorten
from ..files import read_file
from ..findings import counted
from ..handover.sealed_log import sealed_log
from ..sealing.cosigned import TIMESTAMPS_MAX
from ..sealing.seal import Sealed
from ..store.location import display
from ..store.port import Store
from ..witness.client import WitnessClient
from .reading import at_ledger, read
from .terminal import json_page, out, warn
from .writing import open_ledger


def seal(
    url: str,
    keys: str,
    passphrase_file: str | None,
    lock_timeout: float,
    witnesses: Sequence[str],
    policy: str | None,
    timestamp: str | None,
    *,
    adopt: bool,
    as_json: bool,
) -> int:
    """Sign a checkpoint over all records there are, and have it cosigned.

    0, or the exit code of the first witness or authority that did not answer with what it was asked for: the
    checkpoint then stands without.
    """
    if timestamp is not None:
        from ..timestamps import require_library

        require_library()  # before anything is signed
    named = [] if policy is None else _witnesses_of(policy)
    known = {each.url.rstrip("/") for each in named}
    asked = [WitnessClient(each) for each in witnesses if each.rstrip("/") not in known]
    with open_ledger(url, keys, passphrase_file, lock_timeout) as ledger:
        sealed = ledger.seal(witnesses=[*asked, *named], adopt=adopt, wait_seconds=lock_timeout)
        stamped = None if timestamp is None else _stamp(ledger.store, sealed, timestamp)
    failed = stamped if isinstance(stamped, CausebookError) else None
    failures = [error for _, error in sealed.failures] + ([] if failed is None else [failed])
    if as_json:
        out().raw(json_page(_document(sealed, timestamp, stamped)))
    else:
        _tell(sealed, url, timestamp, stamped)
    out().flush()
    for failure in failures[1:]:
        warn(failure.message)
    if failures:
        raise failures[0]
    return 0


def _stamp(store: Store, sealed: Sealed, authority: str) -> bool | CausebookError:
    """Have an authority stamp a checkpoint: True once it is kept, False where enough of them are already."""
    from ..timestamps import fetch

    try:
        row = store.checkpoint(sealed.size)
        if row is not None and len(row.timestamps) >= TIMESTAMPS_MAX:
            return False
        token = fetch(authority, sealed.checkpoint.note.text.encode())
        store.add_to_checkpoint(sealed.size, "timestamp", token)
    except CausebookError as error:
        return error
    return True


def _tell(
    sealed: Sealed, url: str, authority: str | None, stamped: bool | CausebookError | None
) -> None:
    page, said = out(), sealed.checkpoint.checkpoint
    page.line((f"{said.origin} is sealed to {said.size:,}", "strong"))
    page.blank()
    page.line(f"  new        {counted(sealed.new, 'record') if sealed.new else 'nothing'}")
    page.line(f"  root       {base64_text(said.root)}")
    for line in sealed.cosignatures:
        page.line(f"  cosigned   {line.name}")
    if stamped is True:
        page.line(f"  timestamp  {authority}")
    elif stamped is False:
        page.line(f"  timestamp  {TIMESTAMPS_MAX} are kept already; no more is asked for")
    page.command("  next       ", f"causebook checkpoint{at_ledger(url)} > FILE")


def _document(
    sealed: Sealed, authority: str | None, stamped: bool | CausebookError | None
) -> dict[str, Any]:
    failures = [{"witness": witness, "error": error.message} for witness, error in sealed.failures]
    if isinstance(stamped, CausebookError) and authority is not None:
        failures.append({"timestamp": authority, "error": stamped.message})
    return {
        **_facts(sealed.checkpoint),
        "new": sealed.new,
        "cosignatures": [line.line for line in sealed.cosignatures],
        "failures": failures,
        "timestamp": authority if stamped is True else None,
    }


def _facts(signed: SignedCheckpoint) -> dict[str, Any]:
    said = signed.checkpoint
    return {
        "origin": said.origin,
        "size": said.size,
        "root": base64_text(said.root),
        "note": signed.note.raw.decode(),
    }


def checkpoint(url: str, size: str | None, *, as_json: bool) -> int:
    """Print a checkpoint as it was signed, with the cosignatures kept beside it; to a pipe, byte for byte.

    It is held against the ledger first: signed by a log key that it enrolled, and the root of its records.
    """
    wanted = None if size is None else _size(size)
    signed = read(url, lambda snapshot: sealed_log(snapshot, wanted).checkpoint)
    page = out()
    if as_json:
        page.raw(json_page({"ledger": display(url), **_facts(signed)}))
    elif page.is_terminal:
        for line in signed.note.raw.decode().removesuffix("\n").split("\n"):
            page.line(line)
    else:
        page.bytes(signed.note.raw)
    return 0


def _size(text: str) -> int:
    with suppress(ValueError):
        if (size := decimal(text)) > 0:
            return size
    raise Misuse(
        f"--size: expected a whole number from 1, found {shorten(text)}",
        hint="the newest checkpoint is the default",
    )


def _witnesses_of(path: str) -> list[WitnessClient]:
    """The witnesses of a policy file that it gives a URL for, with their keys."""
    content = read_file(path, POLICY_BYTES_MAX, "a policy", hint="--policy FILE")
    try:
        known = Policy.parse(content).witnesses.values()
    except BadData as error:
        raise BadData(f"{path}: {error.message}", hint=error.hint) from None
    found = [WitnessClient(each.url, each.key) for each in known if each.url is not None]
    if not found:
        raise BadData(
            f"{path}: expected a witness with a URL, found none",
            hint="a line of it reads: witness NAME VKEY URL",
        )
    return found
