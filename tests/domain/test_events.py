"""Events have one spelling: what another language, or a looser reader, would take for the same is refused."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pytest

from causebook.domain.canonical import encode
from causebook.domain.events import EVENTS, Counts, Fact, event_from
from causebook.domain.quorum import decided

from .test_quorum import ballot

FOUNDED: dict[str, Any] = {
    "format": 1,
    "nonce": "0" * 64,
    "root_key": "QQ==",
    "custody": "together",
    "continues": None,
}
FAILED: dict[str, Any] = {
    "turn": None,
    "error": True,
    "severity": "blocker",
    "cause": "interrupted",
    "justification": "The runner was gone before the judge decided.",
    "examined": {"count": 0, "digest": "0" * 64},
}
DECIDED = decided(1, "post_execute", "any", [ballot("a", "pass"), ballot("b", "warn")]).data()
STARTED: dict[str, Any] = {"attempt": 1, "rejudges": None}
SPARED: dict[str, Any] = {"turn": 1, "stall": 1, "max_stall_turns": 3}


def counts(**said: Any) -> dict[str, Any]:
    return {**DECIDED, "counts": said}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("LedgerFounded", FOUNDED),
        ("EvaluationFailed", FAILED),
        ("PanelDecided", DECIDED),
        ("AttemptStarted", STARTED),
        ("TurnSpared", SPARED),
    ],
)
def test_what_is_written_is_read_back_as_it_was(kind: str, data: dict[str, Any]) -> None:
    assert event_from(kind, data).data() == data


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("LedgerFounded", {**FOUNDED, "format": True}),
        ("LedgerFounded", {**FOUNDED, "format": "1"}),
        ("LedgerFounded", {**FOUNDED, "format": 1.0}),
        ("LedgerFounded", {**FOUNDED, "format": 0}),
        ("LedgerFounded", {**FOUNDED, "format": 2}),
        ("EvaluationFailed", {**FAILED, "error": 1}),
        ("EvaluationFailed", {**FAILED, "error": "true"}),
        ("EvaluationFailed", {**FAILED, "error": False}),
        ("EvaluationFailed", {**FAILED, "error": None}),
        ("PanelDecided", counts(pass_=1, warn=1, blocker=0, total=2)),
        ("PanelDecided", counts(**{"pass": 1, "pass_": 1, "warn": 1, "blocker": 0, "total": 2})),
        ("PanelDecided", counts(**{"pass": True, "warn": 1, "blocker": 0, "total": 2})),
        ("PanelDecided", counts(**{"pass": 1, "warn": 1, "blocker": False, "total": 2})),
        ("PanelDecided", counts(warn=1, blocker=0, total=2)),
        ("AttemptStarted", {**STARTED, "attempt": True}),
        ("AttemptStarted", {**STARTED, "attempt": 0}),
        ("AttemptStarted", {**STARTED, "attempt": 2**53}),
        ("AttemptStarted", {"attempt": 1}),
        ("AttemptStarted", {**STARTED, "more": None}),
        ("AttemptStarted", None),
        ("AttemptStarted", [1, None]),
        ("TurnSpared", {**SPARED, "turn": "1"}),
        ("Event", {}),
        ("causebook.domain.events.AttemptStarted", STARTED),
        ("", {}),
    ],
)
def test_another_spelling_of_it_is_refused(kind: str, data: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        event_from(kind, data)


def test_counts_are_written_as_they_are_read() -> None:
    said = {"pass": 1, "warn": 1, "blocker": 0, "total": 2}
    assert Counts.model_validate(said).model_dump() == said
    assert DECIDED["counts"] == said


def test_no_two_types_have_one_name() -> None:
    assert {kind: event.__name__ for kind, event in EVENTS.items()} == {k: k for k in EVENTS}


def facts(kind: type[Fact] = Fact) -> list[type[Fact]]:
    below = kind.__subclasses__()
    return below + [each for one in below for each in facts(one)]


@pytest.mark.parametrize("kind", facts())
def test_the_fields_of_a_fact_go_by_the_names_they_are_written_by(kind: type[Fact]) -> None:
    """A record is written from `fields`, and compared and shown by `data`: they have to be the same."""
    names = {name: field.alias or name for name, field in kind.model_fields.items()}
    made = kind.model_construct(**{alias: name for name, alias in names.items()})
    assert made.fields() == {alias: name for name, alias in names.items()}
    assert not kind.model_computed_fields
    assert not any(isinstance(value, cached_property) for value in vars(kind).values())
    assert not any(field.exclude for field in kind.model_fields.values())


def test_a_fact_within_a_fact_is_written_as_its_data() -> None:
    event = event_from("PanelDecided", DECIDED)
    assert encode(event.fields()) == encode(event.data()) == encode(DECIDED)
