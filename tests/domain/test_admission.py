"""What is let into the record: texts within their limits, commitments past them, and records that fit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causebook.domain.admission import admit_fault, admit_response, label, misjudged_length
from causebook.domain.canonical import INTEGER_MAX, escaped_bytes
from causebook.domain.events import (
    AttemptClosed,
    Ballot,
    Call,
    Counts,
    EvaluationOpened,
    Event,
    Granted,
    Head,
    Mandate,
    ModelCallFailed,
    ModelResponded,
    PanelConvened,
    PanelDecided,
    ReadAnswered,
    Runner,
    TaskHalted,
    ToolChoiceDeclined,
    VerdictGiven,
    Withheld,
    WorkspaceFacts,
)
from causebook.domain.evidence import response_bytes, response_from
from causebook.domain.limits import NAME_BYTES_MAX
from causebook.domain.ports import ModelFault, Response, ToolCall
from causebook.domain.quorum import decided, halt_reason
from causebook.domain.reads import normalise
from causebook.domain.record import parse, write, written_time
from causebook.domain.streams import evaluation_stream
from causebook.domain.tools import READ_TOOLS

from .account import OVER, within_limits
from .scripts import SCRIPTS, Keeper, Script, read, verdict

READ = '{"path":"a.py"}'


def admit(
    *calls: ToolCall, required: str | None = None, keep: Keeper | None = None, **said: Any
) -> ModelResponded:
    content = said.pop("content", None)
    return admit_response(
        Response(content, calls, **said),
        turn=1,
        try_number=1,
        required=required,
        commit=keep or Keeper(),
    )


def whole(text: str | Withheld | None) -> bool:
    return isinstance(text, str)


# ── limits ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("within", "over"),
    [
        ("n" * 128, "n" * 129),
        ('"' * 64, '"' * 65),
        ("\u0001" * 21, "\u0001" * 22),
        ("é" * 64, "é" * 65),
        ("\U0001f600" * 32, "\U0001f600" * 33),
        ("", "\ud800"),
    ],
)
@pytest.mark.parametrize("field", ["id", "name"])
def test_names_and_ids_have_at_most_128_bytes_as_they_stand(
    field: str, within: str, over: str
) -> None:
    plain: dict[str, Any] = {"id": "c", "name": "read_file", "arguments": READ}
    assert whole(getattr(admit(ToolCall(**{**plain, field: within})).calls[0], field))
    assert not whole(getattr(admit(ToolCall(**{**plain, field: over})).calls[0], field))


@pytest.mark.parametrize(("name", "limit"), [("read_file", 4_096), ("submit_verdict", 16_384)])
@pytest.mark.parametrize("filler", ["x", '"', "\n", "\u0001", "é"])
def test_argument_text_has_its_limit_as_it_stands(name: str, limit: int, filler: str) -> None:
    size = {"x": 1, '"': 2, "\n": 2, "\u0001": 6, "é": 2}[filler]
    most = filler * (limit // size)
    assert whole(admit(ToolCall("c", name, most)).calls[0].arguments)
    assert not whole(admit(ToolCall("c", name, most + filler)).calls[0].arguments)


def test_a_turn_has_24_kib_of_argument_text_and_what_is_withheld_takes_none_of_it() -> None:
    big, small = "x" * 4_096, "y"
    calls = [ToolCall("c", "read_file", text) for text in (*[big] * 5, big + "x", big, small)]
    kept = [whole(call.arguments) for call in admit(*calls).calls]
    assert kept == [True] * 5 + [False, True, False]


def test_the_24_kib_of_a_turn_are_counted_as_they_stand() -> None:
    calls = [ToolCall("c", "read_file", text) for text in (*['"' * 2_048] * 6, "y")]
    kept = [whole(call.arguments) for call in admit(*calls).calls]
    assert kept == [True] * 6 + [False]


def test_64_calls_stand_in_the_record_and_the_rest_is_counted() -> None:
    responded = admit(*[read("a.py")] * 70)
    assert (len(responded.calls), responded.calls_total) == (64, 70)


def test_what_is_withheld_leaves_its_length_why_and_a_commitment_to_its_bytes() -> None:
    keep = Keeper()
    long, broken = "é" * 3_000, '{"path":"\ud800"}'
    calls = (ToolCall("c", "read_file", long), ToolCall("c", "read_file", broken))
    first, second = (call.arguments for call in admit(*calls, keep=keep).calls)
    assert isinstance(first, Withheld)
    assert isinstance(second, Withheld)
    assert (first.length, first.why) == (6_000, "over_limit")
    assert second.why == "not_unicode"
    assert keep.items[first.commitment].body == long.encode()
    assert keep.items[second.commitment].body.decode("utf-8", "surrogatepass") == broken


@given(script=SCRIPTS)
@settings(max_examples=30)
def test_the_limits_are_those_of_the_account_and_a_record_never_stands_over_one(
    script: Script,
) -> None:
    for step in script.steps:
        responded = admit(*step.response.calls)
        assert misjudged_length(responded.calls) is None
        said = [(c.id, c.name, c.arguments) for c in step.response.calls[:64]]
        for call, expected in zip(responded.calls, within_limits(said), strict=True):
            for found, text in zip((call.id, call.name, call.arguments), expected, strict=True):
                if isinstance(found, Withheld):
                    assert (text is OVER) == (found.why == "over_limit")
                    assert not isinstance(text, str)
                else:
                    assert found == text


@pytest.mark.parametrize(
    ("calls", "place"),
    [
        ([("c", "read_file", "x" * 4_096)], None),
        ([("c", "read_file", "x" * 4_097)], 0),
        ([("c", "submit_verdict", "x" * 16_384)], None),
        ([("c", "other", READ), ("c", "submit_verdict", '"' * 8_193)], 1),
        ([("c" * 129, "read_file", READ)], 0),
        ([(None, "n" * 129, READ)], 0),
        ([("c", "read_file", "x" * 4_096)] * 6, None),
        ([("c", "read_file", "x" * 4_096)] * 6 + [("c", "read_file", "x")], 6),
    ],
)
def test_a_recorded_call_over_a_limit_is_found(
    calls: list[tuple[str | None, str, str]], place: int | None
) -> None:
    data = admit(read("a.py")).data()
    data["calls"] = [
        {"id": i, "name": name, "arguments": text, "was_object": False} for i, name, text in calls
    ]
    assert misjudged_length(ModelResponded.model_validate(data).calls) == place


WITHHELD: dict[str, list[tuple[str, int, int | None]]] = {
    # field: (tool, length in bytes, place where it is misjudged)
    "arguments": [
        ("read_file", 4_097, None),
        ("read_file", 683, None),
        ("read_file", 682, 0),
        ("submit_verdict", 16_385, None),
        ("submit_verdict", 2_731, None),
        ("submit_verdict", 2_730, 0),
        ("submit_verdict", 0, 0),
    ],
    "name": [("", 22, None), ("", 21, 0)],
    "id": [("submit_verdict", 22, None), ("submit_verdict", 21, 0)],
}


@pytest.mark.parametrize(
    ("field", "name", "length", "place"),
    [(field, *case) for field, cases in WITHHELD.items() for case in cases],
)
def test_a_recorded_call_withheld_though_it_fits_however_it_is_escaped_is_found(
    field: str, name: str, length: int, place: int | None
) -> None:
    """A blocker withheld for its length would be asked for again. Text of that many bytes may take six times
    as many as it stands; whether it did is in the evidence alone.
    """
    gone = Withheld(length=length, commitment="0" * 64, why="over_limit")
    call = Call(id="c", name=name, arguments=READ, was_object=False)
    assert misjudged_length([call]) is None
    assert misjudged_length([call.model_copy(update={field: gone})]) == place
    broken = gone.model_copy(update={"why": "not_unicode"})
    assert misjudged_length([call.model_copy(update={field: broken})]) is None


def test_a_call_withheld_for_want_of_room_in_its_turn_was_over_a_limit() -> None:
    """Six reads fill the turn: the seventh may be short, and is withheld all the same."""
    gone = Withheld(length=4, commitment="0" * 64, why="over_limit")
    full = Call(id="c", name="read_file", arguments="x" * 4_096, was_object=False)
    short = full.model_copy(update={"arguments": gone})
    assert misjudged_length([*[full] * 6, short]) is None
    assert misjudged_length([*[full] * 5, short]) == 5


# ── what is kept ───────────────────────────────────────────────────────────────────────────────────


def test_the_content_commits_to_all_of_the_answer_and_gives_it_back() -> None:
    keep = Keeper()
    calls = (
        ToolCall(None, "", "", True),
        ToolCall("\ud800", "read_file", "x" * 9_000),
        *[read("a.py")] * 80,
    )
    responded = admit(*calls, keep=keep, content="PASS \udfff", finish_reason="length")
    item = keep.items[responded.content]
    assert item.holds()
    assert item.body.isascii()
    given_back = response_from(item.body)
    assert given_back == Response("PASS \udfff", calls, finish_reason="length")
    assert response_bytes(given_back) == item.body
    assert responded.text_bytes == len("PASS ") + 3


@pytest.mark.parametrize(
    ("calls", "required", "honoured"),
    [
        ((verdict(),), None, None),
        ((), None, None),
        ((verdict(),), "submit_verdict", True),
        ((read("a.py"), verdict("no")), "submit_verdict", True),
        ((read("a.py"),), "submit_verdict", False),
        ((), "submit_verdict", False),
        ((*[read("a.py")] * 64, verdict()), "submit_verdict", True),
    ],
)
def test_conduct_is_recorded_exactly_where_a_tool_was_required(
    calls: tuple[ToolCall, ...], required: str | None, honoured: bool | None
) -> None:
    assert admit(*calls, required=required).tool_choice_honoured is honoured


def test_an_object_in_the_place_of_text_stays_marked() -> None:
    assert admit(ToolCall("c", "read_file", READ, was_object=True)).calls[0].was_object
    assert not admit(ToolCall("c", "read_file", READ)).calls[0].was_object


@pytest.mark.parametrize(
    ("said", "kept"),
    [(None, None), (0, 0), (12, 12), (-5, 0), (2**60, INTEGER_MAX), (INTEGER_MAX, INTEGER_MAX)],
)
def test_counts_stay_within_what_every_reader_keeps_exact(said: int | None, kept: int) -> None:
    responded = admit(
        prompt_tokens=said, completion_tokens=said, milliseconds=said if said is not None else 0
    )
    assert (responded.prompt_tokens, responded.completion_tokens) == (kept, kept)
    assert responded.milliseconds == (kept or 0)


@given(text=st.text(st.characters(), max_size=200) | st.just("\ud800" * 200))
def test_another_partys_name_becomes_a_label_of_unicode_text(text: str) -> None:
    found = label(text)
    # As long as it can be: a character more would not fit, or was not there.
    assert (escaped_bytes(found) or 0) <= NAME_BYTES_MAX
    if len(found) < min(len(text), NAME_BYTES_MAX):
        following = text[len(found)].encode("utf-8", "replace").decode()
        assert (escaped_bytes(found + following) or 0) > NAME_BYTES_MAX - 6
    found.encode()
    for kept, said in zip(found, text, strict=False):
        assert kept == ("\ufffd" if "\ud800" <= said <= "\udfff" else said)
    assert admit(model=text, client=text, client_version=text).model == found


@pytest.mark.parametrize("declined", [False, True])
def test_a_fault_is_recorded_with_the_providers_words_as_evidence(declined: bool) -> None:
    keep = Keeper()
    fault = ModelFault("bad_request", status=400, retry_after_ms=10**20, detail="no \ud800!")
    event = admit_fault(fault, turn=3, try_number=2, declined=declined, commit=keep)
    assert type(event) is (ToolChoiceDeclined if declined else ModelCallFailed)
    assert (event.turn, event.try_number, event.error, event.status) == (3, 2, "bad_request", 400)
    assert event.retry_after_ms == INTEGER_MAX
    assert event.detail is not None
    assert keep.items[event.detail].body == b"no \xed\xa0\x80!"


def test_a_fault_without_words_commits_to_nothing_and_always_has_a_class() -> None:
    event = admit_fault(ModelFault(""), turn=1, try_number=1, declined=False, commit=Keeper())
    assert (event.error, event.status, event.detail) == ("other", None, None)


# ── the worst of each still fits ───────────────────────────────────────────────────────────────────

ID = "i" * 128
ATTEMPT = 999_999_999_999_999
STREAM = evaluation_stream(ID, ATTEMPT, "post_execute", ID)
ORIGIN = "\U0001f600" * 255


def size(event: Event) -> int:
    """Bytes of the record of `event`, in the longest stream of the ledger with the longest name."""
    raw, _ = write(
        event.kind(),
        event.fields(),
        at=written_time(datetime(2026, 1, 1, tzinfo=UTC)),
        ledger=ORIGIN,
        previous="0" * 64,
        stream=STREAM,
        version=INTEGER_MAX,
        keyid="0" * 64,
        sign=lambda _: bytes(64),
    )
    parse(raw)
    return len(raw)


def test_the_worst_answer_of_a_model_fits() -> None:
    """64 calls with the longest ids and names; argument text up to the turn's limit, all others withheld."""
    control = "\u0001" * 200
    calls = [ToolCall("i" * 128, "n" * 128, "x" * (4_096 if at < 6 else 5_000)) for at in range(64)]
    calls += [calls[0]] * 10_000
    worst = admit_response(
        Response(
            "",
            tuple(calls),
            model=control,
            client=control,
            client_version=control,
            prompt_tokens=INTEGER_MAX,
            completion_tokens=INTEGER_MAX,
            milliseconds=INTEGER_MAX,
        ),
        turn=200,
        try_number=4,
        required="submit_verdict",
        commit=Keeper(),
    )
    assert sum(len(c.arguments) for c in worst.calls if isinstance(c.arguments, str)) == 24_576
    assert size(worst) > 50_000


@pytest.mark.parametrize("text", ["\ud800" * 50_000, "x" * 50_000])
def test_an_answer_of_which_everything_is_withheld_fits(text: str) -> None:
    worst = admit(*[ToolCall(text, text, text)] * 64)
    assert all(isinstance(c.name, Withheld) for c in worst.calls)
    assert size(worst) > 20_000


@pytest.mark.parametrize("filler", ["x", "\u0001"])
def test_the_longest_verdict_fits(filler: str) -> None:
    words = filler * (8_192 // (1 if filler == "x" else 6))
    assert size(VerdictGiven(turn=200, call=63, severity="blocker", justification=words)) > 8_192


def test_the_longest_target_fits() -> None:
    text = "\u0001" * (4_080 // 6)
    wanted = normalise("git_show", {"ref": text, "path": text})
    answered = ReadAnswered(
        turn=200,
        call=63,
        tool=wanted.tool,
        target=wanted.target,
        key=wanted.key,
        result="0" * 64,
        lines=(1, INTEGER_MAX),
        cut=True,
        error=False,
        blob="0" * 64,
    )
    assert size(answered) > 8_000


@pytest.mark.parametrize("criteria", [("x" * 16_384,), ("x" * 64,) * 256])
def test_the_longest_opening_fits(criteria: tuple[str, ...]) -> None:
    worst = EvaluationOpened(
        task=ID,
        attempt=ATTEMPT,
        phase="post_execute",
        judge=ID,
        law="law/1",
        max_tool_turns=200,
        max_stall_turns=3,
        declared=tuple(READ_TOOLS),
        active=tuple(Granted(name=n, defaults=t.defaults()) for n, t in READ_TOOLS.items()),
        criteria=criteria,
        model="m" * 512,
        prompt_version="p" * 512,
        prompt=("0" * 64,) * 16,
        root="/" * 4_096,
        workspace=WorkspaceFacts(commit="0" * 64, tree="0" * 64, dirty=True),
    )
    assert size(worst) > 20_000


def test_the_largest_panel_fits_when_it_is_convened() -> None:
    mandate = Mandate(
        judge=ID,
        model="m" * 512,
        criteria_digest="0" * 64,
        tools=tuple(READ_TOOLS),
        max_tool_turns=200,
    )
    worst = PanelConvened(
        attempt=ATTEMPT,
        phase="post_execute",
        policy="unanimous",
        judges=(mandate,) * 32,
        brief="0" * 64,
        base="0" * 64,
        workspace=WorkspaceFacts(commit="0" * 64, tree="0" * 64, dirty=True),
        root="/" * 4_096,
        runner=Runner(id="0" * 32, host="h" * 512, process=INTEGER_MAX),
    )
    assert size(worst) > 30_000


def test_the_largest_panel_fits_when_it_decides_and_its_halt_names_every_judge() -> None:
    ballot = Ballot(
        judge=ID,
        severity="blocker",
        error=True,
        stream=STREAM,
        version=INTEGER_MAX,
        digest="0" * 64,
    )
    worst = decided(ATTEMPT, "post_execute", "unanimous", (ballot,) * 32)
    assert isinstance(worst, PanelDecided)
    assert worst.counts == Counts.model_validate({"pass": 0, "warn": 0, "blocker": 32, "total": 32})
    assert size(worst) > 20_000
    halted = TaskHalted(
        attempt=ATTEMPT,
        phase="post_execute",
        raw_halt_type="validator_error",
        halt_type="validator_error",
        reason=halt_reason(worst),
        decided="0" * 64,
    )
    assert size(halted) > 4_000


def test_the_closing_of_an_attempt_with_two_of_the_largest_panels_fits() -> None:
    head = Head(stream=STREAM, version=INTEGER_MAX, digest="0" * 64)
    worst = AttemptClosed(attempt=ATTEMPT, outcome="blocked", heads=(head,) * 65)
    assert size(worst) > 25_000
