"""Appending one turn, durably, against the same rows put into raw SQLite and their four signatures.

Ours: the evidence of a turn is salted, hashed and compressed; its four records are built, chained and signed;
all of it goes into one transaction, which is on the disk when `commit` returns.

The floor: four Ed25519 signatures over bytes that are at hand, and a transaction that inserts the finished
rows into the same tables and indices without triggers, with a write-ahead log and synchronous=FULL as ours.

The two take turns, one turn each, so that a disk which slows down slows both.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

from causebook.adapters import evidence, writer
from causebook.adapters.keys import Signer
from causebook.adapters.ledger import Ledger
from causebook.adapters.seat import Judge, Seat
from causebook.adapters.store.port import EvidenceRow, Row
from causebook.adapters.store.sqlite_file import SCHEMA
from causebook.adapters.writer import Batch, Satchel
from causebook.domain.admission import admit_response
from causebook.domain.evaluation import Evaluation, answer, hear, open_turn
from causebook.domain.events import Event
from causebook.domain.evidence import text_bytes
from causebook.domain.ports import ReadResult, Response, ToolCall
from causebook.domain.record import parse

from .measure import ROUNDS, Ratio, compared

Compressed = Callable[[bytes], bytes]

NAME = "append of one turn ({})"
FLOOR = "raw SQLite inserts of the same rows, same commits, and Ed25519"
PROMISE = 0.75
MEASURED: tuple[tuple[str, Compressed, float | None], ...] = (
    ("ISA-L", evidence.compressed, PROMISE),
    ("zlib", evidence._by_zlib, None),
)
"""(what packs the evidence, how, the least the ratio may be). ISA-L is in the extra `fast`."""

TURNS = 150
"""Of one judge."""
JUDGES = 6
"""Of one round."""

_WORDS = ("self", "value", "result", "return", "for", "in", "if", "not", "path", "=", "(", ")", ":")


class Reader:
    """A model that reads one file after another, each of some 4 KB of source."""

    def __init__(self) -> None:
        self._rng = random.Random(4)
        self._read = 0

    def response(self) -> Response:
        """An answer whose evidence is some 300 bytes."""
        self._read += 1
        arguments = f'{{"path": "src/handlers/module_{self._read}.py"}}'
        return Response(
            content="The handler looks right so far. I want to see where the token is checked, and "
            "whether anything forgets it once it was used.",
            calls=(ToolCall(f"toolu_{self._read:024}", "read_file", arguments),),
            model="anthropic/claude",
            finish_reason="tool_calls",
            prompt_tokens=8_112,
            completion_tokens=71,
            milliseconds=1_930,
            client="litellm",
            client_version="1.83.14",
        )

    def file(self) -> ReadResult:
        lines = [
            "    " * self._rng.randint(0, 3) + " ".join(self._rng.choices(_WORDS, k=8))
            for _ in range(100)
        ]
        return ReadResult("\n".join(lines), (1, 100), blob=f"{self._rng.getrandbits(160):040x}")


@dataclass(frozen=True)
class Turn:
    """A turn that is decided and not stored: its four events, its evidence, and the bytes of that."""

    events: list[Event]
    evidence: list[EvidenceRow]
    bodies: list[bytes]


def decided(evaluation: Evaluation, reader: Reader) -> Turn:
    """What the law says of the reader's next answer."""
    satchel = Satchel(evaluation.opened.task)
    bodies: list[bytes] = []

    def commit(body: bytes) -> str:
        bodies.append(body)
        return satchel.commit(body)

    events = open_turn(evaluation)
    turn = evaluation.turn
    response = reader.response()
    responded = admit_response(response, turn=turn, try_number=1, required=None, commit=commit)
    hearing = hear(evaluation, responded)
    place, read = next(hearing)
    result = reader.file()
    answered = answer(
        read,
        turn=turn,
        call=place,
        result=commit(text_bytes(result.text)),
        lines=result.lines,
        cut=result.cut,
        error=result.error,
        blob=result.blob,
    )
    try:
        hearing.send(answered)
    except StopIteration as stop:
        events += stop.value
    return Turn(events, satchel.rows, bodies)


def append(seat: Seat, turn: Turn) -> Batch:
    """Ours. Its events name commitments made before, so the evidence is packed here a second time."""
    satchel = Satchel(seat.evaluation.opened.task)
    for body in turn.bodies:
        satchel.commit(body)
    batch = seat.writer.batch()
    batch.after(seat.stream, seat.tip)
    batch.evidence.extend(turn.evidence)
    batch.extend(seat.stream, turn.events)
    seat.tip = seat.commit(batch)[-1].tip
    return batch


class Floor:
    """A raw SQLite file with the tables and indices of a ledger, and a key."""

    def __init__(self, path: Path, signer: Signer) -> None:
        self._sign = signer.sign
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        for statement in SCHEMA:
            if "TRIGGER" not in statement:
                self.connection.execute(statement)

    def append(
        self, messages: list[bytes], records: list[tuple[object, ...]], rows: list[EvidenceRow]
    ) -> None:
        """The floor."""
        for message in messages:
            self._sign(message)
        connection = self.connection
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO stored_events (originator_id, originator_version, topic, state)"
            " VALUES (?, ?, ?, ?)",
            records,
        )
        connection.executemany(
            "INSERT INTO evidence VALUES (?, ?, ?, ?)",
            [(row.commitment, row.salt, row.task, row.body) for row in rows],
        )
        connection.execute("COMMIT")


@dataclass(frozen=True)
class Appended:
    """The measurement, the ledger it left, and how many bytes a turn takes in it."""

    ratio: Ratio
    url: str
    record_bytes: int
    evidence_bytes: int


def measure(folder: Path) -> list[Appended]:
    """Append `ROUNDS` times `TURNS` turns of `JUDGES` judges, for each that packs evidence."""
    found = []
    for by, compressed, promise in MEASURED:
        place = folder / by
        place.mkdir()
        with mock.patch.object(writer, "packed", partial(evidence.packed, compressed=compressed)):
            found.append(_measured(place, NAME.format(by), promise))
    return found


def _measured(folder: Path, name: str, promise: float | None) -> Appended:
    url = f"sqlite:///{folder / 'ledger.db'}"
    reader = Reader()
    rounds: list[tuple[float, float]] = []
    with Ledger.found(url, keys=folder / "keys", origin="bench.example.com/ledger") as ledger:
        floor = Floor(folder / "raw.db", ledger.writer.signer("engine"))
        names = [f"judge-{number}" for number in range(ROUNDS * JUDGES)]
        judges = [Judge(each, "reader", ["It holds."], max_tool_turns=TURNS + 2) for each in names]
        panel = ledger.task("T-1").start_attempt().convene("post_execute", "unanimous", judges)
        with contextlib.closing(floor.connection):
            for first in range(0, len(names), JUDGES):
                theirs = ours = 0.0
                for judge in names[first : first + JUDGES]:
                    seat = panel.open(judge)
                    *spent, batch = _judged(seat, reader, floor)
                    theirs, ours = theirs + spent[0], ours + spent[1]
                    _give_verdict(seat)
                rounds.append((theirs, ours))
        panel.decide()
    return Appended(
        compared(name, FLOOR, promise, rounds, TURNS * JUDGES, "turns/s"),
        url,
        record_bytes=sum(len(row.record) for row in batch.rows),
        evidence_bytes=sum(len(row.body) + len(row.salt) for row in batch.evidence),
    )


def _judged(seat: Seat, reader: Reader, floor: Floor) -> tuple[float, float, Batch]:
    """Seconds of the floor, seconds of ours, and the last turn."""
    clock = time.perf_counter
    theirs = ours = 0.0
    for _ in range(TURNS):
        turn = decided(seat.evaluation, reader)
        started = clock()
        batch = append(seat, turn)
        ours += clock() - started
        messages = [parse(row.record).signed_bytes() for row in batch.rows]
        records = [_columns(row) for row in batch.rows]
        started = clock()
        floor.append(messages, records, batch.evidence)
        theirs += clock() - started
    return theirs, ours, batch


def _columns(row: Row) -> tuple[object, ...]:
    return row.stream, row.version, row.type, row.record


def _give_verdict(seat: Seat) -> None:
    arguments = '{"severity":"pass","justification":"It holds."}'
    seat.next_request()
    for _ in seat.respond(Response(None, (ToolCall("c", "submit_verdict", arguments),))):
        raise ValueError("a verdict reads nothing")
