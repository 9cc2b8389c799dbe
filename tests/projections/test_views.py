"""Attempt histories, panel outcomes, the list of tasks, and what all projections promise."""

from __future__ import annotations

from typing import Any

import pytest

from causebook.domain.canonical import decode, encode
from causebook.domain.errors import BadData
from causebook.projections.attempt_history import attempt_history
from causebook.projections.catalogue import PROJECTIONS
from causebook.projections.facts import TaskFacts, read_stream
from causebook.projections.panel_outcome import rows as panel_rows
from causebook.projections.tasks import task_line

from .halts import SCENARIOS
from .ledgers import Book


def facts_of(scenario: str) -> TaskFacts:
    book = Book()
    SCENARIOS[scenario](book)
    return book.facts("T")


def test_the_history_tells_every_attempt() -> None:
    told = attempt_history(facts_of("attempts"))
    assert told["coder_dispatches"] == 3
    assert [
        (a["attempt"], a["rejudges"], a["outcome"], a["coder_dispatches"], a["completed"])
        for a in told["attempts"]
    ] == [
        (1, None, "blocked", 1, False),
        (2, None, "error", 2, False),
        (3, 1, "error", 0, False),
        (4, None, "warned", 0, True),
    ]
    assert told["attempts"][0]["panels"][0]["halt"]["raw_halt_type"] == "blocked"
    assert told["attempts"][1]["panels"] == []
    assert told["attempts"][1]["engine_halt"]["raw_halt_type"] == "execution_error"


def test_the_history_keeps_a_resolution_with_the_phase_it_answers() -> None:
    panels = attempt_history(facts_of("both_phases"))["attempts"][0]["panels"]
    assert [panel["phase"] for panel in panels] == ["pre_execute", "post_execute"]
    assert panels[0]["policy_decision"]["action"] == "escalate"
    assert panels[0]["resolution"]["decision"] == "proceed"
    assert panels[1]["resolution"] is None


def test_an_open_attempt_has_no_outcome() -> None:
    attempt = attempt_history(facts_of("escalated"))["attempts"][0]
    assert (attempt["outcome"], attempt["closed"]) == (None, None)


def test_one_panel_outcome_for_each_phase_judged() -> None:
    found: dict[str, Any] = {
        key: decode(value) for key, value in panel_rows(facts_of("both_phases")).items()
    }
    assert sorted(found) == ["T/1/post_execute", "T/1/pre_execute"]
    before = found["T/1/pre_execute"]
    assert before["policy_decision"] == {
        "policy": "unanimous",
        "action": "escalate",
        "pass": 1,
        "warn": 1,
        "blocker": 0,
        "total": 2,
        "required": 2,
    }
    assert [(b["judge"], b["severity"], b["version"]) for b in before["ballots"]] == [
        ("one", "pass", 9),
        ("two", "warn", 5),
    ]
    assert before["resolution"]["decided"] == before["decided"]["digest"]


def test_an_open_panel_names_its_runner() -> None:
    panel = decode(panel_rows(facts_of("sitting"))["T/1/pre_execute"])
    assert (panel["state"], panel["policy_decision"], panel["ballots"]) == ("open", None, [])
    assert panel["runner"] == {"id": "1" * 32, "host": "host.example.com", "process": 7}
    assert [judge["judge"] for judge in panel["judges"]][-1] == "unheard"


def test_the_line_of_a_task() -> None:
    line = task_line(facts_of("example"))
    at = line.pop("at")
    assert line == {
        "task": "T",
        "status": "blocked",
        "halt_type": "validator_error",
        "attempt": 1,
        "phase": "post_execute",
        "judges": 4,
    }
    facts = facts_of("example")
    assert at == facts.own[-1].record.at
    sitting = facts_of("sitting")
    newest = sitting.evaluations["evaluation/T/1/pre_execute/reading"][-1].record.at
    assert task_line(sitting)["at"] == newest


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_rows_are_canonical_and_every_key_is_the_tasks_own(scenario: str) -> None:
    facts = facts_of(scenario)
    for projection in PROJECTIONS:
        for key, value in projection.rows(facts).items():
            assert encode(decode(value)) == value
            assert "T" in key.split("/")[:2]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_keys_never_go_away_and_every_prefix_of_a_ledger_can_be_folded(scenario: str) -> None:
    """What a store holds at any moment is a prefix of each stream."""
    whole = facts_of(scenario)
    told = sorted(
        (entry for entries in (whole.own, *whole.evaluations.values()) for entry in entries),
        key=lambda entry: entry.record.at,
    )
    before: dict[str, set[str]] = {}
    for end in range(len(told) + 1):
        part = {entry.record.digest for entry in told[:end]}
        own = tuple(entry for entry in whole.own if entry.record.digest in part)
        evaluations = {
            name: tuple(entry for entry in entries if entry.record.digest in part)
            for name, entries in whole.evaluations.items()
        }
        facts = TaskFacts("T", own, {name: e for name, e in evaluations.items() if e})
        for projection in PROJECTIONS:
            keys = set(projection.rows(facts))
            assert keys >= before.get(projection.name, set())
            before[projection.name] = keys


def raws(book: Book, stream: str) -> list[bytes]:
    return [row.record for row in book.store.stream(stream)]


def test_tampered_bytes_are_refused_by_name() -> None:
    book = Book()
    SCENARIOS["blocked"](book)
    stored = raws(book, "task/T")
    changed = [*stored[:2], stored[2].replace(b"PanelConvened", b"PanelConvenes"), *stored[3:]]
    with pytest.raises(BadData, match=r"task/T v3: 'PanelConvenes' does not stand"):
        read_stream("task/T", changed)
    with pytest.raises(BadData, match=r"task/T v2: lines: expected"):
        read_stream("task/T", [stored[0], b"{}", *stored[2:]])
    with pytest.raises(BadData, match=r"task/T v2: expected its own record, found that of"):
        read_stream("task/T", [stored[0], stored[2]])
    with pytest.raises(BadData, match=r"task/T v2: AttemptStarted.attempt: Input should be"):
        read_stream("task/T", [stored[0], stored[1].replace(b'"attempt":1', b'"attempt":0')])
    with pytest.raises(BadData, match="expected the name of a stream"):
        read_stream("tasks/T", stored)


@pytest.mark.parametrize(
    ("lost", "why"),
    [
        (1, "task/T v2 PanelConvened: no attempt was started before it"),
        (2, "task/T v3 PanelDecided: no panel was convened before it"),
    ],
)
def test_an_event_with_nothing_to_hang_on_is_refused_by_name(lost: int, why: str) -> None:
    """Well-formed records in an order no law allows: named, not a traceback."""
    facts = facts_of("blocked")
    book = Book()
    events = [entry.event for entry in facts.own]
    del events[lost]
    book.write("task/T", events, book.ends["ledger"][1])
    with pytest.raises(BadData) as caught:
        attempt_history(book.facts("T"))
    assert caught.value.message == why


def test_an_evaluation_that_was_never_opened_is_refused_by_name() -> None:
    facts = facts_of("blocked")
    book = Book()
    stream = "evaluation/T/1/post_execute/one"
    book.write(stream, [entry.event for entry in facts.evaluations[stream][1:]], "0" * 64)
    timeline = next(p for p in PROJECTIONS if p.name == "timeline")
    with pytest.raises(BadData, match="v1 TurnOpened: expected EvaluationOpened first"):
        timeline.rows(book.facts("T"))
