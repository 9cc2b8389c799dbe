"""`causebook pins list` and `causebook pins forget`: what this user verified before."""

from __future__ import annotations

import shlex

from ...domain.encoding import base64_text
from ...domain.errors import CannotCreate, CausebookError, IOFailure
from ...domain.streams import shorten
from ..findings import FIRST_LOOK, counted
from ..store.snapshot import open_snapshot
from ..verification.pin import Looked, Pin
from ..verification.pins import Pins, places_of
from ..verification.verify import verify
from .terminal import Column, json_page, out, warn


def list_pins(*, as_json: bool) -> int:
    """Print every pin."""
    pins = Pins.of_user()
    known = pins.all()
    page = out()
    if as_json:
        page.raw(json_page({"folder": str(pins.folder), "pins": [_document(pin) for pin in known]}))
        return 0
    if not known:
        page.line("nothing is pinned yet")
        page.command("  next  ", "causebook verify")
        return 0
    page.line((counted(len(known), "pin"), "strong"), f" in {pins.folder}")
    page.blank()
    columns = (
        Column("ledger", whole=True),
        Column("size", right=True),
        Column("sealed", right=True),
    )
    rows = [
        (pin.seen.origin, f"{pin.seen.size:,}", _sealed(pin.seen), pin.at.replace("T", " ")[:16])
        for pin in known
    ]
    page.table((*columns, Column("verified (UTC)")), rows)
    for pin in known:
        page.blank()
        page.line(f"  {pin.seen.origin}")
        page.line(f"    founding {pin.seen.founding}")
        for place in pin.locations:
            page.line(f"    {place}")
    return 0


def forget(name: str) -> int:
    """Delete one pin."""
    gone = Pins.of_user().forget(name)
    out().line(f"forgot {gone}: the next look at it is a first one")
    return 0


def require_unknown(origin: str | None) -> None:
    """Raise `CannotCreate` where this user knows a ledger of that name: a new one is another."""
    if origin is None:
        return  # one is made up, that nobody had before
    try:
        pin = Pins.of_user().of(origin)
    except IOFailure:
        return  # nothing can be known here; that none can be kept is said afterwards
    if pin is not None:
        raise CannotCreate(
            f"{shorten(origin)}: a ledger of this name was verified on {pin.date}; a new one is another",
            hint=f"another --origin, or causebook pins forget {shlex.quote(origin)}",
        )


def pin_founded(url: str) -> None:
    """Pin a ledger that this user has just founded; that it cannot be kept is a warning."""
    try:
        with open_snapshot(url) as snapshot:
            report = verify(snapshot)
        if report.code == FIRST_LOOK and report.looked is not None:
            Pins.of_user().found(report.looked, places=places_of(url))
    except CausebookError as error:
        warn(f"the new ledger is not pinned: {error.message}")


def _sealed(seen: Looked) -> str:
    return "" if seen.checkpoint is None else f"{seen.checkpoint.checkpoint.size:,}"


def _document(pin: Pin) -> dict[str, object]:
    seen = pin.seen
    return {
        "origin": seen.origin,
        "locations": list(pin.locations),
        "verified_at": pin.at,
        "founding": seen.founding,
        "root_key": seen.root_key,
        "size": seen.size,
        "root": base64_text(seen.root),
        "ledger": {"version": seen.ledger_version, "digest": seen.ledger_digest},
        "checkpoint": None if seen.checkpoint is None else seen.checkpoint.note.raw.decode(),
    }
