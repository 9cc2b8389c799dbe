"""What `verify` is held against and told to ask for, as a person types it; and the pins that it keeps."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from jsonschema import Draft202012Validator

from causebook.adapters import split_view
from causebook.adapters.findings import CHECKS
from causebook.adapters.ledger import Ledger
from causebook.adapters.signatures import verifier
from causebook.adapters.store.url import open_store
from causebook.adapters.verification.pins import Pins
from causebook.adapters.witness.server import WitnessServer
from causebook.domain.note import NoteKey
from causebook.domain.proof import SplitView
from tests.adapters.cli.conftest import BLOCKER, PASS, WARN, Desk, Done, invoke
from tests.adapters.timestamp_authority import TimestampAuthority
from tests.adapters.witnesses import make_witness, serving
from tests.tools import tool

ORIGIN = "a.example/t"


def check(done: Done, name: str) -> dict[str, Any]:
    """One check of a report in JSON."""
    found: dict[str, Any] = next(each for each in done.json["checks"] if each["check"] == name)
    return found


def failed(done: Done) -> set[str]:
    return {each["check"] for each in done.json["checks"] if each["status"] == "FAIL"}


def line(done: Done, name: str) -> str:
    """What the page says of one check, on one line."""
    at = next(n for n, text in enumerate(done.lines) if text[2:14].strip() == name)
    rest = [done.lines[at][29:]]
    for text in done.lines[at + 1 :]:
        if text[:29].strip():
            break
        rest.append(text.strip())
    return " ".join(rest).strip()


def refused(done: Done, code: int, *words: str) -> None:
    assert done.code == code, (done.out, done.err)
    assert done.out == ""
    first, *hints = done.err.splitlines()
    assert first.startswith("error: ")
    assert len(hints) <= 1
    assert all(word in done.err for word in words), done.err


def checkpoint(file: str) -> str:
    """Keep the newest checkpoint, as an auditor does."""
    done = invoke("checkpoint")
    assert done.code == 0, done.err
    Path(file).write_bytes(done.out.encode())
    return file


def rolled_back(desk: Desk) -> Callable[[], None]:
    """What puts the ledger back to as it is now, the log key's memory as well."""
    kept = desk.folder.parent / f"kept-{len(list(desk.folder.parent.iterdir()))}"
    shutil.copytree(desk.folder, kept)

    def restore() -> None:
        for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
            (desk.folder / name).unlink(missing_ok=True)
        shutil.rmtree(desk.folder / "keys")
        shutil.copytree(kept / "keys", desk.folder / "keys")
        shutil.copy(kept / "ledger.db", desk.folder / "ledger.db")

    return restore


# ── pins ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_second_look_is_held_against_the_first(desk: Desk, state_folder: Path) -> None:
    desk.judge("T-1", PASS)
    first = invoke("verify", "--json")
    assert (first.code, first.err, check(first, "consistency")["status"]) == (20, "", "NOT CHECKED")
    assert (state_folder / "pins").is_dir()
    second = invoke("verify")
    assert (second.code, second.err) == (0, "")
    day = time.strftime("%Y-%m-%d", time.gmtime())
    records = first.json["records"]
    assert line(second, "consistency") == f"holds the pin of {day}, size {records}"
    assert second.lines[-1] == f"intact, complete as of size {records}"


def test_init_pins_what_it_founds(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAUSEBOOK_LEDGER", "sqlite:///new.db")
    monkeypatch.setenv("CAUSEBOOK_KEYS", "new-keys")
    assert invoke("init", "--origin", "b.example").code == 0
    (pin,) = Pins.of_user().all()
    assert (pin.seen.origin, pin.seen.size, pin.seen.checkpoint) == ("b.example", 4, None)
    assert pin.locations == (f"sqlite:///{desk.folder}/new.db",)
    done = invoke("verify")
    assert done.code == 0
    assert done.lines[-1] == "intact, 4 records, of which 4 are not sealed yet"


def test_init_founds_no_second_ledger_of_a_known_name(desk: Desk) -> None:
    invoke("verify")
    before = desk.state()
    new = ("init", "--ledger", "sqlite:///new.db", "--keys", "new", "--origin", ORIGIN)
    refused(invoke(*new), 73, f"'{ORIGIN}'", f"causebook pins forget {ORIGIN}")
    assert desk.state() == before
    assert invoke("pins", "forget", ORIGIN).code == 0
    assert invoke(*new).code == 0


def test_no_pin_neither_reads_nor_moves(desk: Desk, state_folder: Path) -> None:
    for _ in range(2):
        done = invoke("verify", "--no-pin", "--json")
        assert (done.code, list(state_folder.iterdir())) == (20, [])
        assert check(done, "consistency")["note"] == "no pin is read: nothing to hold it against"
    invoke("verify")
    kept = Pins.of_user().all()
    desk.judge("T-1", PASS)
    assert invoke("verify", "--no-pin").code == 20
    assert Pins.of_user().all() == kept


def test_a_pin_moves_only_where_nothing_failed(desk: Desk) -> None:
    desk.judge("T-1", PASS)
    invoke("verify")
    (before,) = Pins.of_user().all()
    desk.judge("T-2", PASS)
    with closing(sqlite3.connect("ledger.db", isolation_level=None)) as db:
        db.execute("UPDATE projection_rows SET value = x'7b7d' WHERE projection = 'tasks'")
    assert invoke("verify").code == 23
    assert Pins.of_user().all() == [before]
    assert invoke("verify", "--require", "witnesses").code == 23
    invoke("rebuild")
    assert invoke("verify", "--require", "witnesses").code == 22
    assert Pins.of_user().all() == [before]
    assert invoke("verify").code == 0
    (after,) = Pins.of_user().all()
    assert after.seen.size > before.seen.size


def test_an_older_copy_put_back(desk: Desk) -> None:
    desk.judge("T-1", PASS)
    restore = rolled_back(desk)
    desk.judge("T-2", PASS)
    assert invoke("verify").code == 20
    restore()
    done = invoke("verify")
    assert (done.code, done.lines[-3]) == (26, "truncated")
    assert done.lines[-1].strip() == "causebook verify --checkpoint FILE"
    assert [text for text in done.lines if len(text) > 80] == []
    assert invoke("verify", "--no-pin").code == 20
    desk.judge("T-3", PASS, BLOCKER)  # and grown on from there
    assert invoke("verify").code == 27


def test_require_pin(desk: Desk) -> None:
    done = invoke("verify", "--require-pin")
    assert (done.code, done.lines[-3]) == (22, "unverifiable")
    assert done.lines[-1].strip() == "causebook verify"
    assert invoke("verify").code == 20
    assert invoke("verify", "--require-pin").code == 0


@pytest.mark.parametrize("option", ["--require-pin", "--from-pin"])
def test_what_does_not_go_together(desk: Desk, option: str) -> None:
    refused(invoke("verify", "--no-pin", option), 64, option, "--no-pin")


def test_a_damaged_pin_is_an_error_and_no_first_look(desk: Desk, state_folder: Path) -> None:
    invoke("verify")
    (file,) = (state_folder / "pins").glob("*.json")
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    for command in (("verify",), ("pins", "list")):
        refused(invoke(*command), 65, "is no pin", f"causebook pins forget {file.stem}")
    assert invoke("verify", "--no-pin").code == 20
    assert invoke("pins", "forget", file.stem).code == 0
    assert invoke("verify").code == 20


def test_where_no_pin_can_be_kept_it_is_said(
    desk: Desk,
    state_folder: Path,
    read_only: Callable[[Path], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CAUSEBOOK_STATE", str(read_only(state_folder)))
    done = invoke("verify")
    assert done.code == 20
    assert done.err.startswith("warning: this look is not pinned: ")
    assert done.err.count("\n") == 1
    made = invoke("init", "--ledger", "sqlite:///n.db", "--keys", "n", "--origin", "n.example")
    assert made.code == 0
    assert made.err.startswith("warning: the new ledger is not pinned: ")
    assert invoke("verify", "--require-pin").code == 22


def test_pins_that_cannot_be_read_are_said(desk: Desk, state_folder: Path) -> None:
    (state_folder / "pins").write_text("")
    done = invoke("verify")
    assert done.code == 20
    assert done.err.startswith("warning: no pin was read or kept: ")
    assert "cannot be read" in line(done, "consistency")
    required = invoke("verify", "--require-pin", "--json")
    assert (required.code, failed(required)) == (22, {"consistency"})


def test_the_pins_are_listed_and_forgotten(desk: Desk, state_folder: Path) -> None:
    assert invoke("pins", "list").lines == ["nothing is pinned yet", "  next  causebook verify"]
    assert invoke("pins", "list", "--json").json == {
        "folder": str(state_folder / "pins"),
        "pins": [],
    }
    desk.judge("T-1", PASS)
    report = json.loads(invoke("verify", "--json").out)
    page = invoke("pins", "list")
    assert page.lines[0] == f"1 pin in {state_folder}/pins"
    assert page.lines[3].split()[:3] == [ORIGIN, str(report["records"]), str(report["sealed"])]
    assert f"    founding {report['founding']}" in page.lines
    (pin,) = invoke("pins", "list", "--json").json["pins"]
    assert (pin["origin"], pin["size"], pin["founding"]) == (
        ORIGIN,
        report["records"],
        report["founding"],
    )
    assert pin["locations"] == [f"sqlite:///{desk.folder}/ledger.db"]
    assert pin["checkpoint"] == invoke("checkpoint").out
    assert invoke("pins", "forget", ORIGIN).lines[0].startswith(f"forgot {ORIGIN}")
    refused(invoke("pins", "forget", ORIGIN), 66, ORIGIN, "causebook pins list")
    assert invoke("verify").code == 20


def test_another_ledger_at_a_known_place(desk: Desk) -> None:
    invoke("verify")
    Path("ledger.db").rename("old.db")
    Ledger.found(desk.url, keys="other", origin="b.example").close()
    done = invoke("verify")
    assert (done.code, done.lines[-3]) == (27, "forked")
    assert done.lines[-1].strip() == f"causebook pins forget {ORIGIN}"
    assert "another ledger, b.example" in line(done, "consistency")
    assert invoke("verify", "--ledger", "sqlite:///old.db").code == 0


def test_another_ledger_under_a_known_name(desk: Desk) -> None:
    invoke("verify")
    Ledger.found("sqlite:///new.db", keys="other", origin=ORIGIN).close()
    done = invoke("verify", "--ledger", "sqlite:///new.db")
    assert (done.code, done.lines[-3]) == (27, "forked")
    assert done.lines[-1].strip() == f"causebook pins forget {ORIGIN}"


# ── from a pin ───────────────────────────────────────────────────────────────────────────────────────


def test_from_pin_checks_what_came_since(desk: Desk) -> None:
    desk.judge("T-1", PASS)
    first = invoke("verify", "--from-pin", "--json")
    assert (first.code, first.json["from_pin"]) == (20, None)
    desk.judge("T-2", BLOCKER)
    done = invoke("verify", "--from-pin", "--json")
    assert (done.code, failed(done)) == (0, set())
    assert done.json["from_pin"]["size"] == first.json["records"]
    assert check(done, "law")["note"] == "1 evaluation, 1 panel"
    assert check(done, "law")["earlier"].startswith(
        f"the first {first.json['records']} verified by "
    )
    page = invoke("verify", "--from-pin")
    assert (page.code, page.lines[-1]) == (
        0,
        f"intact, complete as of size {done.json['records']}",
    )
    assert [text for text in page.lines if len(text) > 80] == []


# ── files that were given ────────────────────────────────────────────────────────────────────────────


def test_a_checkpoint_that_was_kept(desk: Desk) -> None:
    desk.judge("T-1", PASS)
    kept = checkpoint("kept.txt")
    restore = rolled_back(desk)
    desk.judge("T-2", PASS)
    done = invoke("verify", "--no-pin", "--checkpoint", kept)
    assert done.code == 20
    assert line(done, "consistency").startswith("holds kept.txt, size ")
    newer = checkpoint("newer.txt")
    restore()
    desk.folder.joinpath("newer.txt").write_bytes(Path(newer).read_bytes())
    done = invoke("verify", "--no-pin", "--checkpoint", kept, "--checkpoint", newer)
    assert (done.code, done.lines[-3]) == (26, "truncated")


def test_a_split_view_is_written_out_and_anybody_can_check_it(desk: Desk, tmp_path: Path) -> None:
    desk.judge("T-1", PASS)
    restore = rolled_back(desk)
    desk.judge("T-2", PASS)
    kept = Path(checkpoint("kept.txt")).read_bytes()
    restore()
    for task in ("T-3", "T-4", "T-5"):
        desk.judge(task, PASS, WARN)
    Path("kept.txt").write_bytes(kept)
    arguments = ("verify", "--no-pin", "--checkpoint", "kept.txt")
    done = invoke(*arguments)
    assert (done.code, done.lines[-2]) == (27, "forked")
    assert done.lines[-1].endswith("--split-view FILE keeps them")
    assert [text for text in done.lines if len(text) > 80] == []
    before = desk.state()
    file = tmp_path / "split.json"
    written = invoke(*arguments, "--split-view", str(file), "--json")
    assert (written.code, written.json["split_view"], written.err) == (27, True, "")
    view = SplitView.parse(file.read_bytes())
    assert kept in (view.older.note.raw, view.newer.note.raw)
    key = log_key(desk)
    assert split_view.check(view, [key], verifier()) == key
    refused(invoke(*arguments, "--split-view", str(file)), 73, "split.json")
    refused(invoke(*arguments, "--split-view", "here.json"), 64, "beside the ledger")
    assert desk.state() == before


def log_key(desk: Desk) -> NoteKey:
    private: Any = load_pem_private_key((desk.folder / "keys" / "log.pem").read_bytes(), None)
    return NoteKey(ORIGIN, private.public_key().public_bytes_raw())


def test_no_split_view_no_file(desk: Desk, tmp_path: Path) -> None:
    desk.judge("T-1", PASS)
    kept = checkpoint("kept.txt")
    file = tmp_path / "split.json"
    done = invoke("verify", "--checkpoint", kept, "--split-view", str(file))
    assert done.code == 20
    assert done.err.startswith("warning: no two signed checkpoints contradict each other")
    assert not file.exists()


def test_a_trust_file(desk: Desk) -> None:
    exported = invoke("keys", "export", "--trust")
    assert exported.code == 0, exported.err
    Path("trust.json").write_text(exported.out)
    done = invoke("verify", "--no-pin", "--trust", "trust.json")
    assert done.code == 0
    assert line(done, "consistency") == "holds the trust file, up to ledger v4"
    Ledger.found("sqlite:///new.db", keys="other", origin=ORIGIN).close()
    other = invoke("verify", "--no-pin", "--trust", "trust.json", "--ledger", "sqlite:///new.db")
    assert (other.code, other.lines[-3]) == (27, "forked")


@pytest.mark.parametrize("option", ["--checkpoint", "--trust", "--policy", "--tsa-ca"])
def test_a_file_that_is_not_there_or_is_another(desk: Desk, option: str) -> None:
    refused(invoke("verify", option, "gone.txt"), 66, "gone.txt")
    refused(invoke("verify", option, "work"), 66, "work")
    for content in (b"", b"hello\n", b"\xff\n", b"\x1b[2J\n", b"x" * 200_000):
        Path("wrong.txt").write_bytes(content)
        refused(invoke("verify", option, "wrong.txt"), 65, "wrong.txt")


@pytest.mark.parametrize("option", ["--checkpoint", "--trust", "--policy", "--tsa-ca"])
def test_a_pipe_or_a_device_is_no_file_and_nobody_is_waited_for(desk: Desk, option: str) -> None:
    os.mkfifo("pipe")
    for name in ("pipe", "/dev/zero"):
        refused(invoke("verify", option, name), 66, name)


@pytest.mark.parametrize(
    "span", ["", "7", "h", "-1h", "1.5h", "0h", "1w", "٣h", "1h\n", "9" * 12 + "d"]
)
def test_a_span_that_is_none(desk: Desk, span: str) -> None:
    Path("policy").write_text("quorum none\n")
    refused(invoke("verify", "--policy", "policy", "--max-age", span), 64, "--max-age", "36h")


def test_an_age_needs_a_policy(desk: Desk) -> None:
    refused(invoke("verify", "--max-age", "36h"), 64, "--max-age", "--policy FILE")


# ── witnesses and time ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def witnesses(desk: Desk, tmp_path: Path) -> Iterator[list[WitnessServer]]:
    """Two witnesses that know the desk's log, and a policy of both in the file `policy`."""
    key = log_key(desk)
    names = ("w1.example.com", "w2.example.com")
    made = [make_witness(tmp_path / name, name, [key], time.time) for name in names]
    with serving(made[0]) as one, serving(made[1]) as two:
        lines = [f"log {key.vkey}"]
        for name, witness, server in zip("ab", made, (one, two), strict=True):
            lines.append(f"witness {name} {witness.key.vkey} {server.url}")
        lines += ["group both all a b", "quorum both"]
        Path("policy").write_text("".join(f"{text}\n" for text in lines))
        yield [one, two]


def test_a_policy_that_is_met(desk: Desk, witnesses: list[WitnessServer]) -> None:
    desk.judge("T-1", PASS)
    done = invoke("verify", "--no-pin", "--policy", "policy")
    assert (done.code, done.lines[-3]) == (22, "unverifiable")
    assert done.lines[-1].strip() == "causebook seal --policy FILE"
    assert invoke("seal", "--policy", "policy").code == 0
    done = invoke("verify", "--no-pin", "--policy", "policy", "--max-age", "36h")
    assert done.code == 0
    said = line(done, "witnesses")
    assert "cosigned by 2 of 2 witnesses" in said
    assert "survives 1 colluding witness" in said
    assert f"the quorum since {time.strftime('%Y-%m-%d', time.gmtime())}" in said


def test_a_witness_that_knows_more(desk: Desk, witnesses: list[WitnessServer]) -> None:
    desk.judge("T-1", PASS)
    restore = rolled_back(desk)
    desk.judge("T-2", PASS)
    assert invoke("seal", "--policy", "policy").code == 0
    urls = [text for server in witnesses for text in ("--witness", server.url)]
    whole = invoke("verify", "--no-pin", *urls)
    assert whole.code == 20
    assert line(whole, "witnesses").count(" knows size ") == 2
    restore()
    done = invoke("verify", "--no-pin", *urls)
    assert (done.code, done.lines[-3]) == (26, "truncated")
    assert invoke("verify", "--no-pin").code == 20


def test_a_witness_that_does_not_answer(desk: Desk, witnesses: list[WitnessServer]) -> None:
    told = invoke("verify", "--no-pin", "--witness", witnesses[0].url)
    assert (told.code, "knows no checkpoint of this log" in line(told, "witnesses")) == (20, True)
    gone = invoke("verify", "--no-pin", "--witness", "http://127.0.0.1:9", "--json")
    assert (gone.code, failed(gone)) == (22, {"witnesses"})
    refused(invoke("verify", "--witness", "ftp://w.example"), 64, "http://")


def test_a_timestamp(desk: Desk, tmp_path: Path) -> None:
    tool("openssl")
    desk.judge("T-1", PASS)
    with TimestampAuthority(tmp_path / "tsa") as authority:
        stamped = invoke("seal", "--timestamp", authority.url)
        assert stamped.code == 0, stamped.err
        said = line(invoke("verify", "--no-pin"), "time")
        assert said.endswith("--tsa-ca FILE")
        done = invoke("verify", "--no-pin", "--tsa-ca", str(authority.root), "--require", "time")
        assert done.code == 20
        assert " was there by " in line(done, "time")
    with TimestampAuthority(tmp_path / "other") as other:
        done = invoke("verify", "--no-pin", "--tsa-ca", str(other.root))
        assert (done.code, done.lines[-2]) == (22, "unverifiable")


# ── what has to pass ─────────────────────────────────────────────────────────────────────────────────


def test_a_required_check_that_was_not_run(desk: Desk) -> None:
    desk.judge("T-1", PASS)
    done = invoke("verify", "--require", "witnesses", "--require", "law", "--json")
    assert (done.code, failed(done)) == (22, {"witnesses"})
    assert check(done, "witnesses")["findings"] == [
        {
            "place": "required",
            "expected": "a check that was run",
            "found": "no policy given: --policy FILE",
            "code": 22,
        }
    ]
    assert invoke("verify", "--no-pin", "--require", "law", "--require", "tree").code == 20
    refused(invoke("verify", "--require", "luck"), 64, "'luck'", "consistency")


def test_where_nothing_is_sealed_and_the_tree_is_required(desk: Desk) -> None:
    done = invoke("verify", "--no-pin", "--require", "tree")
    assert (done.code, done.lines[-1].strip()) == (22, "causebook seal")
    assert invoke("seal").code == 0
    assert invoke("verify", "--no-pin", "--require", "tree").code == 20


# ── the report ───────────────────────────────────────────────────────────────────────────────────────


def schema() -> Draft202012Validator:
    printed = invoke("verify", "--schema")
    assert printed.code == 0
    document = json.loads(printed.out)
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


def test_the_report_is_as_its_published_schema_says(desk: Desk, tmp_path: Path) -> None:
    published = schema()
    assert [*published.schema["properties"]["checks"]["prefixItems"]] == [
        {"properties": {"check": {"const": name}}} for name in CHECKS
    ]
    desk.judge("T-1", PASS)
    restore = rolled_back(desk)
    reports = [invoke("verify", "--json")]
    desk.judge("T-2", PASS, WARN)
    reports += [invoke("verify", "--json", *more) for more in ((), ("--from-pin",))]
    restore()
    reports += [invoke("verify", "--json", *more) for more in ((), ("--require", "time"))]
    with closing(open_store(desk.url)) as store:
        store.drop_tree()
    with closing(sqlite3.connect("ledger.db", isolation_level=None)) as db:
        for (name,) in db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute("UPDATE stored_events SET state = x'00' WHERE originator_version = 2")
    reports.append(invoke("verify", "--json"))
    assert [done.code for done in reports] == [20, 0, 0, 26, 26, 28]
    for done in reports:
        assert list(published.iter_errors(done.json)) == []
    broken = reports[0].json | {"more": 1}
    assert list(published.iter_errors(broken))
    unsaid = json.loads(reports[0].out)
    unsaid["checks"][4], unsaid["checks"][5] = unsaid["checks"][5], unsaid["checks"][4]
    assert list(published.iter_errors(unsaid))


def test_records_that_are_not_sealed_are_counted(desk: Desk) -> None:
    desk.judge("T-1", PASS)
    with Ledger.open(desk.url, keys="keys") as ledger:
        ledger.task("T-2").start_attempt()
    done = invoke("verify")
    records = int(done.lines[0].split(", ")[1].split()[0])
    assert done.lines[-4] == f"intact, {records} records, of which 2 are not sealed yet"
    assert line(done, "tree") == f"sealed to {records - 2}, 2 records lie past it"


def test_tiles_that_differ_are_made_anew(desk: Desk) -> None:
    desk.judge("T-1", PASS)
    invoke("verify")
    with closing(sqlite3.connect("ledger.db", isolation_level=None)) as db:
        db.execute("UPDATE tree_tiles SET hashes = zeroblob(length(hashes)) WHERE level = 0")
    done = invoke("verify")
    assert (done.code, done.lines[-3:]) == (
        23,
        [
            "derived state differs",
            "hint: the records stand; the tree over them is made anew by",
            "      causebook rebuild",
        ],
    )
    assert line(done, "tree").startswith("tile 0/0 expected the hash of record 0, found another")
    assert invoke("rebuild").code == 23
    assert invoke("verify").code == 0


# ── it writes nothing near what it verifies ──────────────────────────────────────────────────────────


def test_every_option_on_a_read_only_mount(
    desk: Desk,
    witnesses: list[WitnessServer],
    read_only: Callable[[Path], Path],
    tmp_path: Path,
    state_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk.judge("T-1", PASS)
    assert invoke("seal", "--policy", "policy").code == 0
    given = tmp_path / "given"
    given.mkdir()
    (given / "kept.txt").write_text(invoke("checkpoint").out)
    (given / "trust.json").write_text(invoke("keys", "export", "--trust").out)
    shutil.copy("policy", given)
    url = f"sqlite:///{read_only(desk.folder)}/ledger.db"
    monkeypatch.chdir(given)
    before = desk.state()
    options = [
        *("--checkpoint", "kept.txt", "--trust", "trust.json", "--policy", "policy"),
        *("--max-age", "36h", "--witness", witnesses[0].url, "--require", "witnesses"),
        *("--split-view", "split.json"),
    ]
    assert invoke("verify", "--ledger", url, *options).code == 0
    assert invoke("verify", "--ledger", url, *options, "--from-pin", "--require-pin").code == 0
    (pin,) = Pins(state_folder / "pins").all()
    assert pin.locations == (url,)
    assert desk.state() == before
    assert {path.name for path in given.iterdir()} == {"kept.txt", "trust.json", "policy"}
