"""The other pages: log, tasks, verify, replay, rebuild, keys list, init; wide and narrow, empty and full."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from pathlib import Path

import pytest

from causebook.adapters.demo import SPEC, TASK, set_stage
from causebook.adapters.findings import CHECKS
from causebook.domain.record import digest
from tests.adapters.cli.conftest import BLOCKER, PASS, PROSE, WARN, Desk, invoke, verdict

PAGES = [
    ("why", "T-104"),
    ("evidence", "T-104"),
    ("log",),
    ("log", "T-104"),
    ("tasks",),
    ("verify", "--no-pin"),
    ("replay", "T-104"),
    ("rebuild",),
    ("keys", "list"),
]
each_page = pytest.mark.parametrize("page", PAGES, ids=" ".join)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's stage, judged once."""
    stage = set_stage(tmp_path_factory.mktemp("stage") / "demo")
    at = ("--ledger", stage.ledger, "--keys", str(stage.keys))
    assert invoke("init", *at, "--origin", "audit.example.com/team").code == 0
    done = invoke(
        *("judge", TASK, "--protocol", str(stage.protocol), "--workspace", str(stage.repository)),
        *("--spec", SPEC),
        *at,
    )
    assert done.code == 12, done.err
    return stage.folder


@each_page
@pytest.mark.parametrize("columns", [40, 80, 120, 200, 400])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_broken(
    demo: Path, page: tuple[str, ...], columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSEBOOK_LEDGER", f"sqlite:///{demo / 'ledger.db'}")
    monkeypatch.setenv("COLUMNS", str(columns))
    done = invoke(*page)
    assert done.code in (0, 20)
    width = max(80, min(200, columns))
    if page[0] != "log":  # which cuts nothing where it is no terminal that reads it
        assert [line for line in done.lines if len(line) > width] == []
    assert [line for line in done.lines if line != line.rstrip()] == []


@each_page
def test_ascii_and_latin_1_say_the_same(
    demo: Path, page: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSEBOOK_LEDGER", f"sqlite:///{demo / 'ledger.db'}")
    whole = invoke(*page).out
    for encoding in ("ascii", "latin-1"):
        done = invoke(*page, encoding=encoding)
        assert done.code in (0, 20)
        assert done.out.split()[:3] == whole.split()[:3]
        assert (
            done.out.replace("->", "→").replace("...", "…").split() == whole.split()
            or page[0] == "log"
        )


@each_page
def test_json_stands_on_stdout_alone(
    demo: Path, page: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSEBOOK_LEDGER", f"sqlite:///{demo / 'ledger.db'}")
    done = invoke(*page, "--json")
    assert done.err == ""
    assert done.out.isascii()
    documents = done.lines if page[0] == "log" else [done.out]
    for document in documents:
        json.loads(document)


@each_page
def test_an_empty_ledger(desk: Desk, page: tuple[str, ...]) -> None:
    done = invoke(*page)
    expected = {"verify": 20}.get(page[0], 66 if len(page) > 1 else 0)
    assert done.code == (0 if page[0] == "keys" else expected)
    if page == ("tasks",):
        assert done.lines[0] == "no task is recorded yet"


def test_the_log_in_json_is_one_object_a_line_in_commit_order(desk: Desk) -> None:
    desk.judge("T-1", PASS, WARN)
    desk.judge("T-2", PASS)
    every = [json.loads(line) for line in invoke("log", "--json").lines]
    assert [entry["seq"] for entry in every] == list(range(len(every)))
    assert set(every[0]) == {"seq", "stream", "version", "type", "at", "data", "digest", "key"}
    assert [entry["type"] for entry in every[:4]] == ["LedgerFounded"] + ["KeyEnrolled"] * 3
    with contextlib.closing(sqlite3.connect("ledger.db")) as db:
        rows = [raw for (raw,) in db.execute("SELECT state FROM stored_events ORDER BY rowid")]
    assert [entry["digest"] for entry in every] == [digest(raw) for raw in rows]
    assert [entry["data"] for entry in every] == [
        json.loads(r.split(b"\n")[0])["data"] for r in rows
    ]

    of_task = [json.loads(line) for line in invoke("log", "T-1", "--json").lines]
    assert of_task == [e for e in every if e["stream"].split("/")[1:2] == ["T-1"]]
    stream = "evaluation/T-1/1/post_execute/j2"
    of_stream = [json.loads(line) for line in invoke("log", stream, "--json").lines]
    assert of_stream == [e for e in every if e["stream"] == stream]
    assert [e["version"] for e in of_stream] == list(range(1, len(of_stream) + 1))
    assert len(invoke("log", "ledger", "--json").lines) == 4


@pytest.mark.parametrize("which", ["T-9", "task/T-9", "evaluation/T-9/1/post_execute/x"])
def test_a_log_of_nothing(desk: Desk, which: str) -> None:
    assert invoke("log", which).code == 66


@pytest.mark.parametrize("which", ["task/", "evaluation/T/01/post_execute/x", "x/y", "ledger/x"])
def test_a_log_of_what_is_no_stream(desk: Desk, which: str) -> None:
    assert invoke("log", which).code == 64


def test_tasks(desk: Desk) -> None:
    desk.judge("a", BLOCKER)
    desk.judge("b", PASS)
    desk.judge("c", WARN, phase="pre_execute")
    done = invoke("tasks")
    assert done.lines[0] == "3 tasks, 2 blocked"
    assert [line.split()[:4] for line in done.lines[3:6]] == [
        ["a", "blocked", "blocker", "1"],
        ["b", "completed", "1", "post_execute"],
        ["c", "blocked", "escalate", "1"],
    ]
    assert [t["task"] for t in invoke("tasks", "--json").json["tasks"]] == ["a", "b", "c"]


# ── verify, replay, rebuild ──────────────────────────────────────────────────────────────────────────


def change(desk: Desk, statement: str, *values: object) -> None:
    with contextlib.closing(sqlite3.connect(desk.folder / "ledger.db", isolation_level=None)) as db:
        triggers = db.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        db.execute(statement, values)
        for _, sql in triggers:
            db.execute(sql)


def test_verify_of_a_whole_ledger(desk: Desk) -> None:
    desk.judge("T-1", PASS, PROSE)
    done = invoke("verify")
    assert done.code == 20
    rows = [line for line in done.lines[2:-4] if line[2:14].strip()]
    status = {line.split()[0]: line[16:27].strip() for line in rows}
    unchecked = {"consistency", "witnesses", "time"}
    assert set(status) == set(CHECKS)
    for check, said in status.items():
        assert said == ("NOT CHECKED" if check in unchecked else "PASS")
    assert re.fullmatch("intact, complete as of size [0-9]+", done.lines[-4])
    assert done.lines[-3] == "but who founded it is self-asserted: a first look"
    report = invoke("verify", "--json", "--no-pin").json
    assert (report["code"], report["codes"]) == (20, [20])
    assert done.lines[-2] == "founding " + json.loads(invoke("log", "--json").lines[0])["digest"]


def test_verify_names_the_place_what_was_expected_and_what_was_found(desk: Desk) -> None:
    desk.judge("T-1", BLOCKER)
    stream = "evaluation/T-1/1/post_execute/j1"
    change(
        desk,
        "UPDATE stored_events SET topic = 'os:system' WHERE originator_id = ? AND"
        " originator_version = 2",
        stream,
    )
    done = invoke("verify")
    assert done.code == 28
    at = next(n for n, line in enumerate(done.lines) if "FAIL" in line)
    assert done.lines[at] == f"  records       FAIL         {stream} v2"
    assert done.lines[at + 1].strip() == "expected topic TurnOpened, found topic os:system"
    assert done.lines[-3:] == [
        "tampered",
        "hint: compare with an older copy of the ledger; the records there:",
        f"      causebook log {stream}",
    ]


def test_verify_names_a_changed_projection(desk: Desk) -> None:
    desk.judge("T-1", BLOCKER)
    change(desk, "UPDATE projection_rows SET value = x'7b7d' WHERE projection = 'halt_payload'")
    done = invoke("verify")
    assert done.code == 23
    assert "halt_payload T-1" in done.out
    rebuilt = invoke("rebuild")
    assert rebuilt.code == 23
    assert rebuilt.lines[0] == "rebuilt; 1 row differed from the events"
    assert "halt_payload T-1" in rebuilt.out
    assert invoke("verify").code == 20
    again = invoke("rebuild", "--json").json
    assert (again["code"], again["differences"]) == (0, [])
    assert {p["projection"] for p in again["projections"]} == {
        *("tasks", "halt_payload", "attempt_history", "panel_outcome", "timeline")
    }


def test_verify_of_what_cannot_be_derived_says_so(desk: Desk) -> None:
    desk.judge("T-1", BLOCKER)
    change(
        desk,
        "UPDATE stored_events SET state = x'00' WHERE originator_id = 'task/T-1' AND"
        " originator_version = 2",
    )
    done = invoke("verify")
    assert done.code == 28
    assert "nothing is derived from records that do not hold" in " ".join(done.out.split())
    for command in (("log",), ("tasks",), ("rebuild",)):
        refused = invoke(*command)
        assert refused.code == 65
        assert "task/T-1 v2" in refused.err
    refused = invoke("replay", "T-1")
    assert refused.code == 28
    assert refused.lines[0] == "T-1 is not replayed: the records do not hold: tampered"
    assert "task/T-1 v2" in refused.out


def test_verify_of_a_ledger_in_use(desk: Desk) -> None:
    desk.judge("T-1", PASS)
    from causebook.adapters.ledger import Ledger

    with Ledger.open(desk.url, keys="keys") as ledger:
        ledger.task("T-2").start_attempt()
        assert invoke("verify", "--live").code == 20
        assert invoke("verify").code == 0  # held against the look before
        assert "T-2" in invoke("tasks").out


def test_replay(desk: Desk) -> None:
    desk.judge("T-1", PASS, PROSE)
    done = invoke("replay", "T-1")
    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == "T-1 replays equal: 2 evaluations, 1 panel, no model called"
    assert invoke("replay", "T-1", "--json").json["differences"] == []
    assert invoke("replay", "T-9").code == 66


def test_keys_are_listed_with_their_span(desk: Desk) -> None:
    done = invoke("keys", "list")
    assert done.lines[0] == "a.example/t, 4 keys"
    listed = invoke("keys", "list", "--json").json
    assert listed["origin"] == "a.example/t"
    assert [key["role"] for key in listed["keys"]] == ["root", "engine", "authority", "log"]
    assert [key["enrolled"] for key in listed["keys"]] == [1, 2, 3, 4]


def test_init_says_what_it_made(desk: Desk) -> None:
    at = ("--ledger", "sqlite:///deep/er/new.db", "--keys", "new")
    done = invoke("init", *at, "--origin", "b.example", "--json")
    assert done.code == 0
    assert done.json["origin"] == "b.example"
    assert [key["role"] for key in done.json["keys"]] == ["root", "engine", "authority", "log"]
    for key in done.json["keys"]:
        assert Path(key["file"]).stat().st_mode & 0o777 == 0o600
    made_up = invoke("init", "--ledger", "sqlite:///x.db", "--keys", "x", "--json").json["origin"]
    assert made_up.startswith("causebook.local/")


def test_init_with_a_passphrase_from_the_environment(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSEBOOK_PASSPHRASE", "open sesame")
    at = ("--ledger", "sqlite:///e.db", "--keys", "e")
    assert "encrypted" in invoke("init", *at).out
    assert b"ENCRYPTED" in Path("e/engine.pem").read_bytes()
    assert desk.judge("T-1", PASS, options=at).code == 0
    monkeypatch.delenv("CAUSEBOOK_PASSPHRASE")
    assert desk.judge("T-2", PASS, options=at).code == 77


# ── what to do next ──────────────────────────────────────────────────────────────────────────────────


def last_lines(number: int) -> list[str]:
    """The end of what verify prints of `ledger.db`, which is named shortly so that lines are short."""
    done = invoke("verify", "--ledger", "sqlite:///ledger.db")
    assert [line for line in done.lines if len(line) > 80] == []
    return [line.strip() for line in done.lines[-number:]]


def rows_of(table: str, where: str) -> str:
    return f"DELETE FROM {table} WHERE {where}"


def test_after_a_failed_check_the_hint_fits_it(desk: Desk) -> None:
    desk.judge("T-1", BLOCKER)
    whole = Path("ledger.db").read_bytes()
    at = " --ledger sqlite:///ledger.db"

    with contextlib.closing(sqlite3.connect("ledger.db", isolation_level=None)) as db:
        db.execute("UPDATE projection_rows SET value = x'7b7d' WHERE projection = 'tasks'")
    assert last_lines(3) == [
        "derived state differs",
        "hint: the records stand; what is derived from them is made anew by",
        f"causebook rebuild{at}",
    ]

    Path("ledger.db").write_bytes(whole)
    stream = "evaluation/T-1/1/post_execute/j1"
    change(desk, rows_of("stored_events", f"originator_id = '{stream}' AND originator_version = 3"))
    assert last_lines(4) == [
        "tampered",
        "hint: compare with an older copy of the ledger; the records there:",
        f"causebook log {stream} \\",
        at.strip(),
    ]
    assert invoke("log", stream).code == 0


def test_a_tail_that_was_cut_is_said_once_for_all_projections(desk: Desk) -> None:
    desk.judge("T-1", BLOCKER)
    desk.judge("T-2", BLOCKER)
    change(desk, rows_of("stored_events", "originator_id LIKE '%T-2%'"))
    done = invoke("verify")
    check = next(
        c for c in invoke("verify", "--json").json["checks"] if c["check"] == "projections"
    )
    assert [finding["place"] for finding in check["findings"]] == ["all 5 projections"]
    assert " ".join(done.out.split()).count("its position") == 1
    rebuilt = invoke("rebuild")
    assert rebuilt.code == 23
    assert rebuilt.lines[0] == "rebuilt; 5 projections and the tree differed from the events"
    assert sum("all 5 projections" in line for line in rebuilt.lines) == 1


def test_a_file_cut_short_is_not_referred_to_the_command_that_runs(desk: Desk) -> None:
    desk.judge("T-1", BLOCKER)
    whole = Path("ledger.db").read_bytes()
    Path("ledger.db").write_bytes(whole[: len(whole) // 2])
    done = invoke("verify")
    assert done.code == 65
    assert "causebook verify" not in done.err
    assert "older copy" in done.err


def test_where_no_ledger_is_it_is_said_where_it_was_looked_for(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CAUSEBOOK_LEDGER")
    error, hint = invoke("tasks").err.splitlines()
    assert error == f"error: {desk.folder}/.causebook/ledger.db: no ledger is there"
    assert hint == (
        "hint: --ledger URL or CAUSEBOOK_LEDGER names another; causebook init makes one"
    )


def test_replay_of_a_task_that_nobody_judged(desk: Desk) -> None:
    from causebook.adapters.ledger import Ledger

    with Ledger.open(desk.url, keys="keys") as ledger:
        ledger.task("T-1").start_attempt()
    done = invoke("replay", "T-1")
    assert (done.code, done.lines[0]) == (0, "T-1: nothing to replay, no judge was heard yet")


def test_a_replay_names_each_judge_and_not_its_whole_stream(desk: Desk) -> None:
    desk.judge("T-1", PASS, PROSE)
    desk.judge("T-1", PASS, phase="pre_execute")
    rows = [line.split() for line in invoke("replay", "T-1").lines[3:6]]
    assert [row[:3] for row in rows] == [
        ["j1", "1", "post_execute"],
        ["j2", "1", "post_execute"],
        ["j1", "2", "pre_execute"],
    ]


def test_a_log_that_is_piped_is_cut_nowhere(desk: Desk) -> None:
    desk.script("long", [verdict("blocker", "It leaks. " * 60 + "At the end.")])
    desk.judge("T-1", "long")
    done = invoke("log", "T-1")
    assert "…" not in "".join(line[27:] for line in done.lines)
    given = next(line for line in done.lines if "VerdictGiven" in line)
    assert given.endswith("At the end.")
    assert "turn 1, blocker, It leaks. It leaks." in given


def test_tasks_are_in_the_order_of_their_numbers(desk: Desk) -> None:
    for task in ("I-15", "I-2", "J", "I-2a"):
        desk.judge(task, PASS)
    assert [line.split()[0] for line in invoke("tasks").lines[3:7]] == ["I-2", "I-2a", "I-15", "J"]
    listed = invoke("tasks", "--json").json["tasks"]
    assert [task["task"] for task in listed] == ["I-2", "I-2a", "I-15", "J"]


def test_init_says_whether_it_made_the_keys(desk: Desk) -> None:
    at = ("--ledger", "sqlite:///two.db")
    assert (
        "  keys      keys: reused, they were there before"
        in invoke("init", *at, "--keys", "keys").lines
    )
    at = ("--ledger", "sqlite:///three.db", "--keys", "keys", "--json")
    assert invoke("init", *at).json["keys_reused"] is True
    at = ("--ledger", "sqlite:///four.db", "--keys", "other", "--json")
    assert invoke("init", *at).json["keys_reused"] is False


@pytest.mark.parametrize("decision", ["proceed", "halt", "reject"])
def test_a_resolution_stays_within_the_width(desk: Desk, decision: str) -> None:
    desk.judge("T-1", WARN)
    name = "Ada Maria Louise Example-Hohenberg of the Committee on Releases and Reviews"
    who = ("--name", name, "--meaning", "risk accepted")
    done = invoke("resolve", "T-1", "--decision", decision, *who)
    assert done.code == 0
    assert all(len(line) <= 80 for line in done.lines)
    assert name in " ".join(done.out.split())


def test_the_demo_stays_within_the_width_and_says_what_each_look_can_find(desk: Desk) -> None:
    done = invoke("demo")
    assert (done.code, done.err) == (0, "")
    # What is typed may be longer: a text in quotes is not broken.
    assert [line for line in done.lines if len(line) > 80 and "--spec" not in line] == []
    said = " ".join(done.out.split())
    assert "intact, complete as of size 82" in said
    assert "The first two are found by whoever looks. The third is found since somebody" in said


def test_the_demo_names_each_tampering_in_one_line(desk: Desk) -> None:
    lines = invoke("demo").lines
    answers = [
        lines[n + 1]
        for n, line in enumerate(lines)
        if line.startswith("$ causebook verify --brief")
    ]
    assert answers == [
        "tampered: signatures, evaluation/T-104/1/post_execute/security v26",
        "tampered: records, evaluation/T-104/1/post_execute/architecture v5",
        "truncated: consistency: expected 82 records or more, as it had then, found 79",
    ]


def test_verify_in_brief_is_one_line(desk: Desk) -> None:
    intact = "intact: 4 records, of which 4 are not sealed yet"
    assert invoke("verify", "--brief").lines == [f"{intact}; a first look"]
    assert invoke("verify", "--brief").lines == [intact]
