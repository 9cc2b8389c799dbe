"""`why`: the first line is the answer, for every way a task can stand; and whether the record holds."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from causebook.adapters.ledger import Ledger
from causebook.adapters.seat import Judge
from causebook.domain.ports import Response, ToolCall
from causebook.domain.streams import task_stream
from tests.adapters.cli.conftest import (
    BLOCKER,
    FAULT,
    PASS,
    PROSE,
    WARN,
    Desk,
    invoke,
    say,
    verdict,
)


@contextlib.contextmanager
def engine(desk: Desk) -> Iterator[Ledger]:
    with Ledger.open(desk.url, keys=desk.folder / "keys") as ledger:
        yield ledger


def headline(task: str, *options: str) -> list[str]:
    done = invoke("why", task, *options)
    assert (done.code, done.err) == (0, "")
    assert all(len(line) <= 80 for line in done.lines)
    assert "signatures, chains, law and evidence hold" in done.out
    return done.lines[: done.lines.index("")]


@pytest.mark.parametrize(
    ("answers", "policy", "expected"),
    [
        (
            (PASS, PASS),
            "unanimous",
            [
                "T-1 passed, at attempt 1, post_execute",
                "unanimous needs 2 of 2 to pass, and 2 did.",
            ],
        ),
        (
            (PASS, WARN),
            "any",
            [
                "T-1 passed, with a warn noted, at attempt 1, post_execute",
                "any needs 1 of 2 to pass, and 1 did.",
            ],
        ),
        (
            (PASS, WARN),
            "quorum",
            [
                "T-1 halted: escalate, at attempt 1, post_execute",
                "quorum needs 2 of 2 to pass, and 1 did: a person decides.",
            ],
        ),
        (
            (BLOCKER, WARN),
            "any",
            ["T-1 halted: blocker, at attempt 1, post_execute", "j1 found a blocker."],
        ),
        (
            (PASS, PROSE),
            "any",
            [
                "T-1 halted: validator_error, at attempt 1, post_execute",
                "j2 gave no verdict, which is an error and counts as a blocker.",
            ],
        ),
        (
            (FAULT,),
            "any",
            [
                "T-1 halted: validator_error, at attempt 1, post_execute",
                "j1 gave no verdict, which is an error and counts as a blocker.",
            ],
        ),
    ],
)
def test_the_first_line_is_the_answer_and_the_second_the_reason(
    desk: Desk, answers: tuple[str, ...], policy: str, expected: list[str]
) -> None:
    desk.judge("T-1", *answers, policy=policy)
    assert headline("T-1") == expected


def test_the_whole_screen_of_an_error(desk: Desk) -> None:
    desk.judge("T-1", PASS, PROSE)
    page = [line.rstrip() for line in invoke("why", "T-1").lines]
    records = len(invoke("log", "T-1", "--json").lines) + len(invoke("log", "ledger").lines) - 1
    digests = [item["digest"][:8] + "…" for item in invoke("why", "T-1", "--json").json["evidence"]]
    said = [json.loads(line) for line in invoke("log", "T-1", "--json").lines]
    convened = next(record for record in said if record["type"] == "PanelConvened")
    commit, base = convened["data"]["workspace"]["commit"], convened["data"]["base"]
    at = convened["at"][:16].replace("T", " ")
    assert page == [
        "T-1 halted: validator_error, at attempt 1, post_execute",
        "j2 gave no verdict, which is an error and counts as a blocker.",
        "",
        f"  judged     commit {commit[:8]}…, clean, base {base[:8]}…, {at} UTC",
        "  panel      unanimous of 2: pass 1, warn 0, blocker 1 → halt",
        "",
        "  judge  verdict  charged  turns  tools withdrawn    model",
        "  j1     pass        1/20      1                     script",
        "  j2     error       2/20      2  turn 2, narration  script",
        "",
        "  j2, turn by turn                                          used  stall",
        "  1  prose                           narration     charged  1/20    0/3",
        "  2  tools withdrawn (narration): submit_verdict alone, required, not honoured",
        "     prose                           no verdict    charged  2/20    0/3",
        "     → error, no verdict, counts as a blocker (law/1, rules 1, 2, 4)",
        "",
        f"  rests on   task/T-1 v4 PanelDecided                                  {digests[0]}",
        f"             evaluation/T-1/1/post_execute/j2 v11 EvaluationFailed     {digests[1]}",
        f"  verified   {records} records: signatures, chains, law and evidence hold",
        "  next       causebook evidence T-1   causebook replay T-1",
        "  attempt 2  causebook judge T-1 --protocol FILE --workspace DIR",
    ]


def test_a_stall_turn_by_turn(desk: Desk) -> None:
    look = say(None, ("read_file", '{"path": "a.txt"}'))
    lines = say(None, ("read_file_lines", '{"path": "a.txt", "start": 1, "end": 2}'))
    desk.script("circling", [look, look, lines, look, verdict("blocker", "Enough.\n\nIt leaks.")])
    desk.judge("T-1", "circling")
    page = [line.rstrip() for line in invoke("why", "T-1").lines]
    begin = page.index("  1  read_file a.txt                 fresh         charged  1/20    0/3")
    assert page[begin : begin + 9] == [
        "  1  read_file a.txt                 fresh         charged  1/20    0/3",
        "  2  read_file a.txt                 repeat of 1   spared   1/20    1/3",
        "  3  read_file_lines a.txt:1-2       part of 1     spared   1/20    2/3",
        "  4  read_file a.txt                 repeat of 1   spared   1/20    3/3",
        "  5  tools withdrawn (stall): submit_verdict alone, required",
        "     submit_verdict blocker          verdict       charged  2/20    0/3",
        "     → blocker (law/1, rules 1, 2, 3)",
        '     "Enough. It leaks."',
        "",
    ]


def test_a_long_account_is_shortened_to_what_led_to_what_unless_it_is_asked_for(desk: Desk) -> None:
    """The answer is one screen."""
    looks = [say(None, *[("read_file", '{"path": "a.txt"}')] * 12) for _ in range(4)]
    desk.script("thorough", [*looks, verdict("blocker")])
    desk.judge("T-1", "thorough")
    page = [line.rstrip() for line in invoke("why", "T-1").lines]
    assert len(page) < 40
    begin = next(n for n, line in enumerate(page) if line.startswith("  1  read_file"))
    assert page[begin + 3] == "     … 35 lines: --judge j1 shows them all"
    assert page[begin + 14].startswith("  5  tools withdrawn (stall)")
    whole = [line.rstrip() for line in invoke("why", "T-1", "--judge", "j1").lines]
    assert len(whole) == len(page) + 34
    assert not any("lines: --judge" in line for line in whole)


def test_the_judge_shown_can_be_chosen(desk: Desk) -> None:
    desk.judge("T-1", PASS, BLOCKER, BLOCKER)
    assert "j2, turn by turn" in invoke("why", "T-1").out
    assert "also against it: j3" in invoke("why", "T-1").out
    assert "j1, turn by turn" in invoke("why", "T-1", "--judge", "j1").out
    done = invoke("why", "T-1", "--judge", "j9")
    assert done.code == 66
    assert "there are j1, j2, j3" in done.err


def test_earlier_attempts_are_shown_as_they_stood(desk: Desk) -> None:
    desk.judge("T-1", BLOCKER)
    desk.judge("T-1", PROSE)
    desk.judge("T-1", PASS)
    assert headline("T-1")[0] == "T-1 passed, at attempt 3, post_execute"
    assert "earlier    attempt 1, blocked; attempt 2, error" in invoke("why", "T-1").out
    assert headline("T-1", "--attempt", "1")[0] == "T-1 halted: blocker, at attempt 1, post_execute"
    assert (
        "later      attempts to 3: causebook why T-1" in invoke("why", "T-1", "--attempt", "1").out
    )
    assert invoke("why", "T-1", "--attempt", "2", "--json").json["status"] == "blocked"
    done = invoke("why", "T-1", "--attempt", "4")
    assert done.code == 66
    assert "1 to 3, found 4" in done.err


@pytest.mark.parametrize("decision", ["proceed", "reject"])
def test_a_resolution_is_part_of_the_answer(desk: Desk, decision: str) -> None:
    desk.judge("T-1", WARN, PASS)
    waiting = invoke("why", "T-1").out
    assert "causebook resolve T-1 --decision proceed|halt|reject" in waiting
    who = ("--name", "Ada Example", "--meaning", "risk accepted", "--comment", "Minutes, 3.")
    assert invoke("resolve", "T-1", "--decision", decision, *who).code == 0
    lines = headline("T-1")
    if decision == "proceed":
        assert lines[0] == (
            "T-1 passed: escalated, resolved as proceed, at attempt 1, post_execute"
        )
    else:
        assert lines[0] == ("T-1 halted: escalate, resolved as reject, at attempt 1, post_execute")
    assert lines[2] == f"Ada Example decided {decision}: risk accepted. Minutes, 3."
    page = invoke("why", "T-1").out
    assert "ResolutionRecorded" in page
    assert "causebook resolve" not in page


def test_an_engines_own_halt(desk: Desk) -> None:
    with engine(desk) as ledger:
        attempt = ledger.task("T-1").start_attempt()
        attempt.dispatch_coder("coder")
        attempt.halt("turn_budget_exhausted", "The coder used all of its turns.")
    assert headline("T-1") == [
        "T-1 halted: environment_error (turn_budget_exhausted), at attempt 1",
        "The coder used all of its turns.",
    ]
    assert "TaskHalted" in invoke("why", "T-1").out


def test_a_task_that_is_open(desk: Desk) -> None:
    with engine(desk) as ledger:
        ledger.task("T-1").start_attempt()
    assert headline("T-1") == ["T-1 is open: nothing is judged yet, at attempt 1"]


def test_a_panel_that_sits(desk: Desk) -> None:
    with engine(desk) as ledger:
        attempt = ledger.task("T-1").start_attempt()
        panel = attempt.convene(
            "pre_execute", "any", [Judge("a", "m", ("x",), ()), Judge("b", "m", ("x",), ())]
        )
        panel.open("a")
        lines = headline("T-1")
        assert lines[0] == "T-1 is being judged, at attempt 1, pre_execute"
        assert lines[1].startswith("0 of 2 judges have decided. Process ")
        assert "any of 2, sitting" in invoke("why", "T-1").out
        panel.interrupt()


def test_a_proposal_that_may_go_on(desk: Desk) -> None:
    desk.judge("T-1", PASS, phase="pre_execute")
    assert headline("T-1")[0] == "T-1 is open: it may go on, at attempt 1, pre_execute"
    desk.judge("T-1", BLOCKER)
    page = invoke("why", "T-1").out
    assert "  pre        unanimous of 1: pass 1, warn 0, blocker 0 → proceed" in page
    assert "  panel      unanimous of 1: pass 0, warn 0, blocker 1 → halt" in page


def test_an_unknown_task(desk: Desk) -> None:
    done = invoke("why", "T-9")
    assert done.code == 66
    assert done.err.splitlines()[1] == "hint: causebook tasks lists what is"


def test_json_is_the_payload(desk: Desk) -> None:
    desk.judge("T-1", PASS, BLOCKER)
    payload = invoke("why", "T-1", "--json").json
    assert payload["task_id"] == "T-1"
    assert payload["final_decision"] == payload["halt_type"] == "blocker"
    assert payload["blocker_validators"] == ["j2"]
    assert [item["stream"].split("/")[-1] for item in payload["evidence"]] == ["T-1", "j2"]


def test_the_next_commands_name_a_ledger_that_was_named(desk: Desk) -> None:
    desk.judge("T-1", PASS)
    Path("it's here").mkdir()
    Path("ledger.db").rename("it's here/l.db")
    url = "sqlite:///it's here/l.db"
    page = invoke("why", "T-1", "--ledger", url).out
    assert "causebook replay T-1 --ledger 'sqlite:///it'\"'\"'s here/l.db'" in page


@pytest.mark.parametrize("form", ["--ledger {}", "--ledger={}"])
def test_a_hint_names_the_ledger_that_was_named(desk: Desk, form: str) -> None:
    Path("ledger.db").rename("l.db")
    done = invoke("why", "T-9", *form.format("sqlite:///l.db").split(" "))
    assert done.err.splitlines()[1] == "hint: causebook tasks --ledger sqlite:///l.db lists what is"


# ── a record that does not hold ──────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def intruder(desk: Desk) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(desk.folder / "ledger.db", isolation_level=None)) as db:
        triggers = db.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        yield db
        for _, sql in triggers:
            db.execute(sql)


def stored(db: sqlite3.Connection, stream: str, version: int) -> bytes:
    query = "SELECT state FROM stored_events WHERE originator_id = ? AND originator_version = ?"
    ((record,),) = db.execute(query, (stream, version))
    return bytes(record)


def put(db: sqlite3.Connection, stream: str, version: int, record: bytes) -> None:
    change = "UPDATE stored_events SET state = ? WHERE originator_id = ? AND originator_version = ?"
    db.execute(change, (record, stream, version))


def test_a_changed_verdict_is_named_in_the_first_lines(desk: Desk) -> None:
    desk.judge("T-1", BLOCKER)
    stream = "evaluation/T-1/1/post_execute/j1"
    with intruder(desk) as db:
        version = len(
            db.execute("SELECT 1 FROM stored_events WHERE originator_id = ?", (stream,)).fetchall()
        )
        put(db, stream, version, stored(db, stream, version).replace(b'"blocker"', b'"pass"'))
    done = invoke("why", "T-1")
    assert done.code == 28
    assert done.lines[0] == "T-1: the record does not hold: tampered"
    assert f"{stream} v{version}" in done.out
    assert "not to be relied on" in done.out
    assert "T-1 halted: blocker" in done.out
    assert invoke("why", "T-1", "--json").code == 28


def test_bytes_that_are_no_record_leave_nothing_to_tell(desk: Desk) -> None:
    desk.judge("T-1", BLOCKER)
    with intruder(desk) as db:
        put(db, task_stream("T-1"), 2, b"\x1b[31mnothing")
    done = invoke("why", "T-1")
    assert done.code == 28
    assert done.lines[0] == "T-1: the record does not hold: tampered"
    assert "No more can be told" in done.out
    assert "\x1b" not in done.out


def test_an_unlawful_record_under_a_good_signature(desk: Desk) -> None:
    """Whoever holds the engine's key can sign a panel that decides otherwise: the law finds it."""
    desk.judge("T-1", PASS, WARN)
    stream = task_stream("T-1")
    with intruder(desk) as db:
        line = stored(db, stream, 4).split(b"\n")[0].replace(b'"escalate"', b'"proceed"')
        put(db, stream, 4, signed(desk, line))
        for version in range(5, 100):
            found = db.execute(
                "SELECT 1 FROM stored_events WHERE originator_id = ? AND originator_version = ?",
                (stream, version),
            ).fetchall()
            if not found:
                break
            db.execute(
                "DELETE FROM stored_events WHERE originator_id = ? AND originator_version = ?",
                (stream, version),
            )
    done = invoke("why", "T-1")
    assert done.code == 24
    assert done.lines[0] == "T-1: the record does not hold: unlawful"


def signed(desk: Desk, line: bytes) -> bytes:
    from causebook.adapters.keys import KeyFolder
    from causebook.domain.record import assemble, pae

    signer = KeyFolder(desk.folder / "keys").signer("engine")
    assert json.loads(line)
    record = assemble(line, signer.keyid, signer.sign(pae(line)))
    assert base64.b64encode(signer.sign(pae(line))) in record
    return record


# ── the end of a stream was cut ──────────────────────────────────────────────────────────────────────


def cut(desk: Desk, stream: str, first: int) -> None:
    """Take the end of a stream away: what is left is signed, and a chain."""
    with intruder(desk) as db:
        db.execute(
            "DELETE FROM stored_events WHERE originator_id = ? AND originator_version >= ?",
            (stream, first),
        )


@pytest.mark.parametrize(
    ("answer", "kept", "first", "second"),
    [
        (BLOCKER, 4, "halted by its panel: blocker", "The record of the halt"),
        (PROSE, 4, "halted by its panel: validator_error", "The record of the halt"),
        (WARN, 4, "halted by its panel: escalate", "The record of the halt"),
        (PASS, 4, "passed its panel", "The record that closes the attempt"),
        (PASS, 5, "passed its panel", "The record that completes the task"),
        (BLOCKER, 5, "halted: blocker", "The record that closes the attempt"),
    ],
)
def test_a_decision_whose_following_was_cut_is_told_from_the_decision(
    desk: Desk, answer: str, kept: int, first: str, second: str
) -> None:
    desk.judge("T-1", answer)
    cut(desk, "task/T-1", kept + 1)
    done = invoke("why", "T-1")
    assert done.code == 24
    assert done.lines[0] == "T-1: the record does not hold: unlawful"
    at = done.lines.index(f"T-1 {first}, at attempt 1, post_execute")
    assert done.lines[at + 1] == f"{second} is missing: the end of task/T-1 was cut."
    assert "may go on" not in done.out
    assert "causebook resolve" not in done.out
    listed = invoke("tasks")
    assert listed.lines[3].split()[:2] == ["T-1", "cut"]
    assert all(len(line) <= 80 for line in done.lines + listed.lines)
    again = desk.judge("T-1", PASS)
    assert again.code == 26  # what was sealed is gone: nothing is judged over it
    assert "decided_halt" not in again.err
    assert "it is decided" not in again.err


def test_a_task_left_without_the_record_of_a_resolution_that_proceeds(desk: Desk) -> None:
    desk.judge("T-1", WARN)
    who = ("--name", "Ada", "--meaning", "accepted")
    assert invoke("resolve", "T-1", "--decision", "proceed", *who).code == 0
    cut(desk, "task/T-1", 7)
    done = invoke("why", "T-1")
    assert done.code == 24
    assert "T-1 passed: escalated, resolved as proceed, at attempt 1, post_execute" in done.lines
    assert "Ada decided proceed: accepted." in done.lines


def test_a_record_missing_in_the_middle_is_named(desk: Desk) -> None:
    desk.judge("T-1", BLOCKER)
    stream = "evaluation/T-1/1/post_execute/j1"
    with intruder(desk) as db:
        db.execute(
            "DELETE FROM stored_events WHERE originator_id = ? AND originator_version = 8",
            (stream,),
        )
    for command in ("why", "replay"):
        done = invoke(command, "T-1")
        assert done.code == 28
        assert f"{stream} v8" in done.out
        assert all(len(line) <= 80 for line in done.lines)
    assert f"  No more can be told: {stream} v8 is missing." in invoke("why", "T-1").lines


# ── one word, all names ──────────────────────────────────────────────────────────────────────────────


def test_an_empty_answer_is_silence_wherever_it_is_told(desk: Desk) -> None:
    desk.script("mute", [say(None), say("")])
    told = desk.judge("T-1", "mute").out
    shown = invoke("why", "T-1").out
    assert told.count("silence") == shown.count("silence") == 2
    assert "prose" not in told + shown


def test_every_judge_that_withheld_approval_is_named(desk: Desk) -> None:
    desk.judge("T-1", WARN, PASS, WARN, WARN)
    shown = " ".join(invoke("why", "T-1").out.split())
    assert "approval also withheld by: j3, j4; --judge JUDGE shows" in shown


def test_what_was_judged_is_said(desk: Desk) -> None:
    def judged(task: str) -> str:
        assert desk.judge(task, PASS).code == 0
        lines = invoke("why", task).lines
        at = next(n for n, line in enumerate(lines) if line.startswith("  judged  "))
        assert all(len(line) <= 80 for line in lines)
        return " ".join(" ".join(lines[at : at + 2]).split())

    assert re.match(r"judged commit \w{8}…, clean, base \w{8}…, \d{4}-\d\d-\d\d", judged("T-1"))
    Path("work/a.txt").write_text("other\n")
    dirty = r"judged commit \w{8}… and changes not committed, tree \w{8}…, base \w{8}…"
    assert re.match(dirty, judged("T-2"))
    shutil.rmtree("work/.git")
    assert re.match(r"judged tree \w{8}…, no git commit, \d{4}", judged("T-3"))


def test_the_model_that_was_asked_for_is_shown_whoever_answered(desk: Desk) -> None:
    with engine(desk) as ledger:
        attempt = ledger.task("T-1").start_attempt()
        panel = attempt.convene(
            "post_execute", "any", [Judge(n, "maker/model", ("x",), ()) for n in ("a", "b")]
        )
        seat = panel.open("a")
        request = seat.next_request()
        assert request is not None
        call = ToolCall("1", "submit_verdict", '{"severity": "pass", "justification": "x"}')
        sent = request.tool_choice is not None
        list(seat.respond(Response(None, (call,), model="model-2026-11", tool_choice_sent=sent)))
        rows = [line.split() for line in invoke("why", "T-1").lines if "maker/model" in line]
        assert [row[0] for row in rows] == ["a", "b"]
        panel.interrupt()


def test_long_names_are_whole_and_nothing_runs_together(desk: Desk) -> None:
    task, judge = "T" * 70, "j" * 61
    name = desk.protocol(BLOCKER, PASS)
    text = Path(name).read_text().replace('"j1"', f'"{judge}"').replace('"j2"', f'"{judge}2"')
    Path(name).write_text(text)
    told = invoke("judge", task, "--protocol", name, "--workspace", "work")
    assert told.code == 10
    assert all(len(line) <= 80 for line in told.lines if "causebook" not in line)
    page = invoke("why", task).lines
    assert f"  {judge}, turn by turn" in page
    assert f"  {judge}" in page  # in the table, above its row
    assert "…" not in "".join(line for line in page if "jjj" in line)
    desk.judge("T-2", PASS)
    listed = invoke("tasks").lines
    assert f"  {task}" in listed
    assert next(line for line in listed if line.startswith("  T-2")).split() == [
        *("T-2", "completed", "1", "post_execute", "1"),
        *listed[-3].split()[-2:],
    ]
    assert invoke("replay", task).code == 0
