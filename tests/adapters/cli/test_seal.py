"""`seal`, `checkpoint`, the seals of `judge`, and the tree of `rebuild`."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.cli.judge_seals import Seals
from causebook.adapters.keys import KeyFolder, read_signer
from causebook.adapters.ledger import Ledger
from causebook.adapters.sealing.cosigned import TIMESTAMPS_MAX
from causebook.adapters.signatures import verify
from causebook.adapters.store.port import TREE
from causebook.adapters.store.url import open_store
from causebook.adapters.timestamps import certificates
from causebook.adapters.timestamps import verify as stamped_at
from causebook.adapters.witness.state import Witness
from causebook.domain.checkpoint import SignedCheckpoint, cosignature_by
from causebook.domain.encoding import base64_text
from causebook.domain.errors import Busy
from causebook.domain.keyring import raw_key
from causebook.domain.note import COSIGNATURE, Note, NoteKey, is_signed_by
from causebook.projections.tree import Frontier, leaf_hash
from tests.adapters.cli.conftest import BLOCKER, PASS, Desk, invoke
from tests.adapters.logs import witness_key
from tests.adapters.timestamp_authority import TimestampAuthority
from tests.adapters.witnesses import make_witness, serving


def log_key() -> NoteKey:
    return NoteKey("a.example/t", raw_key(KeyFolder(Path("keys")).signer("log").public_key))


def root_of(desk: Desk, size: int) -> bytes:
    frontier = Frontier()
    with contextlib.closing(open_store(desk.url)) as store:
        for _, row in store.rows(limit=size):
            frontier.append(leaf_hash(row.record))
    return frontier.root()


def sizes(desk: Desk) -> list[int]:
    with contextlib.closing(open_store(desk.url)) as store:
        return [row.size for row in store.checkpoints()]


def memory() -> Path:
    (found,) = Path("keys").glob("log-*.sealed")
    return found


@pytest.fixture
def older(desk: Desk) -> Path:
    """A copy of the ledger before it was judged, sealed once; the live one is judged and sealed again."""
    assert invoke("seal").code == 0
    shutil.copy("ledger.db", "older.db")
    assert desk.judge("T-1", PASS).code == 0
    return Path("older.db")


def put_back(older: Path) -> None:
    for file in Path().glob("ledger.db*"):
        if file.is_file():
            file.unlink()
    shutil.copy(older, "ledger.db")


# ── seal and checkpoint ──────────────────────────────────────────────────────────────────────────────


def test_a_ledger_is_sealed_and_its_checkpoint_printed_byte_for_byte(desk: Desk) -> None:
    done = invoke("seal")
    assert done.code == 0
    assert done.lines[0] == "a.example/t is sealed to 4"
    assert done.lines[2] == "  new        4 records"
    assert done.lines[3] == f"  root       {base64_text(root_of(desk, 4))}"
    assert done.lines[-1] == "  next       causebook checkpoint > FILE"
    printed = invoke("checkpoint")
    assert printed.code == 0
    assert printed.out.encode() == memory().read_bytes()
    signed = SignedCheckpoint.parse(printed.out.encode())
    assert is_signed_by(signed.note, log_key(), verify)
    assert (signed.checkpoint.size, signed.checkpoint.root) == (4, root_of(desk, 4))


def test_nothing_new_is_said_and_nothing_is_signed(desk: Desk) -> None:
    invoke("seal")
    again = invoke("seal")
    assert again.code == 0
    assert again.lines[2] == "  new        nothing"
    assert sizes(desk) == [4]


def test_as_json(desk: Desk) -> None:
    document = invoke("seal", "--json").json
    assert (document["origin"], document["size"], document["new"]) == ("a.example/t", 4, 4)
    assert (document["cosignatures"], document["failures"], document["timestamp"]) == ([], [], None)
    shown = invoke("checkpoint", "--json").json
    assert shown["note"] == document["note"] == invoke("checkpoint").out
    assert shown["root"] == document["root"] == base64_text(root_of(desk, 4))


def test_an_earlier_checkpoint_is_printed_by_its_size(desk: Desk) -> None:
    invoke("seal")
    first = invoke("checkpoint").out
    desk.judge("T-1", PASS)
    assert invoke("checkpoint").out != first
    assert invoke("checkpoint", "--size", "4").out == first
    missing = invoke("checkpoint", "--size", "5")
    assert missing.code == 66
    assert "no checkpoint of size 5" in missing.err


@pytest.mark.parametrize("size", ["0", "-1", "007", "4.0", "x", "", "9" * 40])
def test_a_size_that_is_none_is_wrong_use(desk: Desk, size: str) -> None:
    done = invoke("checkpoint", "--size", size)
    assert done.code == 64
    assert "--size: expected a whole number from 1" in done.err


def test_a_ledger_that_was_never_sealed_has_no_checkpoint(desk: Desk) -> None:
    done = invoke("checkpoint")
    assert done.code == 66
    assert done.err.endswith("hint: causebook seal makes one\n")


def test_a_checkpoint_that_is_not_that_of_the_records_is_not_handed_out(desk: Desk) -> None:
    invoke("seal")
    with contextlib.closing(sqlite3.connect("ledger.db", isolation_level=None)) as db:
        ((sql,),) = db.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'checkpoints_update'"
        ).fetchall()
        db.execute("DROP TRIGGER checkpoints_update")
        db.execute(
            "UPDATE checkpoints SET note = ?", (memory().read_bytes().replace(b"\n4\n", b"\n3\n"),)
        )
        db.execute(sql)
    done = invoke("checkpoint")
    assert (done.code, done.out) == (65, "")


def test_the_seal_of_a_ledger_that_another_process_seals_is_busy_in_one_line(desk: Desk) -> None:
    with contextlib.closing(open_store(desk.url)) as store, store.projector(TREE):
        done = invoke("seal", "--lock-timeout", "0")
    assert done.code == 75
    error, hint = done.err.splitlines()
    assert error == "error: another process seals this ledger"
    assert hint == "hint: try again once it is done"
    assert invoke("seal").code == 0


def test_without_the_log_key_nothing_is_sealed(desk: Desk) -> None:
    Path("keys/log.pem").unlink()
    done = invoke("seal")
    assert done.code == 77
    assert sizes(desk) == []


def test_a_retired_log_key_seals_nothing_and_its_successor_seals_on(desk: Desk) -> None:
    invoke("seal")
    retired = log_key()
    rotated = invoke("keys", "rotate", "log")
    assert rotated.code == 0, rotated.err
    done = invoke("keys", "retire", retired_id(), "--trusted-until", "4", "--reason", "lost laptop")
    assert done.code == 0, done.err
    assert invoke("seal").code == 0
    newest = SignedCheckpoint.parse(invoke("checkpoint").out.encode())
    assert newest.checkpoint.size == 6
    assert newest.checkpoint.root == root_of(desk, 6)
    assert not is_signed_by(newest.note, retired, verify)
    # The retired one alone is left.
    for file in Path("keys").glob("log*.pem"):
        if read_signer(file, "log").keyid != retired_id():
            file.unlink()
    alone = invoke("seal")
    assert (alone.code, alone.out) == (77, "")
    assert sizes(desk) == [4, 6]


def retired_id() -> str:
    """The key id of the log key that was there first."""
    keys = invoke("keys", "list", "--json").json["keys"]
    return min((key for key in keys if key["role"] == "log"), key=lambda key: int(key["enrolled"]))[
        "keyid"
    ]


def test_an_older_copy_is_not_sealed_on(desk: Desk, older: Path) -> None:
    newest = sizes(desk)[-1]
    put_back(older)
    done = invoke("seal")
    assert done.code == 26
    error, hint = done.err.splitlines()
    assert error == (
        f"error: a.example/t: expected {newest} records or more, as it was sealed, found 4: the store was"
        " rolled back"
    )
    assert "causebook init --continues CHECKPOINT" in hint
    assert sizes(desk) == [4]


def test_a_memory_that_is_gone_is_told_and_the_ledger_taken_up_when_told_to(desk: Desk) -> None:
    invoke("seal")
    memory().unlink()
    refused = invoke("seal")
    assert refused.code == 77
    assert "seal --adopt takes up the store as it is, even rolled back" in refused.err
    assert invoke("seal", "--adopt").lines[0] == "a.example/t is sealed to 4"
    assert invoke("seal").code == 0


def write_policy(*witnesses: tuple[str, str]) -> None:
    """A policy file, of witnesses by their names and URLs, that asks for all of them."""
    lines = [f"log {log_key().vkey}"]
    lines += [
        f"witness W{n} {witness_key(name).vkey} {url}" for n, (name, url) in enumerate(witnesses)
    ]
    members = " ".join(f"W{n}" for n in range(len(witnesses)))
    lines += [f"group every all {members}", "quorum every"]
    Path("policy").write_text("".join(f"{line}\n" for line in lines))


def test_witnesses_cosign_by_policy_and_one_that_is_named_twice_once(
    desk: Desk, tmp_path: Path
) -> None:
    names = ("w1.example/w", "w2.example/w")
    made = [make_witness(tmp_path / n[:2], n, [log_key()], lambda: 1_800_000_000) for n in names]
    with serving(made[0]) as one, serving(made[1]) as two:
        write_policy((names[0], one.url), (names[1], two.url))
        done = invoke("seal", "--witness", one.url, "--policy", "policy")
        assert done.code == 0, done.err
        assert [line for line in done.lines if "cosigned" in line] == [
            f"  cosigned   {name}" for name in names
        ]
        shown = invoke("checkpoint").out
    note = SignedCheckpoint.parse(shown.encode()).note
    assert len(note.signatures) == 3
    for name in names:
        assert cosignature_by(note, witness_key(name), verify) is not None
    assert is_signed_by(note, log_key(), verify)


def test_a_witness_cosigns_by_the_key_that_was_enrolled(desk: Desk, tmp_path: Path) -> None:
    assert invoke("keys", "enrol", "witness", "--name", "w1.example/w").code == 0
    own = KeyFolder(Path("keys")).signer("witness")
    key = NoteKey("w1.example/w", raw_key(own.public_key), COSIGNATURE)
    witness = Witness(key, own.sign, (log_key(),), tmp_path / "w", verify)
    witness.prepare()
    with serving(witness) as server:
        done = invoke("seal", "--witness", server.url)
    assert (done.code, done.err) == (0, "")
    assert "  cosigned   w1.example/w" in done.lines
    assert cosignature_by(newest_note(), key, verify) is not None


def newest_note() -> Note:
    return SignedCheckpoint.parse(invoke("checkpoint").out.encode()).note


def test_a_witness_whose_key_nobody_knows_is_refused_in_one_line_before_the_seal(
    desk: Desk, tmp_path: Path
) -> None:
    with serving(make_witness(tmp_path / "w", "w1.example/w", [log_key()], lambda: 1)) as server:
        done = invoke("seal", "--witness", server.url)
        assert (done.code, done.out) == (77, "")
        error, hint = done.err.splitlines()
        assert error == f"error: witness {server.url}: expected its key to be known, found none"
        assert "--policy FILE" in hint
        assert "causebook keys enrol witness" in hint
        assert sizes(desk) == []
        write_policy(("w1.example/w", server.url))
        assert invoke("seal", "--policy", "policy").code == 0


def test_a_witness_that_does_not_know_the_log_leaves_the_checkpoint_without_it(
    desk: Desk, tmp_path: Path
) -> None:
    with serving(make_witness(tmp_path / "w", "w1.example/w", [], lambda: 1)) as server:
        write_policy(("w1.example/w", server.url))
        done = invoke("seal", "--policy", "policy")
        assert done.code == 77
        assert done.lines[0] == "a.example/t is sealed to 4"
        assert "does not know this log" in done.err
        # From now on it could have seen more: nothing is signed until it is left out, or knows the log.
        desk.judge("T-1", PASS)
        before = sizes(desk)
        assert invoke("keys", "enrol", "exporter", "--name", "Exports").code == 0
        again = invoke("seal", "--policy", "policy")
        assert (again.code, again.out) == (77, "")
        assert "does not know this log" in again.err
    assert sizes(desk) == before


# ── timestamps ───────────────────────────────────────────────────────────────────────────────────────


def timestamps() -> tuple[bytes, ...]:
    with contextlib.closing(open_store("sqlite:///ledger.db")) as store:
        row = store.checkpoint()
        assert row is not None
        return row.timestamps


def test_an_authority_stamps_the_checkpoint(desk: Desk, tmp_path: Path) -> None:
    with TimestampAuthority(tmp_path / "tsa") as authority:
        done = invoke("seal", "--timestamp", authority.url)
        assert (done.code, done.err) == (0, "")
        assert f"  timestamp  {authority.url}" in done.lines
        assert len(authority.asked) == 1
        as_json = invoke("seal", "--timestamp", authority.url, "--json").json
        assert (as_json["timestamp"], as_json["failures"]) == (authority.url, [])
    assert len(timestamps()) == 2
    for reply in timestamps():
        stamped_at(reply, newest_note().text.encode(), certificates([authority.root]))
    done = invoke("verify", "--no-pin", "--tsa-ca", str(authority.root), "--json")
    (time,) = [check for check in done.json["checks"] if check["check"] == "time"]
    assert time["status"] == "PASS"


def test_an_authority_that_fails_is_named_and_leaves_the_checkpoint_without(
    desk: Desk, tmp_path: Path
) -> None:
    with TimestampAuthority(tmp_path / "tsa") as authority:
        authority.replies += [b"junk", b"junk"]
        done = invoke("seal", "--timestamp", authority.url)
        assert done.code == 69
        assert done.lines[0] == "a.example/t is sealed to 4"
        assert not any("timestamp" in line for line in done.lines)
        again = invoke("seal", "--timestamp", authority.url, "--json")
        assert again.code == 69
        (failure,) = again.json["failures"]
        assert failure["timestamp"] == authority.url
        assert failure["error"] in again.err
        assert again.json["timestamp"] is None
    assert timestamps() == ()
    assert sizes(desk) == [4]


def test_of_a_checkpoint_16_timestamps_are_kept_and_no_more_asked_for(
    desk: Desk, tmp_path: Path
) -> None:
    assert invoke("seal").code == 0
    with contextlib.closing(open_store(desk.url)) as store:
        for number in range(TIMESTAMPS_MAX):
            store.add_to_checkpoint(4, "timestamp", b"reply %d" % number)
    with TimestampAuthority(tmp_path / "tsa") as authority:
        done = invoke("seal", "--timestamp", authority.url)
        assert done.code == 0
        assert "  timestamp  16 are kept already; no more is asked for" in done.lines
        assert invoke("seal", "--timestamp", authority.url, "--json").json["timestamp"] is None
        assert authority.asked == []
    assert len(timestamps()) == TIMESTAMPS_MAX


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--witness", "ftp://w.example"), 64),
        (("--policy", "dead"), 69),
        (("--policy", "absent"), 66),
        (("--policy", "ledger.db"), 65),
    ],
)
def test_what_cannot_be_asked_stops_the_seal_before_it(
    desk: Desk, arguments: tuple[str, str], code: int
) -> None:
    write_policy(("w1.example/w", "http://127.0.0.1:9"))
    Path("policy").rename("dead")
    done = invoke("seal", *arguments)
    assert done.code == code, done.err
    assert done.out == ""
    assert sizes(desk) == []


# ── the seals of judge ───────────────────────────────────────────────────────────────────────────────


def test_judge_seals_when_its_panel_is_convened_and_after_its_decision(desk: Desk) -> None:
    assert desk.judge("T-1", BLOCKER).code == 10
    kinds = [json.loads(line)["type"] for line in invoke("log", "--json").lines]
    convened = kinds.index("PanelConvened") + 1
    assert sizes(desk) == [convened, len(kinds)]
    assert kinds[-1] == "AttemptClosed"


def test_judge_without_the_log_key_goes_on_and_says_so(desk: Desk) -> None:
    Path("keys/log.pem").unlink()
    done = desk.judge("T-1", PASS)
    assert done.code == 0
    at = next(n for n, line in enumerate(done.lines) if line.startswith("not sealed:"))
    assert "log key" in " ".join(done.lines[at : at + 4])
    assert done.lines[-1].startswith("passed")
    assert sizes(desk) == []
    as_json = desk.judge("T-2", PASS, options=("--json",))
    assert as_json.code == 0
    assert as_json.json["task_id"] == "T-2"
    assert "warning: not sealed: " in as_json.err


def test_judge_with_a_log_key_that_cannot_be_used_stops_before_anything_is_recorded(
    desk: Desk,
) -> None:
    """One that is elsewhere is no fault; one that lies here, open to all, is."""
    before = len(invoke("log", "--json").lines)
    Path("keys/log.pem").chmod(0o644)
    done = desk.judge("T-1", PASS)
    assert done.code == 77
    assert "log.pem: expected mode 0600, found 0644" in done.err
    Path("keys/log.pem").chmod(0o600)
    Path("keys/log.pem").write_text("no key\n")
    assert desk.judge("T-1", PASS).code == 77
    assert len(invoke("log", "--json").lines) == before


def test_judge_whose_log_is_sealed_by_others_says_so(desk: Desk) -> None:
    with contextlib.closing(open_store(desk.url)) as store, store.projector(TREE):
        done = desk.judge("T-1", PASS, options=("--lock-timeout", "0"))
    assert done.code == 0
    assert "not sealed: another process seals this ledger" in done.out
    assert invoke("seal").code == 0


def test_judge_whose_turn_to_seal_comes_late_seals_the_next_time(desk: Desk) -> None:
    with Ledger.open(desk.url, keys="keys") as ledger:
        seals = Seals(ledger, 0.0)
        with contextlib.closing(open_store(desk.url)) as store, store.projector(TREE):
            seals.check()
            seals.seal()
            assert seals.missing == "another process seals this ledger"
        assert sizes(desk) == []
        seals.seal()
        assert (seals.missing, sizes(desk)) == ("", [4])


class Overtaken:
    """A store whose tree another sealer wrote to, the first time."""

    def __init__(self, store: Any) -> None:
        self._store, self.times = store, 0

    def seal(self, *tiles: Any, **positions: Any) -> None:
        self.times += 1
        if self.times == 1:
            raise Busy("the tree: expected position 4, found 5")
        self._store.seal(*tiles, **positions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_judge_that_is_overtaken_by_another_sealer_tries_again(desk: Desk) -> None:
    with Ledger.open(desk.url, keys="keys") as ledger:
        store = Overtaken(ledger.writer.store)
        ledger.writer.store = store
        seals = Seals(ledger, 30.0)
        seals.seal()
        assert (seals.missing, store.times, sizes(desk)) == ("", 2, [4])


def test_judge_whose_memory_of_seals_cannot_be_read_records_nothing(desk: Desk) -> None:
    """A disk that fails is no missing key: judging on would leave off sealing without a word."""
    assert invoke("seal").code == 0
    path, before = memory(), invoke("log").out
    path.rename("kept")
    path.mkdir()
    done = desk.judge("T-1", PASS)
    assert done.code == 74, (done.out, done.err)
    assert str(path) in done.err
    path.rmdir()
    gone = desk.judge("T-1", PASS)
    assert gone.code == 77
    assert "seal --adopt takes up the store as it is" in gone.err
    assert invoke("log").out == before
    Path("kept").rename(path)
    assert desk.judge("T-1", PASS).code == 0


def test_judge_on_an_older_copy_records_nothing(desk: Desk, older: Path) -> None:
    put_back(older)
    before = invoke("log").out
    done = desk.judge("T-2", PASS)
    assert done.code == 26
    assert "the store was rolled back" in done.err
    assert invoke("log").out == before
    assert sizes(desk) == [4]


def test_judge_on_a_record_that_does_not_hold_records_nothing(desk: Desk) -> None:
    desk.judge("T-1", PASS)
    invoke("seal")
    with contextlib.closing(sqlite3.connect("ledger.db", isolation_level=None)) as db:
        db.execute(
            "INSERT INTO stored_events (originator_id, originator_version, topic, state)"
            " VALUES ('task/T-9', 1, 'TaskOpened', x'7b7d0a0a')"
        )
    with contextlib.closing(open_store(desk.url)) as store:
        before = store.count()
        done = desk.judge("T-2", PASS)
        assert done.code == 65
        assert "task/T-9 v1: expected a record" in done.err
        assert "nothing is sealed over it" in done.err
        assert store.count() == before


# ── rebuild ──────────────────────────────────────────────────────────────────────────────────────────


def test_rebuild_makes_the_tree_anew_to_the_same_root(desk: Desk) -> None:
    desk.judge("T-1", PASS)
    done = invoke("rebuild")
    assert done.code == 0
    assert done.lines[0] == "rebuilt, equal to what was there"
    records = len(invoke("log", "--json").lines)
    root = root_of(desk, records)
    assert done.lines[-1].split() == ["tree", str(records), "records", "root", f"{root.hex()[:8]}…"]
    document = invoke("rebuild", "--json").json
    assert document["tree"] == {"size": records, "root": base64_text(root)}


def test_rebuild_names_a_tile_that_differed(desk: Desk) -> None:
    desk.judge("T-1", PASS)
    with contextlib.closing(sqlite3.connect("ledger.db", isolation_level=None)) as db:
        db.execute("UPDATE tree_tiles SET hashes = zeroblob(length(hashes))")
    done = invoke("rebuild")
    assert done.code == 23
    assert done.lines[0] == "rebuilt; the tree differed from the events"
    assert "  tree 0/0" in done.lines
    assert invoke("rebuild").code == 0


def test_rebuild_names_a_checkpoint_that_the_records_do_not_reach(desk: Desk, older: Path) -> None:
    with contextlib.closing(open_store(desk.url)) as store:
        newest = store.checkpoint()
        assert newest is not None
    put_back(older)
    with contextlib.closing(sqlite3.connect("ledger.db", isolation_level=None)) as db:
        db.execute("INSERT INTO checkpoints VALUES (?, ?)", (newest.size, newest.note))
    done = invoke("rebuild")
    assert done.code == 23
    assert f"  tree checkpoint {newest.size}" in done.lines
