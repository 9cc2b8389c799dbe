"""The law derived again from a record: what it takes, and that it finds every single change and where."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causebook.domain import events as vocabulary
from causebook.domain.canonical import decode, encode
from causebook.domain.evaluation import Evaluation
from causebook.domain.events import (
    EvaluationFailed,
    EvaluationOpened,
    Event,
    ModelCallFailed,
    ModelResponded,
    ReadAnswered,
    ToolChoiceDeclined,
    ToolsWithdrawn,
    TurnCharged,
    TurnOpened,
    VerdictGiven,
    event_from,
)
from causebook.domain.rederivation import Divergence, rederive
from causebook.domain.streams import StreamName

from .scripts import (
    BUSY,
    DECLINES,
    DOWN,
    NAME,
    SCRIPTS,
    Script,
    Step,
    call,
    opened,
    random_script,
    read,
    run,
    say,
    verdict,
)

# Fields that the law takes as they stand: what a provider, a tool or a clock said. All others follow from
# these, so another value in them is found at the very event.
INPUTS = {
    "EvaluationOpened": {
        "max_tool_turns",  # held against the panel's mandate, as are model, tools and criteria
        "declared",
        "active",
        "criteria",
        "model",
        "prompt_version",
        "prompt",
        "root",
        "workspace",
    },
    "ModelCallFailed": {"error", "status", "retry_after_ms", "detail"},
    "ToolChoiceDeclined": {"error", "status", "retry_after_ms", "detail"},
    "ModelResponded": {
        "model",
        "content",
        "text_bytes",
        "calls",
        "calls_total",
        "prompt_tokens",
        "completion_tokens",
        "milliseconds",
        "client",
        "client_version",
    },
    "ReadAnswered": {"result", "lines", "cut", "error", "blob"},
}
# Of these, the ones that nothing else in the stream follows from.
FREE = {
    "EvaluationOpened": {"criteria", "model", "prompt_version", "workspace"},
    "ModelCallFailed": {"retry_after_ms", "detail"},
    "ToolChoiceDeclined": {"error", "retry_after_ms", "detail"},
    "ModelResponded": {
        "model",
        "prompt_tokens",
        "completion_tokens",
        "milliseconds",
        "client",
        "client_version",
    },
    "ReadAnswered": {"cut", "blob"},
}


def _words() -> list[str]:
    """Every word of every closed list in the vocabulary: values that may fit a field."""
    found: set[str] = set()
    for value in vars(vocabulary).values():
        found |= {word for word in get_args(value) if isinstance(word, str)}
    return sorted(found)


WORDS = _words()
CHANGES_MAX = 3
"""How many other values of one field are tried."""


def others(value: Any) -> Iterator[Any]:
    """Values of the same shape as `value`, near it and not it."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1)
    elif isinstance(value, str):
        if value in WORDS:
            yield from WORDS
        yield from (value + "x", value[:-1] + ("0" if value[-1:] != "0" else "1"), "x")
    elif value is None:
        yield from (1, 400, True, "submit_verdict", "0" * 40, "0" * 64, [1, 2], "x")
    elif isinstance(value, dict):
        yield None
        for name in value:
            for other in others(value[name]):
                yield {**value, name: other}
    else:
        value = list(value)
        yield from (None, [], value[:-1], value + value[:1], value[::-1], [*value, "x"])
        for at in range(min(len(value), 2)):
            for other in others(value[at]):
                yield [*value[:at], other, *value[at + 1 :]]


def changes(event: Event) -> Iterator[tuple[str, Event]]:
    """The event with one field changed to another value that it may hold: (field, changed)."""
    data = event.data()
    for name in data:
        left = CHANGES_MAX
        for other in others(data[name]):
            try:
                changed = event_from(event.kind(), {**data, name: other})
            except ValueError:
                continue
            if changed != event:
                yield name, changed
                left -= 1
            if not left:
                break


def begins_turn(events: list[Event], at: int) -> bool:
    """Whether a turn, or a closing outside of one, begins at index `at`: a lawful place to end."""
    event = events[at]
    if isinstance(event, EvaluationFailed) and event.turn is None:
        return True
    if isinstance(event, TurnOpened):
        return not isinstance(events[at - 1], ToolsWithdrawn)
    return isinstance(event, ToolsWithdrawn)


def stored(events: list[Event]) -> list[Event]:
    """The events as a record gives them back."""
    return [event_from(event.kind(), decode(encode(event.data()))) for event in events]


def version_found(name: StreamName, events: list[Event]) -> int | None:
    """Where the stream leaves the law, or None."""
    found = rederive(name, events)
    if isinstance(found, Divergence):
        assert found.expected
        assert found.found
        return found.version
    return None


def corpus() -> list[tuple[StreamName, list[Event]]]:
    """Short streams that hold between them every type of event, and every way to close or stay open."""
    streams = []
    for seed in range(20):
        script = random_script(Random(seed))
        events, _ = run(script, interrupted=seed % 2 == 0)
        if len(events) < 40:
            streams.append((script.name(), events))
    for steps in (
        (Step(say(read("a.py")).response, (BUSY, BUSY)), say(content="Sound."), say(verdict())),
        (say(content="Sound."), Step(say(read("b.py")).response, (DECLINES,))),
        (say(content="Sound."), Step(say(verdict()).response, (BUSY, DECLINES, BUSY))),
        (say(read("a.py")), say(read("a.py", 2, 3)), Step(say().response, (BUSY, BUSY, DOWN))),
        (say(*[read("a.py")] * 66, verdict()), say(verdict("warn"), verdict("warn"))),
    ):
        script = Script(6, ("read_file", "read_file_lines"), steps)
        streams.append((script.name(), run(script, interrupted=True)[0]))
    return streams


CORPUS = corpus()


def test_the_fields_that_are_written_are_the_data() -> None:
    """A record is written from `fields`, and compared and shown by `data`."""
    for _, events in CORPUS:
        for event in events:
            assert encode(event.fields()) == encode(event.data()), event.kind()
            assert encode({"data": event}) == encode({"data": event.data()})
            for _, changed in changes(event):
                assert encode(changed.fields()) == encode(changed.data())


def test_the_corpus_holds_every_event_of_an_evaluation() -> None:
    kinds = {event.kind() for _, events in CORPUS for event in events}
    assert kinds == vocabulary.STREAMS["evaluation"]


# ── what it takes ──────────────────────────────────────────────────────────────────────────────────


@given(script=SCRIPTS, interrupted=st.booleans())
def test_every_stream_that_the_law_writes_is_taken_and_comes_to_the_same_state(
    script: Script, interrupted: bool
) -> None:
    events, live = run(script, interrupted=interrupted)
    found = rederive(script.name(), stored(events))
    assert isinstance(found, Evaluation)
    for name in ("turn", "turns_used", "stall", "narrated", "withdrawn", "closed", "examined"):
        assert getattr(found, name) == getattr(live, name)
    assert found.messages.digest() == live.messages.digest()


def test_a_judge_convened_and_never_opened_is_opened_and_closed() -> None:
    first = opened(9, criteria=None)
    closing = run(Script(9, ("read_file", "read_file_lines"), ()), interrupted=True)[0][-1]
    found = rederive(NAME, [first, closing])
    assert isinstance(found, Evaluation)
    assert found.closed == closing


# ── what it finds ──────────────────────────────────────────────────────────────────────────────────


def test_an_event_left_out_is_found_where_it_should_stand() -> None:
    for name, events in CORPUS:
        for at in range(len(events)):
            rest = events[:at] + events[at + 1 :]
            last_and_free = at == len(events) - 1 and at and begins_turn(events, at)
            assert version_found(name, rest) == (None if last_and_free else at + 1)


def test_two_events_that_changed_places_are_found_at_the_first() -> None:
    for name, events in CORPUS:
        for one, two in itertools.combinations(range(len(events)), 2):
            if two - one > 3 and (one + two) % 7:
                continue
            swapped = list(events)
            swapped[one], swapped[two] = swapped[two], swapped[one]
            found = version_found(name, swapped)
            closing = events[two]
            if isinstance(closing, EvaluationFailed) and closing.cause == "interrupted":
                # Lawful between any two turns where nothing more was examined; then what follows is not.
                assert found in (one + 1, one + 2)
            else:
                assert found == one + 1


def test_an_event_said_twice_is_found_at_the_second() -> None:
    for name, events in CORPUS:
        for at in range(len(events)):
            twice = [*events[: at + 1], *events[at:]]
            assert version_found(name, twice) == at + 2


def test_a_stream_cut_inside_a_turn_is_found_and_between_two_turns_is_open() -> None:
    for name, events in CORPUS:
        for length in range(1, len(events)):
            lawful = begins_turn(events, length)
            assert version_found(name, events[:length]) == (None if lawful else length + 1)
    assert version_found(NAME, []) == 1


def test_nothing_follows_the_event_that_closed() -> None:
    for name, events in CORPUS:
        if isinstance(events[-1], VerdictGiven | EvaluationFailed):
            for event in events:
                assert version_found(name, [*events, event]) == len(events) + 1


def test_any_other_value_in_a_field_that_is_no_input_is_found_at_that_event() -> None:
    tried: set[tuple[str, str]] = set()
    for name, events in CORPUS:
        for at, event in enumerate(events):
            inputs = INPUTS.get(event.kind(), set())
            for field, changed in changes(event):
                if field in inputs:
                    continue
                tried.add((event.kind(), field))
                found = version_found(name, [*events[:at], changed, *events[at + 1 :]])
                assert found == at + 1, (event, field, changed)
    # One value is all that these may hold.
    fixed = {
        ("EvaluationOpened", "law"),
        ("EvaluationOpened", "max_stall_turns"),
        ("EvaluationFailed", "error"),
        ("EvaluationFailed", "severity"),
    }
    fields = {
        (event.kind(), field) for _, events in CORPUS for event in events for field in event.data()
    }
    assert fields - tried == fixed | {(kind, field) for kind in INPUTS for field in INPUTS[kind]}


def test_an_input_that_nothing_follows_from_may_hold_any_value() -> None:
    for name, events in CORPUS:
        if isinstance(events[-1], EvaluationFailed) and events[-1].turn is None:
            continue
        for at, event in enumerate(events):
            for field, changed in changes(event):
                if field not in FREE.get(event.kind(), set()):
                    continue
                # A judge without criteria never ran, and one with none at all is not convened.
                if getattr(changed, field) in (None, ()):
                    continue
                found = version_found(name, [*events[:at], changed, *events[at + 1 :]])
                assert found is None, (event, field, changed)


def test_a_change_of_what_was_said_is_found_at_the_next_message_list() -> None:
    for name, events in CORPUS:
        for at, event in enumerate(events):
            if not isinstance(event, ModelResponded | ReadAnswered):
                continue
            field = "content" if isinstance(event, ModelResponded) else "result"
            changed = event.model_copy(update={field: "f" * 64})
            later = [n for n in range(at, len(events)) if isinstance(events[n], TurnOpened)]
            expected = later[0] + 1 if later else None
            assert version_found(name, [*events[:at], changed, *events[at + 1 :]]) == expected


@given(script=SCRIPTS, data=st.data())
@settings(max_examples=60)
def test_one_changed_event_never_passes_for_lawful_unless_it_is_an_input(
    script: Script, data: st.DataObject
) -> None:
    events, _ = run(script)
    at = data.draw(st.integers(0, len(events) - 1))
    for field, changed in changes(events[at]):
        found = version_found(script.name(), [*events[:at], changed, *events[at + 1 :]])
        if field not in INPUTS.get(changed.kind(), set()):
            assert found == at + 1
        else:
            assert found is None or found > at or at == 0


# ── named unlawful streams ─────────────────────────────────────────────────────────────────────────


def stream(*steps: Step, turns: int = 20) -> list[Event]:
    return run(Script(turns, ("read_file", "read_file_lines"), steps))[0]


def index_of(kind: type[Event], events: list[Event]) -> int:
    return next(at for at, event in enumerate(events) if isinstance(event, kind))


def with_change(events: list[Event], kind: type[Event], **update: Any) -> tuple[list[Event], int]:
    """The events with the first of `kind` changed, and its version."""
    at = index_of(kind, events)
    changed = event_from(kind.__name__, {**events[at].data(), **update})
    return [*events[:at], changed, *events[at + 1 :]], at + 1


def test_unlawful_a_verdict_read_out_of_prose() -> None:
    events = stream(say(content="PASS"), turns=1)
    forged = VerdictGiven(turn=1, call=0, severity="pass", justification="PASS")
    assert version_found(NAME, [*events[:-1], forged]) == len(events)


def test_unlawful_a_repeat_that_was_charged() -> None:
    events = stream(say(read("a.py")), say(read("a.py")))
    charged = TurnCharged(turn=2, reasons=("fresh_read",), turns_used=2, max_tool_turns=20)
    assert version_found(NAME, [*events[:-1], charged]) == len(events)


def test_unlawful_tool_choice_dropped_in_silence() -> None:
    changed, version = with_change(
        stream(say(verdict()), turns=1), ModelResponded, tool_choice_sent=False
    )
    assert version_found(NAME, changed) == version


@pytest.mark.parametrize("answer", [say(verdict()), say(content="PASS")])
def test_unlawful_conduct_that_the_calls_belie(answer: Step) -> None:
    events = stream(answer, turns=1)
    honoured = bool(answer.response.calls)
    changed, version = with_change(events, ModelResponded, tool_choice_honoured=not honoured)
    assert version_found(NAME, changed) == version


@pytest.mark.parametrize(
    ("status", "lawful"), [(400, True), (422, True), (None, True), (500, False)]
)
def test_unlawful_tool_choice_declined_by_another_status(status: int | None, lawful: bool) -> None:
    """None is lawful: a client library may decline by its own table, before anything is sent."""
    events = stream(Step(say(verdict()).response, (replace(DECLINES, status=status),)), turns=1)
    changed, version = with_change(events, ToolChoiceDeclined, status=status)
    assert version_found(NAME, changed) == (None if lawful else version)


def test_unlawful_giving_up_after_tool_choice_was_declined() -> None:
    events = stream(Step(say().response, (DECLINES, DOWN)), turns=1)
    at = index_of(ModelCallFailed, events)
    closing = events[-1].model_copy(update={"justification": "The model gave no answer."})
    assert version_found(NAME, [*events[:at], closing]) == at + 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("read_file", '{"path":"a.py"}' + " " * 4_090),
        ("submit_verdict", verdict().arguments + "\n" * 8_192),
    ],
)
def test_unlawful_argument_text_over_its_limit_that_was_taken(name: str, text: str) -> None:
    whole = call("read_file", path="a.py") if name == "read_file" else verdict()
    calls = [{**_call(whole.name, whole.arguments), "arguments": text}]
    changed, version = with_change(stream(say(whole)), ModelResponded, calls=calls)
    assert version_found(NAME, changed) == version


@pytest.mark.parametrize("field", ["id", "name"])
def test_unlawful_a_name_over_its_limit_that_was_taken(field: str) -> None:
    calls = [{**_call("write_file", "{}"), field: "n" * 129}]
    changed, version = with_change(stream(say(call("write_file"))), ModelResponded, calls=calls)
    assert version_found(NAME, changed) == version


def test_unlawful_more_argument_text_in_a_turn_than_its_limit() -> None:
    reads = [read(f"{at}.py") for at in range(7)]
    events = stream(say(*reads))
    padded = [r.arguments + " " * (3_500 - len(r.arguments)) for r in reads]
    calls = [_call("read_file", text) for text in padded]
    within, _ = with_change(events, ModelResponded, calls=calls)
    assert version_found(NAME, within) is None
    calls[-1]["arguments"] += " " * 400
    over, version = with_change(events, ModelResponded, calls=calls)
    assert version_found(NAME, over) == version


def _call(name: str, arguments: str) -> dict[str, Any]:
    return {"id": None, "name": name, "arguments": arguments, "was_object": False}


def test_unlawful_a_judge_without_prompt_that_ran() -> None:
    class Unprompted(Script):
        def opened(self) -> EvaluationOpened:
            return opened(self.max_tool_turns, self.declared, criteria=None)

    events, _ = run(Unprompted(9, ("read_file",), (say(verdict()),)))
    assert version_found(NAME, events) == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [("task", "T-2"), ("attempt", 2), ("phase", "pre_execute"), ("judge", "security")],
)
def test_unlawful_an_evaluation_in_another_ones_stream(field: str, value: Any) -> None:
    assert version_found(replace(NAME, **{field: value}), stream(say(verdict()))) == 1


def test_unlawful_tools_that_the_phase_does_not_have() -> None:
    script = Script(9, ("read_diff_between_refs",), ())
    events = run(script)[0]
    changed, _ = with_change(events, type(events[0]), phase="pre_execute")
    assert version_found(replace(NAME, phase="pre_execute"), changed) == 1


def test_unlawful_a_missing_answer_in_the_last_turn_is_named_where_it_is_missing() -> None:
    events = stream(say(read("a.py")), say(read("b.py"), read("c.py")))
    at = len(events) - 2
    assert isinstance(events[at], ReadAnswered)
    found = rederive(NAME, [*events[:at], *events[at + 1 :]])
    assert found == Divergence(at + 1, "ReadAnswered", "TurnCharged")
