"""`causebook prove`: that a record is in the log, or that the log only ever grew."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ...domain.checkpoint import SignedCheckpoint
from ...domain.encoding import decimal
from ...domain.errors import BadData, CannotCreate, Misuse, NoInput
from ...domain.proof import ConsistencyProof, InclusionProof
from ...domain.record import digest
from ...domain.streams import parse_stream, shorten
from ..findings import counted
from ..handover.new_file import refuse_existing, write_bytes_new
from ..handover.sealed_log import SealedLog, log_signer, sealed_log
from ..store.port import Row
from ..store.snapshot import Snapshot
from .reading import read
from .requests import read_checkpoint
from .terminal import Terminal, out

_DIGEST: Final = re.compile(r"[0-9a-f]{8,64}")
_EVENT_HINT: Final = (
    "a digest or its first 8 digits, STREAM@VERSION, or the number that causebook log prints"
)


def prove(
    event: str | None,
    between: tuple[str, str] | None,
    size: str | None,
    target: str | None,
    url: str,
) -> int:
    """Print or write one proof."""
    if (event is None) == (between is None):
        raise Misuse(
            "prove: expected an EVENT, or --consistency OLD NEW",
            hint=f"EVENT: {_EVENT_HINT}",
        )
    wanted = None if size is None else _size(size, "--checkpoint")
    if target is not None and between is None:
        refuse_existing(Path(target))
    if between is not None:
        if wanted is not None:
            raise Misuse("--checkpoint: does not go together with --consistency, which names both")
        return _consistency(between, target, url)
    return _inclusion(event or "", wanted, target, url)


# ── inclusion ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Event:
    """How a record was named: by digest, by place, or by number."""

    said: str
    digits: str = ""
    stream: str = ""
    version: int = 0
    number: int | None = None

    def is_it(self, number: int, row: Row) -> bool:
        """Whether this is the record."""
        if self.stream:
            return (row.stream, row.version) == (self.stream, self.version)
        if self.digits and digest(row.record).startswith(self.digits):
            return True
        return number == self.number


def _event(said: str) -> _Event:
    stream, at, version = said.rpartition("@")
    try:
        if at:
            parse_stream(stream)
            return _Event(said, stream=stream, version=decimal(version))
        digits = said.removesuffix("…").removesuffix("...")
        number = decimal(digits) if digits.isdecimal() and len(digits) < 16 else None
        if _DIGEST.fullmatch(digits) is not None:
            return _Event(said, digits=digits, number=number)
        return _Event(said, number=decimal(digits))
    except ValueError:
        raise Misuse(f"EVENT: expected a record, found {shorten(said)}", hint=_EVENT_HINT) from None


def _inclusion(said: str, size: int | None, target: str | None, url: str) -> int:
    event = _event(said)
    proof, row = read(url, lambda snapshot: _proved(snapshot, event, size))
    page = out()
    if target is None:
        _hand_out(page, proof.raw)
        return 0
    write_bytes_new(Path(target), proof.raw)
    page.line((f"{row.stream} v{row.version} {row.type}", "strong"))
    page.line(f"  index    {proof.index} of {proof.checkpoint.checkpoint.size:,}")
    page.command("  next     ", f"causebook check {shlex.quote(target)} --log-key VKEY")
    return 0


def _proved(snapshot: Snapshot, event: _Event, size: int | None) -> tuple[InclusionProof, Row]:
    """The proof, the record as its extra data, so that the file can be checked by itself."""
    log = sealed_log(snapshot, size)
    index, row = _located(snapshot, event, log)
    place = f"{row.stream} v{row.version} {row.type}"
    if index >= log.size:
        raise NoInput(
            f"{place}: not sealed yet: it stands at index {index}, past the checkpoint of size {log.size}",
            hint="causebook seal makes a checkpoint of all that is recorded",
        )
    return replace(log.proof(index, row), extra=row.record), row


def _located(snapshot: Snapshot, event: _Event, log: SealedLog) -> tuple[int, Row]:
    """Where the record stands, and its row. Raises `NoInput` where there is none, `Misuse` for several."""
    if event.number is not None and not event.digits and event.number < log.size:
        return event.number, log.view.record(event.number)
    found = list(_found(snapshot, event))
    if not found:
        raise NoInput(
            f"EVENT: no record of {snapshot.location} is {shorten(event.said)}",
            hint="causebook log lists them; " + _EVENT_HINT,
        )
    if len(found) > 1:
        raise Misuse(
            f"EVENT: expected one record, found {len(found)} or more that {shorten(event.said)} is",
            hint="more digits tell them apart: "
            + ", ".join(digest(r.record)[:16] for _, r in found),
        )
    return found[0]


def _found(snapshot: Snapshot, event: _Event) -> Iterator[tuple[int, Row]]:
    """The records that it may be: one, or a few where digits do not tell them apart."""
    few: list[tuple[int, Row]] = []
    for number, (_, row) in enumerate(snapshot.rows()):
        if event.is_it(number, row):
            few.append((number, row))
            if len(few) == 3 or not event.digits:
                break
    by_digest = [each for each in few if digest(each[1].record).startswith(event.digits)]
    yield from by_digest if event.digits and by_digest else few


# ── consistency ──────────────────────────────────────────────────────────────────────────────────────


def _consistency(between: tuple[str, str], target: str | None, url: str) -> int:
    folder = None if target is None else Path(target)
    if folder is not None:
        for name in ("consistency", "older-checkpoint"):
            refuse_existing(folder / name)
    old, new = (_end(each) for each in between)
    proof, older = read(url, lambda snapshot: _grown(snapshot, old, new, folder is not None))
    page = out()
    if folder is None:
        _hand_out(page, proof.raw)
        return 0
    if older is None:
        raise ValueError("an older checkpoint was asked for")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotCreate(f"{folder}: {error.strerror}", hint="name another folder") from None
    write_bytes_new(folder / "older-checkpoint", older.note.raw)
    write_bytes_new(folder / "consistency", proof.raw)
    said = proof.checkpoint.checkpoint
    page.line((f"{said.origin} grew from {proof.old_size:,} to {said.size:,}", "strong"))
    page.line(f"  proof    {counted(len(proof.path), 'hash', 'hashes')}")
    page.command(
        "  next     ",
        "causebook check "
        f"{shlex.quote(f'{folder}/consistency')} {shlex.quote(f'{folder}/older-checkpoint')} --log-key VKEY",
    )
    return 0


def _end(text: str) -> int | SignedCheckpoint:
    """A size, or a checkpoint in a file."""
    if text.isdecimal():
        return _size(text, "--consistency")
    return read_checkpoint(text)


def _grown(
    snapshot: Snapshot, old: int | SignedCheckpoint, new: int | SignedCheckpoint, beside: bool
) -> tuple[ConsistencyProof, SignedCheckpoint | None]:
    """The proof, and the checkpoint of the old size where it is wanted beside it or was given."""
    log = sealed_log(snapshot, new if isinstance(new, int) else None)
    checkpoint = log.checkpoint
    if isinstance(new, SignedCheckpoint):
        _held(log, new, "NEW")
        checkpoint = new
    size = checkpoint.checkpoint.size
    old_size = old if isinstance(old, int) else old.checkpoint.size
    if old_size > size:
        raise Misuse(
            f"--consistency: expected OLD up to NEW, found {old_size} and {size}",
            hint="the older, smaller one comes first",
        )
    older = old if isinstance(old, SignedCheckpoint) else None
    if older is not None:
        _held(log, older, "OLD")
    elif beside:
        older = sealed_log(snapshot, old_size).checkpoint
    return ConsistencyProof(old_size, log.view.consistency(old_size, size), checkpoint), older


def _held(log: SealedLog, given: SignedCheckpoint, which: str) -> None:
    """Raise `BadData` where a checkpoint that was given is not one of this very log."""
    log_signer(log.ledger, given)
    said = given.checkpoint
    if said.size > log.size:
        raise NoInput(
            f"{which}: expected a checkpoint up to size {log.size}, found one of {said.size}",
            hint="causebook seal makes a newer one; causebook verify --checkpoint FILE tells a lost tail",
        )
    if log.view.root(said.size) != said.root:
        raise BadData(
            f"{which}: expected the root that this ledger has at size {said.size}, found another, signed "
            "by its log key",
            hint="there are two histories: causebook verify --checkpoint FILE",
        )


def _size(text: str, option: str) -> int:
    try:
        size = decimal(text)
    except ValueError:
        size = 0
    if size < 1:
        raise Misuse(
            f"{option}: expected a size from 1, found {shorten(text)}",
            hint="causebook checkpoint prints the newest",
        )
    return size


def _hand_out(page: Terminal, raw: bytes) -> None:
    """Print a proof; to a file or a pipe byte for byte."""
    if page.is_terminal:
        for line in raw.decode().removesuffix("\n").split("\n"):
            page.line(line)
    else:
        page.bytes(raw)
