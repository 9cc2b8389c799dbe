"""The timeline: the turn account, as `why` prints it."""

from __future__ import annotations

from typing import Any

from causebook.domain.rederivation import Divergence, rederive
from causebook.domain.streams import parse_stream
from causebook.projections.timeline import timeline

from .halts import PASS, SCENARIOS
from .ledgers import FAULT, Book, Script, lines, read, verdict


def timeline_of(script: Script, **convened: Any) -> dict[str, Any]:
    book = Book()
    task = book.task("T")
    task.attempt()
    task.convene("post_execute", "any", ["judge"], **convened)
    task.hear("judge", script)
    return timeline(book.facts("T").evaluations["evaluation/T/1/post_execute/judge"])


def judge_of(scenario: str, judge: str) -> dict[str, Any]:
    book = Book()
    SCENARIOS[scenario](book)
    entries = book.facts("T").evaluations
    return timeline(entries[next(name for name in entries if name.endswith("/" + judge))])


def counts(told: dict[str, Any]) -> list[tuple[int, str | None, int, int]]:
    return [(t["turn"], t["account"], t["turns_used"], t["stall"]) for t in told["turns"]]


def calls(told: dict[str, Any], turn: int) -> list[tuple[Any, ...]]:
    return [(c["tool"], c["target"], c["disposition"]) for c in told["turns"][turn - 1]["calls"]]


def test_the_scripts_of_these_tests_are_lawful() -> None:
    """What the fake loop writes is what the law derives from it again."""
    for make in SCENARIOS.values():
        book = Book()
        make(book)
        for name, entries in book.facts("T").evaluations.items():
            found = rederive(parse_stream(name), [entry.event for entry in entries])
            assert not isinstance(found, Divergence), (name, found)


def test_a_judge_that_repeats_is_spared_until_it_stalls() -> None:
    told = judge_of("example", "security")
    assert counts(told) == [
        (1, "charged", 1, 0),
        (2, "charged", 2, 0),
        (3, "spared", 2, 1),
        (4, "spared", 2, 2),
        (5, "spared", 2, 3),
        (6, "charged", 3, 0),
    ]
    assert (told["turns_used"], told["max_tool_turns"], told["max_stall_turns"]) == (3, 20, 3)
    repeats = [turn["calls"][0] for turn in told["turns"][2:5]]
    assert [(c["target"], c["first_turn"], c["match"]) for c in repeats] == [
        ("src/auth.py", 2, "exact"),
        ("src/app.py", 1, "exact"),
        ("src/app.py:3-9", 1, "contained"),
    ]
    assert [turn["withdrawn"] for turn in told["turns"][:5]] == [None] * 5
    assert told["turns"][5]["withdrawn"]["reason"] == "stall"
    assert told["turns"][5]["offered"] == ["submit_verdict"]
    assert told["turns"][5]["tool_choice"] == {
        "asked": "submit_verdict",
        "sent": True,
        "declined": False,
        "honoured": True,
    }
    assert (told["ending"]["severity"], told["ending"]["rules"]) == ("blocker", [1, 2, 3])


def test_a_judge_that_narrates_twice_ends_in_an_error() -> None:
    told = judge_of("example", "architecture")
    assert counts(told) == [(1, "charged", 1, 0), (2, "charged", 2, 0), (3, "charged", 3, 0)]
    assert [turn["calls"][0]["disposition"] for turn in told["turns"]] == [
        "fresh",
        "narration",
        "narration",
    ]
    assert told["turns"][2]["withdrawn"] == {
        "reason": "narration",
        "tools": ["read_file", "read_file_lines", "list_files"],
        "turns_used": 2,
        "stall": 0,
    }
    assert told["turns"][2]["tool_choice"]["honoured"] is False
    ending = told["ending"]
    assert (ending["error"], ending["severity"], ending["cause"]) == (True, "blocker", "no_verdict")
    assert (ending["rules"], ending["turn"], ending["version"]) == ([1, 2, 4], 3, 15)


def test_every_disposition_of_a_call_is_told_in_the_order_of_the_calls() -> None:
    told = timeline_of(
        [
            [
                read("a.py"),
                read("missing.py"),
                read("./a.py"),
                ("delete_file", {}),
                ("read_file", "{"),
                verdict("fine"),
                lines("a.py", 2, 3),
            ],
            [read("b.py"), verdict("warn", "see b"), ("list_files", {})],
        ]
    )
    assert calls(told, 1) == [
        ("read_file", "a.py", "fresh"),
        ("read_file", "missing.py", "failed"),
        ("read_file", "a.py", "repeat"),
        ("delete_file", None, "refused"),
        ("read_file", None, "refused"),
        ("submit_verdict", None, "rejected"),
        ("read_file_lines", "a.py:2-3", "repeat"),
    ]
    reasons = [call["reason"] for call in told["turns"][0]["calls"]]
    assert reasons[3:6] == ["not_offered", "arguments_not_json", "severity"]
    assert told["turns"][0]["reasons"] == ["fresh_read", "refused", "invalid_verdict"]
    assert calls(told, 2) == [
        ("read_file", None, "ignored"),
        ("submit_verdict", None, "verdict"),
        ("list_files", None, "ignored"),
    ]
    assert told["turns"][1]["calls"][1]["severity"] == "warn"


def test_a_read_on_a_withdrawn_turn_is_refused_and_ends_it() -> None:
    told = timeline_of([[read("a.py")], [read("b.py")]], budget=2)
    assert told["turns"][1]["withdrawn"]["reason"] == "budget"
    assert calls(told, 2) == [("read_file", None, "refused")]
    assert told["turns"][1]["calls"][0]["reason"] == "withdrawn"
    assert told["ending"]["cause"] == "no_verdict"
    assert told["turns_used"] == 2


def test_a_judge_without_tools_decides_on_its_first_turn() -> None:
    told = timeline_of([[verdict("pass")]], tools=())
    assert told["turns"][0]["withdrawn"]["reason"] == "none_granted"
    assert counts(told) == [(1, "charged", 1, 0)]


def test_failed_tries_are_told_and_a_provider_fault_charges_nothing() -> None:
    told = timeline_of([[read("a.py")], FAULT])
    last = told["turns"][1]
    assert [(t["try"], t["error"], t["status"]) for t in last["failed_tries"]] == [
        (1, "server", 503),
        (2, "server", 503),
        (3, "server", 503),
    ]
    assert (last["account"], last["turns_used"], last["model"]) == (None, 1, None)
    assert (told["ending"]["cause"], told["ending"]["rules"]) == ("provider_fault", [8])


def test_a_declined_tool_choice_is_told() -> None:
    told = judge_of("tool_choice_declined", "one")
    assert told["turns"][1]["tool_choice"] == {
        "asked": "submit_verdict",
        "sent": False,
        "declined": True,
        "honoured": True,
    }
    assert told["turns"][1]["failed_tries"][0]["declined_tool_choice"] is True
    assert told["ending"]["rules"] == [1, 2, 3, 9]


def test_an_interrupted_evaluation_ends_without_a_turn() -> None:
    told = judge_of("interrupted", "unheard")
    assert (told["turns"], told["ending"]["cause"], told["ending"]["turn"]) == (
        [],
        "interrupted",
        None,
    )
    assert told["ending"]["rules"] == [10]


def test_an_open_evaluation_has_no_ending() -> None:
    told = timeline_of(PASS[:1])
    assert told["ending"] is None
    assert counts(told) == [(1, "charged", 1, 0)]
