"""Valid documents of every format, made in code: where a mutation begins, the parsers are not at the door.

The same in every run. What others wrote is added where it is at hand (`../shared/vectors`).
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final, cast

from causebook.adapters import split_view
from causebook.adapters.handover.sealed_log import sealed_log
from causebook.adapters.handover.tiles import write_tiles
from causebook.adapters.verification.pin import Looked, Pin
from causebook.domain.checkpoint import cosign
from causebook.domain.dsse import seal_envelope
from causebook.domain.events import (
    KeyRetired,
    LedgerFounded,
    PanelDecided,
    ResolutionRecorded,
    WorkspaceFacts,
)
from causebook.domain.note import Note
from causebook.domain.proof import InclusionProof
from causebook.domain.record import NO_PREVIOUS, PAYLOAD_TYPE, digest, parse
from causebook.domain.signing_request import AskedRecord, asking
from causebook.projections.attestation import PAYLOAD_TYPE as ATTESTATION_TYPE
from causebook.projections.attestation import statement, subject_of
from causebook.projections.facts import Entry, read_stream
from tests.adapters.bundles import bundle, sealed_ledger, trust_of, unpacked
from tests.adapters.forge import Forge, Key, small_ledger
from tests.adapters.logs import ORIGIN, SmallLog, private_key, witness_key

VECTORS: Final = Path(__file__).parents[2].parent / "shared" / "vectors"
WITNESS: Final = "witness.example/w1"
_STACK: Final = ExitStack()
_OWNER: Final = os.getpid()


@atexit.register
def _leave() -> None:
    if os.getpid() == _OWNER:  # a fork goes on with what is its parent's
        _STACK.close()


def at_exit(close: Callable[[], object]) -> None:
    """Call this when the process ends."""
    _STACK.callback(close)


@cache
def folder() -> Path:
    """A folder of this process, gone when it ends: for parsers that read a file."""
    return Path(_STACK.enter_context(tempfile.TemporaryDirectory(prefix="causebook-fuzz-")))


@cache
def forge() -> Forge:
    """A sealed ledger with one task."""
    return sealed_ledger("T-1")


@cache
def log() -> SmallLog:
    """A log of 300 leaves, of which records nothing is known."""
    small = SmallLog()
    small.grow(300)
    return small


def cosigned(size: int) -> Note:
    """The checkpoint of that size, cosigned once."""
    note = log().checkpoint(size).note
    key, private = witness_key(WITNESS), private_key(WITNESS)
    line = cosign(note.text, key, 1_764_500_000 + size, private.sign)
    return Note(note.text, (*note.signatures, line))


@cache
def records() -> tuple[bytes, ...]:
    """One record of every type that a small ledger comes to."""
    rows = [*forge().rows, *small_ledger().rows]
    return tuple({row.type: row.record for row in rows}.values())


@cache
def lines() -> tuple[bytes, ...]:
    """Documents in canonical JSON, and strings as they stand inside."""
    return (
        *(raw.partition(b"\n")[0] for raw in records()),
        b"[]",
        b'{"a":[1,{"b":null}]}',
        b'"\\n"',
    )


@cache
def notes() -> tuple[bytes, ...]:
    """Signed notes: checkpoints, one cosigned, one with a text of its own."""
    sizes = (log().checkpoint(1).note.raw, cosigned(7).raw, cosigned(300).raw)
    vectors = VECTORS / "signed-note" / "notes.json"
    if not vectors.exists():
        return sizes
    said = json.loads(vectors.read_text())
    return sizes + tuple(
        case["note"].encode() for case in said if isinstance(case.get("note"), str)
    )


@cache
def inclusion_proofs() -> tuple[bytes, ...]:
    """With the record in it, and without."""
    sealed = sealed_log(forge().source())
    proofs = [
        InclusionProof(index, sealed.view.inclusion(index), sealed.checkpoint, extra)
        for index in (0, 17)
        for extra in (b"", forge().rows[index].record)
    ]
    return tuple(proof.raw for proof in proofs)


@cache
def consistency_proofs() -> tuple[bytes, ...]:
    """As a witness is sent them: for the first time, and from sizes that are powers of two and are not."""
    pairs = ((0, 1), (1, 7), (7, 12), (8, 300), (255, 256))
    return tuple(log().submission(old, new) for old, new in pairs)


@cache
def split_views() -> tuple[bytes, ...]:
    fork = log().forked(5)
    views = [
        split_view.find(fork.checkpoint(n), log().checkpoint(m), log())
        for n, m in ((8, 300), (9, 9))
    ]
    return tuple(view.raw for view in views if view is not None)


@cache
def heads() -> tuple[bytes, ...]:
    """The payload of a statement of heads, taken out of a bundle."""
    envelope = json.loads(dict(bundle_files())["heads.json"])
    return (base64.b64decode(envelope["payload"]),)


@cache
def statements() -> tuple[bytes, ...]:
    """The payload of an attestation."""
    sealed = sealed_log(forge().source())
    index = forge().at("task/T-1", forge().last("task/T-1", "PanelDecided"))
    rows = [row.record for row in forge().rows if row.stream == "task/T-1"]
    entry = next(e for e in read_stream("task/T-1", rows) if isinstance(e.event, PanelDecided))
    path = sealed.view.inclusion(index)
    proof = InclusionProof(index, path, sealed.checkpoint, forge().rows[index].record)
    subject = subject_of("T-1", WorkspaceFacts(commit="c" * 40, tree=None, dirty=False))
    decided = cast("Entry[PanelDecided]", entry)
    return (
        statement(forge().origin, sealed.ledger.founding, "T-1", decided, proof, subject or {}),
    )


@cache
def envelopes() -> tuple[bytes, ...]:
    """A statement of heads, an attestation, and a record as an envelope."""
    key = forge().keys["log"]
    record = parse(records()[0])
    signed = (
        seal_envelope(statements()[0], ATTESTATION_TYPE, key.keyid, key.sign),
        seal_envelope(record.line, PAYLOAD_TYPE, record.keyid, lambda _: record.signature),
    )
    return (dict(bundle_files())["heads.json"], *(each.raw for each in signed))


@cache
def policies() -> tuple[bytes, ...]:
    keys = {name: witness_key(f"{name}.example/w").vkey for name in ("X1", "X2", "X3", "Y")}
    small = f"log {log().key.vkey}\nwitness W {witness_key(WITNESS).vkey} https://w.example/\nquorum W\n"
    large = (
        f"log {log().key.vkey} https://log.example/\n\n# two organisations\n"
        + "".join(f"witness {name} {vkey}\n" for name, vkey in keys.items())
        + "group X 2 X1 X2 X3\n\tgroup  X-and-Y all\tX Y \nquorum X-and-Y\n"
    )
    return (small.encode(), large.encode(), b"quorum none\n")


@cache
def trusts() -> tuple[bytes, ...]:
    return (trust_of(forge()).raw, trust_of(forge(), 1).raw)


@cache
def pins() -> tuple[bytes, ...]:
    sealed = sealed_log(forge().source())
    seen = Looked(
        origin=forge().origin,
        founding=sealed.ledger.founding,
        root_key=forge().keys["root"].text,
        ledger_version=3,
        ledger_digest="3" * 64,
        size=sealed.size,
        root=sealed.view.root(),
    )
    places = ("sqlite:////srv/ledger.db", "postgresql://db:5432/causebook")
    sealed_too = replace(seen, checkpoint=sealed.checkpoint)
    return tuple(Pin(each, places, "2026-11-29T15:36:00Z").raw for each in (seen, sealed_too))


@cache
def requests() -> tuple[bytes, ...]:
    """Signing requests: a founding, a rotation, the end of a key, a resolution."""
    at = datetime(2026, 11, 30, 15, 36, tzinfo=UTC)
    ledger, last = forge(), forge().rows[-1].record
    keys = ledger.keys
    root, tip = keys["root"], (4, digest(last))
    nonce = "5" * 64
    founded = LedgerFounded(
        format=1, nonce=nonce, root_key=root.text, custody="apart", continues=None
    )
    enrolled = AskedRecord.enrolling("engine", "e", keys["engine"].text, at, root.keyid)
    rotated = AskedRecord.enrolling(
        *("engine", "f", Key("another").text, at, root.keyid), rotates=keys["engine"].keyid
    )
    retired = KeyRetired(
        keyid=keys["engine"].keyid,
        size=1,
        checkpoint=ledger.note(1),
        compromised=True,
        reason="lost",
    )
    resolved = ResolutionRecorded(
        attempt=1,
        phase="post_execute",
        decision="halt",
        name="Ada",
        meaning="maintainer",
        comment="Seen.",
        decided="d" * 64,
    )
    first = [AskedRecord.of(founded, at, root.keyid), enrolled]
    ended, answered = (AskedRecord.of(event, at, None) for event in (retired, resolved))
    return tuple(
        asking(ORIGIN, nonce, root.text, stream, where, asked).raw
        for stream, where, asked in (
            ("ledger", (0, NO_PREVIOUS), first),
            ("ledger", tip, [rotated]),
            ("ledger", tip, [ended]),
            ("task/T-1", tip, [answered]),
        )
    )


@cache
def bundles() -> tuple[bytes, ...]:
    """A bundle with its evidence, and one without."""
    paths = [(folder() / f"seed-{number}.zip", number == 0) for number in range(2)]
    for path, evidence in paths:
        if not path.exists():
            bundle(forge(), path, evidence=evidence)
    return tuple(path.read_bytes() for path, _ in paths)


@cache
def bundle_files() -> tuple[tuple[str, bytes], ...]:
    """The files of the bundle with evidence."""
    bundles()
    files, manifest = unpacked(folder() / "seed-0.zip")
    return (*files.items(), ("manifest.json", manifest.raw))


@cache
def tile_files() -> tuple[tuple[str, bytes], ...]:
    """The files of a log as tiles, by name."""
    place = folder() / "tiles"
    write_tiles(sealed_log(forge().source()), place)
    names = sorted(path for path in place.rglob("*") if path.is_file())
    return tuple((str(path.relative_to(place)), path.read_bytes()) for path in names)


def indexed(files: Callable[[], tuple[tuple[str, bytes], ...]]) -> tuple[bytes, ...]:
    """One input for each file: its number in one byte, and what stands in it."""
    return tuple(bytes([number]) + content for number, (_, content) in enumerate(files()))
