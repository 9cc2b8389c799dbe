"""A ledger made in memory, record by record: lawful where asked to be, and broken where asked to be.

`Forge` signs with real Ed25519 keys derived from a seed, so that the same calls give the same bytes. The
honest half (`found`, `open_task`, `panel`) puts the domain's own law to work with scripted answers. The
other half is what an attacker with the store, or with a key, can do: `write` any event anywhere, `change` a
stored record, `resign` and `rechain` what follows from it.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from causebook.adapters.store.port import (
    TREE,
    CheckpointRow,
    EvidenceRow,
    Position,
    ProjectionRow,
    Row,
    TileRow,
)
from causebook.domain import quorum, tools
from causebook.domain.admission import admit_fault, admit_response
from causebook.domain.canonical import decode, encode
from causebook.domain.checkpoint import Checkpoint, SignedCheckpoint
from causebook.domain.conversation import PROMPT_VERSION, brief_text, system_text
from causebook.domain.evaluation import (
    Evaluation,
    answer,
    fail,
    hear,
    interrupt,
    open_turn,
)
from causebook.domain.events import (
    AttemptClosed,
    AttemptStarted,
    Ballot,
    EvaluationOpened,
    Event,
    EvidenceErased,
    Granted,
    Head,
    KeyEnrolled,
    KeyRetired,
    LedgerFounded,
    Mandate,
    PanelConvened,
    PanelDecided,
    Phase,
    Policy,
    ResolutionRecorded,
    Role,
    Runner,
    TaskCompleted,
    TaskHalted,
    TaskOpened,
    event_from,
)
from causebook.domain.evidence import commit, text_bytes
from causebook.domain.keyring import enrolment_bytes, keyid_of, signer_of, spki_of
from causebook.domain.note import NoteKey, sign_note
from causebook.domain.ports import ModelFault, ReadResult, Response, ToolCall
from causebook.domain.record import NO_PREVIOUS, assemble, digest, pae
from causebook.domain.rederivation import Divergence, rederive
from causebook.domain.streams import evaluation_stream, parse_stream, task_stream
from causebook.projections.tree import grow, leaf_hash

CRITERIA = ("Names say what they mean.", "Nothing is done twice.")
RUNNER = Runner(id="0" * 32, host="forge", process=1)

Script = Sequence[Response | ModelFault]
"""What one judge's model answers, try by try. Where it ends early, the runner is gone."""


def verdict(severity: str, justification: str = "Seen.") -> Response:
    """A response that gives a verdict."""
    return said(
        ("submit_verdict", encode({"severity": severity, "justification": justification}).decode())
    )


def reads(*paths: str) -> Response:
    """A response that reads whole files."""
    return said(*(("read_file", encode({"path": path}).decode()) for path in paths))


def prose(text: str) -> Response:
    """A response without a call."""
    return Response(content=text, model="script-1", client="script", client_version="1")


def said(*calls: tuple[str, str]) -> Response:
    """A response with these (name, argument text) calls."""
    return Response(
        content=None,
        calls=tuple(ToolCall(f"c{n}", name, text) for n, (name, text) in enumerate(calls)),
        model="script-1",
        finish_reason="tool_calls",
        prompt_tokens=812,
        completion_tokens=31,
        milliseconds=1250,
        client="script",
        client_version="1",
    )


def file_of_80_lines(tool: str, arguments: Mapping[str, Any]) -> ReadResult:
    """A workspace in which every path is a file of 80 lines."""
    text = "\n".join(f"{n}: {tool} {sorted(arguments.items())}" for n in range(1, 81))
    return ReadResult(text, lines=(1, 80) if tool.startswith("read_file") else None)


class Key:
    """An Ed25519 key pair made from a seed."""

    def __init__(self, seed: str) -> None:
        secret = hashlib.sha256(seed.encode()).digest()
        self._private = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = self._private.public_key().public_bytes_raw()
        self.spki = spki_of(self.public)
        self.keyid = keyid_of(self.spki)

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)

    @property
    def text(self) -> str:
        """The public key as events carry it."""
        return base64.b64encode(self.spki).decode()


@dataclass
class MemorySource:
    """The reading side of a store, over lists: what `verify` and `replay` read."""

    stored: list[Row]
    kept: dict[str, EvidenceRow]
    anomalies: Sequence[str] = ()
    location: str = "memory"
    tree: list[TileRow] = field(default_factory=list)
    sealed: list[CheckpointRow] = field(default_factory=list)
    at: Position | None = None

    def rows(self, after: int = 0) -> Iterator[tuple[int, Row]]:
        return ((n, row) for n, row in enumerate(self.stored, 1) if n > after)

    def stream(self, name: str) -> list[Row]:
        found = [row for row in self.stored if row.stream == name]
        return sorted(found, key=lambda row: row.version)

    def streams(self, prefix: str) -> list[str]:
        return sorted({row.stream for row in self.stored if row.stream.startswith(prefix)})

    def count(self) -> int:
        return len(self.stored)

    def index_faults(self) -> Sequence[str]:
        return ()

    def evidence(self, commitment: str) -> EvidenceRow | None:
        return self.kept.get(commitment)

    def evidence_items(self, commitments: Sequence[str]) -> Iterator[EvidenceRow]:
        return (self.kept[name] for name in commitments if name in self.kept)

    def evidence_commitments(self) -> Iterator[tuple[str, str]]:
        return ((row.commitment, row.task) for row in list(self.kept.values()))

    def position(self, name: str) -> Position | None:
        return self.at if name == TREE else None

    def tile(self, level: int, number: int) -> TileRow | None:
        return next((t for t in self.tree if (t.level, t.number) == (level, number)), None)

    def tiles(self) -> Iterator[TileRow]:
        return iter(sorted(self.tree, key=lambda tile: (tile.level, tile.number)))

    def tree_size(self) -> int:
        return sum(len(tile.hashes) // 32 for tile in self.tree if tile.level == 0)

    def checkpoint(self, size: int | None = None) -> CheckpointRow | None:
        found = [row for row in self.checkpoints() if size in (None, row.size)]
        return found[-1] if found else None

    def checkpoints(self) -> list[CheckpointRow]:
        return sorted(self.sealed, key=lambda row: row.size)

    def projected(self, name: str) -> Iterator[ProjectionRow]:
        return iter(())


@dataclass
class Forge:
    """A ledger in the making. `keys` by role; `rows` in commit order; `evidence` by commitment."""

    origin: str = "audit.example.com/team"
    seed: str = "forge"
    rows: list[Row] = field(default_factory=list)
    evidence: dict[str, EvidenceRow] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)
    workspace: Callable[[str, Mapping[str, Any]], ReadResult] = file_of_80_lines
    sealed: list[CheckpointRow] = field(default_factory=list)
    _heads: dict[str, tuple[int, str]] = field(default_factory=dict)
    _at: datetime = datetime(2026, 11, 30, 15, 36, tzinfo=UTC)

    # ── the honest half ──────────────────────────────────────────────────────────────────────────────

    def found(self, custody: str = "together", continues: str | None = None) -> Forge:
        """Found the ledger and enrol an engine and an authority."""
        self.keys["root"] = Key(f"{self.seed}/root")
        nonce = hashlib.sha256(self.seed.encode()).hexdigest()
        self.write(
            "ledger",
            LedgerFounded.model_validate(
                {
                    "format": 1,
                    "nonce": nonce,
                    "root_key": self.keys["root"].text,
                    "custody": custody,
                    "continues": continues,
                }
            ),
        )
        self.nonce = nonce
        self.enrol("engine")
        self.enrol("authority")
        return self

    def enrol(self, role: Role, key: Key | None = None) -> Key:
        """Enrol a key for a role; from then on it signs for it."""
        key = Key(f"{self.seed}/{role}/{len(self.rows)}") if key is None else key
        message = enrolment_bytes(
            self.origin, self.nonce, self.keys["root"].text, role, role, key.text
        )
        possession = base64.b64encode(key.sign(message)).decode()
        self.write(
            "ledger",
            KeyEnrolled(
                role=role,
                name=role,
                public_key=key.text,
                possession=possession,
                rotates=None,
                handover=None,
            ),
        )
        self.keys[role] = key
        return key

    def note(self, size: int, key: Key | None = None) -> str:
        """The note of a checkpoint over the first `size` records, signed by the log's key."""
        key = self.keys["log"] if key is None else key
        root = tree_root([row.record for row in self.rows[:size]])
        text = Checkpoint(self.origin, size, root).text
        return sign_note(text, NoteKey(self.origin, key.public), key.sign).raw.decode()

    def seal(self, size: int | None = None, key: Key | None = None) -> SignedCheckpoint:
        """Keep a checkpoint over the first `size` records, by default all, in place of another of that size.

        A log key is enrolled where none is.
        """
        if "log" not in self.keys:
            self.enrol("log")
        size = len(self.rows) if size is None else size
        note = self.note(size, key).encode()
        self.sealed = [row for row in self.sealed if row.size != size] + [CheckpointRow(size, note)]
        return SignedCheckpoint.parse(note)

    def retire(self, key: Key, size: int, /, *, compromised: bool = True, **forged: Any) -> Row:
        """End a key, trusted as far as a checkpoint over the first `size` records; the log's key signs it."""
        retired = KeyRetired(
            keyid=key.keyid,
            compromised=compromised,
            reason="lost",
            size=size,
            checkpoint=self.note(size),
        )
        return self.write("ledger", retired, **forged)

    def open_task(self, task: str) -> None:
        """Open a task and its first attempt."""
        self.write(
            task_stream(task), TaskOpened(task=task, spec=self.keep(task, b"Do what is asked."))
        )
        self.start_attempt(task, 1)

    def start_attempt(self, task: str, attempt: int) -> None:
        self.write(task_stream(task), AttemptStarted(attempt=attempt, rejudges=None))

    def panel(
        self,
        task: str,
        judges: Mapping[str, Script],
        *,
        attempt: int = 1,
        phase: Phase = "post_execute",
        policy: Policy = "unanimous",
        declared: Sequence[str] = ("read_file", "read_file_lines"),
        turns_max: int = 20,
        decide: bool = True,
    ) -> PanelDecided | None:
        """Convene judges, hear them turn by turn side by side, and write what follows from their ballots."""
        self.convene(
            task, tuple(judges), attempt, phase, policy, declared=declared, turns_max=turns_max
        )
        running = {
            judge: self._judge(task, attempt, phase, judge, script, declared, turns_max)
            for judge, script in judges.items()
        }
        ballots: dict[str, Ballot] = {}
        while running:
            for judge, turns in list(running.items()):
                try:
                    next(turns)
                except StopIteration as stop:
                    del running[judge]
                    if stop.value is not None:
                        ballots[judge] = stop.value
        if not decide or len(ballots) < len(judges):
            return None
        decided = quorum.decided(attempt, phase, policy, [ballots[judge] for judge in judges])
        self.follow(task, decided)
        return decided

    def convene(
        self,
        task: str,
        judges: Sequence[str],
        attempt: int,
        phase: Phase,
        policy: Policy,
        *,
        declared: Sequence[str],
        turns_max: int,
    ) -> None:
        mandates = tuple(
            Mandate(
                judge=judge,
                model="script",
                criteria_digest=hashlib.sha256(encode(list(CRITERIA))).hexdigest(),
                tools=tuple(declared),
                max_tool_turns=turns_max,
            )
            for judge in judges
        )
        self._brief = self.keep(task, text_bytes(brief_text(task, "Do it.", None, None)))
        self.write(
            task_stream(task),
            PanelConvened(
                attempt=attempt,
                phase=phase,
                policy=policy,
                judges=mandates,
                brief=self._brief,
                base=None,
                workspace=None,
                root="/src/app",
                runner=RUNNER,
            ),
        )

    def open_evaluation(
        self,
        task: str,
        attempt: int,
        phase: Phase,
        judge: str,
        declared: Sequence[str],
        turns_max: int,
        *,
        ran: bool = True,
    ) -> EvaluationOpened:
        """The opening of an evaluation, written. `ran=False`: opened only to be closed by rule 10."""
        prompt = None
        if ran:
            system = self.keep(task, text_bytes(system_text(judge, phase, CRITERIA)))
            prompt = (system, self._brief)
        opened = EvaluationOpened(
            task=task,
            attempt=attempt,
            phase=phase,
            judge=judge,
            law="law/1",
            max_tool_turns=turns_max,
            max_stall_turns=3,
            declared=tuple(declared),
            active=tuple(
                Granted(name=name, defaults=tools.READ_TOOLS[name].defaults())
                for name in tools.active(declared, phase)
            ),
            criteria=CRITERIA if ran else None,
            model="script",
            prompt_version=PROMPT_VERSION,
            prompt=prompt,
            root="/src/app",
            workspace=None,
        )
        self.write(evaluation_stream(task, attempt, phase, judge), opened)
        return opened

    def _judge(
        self,
        task: str,
        attempt: int,
        phase: Phase,
        judge: str,
        script: Script,
        declared: Sequence[str],
        turns_max: int,
    ) -> Generator[None, None, Ballot | None]:
        stream = evaluation_stream(task, attempt, phase, judge)
        answers = iter(script)
        opened = self.open_evaluation(task, attempt, phase, judge, declared, turns_max)
        evaluation = Evaluation(opened)
        while evaluation.closed is None:
            events = open_turn(evaluation)
            told = self._hear(task, evaluation, answers)
            if told is None:
                return None
            self.write_all(stream, [*events, *told])
            yield
        return self.ballot(stream, judge)

    def _hear(
        self, task: str, evaluation: Evaluation, answers: Iterator[Response | ModelFault]
    ) -> list[Event] | None:
        tries: list[Event] = []
        required = "submit_verdict" if evaluation.withdrawn else None
        declined = False

        def keep(body: bytes) -> str:
            return self.keep(task, body)

        for said_next in answers:
            number = len(tries) + 1
            if isinstance(said_next, ModelFault):
                declined_now = said_next.declines_tool_choice and not declined
                declined = declined or declined_now
                tries.append(
                    admit_fault(
                        said_next,
                        turn=evaluation.turn,
                        try_number=number,
                        declined=declined_now,
                        commit=keep,
                    )
                )
                if not said_next.retryable and not declined_now:
                    return fail(evaluation, tries)
                continue
            response = replace(said_next, tool_choice_sent=required is not None and not declined)
            responded = admit_response(
                response, turn=evaluation.turn, try_number=number, required=required, commit=keep
            )
            turn = hear(evaluation, responded)
            try:
                place, read = next(turn)
                while True:
                    result = self.workspace(read.tool, read.arguments)
                    place, read = turn.send(
                        answer(
                            read,
                            turn=evaluation.turn,
                            call=place,
                            result=keep(text_bytes(result.text)),
                            lines=result.lines,
                            cut=result.cut,
                            error=result.error,
                            blob=result.blob,
                        )
                    )
            except StopIteration as stop:
                return [*tries, *stop.value]
        return None

    def interrupt(self, task: str, attempt: int, phase: Phase, judge: str) -> Ballot:
        """Close an evaluation whose runner is gone (rule 10), as its stream stands."""
        stream = evaluation_stream(task, attempt, phase, judge)
        rows = [row for row in self.rows if row.stream == stream]
        events = [event_from(row.type, document(row)["data"]) for row in rows]
        evaluation = rederive(parse_stream(stream), events)
        if isinstance(evaluation, Divergence):
            raise ValueError(evaluation)
        self.write_all(stream, interrupt(evaluation))
        return self.ballot(stream, judge)

    def ballot(self, stream: str, judge: str) -> Ballot:
        """The ballot that the last record of an evaluation gives."""
        version, last = self._heads[stream]
        closing = document(next(r for r in reversed(self.rows) if r.stream == stream))
        data = closing["data"]
        return Ballot(
            judge=judge,
            severity=data["severity"],
            error=data.get("error", False),
            stream=stream,
            version=version,
            digest=last,
        )

    def follow(self, task: str, decided: PanelDecided) -> None:
        stream = task_stream(task)
        self.write(stream, decided)
        attempt, phase = decided.attempt, decided.phase
        if decided.action in ("halt", "escalate"):
            raw = quorum.decide(decided.policy, decided.ballots).raw_halt_type
            assert raw is not None
            self.write(
                stream,
                TaskHalted(
                    attempt=attempt,
                    phase=phase,
                    raw_halt_type=raw,
                    halt_type=quorum.CANONICAL[raw],
                    reason=quorum.halt_reason(decided),
                    decided=self._heads[stream][1],
                ),
            )
        if decided.action == "halt" or (
            decided.action in ("proceed", "log") and phase == "post_execute"
        ):
            self.close_attempt(task, attempt, quorum.outcome(decided.ballots, None))
            if decided.action != "halt":
                self.write(stream, TaskCompleted(attempt=attempt))

    def close_attempt(self, task: str, attempt: int, outcome: str) -> None:
        """Write `AttemptClosed` with the true heads."""
        prefix = f"evaluation/{task}/{attempt}/"
        names = [name for name in self._heads if name.startswith(prefix)]
        heads = tuple(
            Head(stream=name, version=self._heads[name][0], digest=self._heads[name][1])
            for name in [*sorted(names), task_stream(task)]
        )
        self.write(
            task_stream(task),
            AttemptClosed.model_validate(
                {"attempt": attempt, "outcome": outcome, "heads": [h.model_dump() for h in heads]}
            ),
        )

    def resolve(self, task: str, attempt: int, phase: Phase, decision: str, outcome: str) -> None:
        """A person answers the escalation that waits, and what follows is written."""
        stream = task_stream(task)
        decided = next(
            digest(row.record)
            for row in reversed(self.rows)
            if row.stream == stream and row.type == "PanelDecided"
        )
        self.write(
            stream,
            ResolutionRecorded.model_validate(
                {
                    "attempt": attempt,
                    "phase": phase,
                    "decision": decision,
                    "name": "Ada",
                    "meaning": "reviewed and accepted",
                    "comment": "",
                    "decided": decided,
                }
            ),
        )
        self.close_attempt(task, attempt, outcome)
        if decision == "proceed":
            self.write(stream, TaskCompleted(attempt=attempt))

    def erase(self, task: str) -> None:
        """A person erases the evidence of a task: the event first, then the rows."""
        heads = [
            {"stream": name, "version": version}
            for name, (version, _) in sorted(self._heads.items())
            if name == task_stream(task) or name.startswith(f"evaluation/{task}/")
        ]
        gone = [c for c, row in self.evidence.items() if row.task == task]
        self.write(
            "ledger",
            EvidenceErased.model_validate(
                {
                    "task": task,
                    "name": "Ada",
                    "reason": "asked for",
                    "count": len(gone),
                    "streams": heads,
                }
            ),
        )
        for commitment in gone:
            del self.evidence[commitment]

    def keep(self, task: str, body: bytes) -> str:
        """Keep bytes as evidence of a task; their commitment."""
        salt = hashlib.sha256(f"{self.seed}/salt/{len(self.evidence)}".encode()).digest()
        commitment = commit(salt, body)
        self.evidence[commitment] = EvidenceRow(commitment, salt, task, zlib.compress(body))
        return commitment

    def write(self, stream: str, event: Event, **forged: Any) -> Row:
        """Append an event, signed by the key whose role it is; `forged` replaces parts of the record.

        `key`: a `Key` to sign with, `data`, `previous`, `version`, `ledger`, `type`: what to say instead.
        """
        version, last = self._heads.get(stream, (0, ""))
        self._at += timedelta(milliseconds=7)
        said: dict[str, Any] = {
            "at": self._at.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z",
            "data": event.data(),
            "ledger": self.origin,
            "previous": last or self._anchor(stream),
            "stream": stream,
            "type": event.kind(),
            "version": version + 1,
        }
        key = forged.pop("key", None) or self.keys[signer_of(event.kind())]
        row = signed_row(said | forged, key)
        self.rows.append(row)
        self._heads[row.stream] = (row.version, digest(row.record))
        return row

    def write_all(self, stream: str, events: Sequence[Event]) -> None:
        for event in events:
            self.write(stream, event)

    def _anchor(self, stream: str) -> str:
        if stream == "ledger":
            return NO_PREVIOUS
        if stream.startswith("task/"):
            return digest(self.rows[0].record)
        _, task, attempt, phase, _ = stream.split("/")
        for row in reversed(self.rows):
            if row.stream == f"task/{task}" and row.type == "PanelConvened":
                data = document(row)["data"]
                if (data["attempt"], data["phase"]) == (int(attempt), phase):
                    return digest(row.record)
        return NO_PREVIOUS

    # ── the other half ───────────────────────────────────────────────────────────────────────────────

    def at(self, stream: str, version: int) -> int:
        """Where the record (stream, version) stands in `rows`."""
        return next(
            n for n, row in enumerate(self.rows) if (row.stream, row.version) == (stream, version)
        )

    def last(self, stream: str, kind: str) -> int:
        """The version of the last record of a type in a stream."""
        return max(row.version for row in self.rows if row.stream == stream and row.type == kind)

    def resign(self, stream: str, version: int, change: Callable[[dict[str, Any]], Any]) -> None:
        """Change a stored record and all that hangs on it, signing everything anew, as an insider can.

        Digests that later records name (previous, ballots, heads, decided) follow the change.
        """
        place = self.at(stream, version)
        renamed: dict[str, str] = {}
        for n in range(place, len(self.rows)):
            row = self.rows[n]
            said = document(row)
            before = encode(said)
            if n == place:
                change(said)
            text = encode(said).decode()
            for old, new in renamed.items():
                text = text.replace(old, new)
            if text.encode() == before:
                continue
            said = decode(text.encode())
            row_new = signed_row(said, self.keys[signer_of(row.type)])
            renamed[digest(row.record)] = digest(row_new.record)
            self.rows[n] = row_new

    def source(self) -> MemorySource:
        """A reading side over a copy of what is there."""
        source = MemorySource(list(self.rows), dict(self.evidence), sealed=list(self.sealed))
        if self.sealed:
            size = max(row.size for row in self.sealed)
            source.tree = tiles_of(self.rows[:size])
            source.at = Position(1, size, digest(self.rows[size - 1].record))
        return source


def tiles_of(rows: Sequence[Row]) -> list[TileRow]:
    """The tiles of the tree over rows whose ids count from 1."""
    grown = grow(lambda level, number: b"", 0, [leaf_hash(row.record) for row in rows])
    return [
        TileRow(level, number, hashes, b"" if level else _row_ids(number, len(hashes) // 32))
        for (level, number), hashes in grown.items()
    ]


def _row_ids(number: int, count: int) -> bytes:
    return b"".join((number * 256 + n).to_bytes(8, "big") for n in range(1, count + 1))


def tree_root(records: Sequence[bytes]) -> bytes:
    """The root of the Merkle tree over records, as RFC 9162 section 2.1.1 writes it down."""
    if len(records) == 1:
        return hashlib.sha256(b"\0" + records[0]).digest()
    split = 1 << (len(records) - 1).bit_length() - 1
    left, right = tree_root(records[:split]), tree_root(records[split:])
    return hashlib.sha256(b"\1" + left + right).digest()


def signed_row(said: dict[str, Any], key: Key) -> Row:
    """The row of a record that says exactly this, signed by `key`."""
    line = encode(said)
    record = assemble(line, key.keyid, key.sign(pae(line)))
    return Row(said["stream"], said["version"], said["type"], record)


def signed_line(line: bytes, row: Row, key: Key) -> Row:
    """The row with another line 1, byte for byte as given, signed by `key`."""
    return row._replace(record=assemble(line, key.keyid, key.sign(pae(line))))


def document(row: Row) -> dict[str, Any]:
    """What line 1 of a stored record says."""
    said: dict[str, Any] = decode(row.record.partition(b"\n")[0])
    return said


def small_ledger(task: str = "T-1") -> Forge:
    """One task, halted: four judges, of which one passes, one warns, one stalls and one never decides."""
    forge = Forge().found()
    forge.open_task(task)
    stalling = [reads("src/app.py"), *[reads("./src//app.py")] * 3, verdict("blocker", "It leaks.")]
    forge.panel(
        task,
        {
            "conventions": [reads("a.py"), reads("b.py", "c.py"), verdict("pass")],
            "testing": [reads("a.py"), verdict("warn", "Thin.")],
            "security": stalling,
            "architecture": [reads("src/app.py"), prose("Well …"), prose("I think …")],
        },
    )
    return forge


def long_ledger(tasks: int) -> Forge:
    """Many tasks, some 60 records each, as judges usually go: a few reads each, then a verdict."""
    forge = Forge().found()
    for n in range(tasks):
        task = f"T-{n}"
        forge.open_task(task)
        forge.panel(
            task,
            {
                judge: [
                    reads("src/app.py"),
                    reads(f"src/{judge}.py", "README.md"),
                    reads("src/app.py"),
                    verdict("pass", "What I read is sound: names, errors and limits hold."),
                ]
                for judge in ("architecture", "conventions", "security", "testing")
            },
        )
    return forge
