"""Our adapter for the tamper suite `agent-memory-integrity`, as its command takes one:

    agmi-check --adapter tests.conformance.agmi_adapter:CausebookAdapter --json row.json

What a thread is to an agent's memory, a task is to this ledger; what it remembers of a thread, the attempts
at that task. So an *entry* is one attempt, whole: every record from its `AttemptStarted` to its
`AttemptClosed`, on its stream and its judge's, as they lie one after another. An edit of an entry is then
one that a forger would make: all records of an attempt go, change places with those of another, or are
overwritten by them, and none is left that shows where they were.

Seeding and verifying use `from causebook import …` alone. The edits go past all of it into the tables, with
the triggers off meanwhile, and take along every checkpoint and tile that would give them away; keys they have
none. Off the store lie the keys, the user's pins, and each checkpoint that sealing gave, as an auditor keeps
them: an older copy of the whole store cannot be known by anything that is in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agmi.adapters.base import MemoryAdapter, Record

from causebook import Judge, Ledger, Report, Response, ToolCall, verify
from tests.attacks.intruder import Intruder

TASK, OTHER = "T-1", "T-2"
INTACT, FIRST_LOOK = 0, 20

_COLUMNS = ("originator_id", "originator_version", "topic", "state")


class CausebookAdapter(MemoryAdapter):
    """A ledger in a SQLite file."""

    name = "causebook-sqlite"
    detection_point = "audit"
    supports_replay = True
    supports_metadata = True
    supports_snapshot = True

    def setup(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="causebook-agmi-"))
        self._state = os.environ.get("CAUSEBOOK_STATE")
        os.environ["CAUSEBOOK_STATE"] = str(self.folder / "state")
        self.kept: list[bytes] = []
        self.make_store()
        Ledger.found(self.url, keys=self.folder / "keys", origin="audit.example.com/agmi").close()

    def teardown(self) -> None:
        self.drop_store()
        shutil.rmtree(self.folder)
        if self._state is None:
            del os.environ["CAUSEBOOK_STATE"]
        else:
            os.environ["CAUSEBOOK_STATE"] = self._state

    # ── the public API ───────────────────────────────────────────────────────────────────────────────

    def seed(self, n: int) -> None:
        self.attempts(TASK, n)

    def seed_other(self, n: int) -> None:
        self.attempts(OTHER, n)

    def append_genuine(self) -> None:
        self.attempts(TASK, 1)

    def attempts(self, task: str, number: int) -> None:
        """Try a task that often: a judge blocks it each time. Then seal, and keep the checkpoint."""
        judge = Judge("security", "my-model", ["No secrets."], ["read_file"], 5)
        with Ledger.open(self.url, keys=self.folder / "keys") as ledger:
            for _ in range(number):
                attempt = ledger.task(task, spec=f"Fix the login of {task}").start_attempt()
                attempt.dispatch_coder("my-coder", brief="Do it.")
                with attempt.convene("post_execute", "any", [judge]) as panel:
                    seat = panel.open("security")
                    said = f"{task}: attempt {attempt.number} leaks a secret."
                    ballot = json.dumps({"severity": "blocker", "justification": said})
                    while seat.next_request() is not None:
                        answer = Response(None, (ToolCall("1", "submit_verdict", ballot),))
                        assert list(seat.respond(answer)) == []
                    panel.decide()
            self.kept.append(ledger.seal().checkpoint.note.raw)

    def reload(self) -> None:
        Ledger.open(self.url, keys=self.folder / "keys").close()

    def look(self) -> Report:
        """What verify says, held against the pins and against each checkpoint that was kept."""
        return verify(self.url, checkpoints=self.kept)

    def verify(self) -> bool:
        report = self.look()
        failed = [check.name for check in report.checks if check.status == "FAIL"]
        first = [f"{f.place}: expected {f.expected}, found {f.found}" for f in report.findings[:1]]
        self.verify_detail = (
            f"{report.code} {report.meaning}; {', '.join(failed)}; {''.join(first)}"
        )
        return report.code in (INTACT, FIRST_LOOK)

    # ── the store's owner, past the API ──────────────────────────────────────────────────────────────

    def read_all_raw(self) -> list[Record]:
        return self.entries(TASK)

    def read_other_raw(self) -> list[Record]:
        return self.entries(OTHER)

    def entries(self, task: str) -> list[Record]:
        """The attempts at a task, by their rows: each a row id, stream, version, type and record."""
        entries: list[Record] = []
        for row in self.rows():
            if row[1] != f"task/{task}" and not row[1].startswith(f"evaluation/{task}/"):
                continue
            if row[3] == "AttemptStarted":
                entries.append(Record(len(entries), {"owner": task, "rows": []}))
            if entries:  # TaskOpened comes before the first
                entries[-1].fields["rows"].append(row)
        return entries

    @contextmanager
    def owner(self) -> Iterator[Intruder]:
        """Whoever owns the store, in one transaction."""
        with Intruder(self.url) as intruder:
            intruder.run("BEGIN")
            yield intruder
            intruder.run("COMMIT")

    def rows(self) -> list[list[Any]]:
        with self.owner() as intruder:
            columns = ", ".join((intruder.row_id, *_COLUMNS))
            found = intruder.sql(f"SELECT {columns} FROM stored_events ORDER BY 1")
        return [[*row, bytes(state).decode()] for *row, state in found]

    def write_raw(self, record: Record) -> None:
        rows, entries = record.fields["rows"], self.entries(TASK)
        with self.owner() as intruder:
            if record.seq == len(entries):
                for _, *row in rows:
                    self.insert(intruder, row)
                return  # each checkpoint still holds
            for place, (_, *row) in zip(entries[record.seq].fields["rows"], rows, strict=True):
                self.overwrite(intruder, place[0], row)
            self.unseal(intruder)

    def delete_raw(self, seq: int) -> None:
        entry = self.entries(TASK)[seq]
        with self.owner() as intruder:
            for row_id, *_ in entry.fields["rows"]:
                intruder.sql(f"DELETE FROM stored_events WHERE {intruder.row_id} = ?", row_id)
            self.unseal(intruder)

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        victim = self.entries(TASK)[victim_seq]
        rows = zip(victim.fields["rows"], donor.fields["rows"], strict=True)
        victim.fields["rows"] = [[*mine[:4], theirs[4]] for mine, theirs in rows]
        self.write_raw(victim)

    def read_meta(self, seq: int) -> dict[str, Any]:
        """When each record of the entry says that it was written."""
        return {"at": [said(row)["at"] for row in self.entries(TASK)[seq].fields["rows"]]}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        entry = self.entries(TASK)[seq]
        for row, at in zip(entry.fields["rows"], meta["at"], strict=True):
            document = said(row)
            # Flagged as tampered with: a year earlier.
            document["at"] = f"{int(at[:4]) - 1}{at[4:]}" if meta.get("agmi_meta_tampered") else at
            row[4] = rewritten(row[4], document)
        self.write_raw(entry)

    def mutate_payload(self, record: Record) -> Record:
        """The judge's verdict turned over."""
        (row,) = [row for row in record.fields["rows"] if row[3] == "VerdictGiven"]
        document = said(row)
        document["data"]["severity"] = "pass"
        row[4] = rewritten(row[4], document)
        return record

    def forge_record(self, template: Record) -> Record:
        """The last attempt told once more as the next: names, numbers, digests and links as they have to be.

        All that is missing is the key: the signatures are those of the records it was copied from.
        """
        rows, number, stream = template.fields["rows"], template.seq + 1, f"task/{TASK}"
        length = sum(row[1] == stream for row in rows)
        digests = {said(rows[0])["previous"]: digest(rows[-1][4])}
        forged = []
        for _, *row in rows:
            text = row[3]
            for old, new in (
                (f"/{number}/", f"/{number + 1}/"),
                (f'"attempt":{number},', f'"attempt":{number + 1},'),
                (f"attempt {number} leaks", f"attempt {number + 1} leaks"),
                *digests.items(),
            ):
                text = text.replace(old, new)
            document = json.loads(text.partition("\n")[0])
            for head in [document, *document["data"].get("heads", [])]:
                if head["stream"] == stream:
                    head["version"] += length
            text = rewritten(text, document)
            digests[digest(row[3])] = digest(text)
            forged.append([None, document["stream"], document["version"], row[2], text])
        return Record(number, {"owner": TASK, "rows": forged})

    def insert(self, intruder: Intruder, row: list[Any]) -> None:
        *columns, text = row
        names = ", ".join(_COLUMNS)
        statement = f"INSERT INTO stored_events ({names}) VALUES (?, ?, ?, ?)"
        intruder.sql(statement, *columns, text.encode())

    def overwrite(self, intruder: Intruder, row_id: int, row: list[Any]) -> None:
        """Put a record in another's place. Where that stands already steps aside."""
        stream, version, kind, text = row
        intruder.sql(
            "UPDATE stored_events SET originator_version = -originator_version"
            f" WHERE originator_id = ? AND originator_version = ? AND {intruder.row_id} <> ?",
            *(stream, version, row_id),
        )
        columns = ", ".join(f"{name} = ?" for name in _COLUMNS)
        statement = f"UPDATE stored_events SET {columns} WHERE {intruder.row_id} = ?"
        intruder.sql(statement, stream, version, kind, text.encode(), row_id)

    def unseal(self, intruder: Intruder) -> None:
        """Take away all that the store itself keeps of how many records there were, and of their order."""
        for table in ("checkpoint_additions", "checkpoints", "tree_tiles"):
            intruder.sql(f"DELETE FROM {table}")
        intruder.sql("DELETE FROM projection_positions WHERE projection = 'tree'")

    # ── what the suite asks to see whether an edit landed ────────────────────────────────────────────

    def identity_of(self, record: Record) -> str:
        """Where in the log it lies."""
        return str(record.fields["rows"][0][0])

    def payload_of(self, record: Record) -> str:
        """What its events say; neither where they stand nor who signed them when."""
        return json.dumps([[row[3], said(row)["data"]] for row in record.fields["rows"]])

    def owner_of(self, record: Record) -> str:
        """The task."""
        return str(record.fields["owner"])

    # ── one kind of store ────────────────────────────────────────────────────────────────────────────

    def make_store(self) -> None:
        (self.folder / "store").mkdir()
        self.url = f"sqlite:///{self.folder / 'store' / 'ledger.db'}"

    def drop_store(self) -> None:
        """It goes with the folder."""

    def snapshot_store(self) -> object:
        copy = self.folder / f"copy-{uuid.uuid4().hex}"
        shutil.copytree(self.folder / "store", copy)
        return copy

    def restore_store(self, token: object) -> None:
        assert isinstance(token, Path)
        shutil.rmtree(self.folder / "store")
        shutil.copytree(token, self.folder / "store")


class CausebookPostgresAdapter(CausebookAdapter):
    """A ledger in PostgreSQL: in a database of its own, on the server that `AGMI_POSTGRES_URI` names."""

    name = "causebook-postgresql"

    def make_store(self) -> None:
        self.database = f"agmi_{uuid.uuid4().hex}"
        self.admin = os.environ["AGMI_POSTGRES_URI"]
        self.execute(f"CREATE DATABASE {self.database} TEMPLATE template0")
        self.url = f"{self.admin.rpartition('/')[0]}/{quote(self.database)}"

    def drop_store(self) -> None:
        self.execute(f"DROP DATABASE {self.database} WITH (FORCE)")

    def snapshot_store(self) -> object:
        copy = f"agmi_{uuid.uuid4().hex}"
        self.execute(f"CREATE DATABASE {copy} TEMPLATE {self.database}")
        return copy

    def restore_store(self, token: object) -> None:
        self.drop_store()
        self.execute(f"ALTER DATABASE {token} RENAME TO {self.database}")

    def execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(statement)


def said(row: list[Any]) -> dict[str, Any]:
    """What the first line of a row's record says."""
    document: dict[str, Any] = json.loads(row[4].partition("\n")[0])
    return document


def rewritten(text: str, document: dict[str, Any]) -> str:
    """A record that says something else: canonical, under the old key id and signature."""
    line = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "\n".join([line, text.partition("\n")[2]])


def digest(text: str) -> str:
    """What the record after it names it by."""
    return hashlib.sha256(text.encode()).hexdigest()
