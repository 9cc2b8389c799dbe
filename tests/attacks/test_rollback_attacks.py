"""Attacks on what is there no more: a tail cut off, an older copy put back, another history in its place.

The operator holds the store and every key. What finds them is what somebody else kept: a pin of an earlier
look, a checkpoint, a trust file, a witness; without any of these a whole older copy is a whole older ledger,
and the report says that nothing was at hand to hold it against. Each attack has its untouched twin.
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from causebook.adapters.ledger import Ledger
from causebook.adapters.store.url import open_store
from causebook.domain.checkpoint import SignedCheckpoint, cosign
from causebook.domain.note import NoteKey
from tests.adapters.cli.conftest import Done, invoke
from tests.adapters.forge import verdict
from tests.adapters.ledgers import hear_each, judges
from tests.adapters.logs import private_key, witness_key
from tests.attacks.intruder import Intruder

ORIGIN = "audit.example.com/team"
TABLES = (
    *("stored_events", "evidence", "projection_rows", "projection_positions", "tree_tiles"),
    *("checkpoints", "checkpoint_additions"),
)
"""Every table that a ledger's history is in; what another hangs on comes first."""

Copy = dict[str, list[tuple[Any, ...]]]


class Office:
    """A ledger with two tasks, the store it is in, and whoever owns both."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder, self.keys = url, folder, folder / "keys"
        Ledger.found(url, keys=self.keys, origin=ORIGIN).close()
        self.judge("T-1")
        self.judge("T-2")

    def judge(self, task: str) -> None:
        """Have a task judged; nothing is sealed."""
        with Ledger.open(self.url, keys=self.keys) as ledger:
            attempt = ledger.task(task).start_attempt()
            with attempt.convene("post_execute", "any", judges("a")) as panel:
                hear_each(panel, {"a": [verdict("pass")]})

    def seal(self) -> SignedCheckpoint:
        with Ledger.open(self.url, keys=self.keys) as ledger:
            return ledger.seal().checkpoint

    def forget_seals(self) -> None:
        """Lose what the log key's holder remembers of what was sealed."""
        for file in self.keys.glob("*.sealed"):
            file.unlink()

    def verify(self, *options: str) -> Done:
        return invoke("verify", "--ledger", self.url, *options, "--json")

    def copy(self) -> Copy:
        with Intruder(self.url) as intruder:
            return {table: intruder.sql(f"SELECT * FROM {table}") for table in TABLES}

    def put_back(self, copy: Copy) -> None:
        """Have every table hold what it held then."""
        with Intruder(self.url) as intruder:
            for table in reversed(TABLES):
                intruder.sql(f"DELETE FROM {table}")
            for table in TABLES:
                is_identity = table == "stored_events" and intruder.row_id != "rowid"
                overriding = "OVERRIDING SYSTEM VALUE" if is_identity else ""
                for row in copy[table]:
                    marks = ", ".join("?" * len(row))
                    intruder.sql(f"INSERT INTO {table} {overriding} VALUES ({marks})", *row)

    @property
    def log_key(self) -> NoteKey:
        private: Any = load_pem_private_key((self.keys / "log.pem").read_bytes(), None)
        return NoteKey(ORIGIN, private.public_key().public_bytes_raw())

    def records(self) -> int:
        with closing(open_store(self.url)) as store:
            return store.count()


@pytest.fixture
def office(store_url: str, tmp_path: Path) -> Office:
    return Office(store_url, tmp_path)


def look_twice(office: Office) -> None:
    """The auditor looks: a first look, and one that holds what it left."""
    assert office.verify().code == 20
    assert office.verify().code == 0


def failed(done: Done) -> set[str]:
    return {check["check"] for check in done.json["checks"] if check["status"] == "FAIL"}


def finding(done: Done, check: str) -> dict[str, Any]:
    """The first finding of a check."""
    named = next(each for each in done.json["checks"] if each["check"] == check)
    found: dict[str, Any] = named["findings"][0]
    return found


def cut_records(office: Office, count: int) -> None:
    """Delete the newest records, from the newest back, as no trigger is there to forbid it."""
    with Intruder(office.url) as intruder:
        query = "SELECT originator_id, originator_version FROM stored_events"
        rows = intruder.sql(f"{query} ORDER BY {intruder.row_id}")
        for stream, version in reversed(rows[-count:]):
            intruder.delete(stream, version)


def cut_seals(office: Office, size: int) -> None:
    """Delete every checkpoint over more than `size` records, and tiles and position with them."""
    with Intruder(office.url) as intruder:
        intruder.sql("DELETE FROM checkpoint_additions WHERE size > ?", size)
        intruder.sql("DELETE FROM checkpoints WHERE size > ?", size)
        intruder.sql("DELETE FROM tree_tiles")
        intruder.sql("DELETE FROM projection_positions")
        intruder.sql("DELETE FROM projection_rows")


# ── the twin of them all ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sealed", [False, True])
def test_the_twin_a_ledger_that_only_grows_holds_at_every_look(
    office: Office, sealed: bool
) -> None:
    if sealed:
        office.seal()
    look_twice(office)
    for task in ("T-3", "T-4"):
        office.judge(task)
        if sealed:
            office.seal()
        for options in ((), ("--from-pin",)):
            done = office.verify(*options)
            assert (done.code, failed(done)) == (0, set())


def test_the_twin_a_ledger_copied_and_put_back_as_it_was_holds(office: Office) -> None:
    office.seal()
    look_twice(office)
    office.put_back(office.copy())
    done = office.verify()
    assert (done.code, failed(done)) == (0, set())


# ── a tail cut off ───────────────────────────────────────────────────────────────────────────────────


def test_the_tail_cut_off_the_records_alone_of_a_sealed_ledger(office: Office) -> None:
    """Found at a first look: the checkpoint in the same store says how many there were."""
    office.seal()
    size = office.records()
    cut_records(office, 3)
    done = office.verify("--no-pin")
    assert (done.code, done.json["codes"]) == (26, [26, 23])
    tree = next(check for check in done.json["checks"] if check["check"] == "tree")
    assert tree["findings"][-1] == {
        "place": f"checkpoint {size}",
        "expected": f"{size} records or more",
        "found": str(size - 3),
        "code": 26,
    }
    assert tree["findings"][0]["expected"] == f"none beyond record {size - 4}"


def test_the_tail_cut_off_the_records_alone_of_an_unsealed_ledger(office: Office) -> None:
    look_twice(office)
    size = office.records()
    cut_records(office, 3)
    for options in ((), ("--from-pin",)):
        done = office.verify(*options)
        assert done.code == 26
        assert finding(done, "consistency")["expected"] == f"{size} records or more, as it had then"
    first_look = office.verify("--no-pin")
    named = next(c for c in first_look.json["checks"] if c["check"] == "consistency")
    assert (first_look.code, named["status"]) == (20, "NOT CHECKED")


def test_the_tail_cut_off_the_checkpoints_alone(office: Office) -> None:
    first = office.seal().checkpoint.size
    office.judge("T-3")
    newest = office.seal().checkpoint.size
    look_twice(office)
    cut_seals(office, first)
    done = office.verify()
    assert (done.code, failed(done)) == (26, {"consistency"})
    assert finding(done, "consistency")["expected"] == (
        f"a checkpoint of size {newest} in the store, as then"
    )
    assert office.verify("--no-pin").code == 20


@pytest.mark.parametrize("sealed", [False, True])
def test_the_tail_cut_off_every_table(office: Office, sealed: bool) -> None:
    """A whole task is gone, with all that was derived and sealed of it."""
    first = office.seal().checkpoint.size if sealed else 0
    before = office.records()
    office.judge("T-3")
    if sealed:
        office.seal()
    look_twice(office)
    cut_records(office, office.records() - before)
    cut_seals(office, first)
    for options in ((), ("--from-pin",)):
        done = office.verify(*options)
        assert (done.code, failed(done)) == (26, {"consistency"})
    # Without any earlier look there is nothing that could tell; and that is what is said.
    first_look = office.verify("--no-pin")
    assert (first_look.code, failed(first_look)) == (20, set())


def test_a_cut_tail_against_a_checkpoint_that_was_kept(office: Office, tmp_path: Path) -> None:
    first = office.seal().checkpoint.size
    office.judge("T-3")
    kept = tmp_path / "kept.txt"
    kept.write_bytes(office.seal().note.raw)
    before = office.records()
    assert office.verify("--no-pin", "--checkpoint", str(kept)).code == 20
    cut_records(office, before - first)
    cut_seals(office, first)
    done = office.verify("--no-pin", "--checkpoint", str(kept))
    assert (done.code, failed(done)) == (26, {"consistency"})


def test_one_task_s_last_events_and_its_head_dropped(office: Office) -> None:
    """The end of T-1, its AttemptClosed with the heads included, in the middle of the log."""
    office.seal()
    look_twice(office)
    with Intruder(office.url) as intruder:
        rows = intruder.sql(
            "SELECT originator_version, topic FROM stored_events WHERE originator_id = 'task/T-1'"
            " ORDER BY originator_version"
        )
        kinds = [topic for _, topic in rows]
        assert kinds[-2:] == ["AttemptClosed", "TaskCompleted"]
        for version, _ in reversed(rows[kinds.index("PanelDecided") :]):
            intruder.delete("task/T-1", version)
    done = office.verify()
    assert (done.code, failed(done)) == (26, {"tree", "consistency"})
    # Every chain holds still, and by its records the panel was just never decided: the tree alone tells.
    assert failed(office.verify("--no-pin")) == {"tree"}
    # Others in the place of those that are gone make up the number, and not the root.
    office.judge("T-9")
    done = office.verify()
    assert (done.code, failed(done)) == (28, {"tree", "consistency"})
    assert {27, 28} <= set(done.json["codes"])


# ── an older copy put back ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sealed", [False, True])
def test_an_older_copy_put_back(office: Office, sealed: bool) -> None:
    if sealed:
        office.seal()
    copy = office.copy()
    office.judge("T-3")
    if sealed:
        office.seal()
    look_twice(office)
    office.put_back(copy)
    done = office.verify()
    assert (done.code, failed(done)) == (26, {"consistency"})
    assert office.verify("--no-pin").code == 20


def test_an_older_copy_put_back_and_sealed_on(office: Office) -> None:
    """The sealer refuses; one that lost its memory signs, and is convicted by what it signed before."""
    office.seal()
    copy = office.copy()
    office.judge("T-3")
    kept = office.folder / "kept.txt"
    kept.write_bytes(office.seal().note.raw)
    look_twice(office)
    office.put_back(copy)
    office.judge("T-4")
    at = ("--ledger", office.url, "--keys", str(office.keys))
    assert invoke("seal", *at).code in (26, 27)
    office.forget_seals()
    assert invoke("seal", *at, "--adopt").code == 0
    done = office.verify("--checkpoint", str(kept))
    assert done.code == 27
    assert done.json["split_view"] is True


# ── another history ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sealed", [False, True])
def test_forked_after_some_records(office: Office, sealed: bool) -> None:
    """The same keys tell another history from a point on, and a longer one."""
    copy = office.copy()
    office.judge("T-3")
    if sealed:
        office.seal()
    look_twice(office)
    office.put_back(copy)
    office.judge("T-4")
    office.judge("T-5")
    if sealed:
        office.forget_seals()
        office.seal()
    for options in ((), ("--from-pin",)):
        done = office.verify(*options)
        assert done.code == 27
        assert "consistency" in failed(done)
        assert done.json["from_pin"] is None
        assert done.json["split_view"] is sealed
    assert office.verify("--no-pin").code == 20


def test_found_again_under_the_same_name_and_at_the_same_place(
    office: Office, tmp_path: Path
) -> None:
    look_twice(office)
    elsewhere = f"sqlite:///{tmp_path / 'another.db'}"
    # Another founding under the name, elsewhere.
    Ledger.found(elsewhere, keys=tmp_path / "new", origin=ORIGIN).close()
    done = invoke("verify", "--ledger", elsewhere, "--json")
    assert (done.code, failed(done)) == (27, {"consistency"})
    assert finding(done, "consistency")["expected"].startswith("founding ")
    # Another name at the place: the ledger that lay there is put elsewhere.
    empty(office)
    Ledger.found(office.url, keys=tmp_path / "third", origin="other.example").close()
    done = office.verify()
    assert (done.code, failed(done)) == (27, {"consistency"})
    assert finding(done, "consistency")["place"] == "this place"
    # And both at once.
    empty(office)
    Ledger.found(office.url, keys=tmp_path / "fourth", origin=ORIGIN).close()
    done = office.verify()
    assert (done.code, failed(done)) == (27, {"consistency"})
    # The user who did it themselves says so.
    assert invoke("pins", "forget", ORIGIN).code == 0
    assert office.verify().code == 20


def empty(office: Office) -> None:
    """Take the ledger away."""
    if office.url.startswith("sqlite:///"):
        for suffix in ("", "-wal", "-shm"):
            Path(office.url.removeprefix("sqlite:///") + suffix).unlink(missing_ok=True)
        return
    import psycopg

    with psycopg.connect(office.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA causebook CASCADE")


# ── what the trust file and witnesses are for ────────────────────────────────────────────────────────


def test_a_retirement_left_out(office: Office, tmp_path: Path) -> None:
    """The key that leaked was ended; whoever has it drops that record, which is the newest."""
    kept = tmp_path / "kept.txt"
    kept.write_bytes(office.seal().note.raw)
    at = ("--ledger", office.url, "--keys", str(office.keys))
    engine = next(
        key["keyid"]
        for key in invoke("keys", "list", "--ledger", office.url, "--json").json["keys"]
        if key["role"] == "engine"
    )
    retired = invoke(
        *("keys", "retire", engine, "--compromised", "--trusted-until", str(kept)),
        *("--reason", "It leaked.", *at),
    )
    assert retired.code == 0, retired.err
    trust = tmp_path / "trust.json"
    trust.write_text(invoke("keys", "export", "--trust", "--ledger", office.url).out)
    whole = office.verify("--no-pin", "--trust", str(trust))
    assert (whole.code, failed(whole)) == (0, set())
    cut_records(office, 1)
    cut_seals(office, SignedCheckpoint.parse(kept.read_bytes()).checkpoint.size)
    done = office.verify("--no-pin", "--trust", str(trust))
    assert (done.code, failed(done)) == (26, {"consistency"})
    assert office.verify("--no-pin").code == 20


def test_a_stale_checkpoint_under_valid_cosignatures(office: Office, tmp_path: Path) -> None:
    """What an operator shows who is kept in the dark: all of it is genuine, and old."""
    names = ("w1.example", "w2.example", "w3.example")
    size, note = office.seal().checkpoint.size, office.seal().note
    then = int(time.time()) - 8 * 86400
    with closing(open_store(office.url)) as store:
        for name in names:
            line = cosign(note.text, witness_key(name), then, private_key(name).sign).line
            store.add_to_checkpoint(size, "cosignature", line.encode())
    policy = tmp_path / "policy"
    lines = [f"log {office.log_key.vkey}"]
    lines += [f"witness {name} {witness_key(name).vkey}" for name in names]
    lines += [f"group two 2 {' '.join(names)}", "quorum two"]
    policy.write_text("".join(f"{line}\n" for line in lines))
    held = office.verify("--no-pin", "--policy", str(policy))
    assert (held.code, failed(held)) == (0, set())
    assert office.verify("--no-pin", "--policy", str(policy), "--max-age", "10d").code == 0
    done = office.verify("--no-pin", "--policy", str(policy), "--max-age", "7d")
    assert (done.code, failed(done)) == (22, {"witnesses"})
    # One witness that signs anew makes no quorum younger: two would have to.
    with closing(open_store(office.url)) as store:
        name = names[0]
        now = cosign(note.text, witness_key(name), int(time.time()), private_key(name).sign)
        store.add_to_checkpoint(size, "cosignature", now.line.encode())
    assert office.verify("--no-pin", "--policy", str(policy), "--max-age", "7d").code == 22
