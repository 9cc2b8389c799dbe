"""The law of an evaluation, rule by rule, and against a second account of it."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings

from causebook.domain.conversation import (
    VERDICT_ONLY_INSTRUCTION,
    pointer_text,
    refusal_text,
    rejection_text,
)
from causebook.domain.evaluation import (
    Evaluation,
    examined_digest,
    grants_fault,
    hear,
    interrupt,
    open_turn,
    withdrawal,
)
from causebook.domain.events import (
    CallIgnored,
    EvaluationFailed,
    Event,
    ModelCallFailed,
    ModelResponded,
    Narrated,
    ReadAnswered,
    RepeatReadHit,
    ToolChoiceDeclined,
    ToolRefused,
    ToolsWithdrawn,
    TurnCharged,
    TurnOpened,
    TurnSpared,
    VerdictGiven,
    VerdictRejected,
)
from causebook.domain.ports import Response, ToolCall
from causebook.domain.tools import definitions_digest

from .scripts import (
    BUSY,
    DECLINES,
    DOWN,
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
from .telling import as_account, keyed

STALLS = 3
CLOSING = (VerdictGiven, EvaluationFailed)
T = TypeVar("T", bound=Event)


def play(*steps: Step, turns: int = 20, declared: tuple[str, ...] | None = None) -> list[Event]:
    """The events that these turns come to."""
    if declared is None:
        declared = ("read_file", "read_file_lines")
    return run(Script(turns, declared, steps))[0]


def all_of(kind: type[T], events: list[Event]) -> list[T]:
    return [event for event in events if isinstance(event, kind)]


def only(kind: type[T], events: list[Event]) -> T:
    (event,) = all_of(kind, events)
    return event


def in_turn(number: int, events: list[Event]) -> list[Event]:
    return [event for event in events if getattr(event, "turn", None) == number]


def most_turns(turns: int) -> int:
    return 1 if turns == 1 else STALLS * (turns - 2) + 2


def hold_consequences(script: Script, events: list[Event], evaluation: Evaluation) -> None:
    """What follows from the rules, for any stream."""
    turns = all_of(TurnOpened, events)
    assert [turn.turn for turn in turns] == list(range(1, len(turns) + 1))
    assert len(turns) <= most_turns(script.max_tool_turns)
    for charged in all_of(TurnCharged, events):
        assert charged.turns_used <= charged.max_tool_turns == script.max_tool_turns
    for spared in all_of(TurnSpared, events):
        assert spared.stall <= spared.max_stall_turns == STALLS
    counted = [e for e in events if isinstance(e, TurnCharged | TurnSpared)]
    assert len({e.turn for e in counted}) == len(counted)
    used = [e.turns_used for e in all_of(TurnCharged, events)]
    assert used == list(range(1, len(used) + 1))
    closings = [e for e in events if isinstance(e, CLOSING)]
    if not closings:
        assert evaluation.closed is None
        return
    (closing,) = closings
    assert events[-1] is closing is evaluation.closed
    last = in_turn(closing.turn, events) if closing.turn else []
    assert not all_of(TurnSpared, last)
    came = bool(all_of(ModelResponded, last))
    assert len(all_of(TurnCharged, last)) == came
    assert came == (getattr(closing, "cause", "no_verdict") == "no_verdict")


# ── the two accounts ───────────────────────────────────────────────────────────────────────────────


@given(script=SCRIPTS)
def test_both_accounts_of_the_law_agree_and_its_consequences_hold(script: Script) -> None:
    events, evaluation = run(script)
    assert as_account(events) == keyed(script.account())
    hold_consequences(script, events, evaluation)


@pytest.mark.parametrize("block", range(4))
def test_both_accounts_agree_on_a_corpus_of_scripts(block: int) -> None:
    for seed in range(block * 500, block * 500 + 500):
        script = random_script(Random(seed))
        events, evaluation = run(script)
        assert as_account(events) == keyed(script.account()), seed
        hold_consequences(script, events, evaluation)


def test_the_corpus_reaches_every_kind_of_event_and_every_reason() -> None:
    """Else the agreement above would say little."""
    seen: set[tuple[str, Any]] = set()
    for seed in range(1_000):
        for event in run(random_script(Random(seed)))[0]:
            for field in ("reason", "match", "cause"):
                if hasattr(event, field):
                    seen.add((event.kind(), getattr(event, field)))
    by_kind = {kind: {r for k, r in seen if k == kind} for kind, _ in seen}
    arguments = {f"arguments_{why}" for why in ("not_json", "not_object", "duplicate_keys")}
    assert by_kind == {
        "ToolsWithdrawn": {"none_granted", "narration", "stall", "budget"},
        "RepeatReadHit": {"exact", "contained"},
        "CallIgnored": {"beside_verdict", "over_limit"},
        "EvaluationFailed": {"no_verdict", "provider_fault"},
        "ToolRefused": arguments
        | {"not_offered", "withdrawn", "over_limit", "not_unicode", "arguments_unfit"},
        "VerdictRejected": arguments
        | {"over_limit", "not_unicode", "severity", "justification", "conflicting"},
    }


LETTERS = {
    "new": lambda at: say(read(f"file-{at}.py")),
    "again": lambda at: say(read("a.py")),
    "stray": lambda at: say(call("write_file", path="a.py")),
    "prose": lambda at: say(content="It looks fine to me. PASS."),
    "verdict": lambda at: say(verdict("warn")),
    "bad verdict": lambda at: say(verdict("perhaps")),
    "both": lambda at: say(read("a.py"), read(f"file-{at}.py")),
    "down": lambda at: Step(Response(None), (DOWN,)),
}


def every_script(
    turns: int, letters: tuple[str, ...], steps: tuple[Step, ...] = ()
) -> Iterator[tuple[Script, list[Event], Evaluation]]:
    """Every script over `letters` up to the turn in which it closes."""
    script = Script(turns, ("read_file", "read_file_lines"), steps)
    events, evaluation = run(script)
    yield script, events, evaluation
    if evaluation.closed is None:
        for letter in letters:
            step = LETTERS[letter](len(steps))
            yield from every_script(turns, letters, (*steps, step))


@pytest.mark.parametrize(
    ("turns", "letters"),
    [
        (1, tuple(LETTERS)),
        (2, tuple(LETTERS)),
        (3, tuple(LETTERS)),
        (4, ("new", "again", "prose", "verdict")),
    ],
)
def test_every_small_script_closes_once_within_the_bound_and_the_bound_is_reached(
    turns: int, letters: tuple[str, ...]
) -> None:
    longest = 0
    for script, events, evaluation in every_script(turns, letters):
        hold_consequences(script, events, evaluation)
        assert as_account(events) == keyed(script.account())
        longest = max(longest, evaluation.turn)
    assert longest == most_turns(turns)


@pytest.mark.parametrize("turns", [1, 2, 3, 5, 20, 200])
def test_the_longest_evaluation_has_s_times_n_minus_2_plus_2_turns(turns: int) -> None:
    """Two repeats, which is one short of the stall limit, then something new, over and over."""
    steps = [say(read("file-0.py"))]
    for at in range(1, turns):
        steps += [say(read("file-0.py"))] * (STALLS - 1) + [say(read(f"file-{at}.py"))]
    _, evaluation = run(Script(turns, ("read_file",), tuple(steps)))
    assert evaluation.turn == most_turns(turns)
    assert isinstance(evaluation.closed, EvaluationFailed)
    assert evaluation.turns_used == turns


# ── rules 1 and 2 ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("tools", "narrated", "stalled", "spent"), list(itertools.product([False, True], repeat=4))
)
def test_rule_1_the_reason_is_the_first_that_holds(
    tools: bool, narrated: bool, stalled: bool, spent: bool
) -> None:
    evaluation = Evaluation(opened(5, ("read_file",) if tools else ()))
    evaluation.narrated = narrated
    evaluation.stall = STALLS if stalled else STALLS - 1
    evaluation.turns_used = 4 if spent else 3
    reasons = [
        reason
        for reason, holds in (
            ("none_granted", not tools),
            ("narration", narrated),
            ("stall", stalled),
            ("budget", spent),
        )
        if holds
    ]
    assert withdrawal(evaluation) == (reasons[0] if reasons else None)


def test_rule_1_the_only_tool_may_not_exist_in_this_phase() -> None:
    script = Script(9, ("read_diff_between_refs",), (say(verdict()),), phase="pre_execute")
    assert only(ToolsWithdrawn, run(script)[0]).reason == "none_granted"


def test_rule_1_one_turn_is_a_turn_for_the_verdict() -> None:
    events = play(say(read("a.py")), turns=1)
    withdrawn = only(ToolsWithdrawn, events)
    assert (withdrawn.turn, withdrawn.reason) == (1, "budget")
    assert (withdrawn.turns_used, withdrawn.stall) == (0, 0)
    assert withdrawn.withdrawn == ("read_file", "read_file_lines")


def test_rule_2_the_final_turn_offers_submit_verdict_alone_and_requires_it() -> None:
    events = play(say(read("a.py")), say(verdict()), turns=2)
    first, last = all_of(TurnOpened, events)
    assert first.offered == ("read_file", "read_file_lines", "submit_verdict")
    assert first.tool_choice is None
    assert last.offered == ("submit_verdict",)
    assert last.tool_choice == "submit_verdict"
    assert first.definitions == definitions_digest(first.offered) != last.definitions


@given(script=SCRIPTS)
def test_rule_2_the_menu_shrinks_exactly_in_the_turns_where_rule_1_withdrew(script: Script) -> None:
    events, _ = run(script)
    withdrawn = {event.turn for event in all_of(ToolsWithdrawn, events)}
    active = tuple(granted.name for granted in script.opened().active)
    for turn in all_of(TurnOpened, events):
        alone = turn.turn in withdrawn
        assert turn.offered == (() if alone else active) + ("submit_verdict",)
        assert turn.tool_choice == ("submit_verdict" if alone else None)


@given(script=SCRIPTS)
def test_rule_2_the_digest_is_over_every_message_in_order_and_the_instruction_comes_last(
    script: Script,
) -> None:
    events, _ = run(script)
    items: list[bytes] = [bytes.fromhex("1" * 64), bytes.fromhex("2" * 64)]
    offered: tuple[str, ...] = ()

    def plain(text: str) -> bytes:
        return hashlib.sha256(text.encode()).digest()

    for event in events:
        match event:
            case TurnOpened():
                offered = event.offered
                sent = [*items, plain(VERDICT_ONLY_INSTRUCTION)] if len(offered) == 1 else items
                assert event.messages.count == len(sent)
                assert event.messages.digest == hashlib.sha256(b"".join(sent)).hexdigest()
            case ModelResponded():
                items.append(bytes.fromhex(event.content))
            case ReadAnswered():
                items.append(bytes.fromhex(event.result))
            case RepeatReadHit():
                items.append(plain(pointer_text(event)))
            case ToolRefused():
                items.append(plain(refusal_text(event, offered)))
            case VerdictRejected():
                items.append(plain(rejection_text(event)))
            case _:
                pass


# ── rule 3 ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("before", [0, 1, 18])
def test_rule_3_a_valid_verdict_closes_on_any_turn(before: int) -> None:
    steps = [say(read(f"{at}.py")) for at in range(before)]
    events = play(*steps, say(verdict("blocker", "It deletes the backups.")))
    given_ = events[-1]
    assert isinstance(given_, VerdictGiven)
    assert (given_.severity, given_.justification) == ("blocker", "It deletes the backups.")
    assert isinstance(events[-2], TurnCharged)
    assert events[-2].reasons == ("verdict",)


@pytest.mark.parametrize("severity", ["pass", "PASS", " warn\n", "\t\r Blocker "])
def test_rule_3_a_severity_is_trimmed_and_lower_cased(severity: str) -> None:
    closing = play(say(verdict(severity)))[-1]
    assert isinstance(closing, VerdictGiven)
    assert closing.severity == severity.strip().lower()


@pytest.mark.parametrize(
    ("submitted", "reason"),
    [
        (verdict("ok"), "severity"),
        (verdict(""), "severity"),
        (verdict("bloc\u212aer"), "severity"),  # a Kelvin sign: lower() makes it a k
        (verdict("\u00a0pass"), "severity"),
        (verdict("pass", ""), "justification"),
        (verdict("pass", " \r\n\t"), "justification"),
        (verdict("pass", "\ud800"), "justification"),
        (verdict("pass", "x" * 8_193), "justification"),
        (verdict("pass", "\u0001" * 1_366), "justification"),
        (call("submit_verdict", severity="pass"), "justification"),
        (call("submit_verdict", severity="pass", justification=["a"]), "justification"),
        (call("submit_verdict", severity=1, justification="a"), "severity"),
        (ToolCall("c", "submit_verdict", ""), "arguments_not_json"),
        (ToolCall("c", "submit_verdict", "{"), "arguments_not_json"),
        (ToolCall("c", "submit_verdict", "[]"), "arguments_not_object"),
        (ToolCall("c", "submit_verdict", "null"), "arguments_not_object"),
        (
            ToolCall(
                "c",
                "submit_verdict",
                '{"severity":"warn","severity":"pass","justification":"a"}',
            ),
            "arguments_duplicate_keys",
        ),
        (ToolCall("c", "submit_verdict", verdict().arguments + " " * 16_384), "over_limit"),
        (ToolCall("c" * 129, "submit_verdict", verdict().arguments), "over_limit"),
        (ToolCall("c", "submit_verdict", '{"severity":"\ud800"}'), "not_unicode"),
    ],
)
def test_rules_3_and_5_what_is_no_valid_verdict_is_answered_and_charged(
    submitted: ToolCall, reason: str
) -> None:
    events = play(say(submitted))
    assert only(VerdictRejected, events).reason == reason
    assert only(TurnCharged, events).reasons == ("invalid_verdict",)
    assert not isinstance(events[-1], CLOSING)


@pytest.mark.parametrize("words", ["x" * 8_192, "\u0001" * 1_365, "é" * 4_096])
def test_rule_3_a_justification_may_have_8_kib_as_it_stands_in_the_record(words: str) -> None:
    submitted = ToolCall(
        "c",
        "submit_verdict",
        json.dumps({"severity": "warn", "justification": words}, ensure_ascii=False),
    )
    assert only(VerdictGiven, play(say(submitted))).justification == words


def test_rule_3_other_calls_beside_a_verdict_are_ignored_and_not_run() -> None:
    events = play(say(read("a.py"), verdict(), call("rm"), verdict("maybe")))
    ignored = all_of(CallIgnored, events)
    assert [(e.call, e.count, e.reason) for e in ignored] == [
        (place, 1, "beside_verdict") for place in (0, 2, 3)
    ]
    assert only(VerdictGiven, events).call == 1
    assert not all_of(ReadAnswered, events)
    assert not all_of(ToolRefused, events)


def test_rule_3_the_same_verdict_twice_is_one_verdict() -> None:
    events = play(say(verdict("pass"), verdict(" PASS")))
    assert only(VerdictGiven, events).call == 0
    assert only(CallIgnored, events).call == 1


@pytest.mark.parametrize("second", [verdict("warn"), verdict("pass", "It holds. ")])
def test_rule_3_two_valid_verdicts_that_differ_are_both_invalid(second: ToolCall) -> None:
    events = play(say(verdict("pass"), second))
    rejected = all_of(VerdictRejected, events)
    assert [(e.call, e.reason) for e in rejected] == [(0, "conflicting"), (1, "conflicting")]
    assert not all_of(VerdictGiven, events)


# ── rule 4 ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("step", "recorded", "reason"),
    [
        (say(read("b.py")), ToolRefused, "refused"),
        (say(read("a.py")), ToolRefused, "refused"),
        (say(call("write_file")), ToolRefused, "refused"),
        (say(verdict("fine")), VerdictRejected, "invalid_verdict"),
        (say(content="My verdict: PASS"), Narrated, "narration"),
        (say(content=json.dumps({"severity": "pass"})), Narrated, "narration"),
        (say(), Narrated, "narration"),
    ],
)
def test_rule_4_a_withdrawn_turn_without_a_valid_verdict_is_an_error_at_once(
    step: Step, recorded: type[Event], reason: str
) -> None:
    events = play(say(read("a.py")), step, say(verdict()), turns=2)
    last = in_turn(2, events)
    only(recorded, last)
    assert only(TurnCharged, last).reasons == (reason,)
    failed = events[-1]
    assert isinstance(failed, EvaluationFailed)
    assert (failed.error, failed.severity, failed.cause) == (True, "blocker", "no_verdict")


def test_rule_4_a_read_in_a_withdrawn_turn_is_refused_as_withdrawn() -> None:
    events = play(say(read("a.py")), say(read("a.py"), call("write_file")), turns=2)
    assert [e.reason for e in all_of(ToolRefused, events)] == ["withdrawn", "not_offered"]


# ── rules 5, 6 and 7 ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (call("write_file", path="a.py"), "not_offered"),
        (call("git_log"), "not_offered"),
        (call("", path="a.py"), "not_offered"),
        (ToolCall("c", "read_file", ""), "arguments_not_json"),
        (ToolCall("c", "read_file", "{path: a.py}"), "arguments_not_json"),
        (ToolCall("c", "read_file", '["a.py"]'), "arguments_not_object"),
        (ToolCall("c", "read_file", '{"path":"a","path":"a"}'), "arguments_duplicate_keys"),
        (ToolCall("c", "read_file", "{}"), "arguments_unfit"),
        (call("read_file", path="a.py", mode="r"), "arguments_unfit"),
        (call("read_file", path=1), "arguments_unfit"),
        (call("read_file_lines", path="a.py", start=0, end=1), "arguments_unfit"),
        (call("read_file_lines", path="a.py", start=1, end=True), "arguments_unfit"),
        (call("read_file", path="\ud800"), "not_unicode"),
        (ToolCall("c", "read_file", '{"path":"\ud800"}'), "not_unicode"),
        (ToolCall("c", "read_file", '{"path":"a.py"}' + " " * 4_096), "over_limit"),
        (ToolCall("c" * 129, "read_file", '{"path":"a.py"}'), "over_limit"),
        (ToolCall("c", "r" * 129, '{"path":"a.py"}'), "over_limit"),
    ],
)
def test_rule_5_a_call_that_cannot_be_taken_is_refused_never_run_and_charged(
    refused: ToolCall, reason: str
) -> None:
    events = play(say(refused))
    assert only(ToolRefused, events).reason == reason
    assert only(TurnCharged, events).reasons == ("refused",)
    assert not all_of(ReadAnswered, events)


def test_rule_5_broken_arguments_never_become_an_empty_object() -> None:
    """`list_files` takes `{}`: text that is none must not be read as that."""
    texts = ("", " ", "{", "null", "undefined", "{}{}")
    events = play(
        *(say(ToolCall("c", "list_files", text)) for text in texts), declared=("list_files",)
    )
    assert len(all_of(ToolRefused, events)) == len(texts)
    assert not all_of(ReadAnswered, events)


def test_rule_5_a_fresh_read_runs_with_normalised_arguments_and_a_repeat_never_runs() -> None:
    ran: list[tuple[str, dict[str, Any]]] = []
    evaluation = Evaluation(opened(9))
    events: list[Event] = []
    for step in (
        say(read("/src/app//lib/./b.py"), read("lib\\b.py")),
        say(read("lib/b.py/")),
    ):
        open_turn(evaluation)
        responded = _responded(evaluation, step)
        turn = hear(evaluation, responded)
        try:
            place, wanted = next(turn)
            while True:
                ran.append((wanted.tool, dict(wanted.arguments)))
                place, wanted = turn.send(_answer(evaluation, place, wanted))
        except StopIteration as stop:
            events += stop.value
    assert ran == [("read_file", {"path": "lib/b.py"})]
    hits = all_of(RepeatReadHit, events)
    assert [(e.turn, e.call, e.first_turn) for e in hits] == [(1, 1, 1), (2, 0, 1)]


def _responded(evaluation: Evaluation, step: Step) -> ModelResponded:
    from causebook.domain.admission import admit_response

    return admit_response(
        step.response,
        turn=evaluation.turn,
        try_number=1,
        required=None,
        commit=lambda body: hashlib.sha256(body).hexdigest(),
    )


def _answer(evaluation: Evaluation, place: int, wanted: Any) -> ReadAnswered:
    from causebook.domain.evaluation import answer

    return answer(
        wanted,
        turn=evaluation.turn,
        call=place,
        result="a" * 64,
        lines=None,
        cut=False,
        error=False,
        blob=None,
    )


def test_rule_5_a_tool_that_fails_is_remembered_and_is_progress() -> None:
    events = play(say(read("gone.py")), say(read("gone.py")))
    assert only(ReadAnswered, events).error
    assert only(TurnCharged, events).reasons == ("fresh_read",)
    assert only(RepeatReadHit, events).match == "exact"


def test_rule_5_calls_past_the_64th_are_counted_in_one_event_and_are_no_progress() -> None:
    events = play(say(read("a.py")), say(*[read("a.py")] * 70))
    second = in_turn(2, events)
    assert len(all_of(RepeatReadHit, second)) == 64
    ignored = only(CallIgnored, second)
    assert (ignored.call, ignored.count, ignored.reason) == (64, 6, "over_limit")
    only(TurnSpared, second)


def test_rule_5_a_verdict_past_the_64th_call_is_not_heard() -> None:
    events = play(say(*[read("a.py")] * 64, verdict()))
    assert not all_of(VerdictGiven, events)
    assert only(CallIgnored, events).count == 1


@pytest.mark.parametrize("content", [None, "", "PASS", '{"severity":"pass"}'])
def test_rule_6_prose_or_silence_is_narration_and_the_next_turn_is_the_last(
    content: str | None,
) -> None:
    events = play(say(content=content), say(content=content))
    assert only(TurnCharged, in_turn(1, events)).reasons == ("narration",)
    assert only(ToolsWithdrawn, events).reason == "narration"
    assert isinstance(events[-1], EvaluationFailed)
    assert all_of(Narrated, events)[0].text_bytes == len(content or "")


def test_rule_7_only_repeats_are_spared_and_any_progress_is_charged() -> None:
    again = read("a.py")
    events = play(say(again), say(again), say(again, again), say(again, read("b.py")), say(again))
    counted = [e for e in events if isinstance(e, TurnCharged | TurnSpared)]
    assert [type(e).__name__ for e in counted] == [
        "TurnCharged",
        "TurnSpared",
        "TurnSpared",
        "TurnCharged",
        "TurnSpared",
    ]
    assert [e.stall for e in all_of(TurnSpared, events)] == [1, 2, 1]
    assert [e.turns_used for e in all_of(TurnCharged, events)] == [1, 2]


def test_rule_7_every_kind_of_progress_is_named_once_in_a_fixed_order() -> None:
    events = play(
        say(verdict("no"), call("rm"), read("b.py"), read("c.py"), read("b.py"), call("mv"))
    )
    assert only(TurnCharged, events).reasons == ("fresh_read", "refused", "invalid_verdict")


# ── rules 8, 9 and 10 ──────────────────────────────────────────────────────────────────────────────


def test_rule_8_a_provider_that_fails_for_good_closes_as_an_error_and_charges_nothing() -> None:
    events = play(say(read("a.py")), Step(Response(None), (BUSY, DOWN)))
    last = in_turn(2, events)
    assert [type(e) for e in last] == [
        TurnOpened,
        ModelCallFailed,
        ModelCallFailed,
        EvaluationFailed,
    ]
    failed = only(EvaluationFailed, last)
    assert (failed.error, failed.severity, failed.cause) == (True, "blocker", "provider_fault")
    assert failed.justification == "The model gave no answer: auth, status 401, at try 2."
    assert failed.examined.count == 1


def test_rule_8_retries_change_neither_count() -> None:
    plain = play(say(read("a.py")), say(read("a.py")), say(verdict()))
    retried = play(
        Step(say(read("a.py")).response, (BUSY, BUSY)),
        Step(say(read("a.py")).response, (BUSY,)),
        say(verdict()),
    )
    counts = (TurnCharged, TurnSpared)
    assert [e for e in plain if isinstance(e, counts)] == [
        e for e in retried if isinstance(e, counts)
    ]


def test_rule_9_a_declined_tool_choice_is_asked_again_without_it_and_the_answer_counts() -> None:
    events = play(Step(say(verdict("warn")).response, (DECLINES,)), turns=1)
    declined = only(ToolChoiceDeclined, events)
    assert (declined.try_number, declined.status) == (1, 400)
    responded = only(ModelResponded, events)
    assert (responded.try_number, responded.tool_choice_sent) == (2, False)
    assert responded.tool_choice_honoured is True
    assert only(VerdictGiven, events).severity == "warn"


@pytest.mark.parametrize("turns_before", [0, 1, 3])
def test_rule_10_an_evaluation_whose_runner_is_gone_is_closed_as_an_error(
    turns_before: int,
) -> None:
    steps = tuple(say(read(f"{at}.py")) for at in range(turns_before))
    events, evaluation = run(Script(9, ("read_file",), steps), interrupted=True)
    failed = events[-1]
    assert isinstance(failed, EvaluationFailed)
    assert (failed.error, failed.severity, failed.cause) == (True, "blocker", "interrupted")
    assert failed.turn is None
    assert failed.examined.count == turns_before
    assert evaluation.closed is failed


def test_an_evaluation_that_is_closed_takes_no_turn_and_no_interruption() -> None:
    _, evaluation = run(Script(9, ("read_file",), (say(verdict()),)))
    with pytest.raises(ValueError, match="closed"):
        open_turn(evaluation)
    with pytest.raises(ValueError, match="closed"):
        interrupt(evaluation)


# ── what the seeds tell ────────────────────────────────────────────────────────────────────────────


def test_adr_045_the_architecture_judge_that_goes_back_to_reading_is_an_error() -> None:
    """Fourteen files, then prose; asked for a verdict, it reads on. The menu no longer has reads on it."""
    files = [say(read(f"file-{at}.py")) for at in range(14)]
    events = play(*files, say(content="On the whole this is sound."), say(read("file-14.py")))
    last = in_turn(16, events)
    assert only(TurnOpened, last).offered == ("submit_verdict",)
    assert only(ToolRefused, last).reason == "withdrawn"
    failed = only(EvaluationFailed, last)
    assert (failed.cause, failed.severity, failed.error) == ("no_verdict", "blocker", True)
    assert failed.examined.count == 14


def test_adr_045_a_warn_on_incomplete_reading_is_a_real_verdict() -> None:
    words = "I could not read all of it."
    events = play(say(read("a.py")), say(verdict("warn", words)), turns=2)
    closing = events[-1]
    assert isinstance(closing, VerdictGiven)
    assert (closing.severity, closing.justification) == ("warn", words)


def test_adr_045_what_a_failing_judge_examined_travels_with_the_error() -> None:
    script = Script(
        4,
        ("read_file", "read_file_lines"),
        (say(read("a.py"), read("gone.py")), say(read("a.py", 2, 3)), say(), say()),
    )
    events, evaluation = run(script)
    listed = [
        [1, "read_file", "a.py", "answered"],
        [1, "read_file", "gone.py", "failed"],
        [2, "read_file_lines", "a.py:2-3", "repeat"],
    ]
    text = json.dumps(listed, separators=(",", ":"))
    failed = events[-1]
    assert isinstance(failed, EvaluationFailed)
    assert failed.examined.count == 3
    assert failed.examined.digest == hashlib.sha256(text.encode()).hexdigest()
    assert failed.examined.digest == examined_digest(evaluation.examined)


def test_adr_050_a_judge_that_only_circles_is_stopped_long_before_its_budget() -> None:
    events = play(*[say(read("a.py"))] * 10, turns=200)
    assert only(ToolsWithdrawn, events).reason == "stall"
    assert len(all_of(TurnOpened, events)) == 1 + STALLS + 1
    assert isinstance(events[-1], EvaluationFailed)
    assert all_of(TurnCharged, events)[-1].turns_used == 2


def test_adr_050_a_judge_that_repeats_and_moves_on_keeps_the_budget_it_would_have_burned() -> None:
    again = say(read("0.py"))
    fresh = [say(read(f"{at}.py")) for at in range(4)]
    events = play(
        fresh[0], again, again, fresh[1], again, fresh[2], fresh[3], say(verdict()), turns=5
    )
    assert isinstance(events[-1], VerdictGiven)
    assert len(all_of(ReadAnswered, events)) == 4


@given(script=SCRIPTS)
@settings(max_examples=50)
def test_adr_050_without_a_repeat_turns_used_tracks_the_turns(script: Script) -> None:
    events, evaluation = run(script)
    answered = len(all_of(ModelResponded, events))
    assert evaluation.turns_used == answered - len(all_of(TurnSpared, events))


# ── what an evaluation may open with ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"declared": ("write_file",)}, "write_file is no read tool"),
        ({"declared": ("read_file",)}, "active: expected"),
        ({"phase": "pre_execute", "declared": ("read_diff_between_refs",)}, "active: expected"),
    ],
)
def test_the_tools_an_evaluation_opens_with_are_those_of_the_law(
    change: dict[str, Any], fault: str
) -> None:
    assert grants_fault(opened()) is None
    assert fault in (grants_fault(opened().model_copy(update=change)) or "")


def test_the_defaults_an_evaluation_opens_with_are_those_of_the_law() -> None:
    lawful = opened(9, ("git_log",))
    assert grants_fault(lawful) is None
    other = lawful.active[0].model_copy(update={"defaults": {"n": 6}})
    fault = grants_fault(lawful.model_copy(update={"active": (other,)}))
    assert fault is not None
    assert "defaults" in fault
