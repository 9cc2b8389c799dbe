"""What a judge was convened to do, told, shown and said, against what its records claim; what an erasure may
claim; and a task that was cut short.

An insider signs it all, so each ledger here is authentic and unlawful; its twin, beside it, passes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from causebook.adapters.findings import DIFFERS, FIRST_LOOK, TAMPERED, UNLAWFUL, Finding
from causebook.adapters.reading import evidence_fault
from causebook.adapters.verification.verify import verify
from causebook.domain.admission import admit_response
from causebook.domain.canonical import encode
from causebook.domain.evaluation import Evaluation, hear, open_turn
from causebook.domain.events import (
    Call,
    EvidenceErased,
    ModelResponded,
    VerdictRejected,
    Withheld,
)
from causebook.domain.ports import ReadResult, Response
from causebook.domain.quorum import decided
from tests.adapters.forge import Forge, document, reads, said, small_ledger, verdict

STREAM = "evaluation/T-1/1/post_execute/security"
TASK = "task/T-1"


def judged(**panel: Any) -> Forge:
    """A task that one judge passed."""
    forge = Forge().found()
    forge.open_task("T-1")
    forge.panel("T-1", {"security": [reads("a.py"), verdict("pass")]}, **panel)
    return forge


def found(forge: Forge) -> Finding:
    """The one finding, which is that of the law; the ledger is authentic."""
    report = verify(forge.source(), processes=0)
    (finding,) = report.findings
    assert (finding.check, finding.code, report.codes) == ("law", UNLAWFUL, [UNLAWFUL])
    return finding


def passes(forge: Forge) -> bool:
    report = verify(forge.source(), processes=0)
    return (report.code, report.findings) == (FIRST_LOOK, [])


# ── what the judge was told ────────────────────────────────────────────────────────────────────────


def other_brief(forge: Forge, prompt: list[str]) -> list[str]:
    return [prompt[0], forge.keep("T-1", b"Be lenient.")]


def third_message(forge: Forge, prompt: list[str]) -> list[str]:
    return [*prompt, forge.keep("T-1", b"Be lenient.")]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (other_brief, "2 messages"),
        (third_message, "3 messages"),
        (lambda forge, prompt: [], "0 messages, no brief"),
        (lambda forge, prompt: prompt[:1], "1 messages, no brief"),
        (lambda forge, prompt: prompt[1:], "1 messages, no brief"),
        (lambda forge, prompt: prompt[::-1], "2 messages"),
        (lambda forge, prompt: [prompt[0], prompt[0]], "2 messages"),
    ],
    ids=[
        "another brief",
        "a third message",
        "nothing",
        "no brief",
        "brief alone",
        "turned",
        "twice",
    ],
)
def test_a_judge_told_other_than_its_panels_brief(
    change: Callable[[Forge, list[str]], list[str]], told: str
) -> None:
    forge = judged()

    def tell(saying: dict[str, Any]) -> None:
        saying["data"]["prompt"] = change(forge, saying["data"]["prompt"])

    forge.resign(STREAM, 1, tell)
    finding = found(forge)
    assert finding.place == f"{STREAM} v1"
    assert finding.expected.startswith("prompt: the judge's own message, then the panel's brief ")
    assert finding.found.startswith(told)


def test_a_judge_told_a_brief_where_the_panel_has_none() -> None:
    forge = judged()
    forge.resign(TASK, 3, lambda saying: saying["data"].update(brief=None))
    assert found(forge).place == f"{STREAM} v1"


def test_the_twin_of_each_is_told_its_panels_brief() -> None:
    assert passes(judged())


@pytest.mark.parametrize(
    ("field", "value"),
    [("prompt_version", "prompt/0"), ("prompt_version", "prompt/1 "), ("max_tool_turns", 19)],
)
def test_an_evaluation_under_a_prompt_or_a_budget_of_its_own(field: str, value: object) -> None:
    forge = judged()
    forge.resign(STREAM, 1, lambda saying: saying["data"].update({field: value}))
    finding = found(forge)
    assert finding.place == f"{STREAM} v1"
    assert finding.expected.startswith(f"{field} as convened: ")
    assert finding.found == str(value)


# ── what it was given ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("declared", [("read_file",) * 2, ("read_file", "git_log", "read_file")])
def test_a_tool_granted_twice(declared: Sequence[str]) -> None:
    """The panel's mandate says so too: only the law forbids it."""
    finding = found(judged(declared=declared))
    assert (finding.place, finding.found) == (f"{STREAM} v1", "declared: expected each tool once")


def with_criteria(criteria: list[str]) -> Forge:
    """A ledger in which panel and judge agree on these criteria."""
    forge = judged()
    digest = hashlib.sha256(encode(criteria)).hexdigest()

    def mandate(saying: dict[str, Any]) -> None:
        saying["data"]["judges"][0]["criteria_digest"] = digest

    forge.resign(TASK, 3, mandate)
    forge.resign(STREAM, 1, lambda saying: saying["data"].update(criteria=criteria))
    return forge


def test_a_judge_convened_with_a_tool_that_there_is_not() -> None:
    forge = judged()
    version = forge.last(TASK, "PanelConvened")

    def change(said: dict[str, Any]) -> None:
        said["data"]["judges"][0]["tools"] = ["read_mind"]

    forge.resign(TASK, version, change)
    report = verify(forge.source(), processes=0)
    assert report.codes == [UNLAWFUL]
    assert [(each.place, each.found) for each in report.findings] == [
        (f"{TASK} v{version}", "PanelConvened"),
        (f"{STREAM} v1", "read_mind"),
    ]


@pytest.mark.parametrize(
    "criteria",
    [[], ["x" * 16_384, "y"], ["x" * 8_193, "x" * 8_192], ['"' * 8_193]],
    ids=["none", "one more", "together", "as they stand escaped"],
)
def test_criteria_that_no_judge_can_be_given(criteria: list[str]) -> None:
    finding = found(with_criteria(criteria))
    assert finding.place == f"{STREAM} v1"
    assert finding.found == "criteria: expected some, of at most 16384 bytes in all"


@pytest.mark.parametrize("criteria", [["x"], ["x" * 16_384], ["x" * 8_192] * 2, ['"' * 8_192]])
def test_the_twin_with_as_many_criteria_as_there_may_be(criteria: list[str]) -> None:
    assert passes(with_criteria(criteria))


# ── what it said ───────────────────────────────────────────────────────────────────────────────────


def answered(change: Callable[[ModelResponded], ModelResponded], blocker: Response) -> Forge:
    """A judge that said `blocker` first, of which the record says what `change` makes of it; then pass."""
    forge = Forge().found()
    forge.open_task("T-1")
    tools = ("read_file",)
    forge.convene("T-1", ("security",), 1, "post_execute", "any", declared=tools, turns_max=20)
    opened = forge.open_evaluation("T-1", 1, "post_execute", "security", tools, 20)
    evaluation = Evaluation(opened)
    for response, changed in ((blocker, change), (verdict("pass"), lambda as_it_is: as_it_is)):
        events = open_turn(evaluation)
        responded = admit_response(
            response,
            turn=evaluation.turn,
            try_number=1,
            required=None,
            commit=lambda body: forge.keep("T-1", body),
        )
        with pytest.raises(StopIteration) as end:
            next(hear(evaluation, changed(responded)))
        forge.write_all(STREAM, [*events, *end.value.value])
    ballots = [forge.ballot(STREAM, "security")]
    forge.follow("T-1", decided(1, "post_execute", "any", ballots))
    return forge


def withheld(length: int) -> Callable[[ModelResponded], ModelResponded]:
    """The blocker's argument text withheld, said to be `length` bytes long."""

    def change(responded: ModelResponded) -> ModelResponded:
        (call,) = responded.calls
        text = Withheld(length=length, commitment=responded.content, why="over_limit")
        told = Call(id=call.id, name=call.name, arguments=text, was_object=False)
        return responded.model_copy(update={"calls": (told,)})

    return change


@pytest.mark.parametrize("length", [0, 60, 2_730])
def test_a_blocker_withheld_as_too_long_though_it_fits(length: int) -> None:
    forge = answered(withheld(length), verdict("blocker", "It leaks."))
    finding = found(forge)
    assert (finding.place, finding.expected) == (
        f"{STREAM} v3",
        "call 0 withheld exactly where it is over a limit",
    )


def test_the_twin_that_was_too_long_is_lawful() -> None:
    """Withheld by the writer, rejected, and asked for again."""
    forge = answered(lambda as_it_is: as_it_is, verdict("blocker", "It leaks. " * 2_000))
    rejected = document(forge.rows[forge.at(STREAM, 4)])
    assert rejected["type"] == VerdictRejected.kind()
    assert rejected["data"]["reason"] == "over_limit"
    assert passes(forge)


# ── what it was shown ──────────────────────────────────────────────────────────────────────────────

LINES = ("read_file_lines", '{"path":"a.py","start":10,"end":20}')


def shown(call: tuple[str, str], lines: tuple[int, int] | None, *, error: bool = False) -> Forge:
    """A judge whose one read was answered with these lines."""
    forge = Forge(workspace=lambda tool, arguments: ReadResult("text", lines=lines, error=error))
    forge.found()
    forge.open_task("T-1")
    declared = ("read_file", "read_file_lines", "list_files")
    forge.panel("T-1", {"security": [said(call), verdict("pass")]}, declared=declared)
    return forge


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        (LINES, (9, 20)),
        (LINES, (10, 21)),
        (LINES, (21, 30)),
        (LINES, (1, 9)),
        (LINES, (20, 10)),
        (LINES, (12, 11)),
        (("read_file", '{"path":"a.py"}'), (2, 1)),
        (("list_files", "{}"), (1, 1)),
    ],
)
def test_an_answer_that_claims_lines_it_was_not_asked_for(
    call: tuple[str, str], lines: tuple[int, int]
) -> None:
    """A later read of them would be a repeat, answered with a pointer to what was never shown."""
    finding = found(shown(call, lines))
    assert finding.place == f"{STREAM} v4"
    assert finding.expected.startswith("lines: expected ")
    assert finding.found == str(lines)


@pytest.mark.parametrize(
    ("call", "lines", "error"),
    [
        (LINES, (10, 20), False),
        (LINES, (12, 12), False),
        (LINES, None, False),
        (LINES, (20, 10), True),
        (("read_file", '{"path":"a.py"}'), (1, 1), False),
        (("list_files", "{}"), None, False),
        (("list_files", "{}"), (1, 1), True),
    ],
)
def test_the_twin_that_claims_what_it_was_asked_for(
    call: tuple[str, str], lines: tuple[int, int] | None, error: bool
) -> None:
    """What a failed answer names covers no lines, so it claims none."""
    assert passes(shown(call, lines, error=error))


# ── what an erasure claims ─────────────────────────────────────────────────────────────────────────


def erased(forge: Forge, *streams: tuple[str, int]) -> str:
    """An erasure of T-1 signed by an authority, which claims these streams; its place."""
    row = forge.write(
        "ledger",
        EvidenceErased.model_validate(
            {
                "task": "T-1",
                "name": "Ada",
                "reason": "asked for",
                "count": 0,
                "streams": [{"stream": name, "version": version} for name, version in streams],
            }
        ),
    )
    return f"ledger v{row.version}"


def two_tasks() -> Forge:
    """T-1, and T-10, whose name begins alike."""
    forge = small_ledger("T-1")
    forge.open_task("T-10")
    forge.panel("T-10", {"security": [verdict("pass")]})
    return forge


OWN = ((TASK, 6), (STREAM, 1))


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [
        ((TASK, 7), "task/T-1 up to v6, its newest record then"),
        ((STREAM, 10_000), f"{STREAM} up to v"),
        (("evaluation/T-1/1/post_execute/nobody", 1), "up to v0, its newest record then"),
        (("task/T-10", 1), "streams of task T-1 alone"),
        (("evaluation/T-10/1/post_execute/security", 1), "streams of task T-1 alone"),
        (("task/T-2", 1), "streams of task T-1 alone"),
        (("ledger", 1), "streams of task T-1 alone"),
        (("evaluation/T-1", 1), "streams of task T-1 alone"),
    ],
)
@pytest.mark.parametrize("beside", [(), OWN])
def test_an_erasure_that_claims_what_is_not_there_or_not_its_own(
    claimed: tuple[str, int], expected: str, beside: tuple[tuple[str, int], ...]
) -> None:
    forge = two_tasks()
    place = erased(forge, *beside, claimed)
    report = verify(forge.source(), processes=0)
    (finding,) = report.findings
    assert (finding.check, finding.place, report.codes) == ("evidence", place, [UNLAWFUL])
    assert expected in finding.expected


def test_the_twin_that_claims_its_own_streams_as_far_as_they_came() -> None:
    forge = two_tasks()
    assert document(forge.rows[forge.at(TASK, 6)])["type"] == "AttemptClosed"
    erased(forge, *OWN)
    assert passes(forge)
    forge.erase("T-1")
    assert passes(forge)


def test_an_unlawful_claim_excuses_no_evidence_that_is_missing() -> None:
    forge = two_tasks()
    erased(forge, ("task/T-10", 1))
    spec = document(forge.rows[forge.at("task/T-10", 1)])["data"]["spec"]
    del forge.evidence[spec]
    assert verify(forge.source(), processes=0).codes == [UNLAWFUL, DIFFERS]


# ── a task that was cut short ──────────────────────────────────────────────────────────────────────


def cut_after(kind: str, severity: str, phase: str = "post_execute") -> Forge:
    """A task of one judge that ends with a record of type `kind`: what followed it was cut off."""
    forge = Forge().found()
    forge.open_task("T-1")
    forge.panel("T-1", {"security": [verdict(severity)]}, phase=phase)  # type: ignore[arg-type]
    last = max(n for n, row in enumerate(forge.rows) if row.type == kind)
    del forge.rows[last + 1 :]
    return forge


@pytest.mark.parametrize(
    ("kind", "severity", "due"),
    [
        ("PanelDecided", "pass", "AttemptClosed"),
        ("PanelDecided", "warn", "TaskHalted"),
        ("PanelDecided", "blocker", "TaskHalted"),
        ("TaskHalted", "blocker", "AttemptClosed"),
        ("AttemptClosed", "pass", "TaskCompleted"),
    ],
)
def test_a_task_cut_inside_of_what_is_stored_in_one_go(kind: str, severity: str, due: str) -> None:
    """The end of a stream has no chain after it: the law says that more is due."""
    forge = cut_after(kind, severity)
    finding = found(forge)
    assert finding.place == f"{TASK} v{forge.last(TASK, kind) + 1}"
    assert finding.expected.startswith(f"{due}, stored in one go")
    assert finding.found == "the end: it was cut"


@pytest.mark.parametrize(
    ("kind", "severity", "phase"),
    [
        ("AttemptStarted", "pass", "post_execute"),
        ("PanelConvened", "pass", "post_execute"),
        ("PanelDecided", "pass", "pre_execute"),
        ("TaskHalted", "warn", "post_execute"),
        ("AttemptClosed", "blocker", "post_execute"),
        ("TaskCompleted", "pass", "post_execute"),
    ],
)
def test_the_twin_that_rests_where_a_task_may_rest(kind: str, severity: str, phase: str) -> None:
    assert passes(cut_after(kind, severity, phase))


def test_what_is_due_is_not_asked_of_a_stream_that_does_not_hold() -> None:
    """What followed the decision stands there, and cannot be read."""
    forge = cut_after("TaskHalted", "warn")
    forge.rows[-1] = forge.rows[-1]._replace(record=b"no record")
    report = verify(forge.source(), processes=0)
    assert report.codes == [TAMPERED]
    assert report["law"].findings == []


# ── data of another spelling ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("stream", "kind", "change", "where"),
    [
        ("ledger", "LedgerFounded", lambda data: data.update(format=True), "data.format"),
        (
            TASK,
            "PanelDecided",
            lambda data: data["counts"].update(pass_=data["counts"].pop("pass")),
            "data.counts.pass",
        ),
        (
            "evaluation/T-1/1/post_execute/architecture",
            "EvaluationFailed",
            lambda data: data.update(error=1),
            "data.error",
        ),
    ],
)
def test_data_in_a_spelling_that_no_writer_writes(
    stream: str, kind: str, change: Callable[[dict[str, Any]], object], where: str
) -> None:
    """Whoever reads it in another language would take it for something else."""
    forge = small_ledger()
    version = forge.last(stream, kind)
    forge.resign(stream, version, lambda saying: change(saying["data"]))
    report = verify(forge.source(), processes=0)
    assert report.code == TAMPERED
    finding = report["records"].findings[0]
    assert (finding.place, finding.expected) == (f"{stream} v{version}", f"data that fits {kind}")
    assert finding.found.startswith(where)


# ── evidence as it is packed ───────────────────────────────────────────────────────────────────────


def test_bytes_past_the_end_of_what_was_packed() -> None:
    """They unpack to what was committed to, and carry what nobody did."""
    forge = small_ledger()
    commitment, row = next(iter(forge.evidence.items()))
    assert evidence_fault(row) is None
    for more in (b"\0", b"hidden", row.body):
        longer = row._replace(body=row.body + more)
        assert evidence_fault(longer) == "bytes past the end of what was packed"
        forge.evidence[commitment] = longer
        report = verify(forge.source(), processes=0)
        assert report.codes == [TAMPERED]
        assert report["evidence"].findings[0].place.endswith(f"evidence {commitment}")
    forge.evidence[commitment] = row
    assert passes(forge)
