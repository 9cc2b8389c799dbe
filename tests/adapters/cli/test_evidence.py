"""`evidence`: every item a record commits to is listed, held against its commitment, and printed safely."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import Any

import pytest

from causebook.domain.evidence import response_from
from tests.adapters.cli.conftest import PROSE, Desk, invoke, say, verdict
from tests.adapters.cli.test_streams import typed

EVALUATION = "evaluation/T-1/1/post_execute/j1"


@pytest.fixture
def judged(desk: Desk) -> Desk:
    look = say("Let me see.", ("read_file", '{"path": "a.txt"}'))
    desk.script("looks", [look, say(None), verdict("pass", "Fine \x1b[31m.")])
    assert desk.judge("T-1", "looks", PROSE, options=["--spec", "Do it.\n\tWell."]).code == 12
    return desk


def items() -> dict[str, dict[str, Any]]:
    """The items of the first judge and of the task, by what they are."""
    every = invoke("evidence", "T-1", "--json").json["items"]
    return {item["what"]: item for item in every if not item["stream"].endswith("/j2")}


def change(statement: str, *values: object) -> None:
    with contextlib.closing(sqlite3.connect("ledger.db", isolation_level=None)) as db:
        for (name,) in db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute(statement, values)


def test_what_there_is(judged: Desk) -> None:
    done = invoke("evidence", "T-1")
    assert (done.code, done.err) == (0, "")
    listed = invoke("evidence", "T-1", "--json").json["items"]
    count = int(next(line.split()[-2] for line in invoke("verify").lines if "evidence" in line))
    assert done.lines[0].startswith(f"T-1: {count} items of evidence, ")
    assert len({item["commitment"] for item in listed}) == len(listed) == count
    assert list(items()) == [
        "spec of the task",
        "brief of the panel at post_execute",
        "what the judge was told first",
        "turn 1, the model's answer",
        "turn 1, read_file a.txt",
        "turn 2, the model's answer",
        "turn 3, the model's answer",
    ]
    for item in items().values():
        assert item["state"] == "kept"
        assert f"  {item['length']:,}  {item['commitment'][:8]}…" in done.out.replace("   ", "  ")


def test_one_item_is_printed_as_text_and_no_terminal_obeys_it(judged: Desk) -> None:
    known = items()
    done = invoke("evidence", "T-1", known["spec of the task"]["commitment"][:8] + "…")
    assert done.lines == [
        "task/T-1 v1 TaskOpened",
        "spec of the task, 13 bytes, as committed to",
        known["spec of the task"]["commitment"],
        "",
        "Do it.",
        "        Well.",
    ]
    answer = invoke("evidence", "T-1", known["turn 1, the model's answer"]["commitment"]).lines
    assert answer[4:] == ["Let me see.", '→ read_file {"path": "a.txt"}']
    silent = invoke("evidence", "T-1", known["turn 2, the model's answer"]["commitment"]).lines
    assert silent[4:] == ["(silence)"]
    last = invoke("evidence", "T-1", known["turn 3, the model's answer"]["commitment"])
    assert "\x1b" not in last.out
    shown = invoke("evidence", "T-1", known["turn 1, read_file a.txt"]["commitment"], "--json").json
    assert "three" in shown["text"]


def test_its_very_bytes_go_to_a_pipe(judged: Desk) -> None:
    item = items()["turn 3, the model's answer"]
    done = typed(("evidence", "T-1", item["commitment"], "--raw"), "")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout) == item["length"]
    assert json.loads(response_from(done.stdout.encode()).calls[0].arguments)["severity"] == "pass"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("T-9",), 66, "T-9"),
        (("T-1", "0000"), 66, "no record of task T-1 commits to it"),
        (("T-1", "abc"), 64, "expected 4 to 64 digits"),
        (("T-1", "\x1b[31m"), 64, "expected 4 to 64 digits"),
        (("T-1", "--raw"), 64, "--raw"),
    ],
)
def test_what_is_not_there(judged: Desk, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = invoke("evidence", *arguments)
    assert (done.code, done.out) == (code, "")
    assert words in done.err
    assert len(done.err.splitlines()) == 2


def test_missing_and_altered_items_are_never_printed(judged: Desk) -> None:
    known = items()
    gone, changed = known["spec of the task"], known["turn 1, read_file a.txt"]
    change("DELETE FROM evidence WHERE commitment = ?", gone["commitment"])
    change("UPDATE evidence SET salt = zeroblob(32) WHERE commitment = ?", changed["commitment"])
    done = invoke("evidence", "T-1", gone["commitment"])
    assert (done.code, done.out) == (66, "")
    assert "missing, and no EvidenceErased names it" in done.err
    done = invoke("evidence", "T-1", changed["commitment"])
    assert (done.code, done.out) == (28, "")
    assert "expected the bytes committed to" in done.err
    done = invoke("evidence", "T-1")
    assert done.code == 28
    assert "  missing  " in done.out
    assert "  altered  " in done.out


def test_why_and_replay_look_at_the_evidence(judged: Desk) -> None:
    item = items()["turn 1, read_file a.txt"]
    change("DELETE FROM evidence WHERE commitment = ?", item["commitment"])
    why = invoke("why", "T-1")
    assert why.code == 23
    assert why.lines[0] == "T-1: the record holds, but evidence is missing"
    assert item["commitment"] in [line.strip() for line in why.lines]
    assert "signatures, chains and law hold; evidence does not" in why.out
    assert invoke("why", "T-1", "--json").code == 23
    replay = invoke("replay", "T-1")
    assert replay.code == 23
    assert replay.lines[0] == "T-1 replays equal, but evidence is missing: 2 evaluations, 1 panel"
    assert "1 item of evidence missing, and no EvidenceErased names it" in replay.out
    for page in (why, replay, invoke("verify", "--ledger", "sqlite:///ledger.db")):
        assert [line for line in page.lines if len(line) > 80] == []


def test_an_altered_item_is_tampering_for_each_command(judged: Desk) -> None:
    item = items()["turn 1, read_file a.txt"]
    change("UPDATE evidence SET salt = zeroblob(32) WHERE commitment = ?", item["commitment"])
    for command in ("why", "replay"):
        assert invoke(command, "T-1").code == 28
    row = next(line for line in invoke("replay", "T-1").lines if line.startswith("  j1 "))
    assert row.split()[-1] == "5/6"
    assert EVALUATION in invoke("replay", "T-1").out
