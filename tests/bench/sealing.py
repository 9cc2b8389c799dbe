"""Sealing many events, a proof in a long log, and whether it holds, each against what it cannot do without.

**Sealing** 100,000 new events. Ours: `Ledger.seal`, which reads each record, takes it apart, checks its place
and its signature, grows the tree and signs its root, durably. The floor: for each record, at hand, its leaf's
SHA-256 and one check of its signature by the same library, one after the other; and the same tiles put into a
raw SQLite file in as many transactions.

**A proof** that one record is in a log of 1,000,000. Ours: the root, held against the checkpoint, the path
out of the tiles, and whether it leads there. The floor: the rows of the same tiles, read by their keys. A
tile holds hashes of one level alone, so what lies between two levels is hashed anew: some 255 times a tile.

**Whether it holds.** Ours: the proof's file taken apart, its checkpoint's signature, the path. The floor: one
check of a signature and as many SHA-256 as the path has hashes.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from causebook.adapters.handover.tree_reading import TreeView
from causebook.adapters.ledger import Ledger
from causebook.adapters.sealing.tree_writing import PAGE_RECORDS, Edge, tiles_of
from causebook.adapters.seat import Judge
from causebook.adapters.signatures import verifier
from causebook.adapters.store.port import CheckpointRow, Row, TileRow
from causebook.adapters.store.shared import FORMAT_VERSION
from causebook.adapters.store.snapshot import Snapshot, open_snapshot
from causebook.adapters.store.sqlite_file import INSERT_FORMAT, SCHEMA
from causebook.adapters.store.url import open_store
from causebook.domain.checkpoint import Checkpoint, SignedCheckpoint
from causebook.domain.note import NoteKey, is_signed_by, sign_note
from causebook.domain.proof import InclusionProof
from causebook.domain.record import parse
from causebook.projections.tree import Frontier, leaf_hash, verify_inclusion

from .append import Reader, decided
from .measure import ROUNDS, Ratio, compared, seconds

EVENTS = 100_000
RECORDS = 1_000_000
PROOFS = 500
"""In a round."""
ORIGIN = "bench.example.com/ledger"
_TURNS_A_BATCH = 250


def measure(folder: Path) -> list[Ratio]:
    """Seal, prove and check `ROUNDS` times."""
    return [_sealing(folder / "sealed"), *_proving(folder / "long")]


# ── sealing ──────────────────────────────────────────────────────────────────────────────────────────


def _sealing(folder: Path) -> Ratio:
    folder.mkdir()
    made = folder / "made.db"
    _many_events(f"sqlite:///{made}", folder / "keys")
    with contextlib.closing(open_store(f"sqlite:///{made}")) as store:
        pages = list(_pages(store.rows))
    rows = [row for page in pages for _, row in page]
    edge = Edge()
    tiles = [edge.add(page) for page in pages]
    rounds = [_seal_round(folder, number, rows, tiles) for number in range(ROUNDS)]
    name = f"seal {len(rows):,} new events"
    floor_name = (
        "their leaves' SHA-256 and signature checks alone, and raw SQLite writes of the tiles"
    )
    return compared(name, floor_name, None, rounds, len(rows), "records/s")


def _seal_round(
    folder: Path, number: int, rows: list[Row], tiles: list[list[TileRow]]
) -> tuple[float, float]:
    """Seconds of the floor, and of sealing a copy that was never sealed."""
    keys, copy = folder / f"keys-{number}", folder / f"ledger-{number}.db"
    shutil.copytree(folder / "keys", keys)
    shutil.copy(folder / "made.db", copy)
    jobs = _signatures(f"sqlite:///{copy}", keys, rows)
    floor = seconds(lambda: _seal_floor(folder / f"raw-{number}.db", rows, jobs, tiles))
    with Ledger.open(f"sqlite:///{copy}", keys=keys) as ledger:
        ours = seconds(ledger.seal)
    copy.unlink()
    return floor, ours


def _many_events(url: str, keys: Path) -> None:
    """A ledger whose records are those of turns, over and over."""
    with Ledger.found(url, keys=keys, origin=ORIGIN) as ledger:
        judge = Judge("judge", "reader", ["It holds."])
        panel = ledger.task("T-1").start_attempt().convene("post_execute", "unanimous", [judge])
        seat = panel.open("judge")
        turn = decided(seat.evaluation, Reader())
        known = ledger.store.count()
        for start in range(known, EVENTS, _TURNS_A_BATCH * len(turn.events)):
            batch = ledger.writer.batch()
            batch.after(seat.stream, seat.tip)
            for number in range(start, min(EVENTS, start + _TURNS_A_BATCH * len(turn.events))):
                batch.add(seat.stream, turn.events[number % len(turn.events)])
            seat.tip = batch.commit()[-1].tip
        panel.leave()


def _pages(rows: Callable[..., list[tuple[int, Row]]]) -> Iterator[list[tuple[int, Row]]]:
    after = 0
    while page := rows(after=after, limit=PAGE_RECORDS):
        yield page
        after = page[-1][0]


Job = tuple[bytes, bytes, bytes]
"""(public key, signature, message)."""


def _signatures(url: str, keys: Path, rows: list[Row]) -> list[Job]:
    with Ledger.open(url, keys=keys) as ledger:
        known = ledger.writer.keyring.keys
    records = [parse(row.record) for row in rows]
    return [(known[r.keyid].public, r.signature, r.signed_bytes()) for r in records]


def _seal_floor(path: Path, rows: list[Row], jobs: list[Job], tiles: list[list[TileRow]]) -> None:
    check = verifier()
    for row, job in zip(rows, jobs, strict=True):
        hashlib.sha256(b"\x00" + row.record).digest()
        if not check(*job):
            raise ValueError("a signature does not hold")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute(next(statement for statement in SCHEMA if "TABLE tree_tiles" in statement))
        for page in tiles:
            raw.execute("BEGIN IMMEDIATE")
            _put_tiles(raw, page)
            raw.execute("COMMIT")


def _put_tiles(raw: sqlite3.Connection, tiles: Iterable[TileRow]) -> None:
    raw.executemany(
        "INSERT OR REPLACE INTO tree_tiles VALUES (?, ?, ?, ?)",
        ((tile.level, tile.number, tile.hashes, tile.row_ids) for tile in tiles),
    )


# ── a proof in a long log, and whether it holds ──────────────────────────────────────────────────────


def _proving(folder: Path) -> list[Ratio]:
    folder.mkdir()
    path = folder / "ledger.db"
    signed, key = _long_log(path)
    chance = random.Random(7)
    with open_snapshot(f"sqlite:///{path}") as snapshot:
        rounds = [
            _prove_round(
                snapshot, path, signed, key, [chance.randrange(RECORDS) for _ in range(PROOFS)]
            )
            for _ in range(ROUNDS)
        ]
    proving, checking = [each[0] for each in rounds], [each[1] for each in rounds]
    return [
        compared(
            f"a proof of inclusion in a log of {RECORDS:,}",
            "the same tiles read by their keys",
            None,
            proving,
            PROOFS,
            "proofs/s",
        ),
        compared(
            f"checking that proof, {rounds[0][2]} hashes",
            "one signature check and as many SHA-256",
            None,
            checking,
            PROOFS,
            "proofs/s",
        ),
    ]


def _prove_round(
    snapshot: Snapshot, path: Path, signed: SignedCheckpoint, key: NoteKey, indices: list[int]
) -> tuple[tuple[float, float], tuple[float, float], int]:
    """(floor, ours) of proving and of checking, in seconds, and how many hashes a path has."""
    read: set[tuple[int, int, int]] = set()
    views = [TreeView(_Watching(snapshot, n, read), signed) for n in range(PROOFS)]
    paths = [view.inclusion(index) for view, index in zip(views, indices, strict=True)]
    ours = seconds(lambda: [TreeView(snapshot, signed).inclusion(index) for index in indices])
    proving = (seconds(lambda: _read_tiles(path, read)), ours)

    proofs = [InclusionProof(*made, signed).raw for made in zip(indices, paths, strict=True)]
    given = list(zip(proofs, map(_record, indices), strict=True))
    ours = seconds(lambda: [_check(proof, record, key) for proof, record in given])
    return proving, (seconds(lambda: _check_floor(paths, signed, key)), ours), len(paths[0])


def _record(index: int) -> bytes:
    """Bytes in the shape and length of a record, new for each index; nothing here takes it apart."""
    line = (
        '{"at":"2026-11-30T15:36:00.123456Z","data":{"max_tool_turns":20,"reasons":["fresh_read"],"turn":%d,'
        '"turns_used":%d},"ledger":"%s","previous":"%s","stream":"evaluation/T-104/1/post_execute/security",'
        '"type":"TurnCharged","version":%d}'
    )
    filled = line % (index, index, ORIGIN, hashlib.sha256(b"%d" % index).hexdigest(), index + 1)
    return f"{filled}\n{'0' * 64} {'A' * 86}==\n".encode()


def _long_log(path: Path) -> tuple[SignedCheckpoint, NoteKey]:
    """A store of `RECORDS` rows and their tree, put there raw; and a checkpoint over them."""
    frontier = Frontier()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as raw:
        for statement in SCHEMA:
            if "TRIGGER" not in statement:
                raw.execute(statement)
        raw.execute(INSERT_FORMAT, (FORMAT_VERSION,))
        raw.execute("BEGIN")
        for tile in tiles_of(_long_pages(raw, frontier)):
            _put_tiles(raw, [tile])
        raw.execute("COMMIT")
        for statement in SCHEMA:
            if "TRIGGER" in statement:
                raw.execute(statement)
    private = Ed25519PrivateKey.generate()
    key = NoteKey(ORIGIN, private.public_key().public_bytes_raw())
    said = Checkpoint(ORIGIN, RECORDS, frontier.root())
    return SignedCheckpoint(said, sign_note(said.text, key, private.sign)), key


def _long_pages(raw: sqlite3.Connection, frontier: Frontier) -> Iterator[list[tuple[int, Row]]]:
    insert = "INSERT INTO stored_events VALUES (?, ?, ?, ?, ?)"
    for start in range(0, RECORDS, PAGE_RECORDS):
        page = [
            (
                index + 1,
                Row("evaluation/T-104/1/post_execute/security", index + 1, "T", _record(index)),
            )
            for index in range(start, min(RECORDS, start + PAGE_RECORDS))
        ]
        raw.executemany(insert, [(number, *row) for number, row in page])
        for _, row in page:
            frontier.append(leaf_hash(row.record))
        yield page


@dataclass(frozen=True)
class _Watching:
    """A snapshot that notes which tiles are read, for which proof."""

    snapshot: Snapshot
    proof: int
    read: set[tuple[int, int, int]]

    @property
    def location(self) -> str:
        return self.snapshot.location

    def rows(self, after: int = 0) -> Iterator[tuple[int, Row]]:
        return self.snapshot.rows(after)

    def checkpoint(self, size: int | None = None) -> CheckpointRow | None:
        return self.snapshot.checkpoint(size)

    def tile(self, level: int, number: int) -> TileRow | None:
        self.read.add((self.proof, level, number))
        return self.snapshot.tile(level, number)


def _read_tiles(path: Path, read: set[tuple[int, int, int]]) -> None:
    query = "SELECT hashes, row_ids FROM tree_tiles WHERE level = ? AND number = ?"
    with contextlib.closing(sqlite3.connect(path)) as raw:
        for _, level, number in sorted(read):
            raw.execute(query, (level, number)).fetchone()


def _check(proof: bytes, record: bytes, key: NoteKey) -> None:
    found = InclusionProof.parse(proof)
    said = found.checkpoint.checkpoint
    if not is_signed_by(found.checkpoint.note, key, verifier()):
        raise ValueError("the checkpoint is not the log's")
    verify_inclusion(found.index, said.size, leaf_hash(record), found.path, said.root)


def _check_floor(paths: list[tuple[bytes, ...]], signed: SignedCheckpoint, key: NoteKey) -> None:
    check, text = verifier(), signed.note.text.encode()
    (signature,) = signed.note.signatures
    for path in paths:
        check(key.public, signature.signature, text)
        found = path[0]
        for sibling in path:
            found = hashlib.sha256(b"\x01" + sibling + found).digest()
