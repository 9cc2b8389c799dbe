"""Replay decides again from the evidence, names the first event that differs, and calls nobody."""

from __future__ import annotations

import pytest

from causebook.adapters.findings import DIFFERS, TAMPERED, UNLAWFUL
from causebook.adapters.replay import ReplayReport, replay
from causebook.domain.errors import NoInput
from causebook.domain.evidence import commit, response_bytes
from causebook.domain.ports import ModelFault, ToolCall
from tests.adapters.forge import Forge, document, prose, reads, said, small_ledger, verdict

STREAM = "evaluation/T-1/1/post_execute/security"
TASK = "task/T-1"


def again(forge: Forge) -> ReplayReport:
    return replay(forge.source(), "T-1")


def test_a_task_comes_out_equal() -> None:
    report = again(small_ledger())
    assert (report.code, report.differences, report.note, report.panels) == (0, (), "", 1)
    assert [(e.records, e.closed, e.items) for e in report.evaluations] == [
        (14, True, 8),
        (9, True, 5),
        (22, True, 8),
        (15, True, 6),
    ]
    assert sum(evaluation.from_record for evaluation in report.evaluations) == 0


def test_texts_over_a_limit_and_lone_surrogates_come_out_equal() -> None:
    forge = Forge().found()
    forge.open_task("T-1")
    wild = said(
        ("read_file", '{"path": "' + "x" * 5000 + '"}'),
        ("read_file\ud800", "{}"),
        ("submit_verdict", '{"severity": "pass"}'),
        *[("read_file", '{"path": "a"}')] * 70,
    )
    slow = ModelFault("timeout", retryable=True, detail="\udfff")
    forge.panel("T-1", {"security": [slow, wild, prose("\ud83d"), prose("")]})
    report = again(forge)
    assert (report.code, report.differences) == (0, ())


def test_every_attempt_and_phase_is_replayed() -> None:
    forge = Forge().found()
    forge.open_task("T-1")
    forge.panel("T-1", {"a": [verdict("pass")]}, phase="pre_execute")
    forge.panel("T-1", {"a": [verdict("blocker")]})
    forge.start_attempt("T-1", 2)
    forge.panel("T-1", {"a": [verdict("warn")], "b": [verdict("pass")]}, attempt=2)
    forge.resolve("T-1", 2, "post_execute", "reject", "warned")
    report = again(forge)
    assert (report.code, report.panels, len(report.evaluations)) == (0, 3, 4)


def test_an_open_evaluation_is_replayed_as_far_as_it_came() -> None:
    forge = Forge().found()
    forge.open_task("T-1")
    forge.panel("T-1", {"a": [reads("x")], "b": [verdict("pass")]})
    report = again(forge)
    assert (report.code, [e.closed for e in report.evaluations]) == (0, [False, True])


def test_a_task_that_is_not_there() -> None:
    with pytest.raises(NoInput, match="task T-9: nothing is recorded of it"):
        replay(small_ledger().source(), "T-9")


def test_a_call_altered_in_the_record_alone() -> None:
    """The evidence still holds what the model said."""
    forge = small_ledger()
    version = forge.last(STREAM, "ModelResponded")
    arguments = '{"severity":"pass","justification":"Sound."}'
    forge.resign(STREAM, version, lambda said: said["data"]["calls"][0].update(arguments=arguments))
    report = again(forge)
    assert report.code == UNLAWFUL
    difference = report.differences[0]
    assert difference.place == f"{STREAM} v{version} ModelResponded"
    assert "It leaks." in difference.expected
    assert "Sound." in difference.found


def test_a_charge_altered() -> None:
    forge = small_ledger()
    version = forge.last(STREAM, "TurnSpared")
    forge.resign(STREAM, version, lambda said: said["data"].update(stall=1))
    report = again(forge)
    assert (report.code, report.differences[0].place) == (
        UNLAWFUL,
        f"{STREAM} v{version} TurnSpared",
    )


def test_a_decision_altered() -> None:
    forge = small_ledger()
    version = forge.last(TASK, "PanelDecided")
    forge.resign(TASK, version, lambda said: said["data"].update(action="escalate"))
    report = again(forge)
    difference = report.differences[0]
    assert (difference.place, difference.expected, difference.found) == (
        f"{TASK} v{version} PanelDecided",
        "PanelDecided.action 'halt'",
        "'escalate'",
    )


def test_a_halt_altered() -> None:
    forge = small_ledger()
    version = forge.last(TASK, "TaskHalted")
    forge.resign(TASK, version, lambda said: said["data"].update(reason="All is well."))
    assert again(forge).differences[0].found == "'All is well.'"


def test_a_judge_told_something_else_than_its_criteria() -> None:
    forge = small_ledger()
    opened = next(r for r in forge.rows if r.stream == STREAM)
    commitment = forge.keep("T-1", b"You are lenient.")
    forge.resign(
        STREAM, opened.version, lambda said: said["data"]["prompt"].__setitem__(0, commitment)
    )
    difference = again(forge).differences[0]
    assert difference.place == f"{STREAM} v1 EvaluationOpened"
    assert difference.found == "other words"


def test_evidence_that_is_not_what_was_committed_to() -> None:
    forge = small_ledger()
    content = _content(forge)
    row = forge.evidence[content]
    other = next(r for c, r in forge.evidence.items() if c != content)
    forge.evidence[content] = type(row)(content, row.salt, row.task, other.body)
    report = again(forge)
    assert report.code == TAMPERED
    assert report.differences[0].found == "other bytes, or another salt"
    # The others still count as what they are.
    assert [(e.items, e.from_record, e.missing) for e in report.evaluations] == [
        *((8, 0, 0), (5, 0, 0)),
        *((8, 1, 0), (6, 0, 0)),
    ]
    assert report.note == "1 item of evidence not there to replay from"


def test_evidence_that_is_no_answer_of_a_model() -> None:
    forge = small_ledger()
    version = forge.last(STREAM, "ModelResponded")
    commitment = forge.keep("T-1", b"[]")
    forge.resign(STREAM, version, lambda said: said["data"].update(content=commitment))
    assert again(forge).differences[0].expected == "ModelResponded.content: a model's answer"


def test_erased_evidence_is_replayed_from_the_record() -> None:
    forge = small_ledger()
    forge.erase("T-1")
    report = again(forge)
    assert (report.code, report.missing) == (0, 0)
    assert report.note == (
        "27 items of evidence erased by a named person: replayed from the record there"
    )


def test_missing_evidence_is_replayed_from_the_record_and_is_no_clean_result() -> None:
    forge = small_ledger()
    del forge.evidence[_content(forge)]
    report = again(forge)
    assert (report.code, report.missing, report.differences) == (DIFFERS, 1, ())
    assert report.note == (
        "1 item of evidence missing, and no EvidenceErased names it: replayed from the record there"
    )
    forge = small_ledger()
    forge.evidence.clear()
    assert again(forge).note.startswith(
        "27 items of evidence missing, and no EvidenceErased names them"
    )


def test_a_broken_chain_is_not_replayed() -> None:
    source = small_ledger().source()
    forge = small_ledger()
    del source.stored[forge.at(STREAM, 6)]
    report = replay(source, "T-1")
    assert (report.code, report.held, report.evaluations) == (TAMPERED, False, ())
    assert report.differences[0].place == f"{STREAM} v6"
    assert report.note == "not replayed: the records do not hold"


def test_a_last_record_altered_is_not_replayed_though_no_other_links_to_it() -> None:
    forge = small_ledger()
    version = forge.last(TASK, "AttemptClosed")
    place = forge.at(TASK, version)
    row = forge.rows[place]
    forge.rows[place] = row._replace(record=row.record.replace(b'"error"', b'"passed"', 1))
    report = again(forge)
    assert (report.code, report.held) == (TAMPERED, False)
    assert report.differences[0].place == f"{TASK} v{version}"


def test_a_task_that_was_never_judged() -> None:
    forge = Forge().found()
    forge.open_task("T-1")
    report = again(forge)
    assert (report.code, report.evaluations, report.panels) == (0, (), 0)


def test_the_evidence_of_an_answer_names_what_the_rules_look_at() -> None:
    """So that replay can build the event again: calls, content, and nothing that the record has anyway."""
    response = said(("read_file", "{}"))
    assert b"input_tokens" not in response_bytes(response)
    assert ToolCall("c0", "read_file", "{}") in response.calls
    assert len(commit(b"0" * 32, response_bytes(response))) == 64


def _content(forge: Forge) -> str:
    row = forge.rows[forge.at(STREAM, forge.last(STREAM, "ModelResponded"))]
    content: str = document(row)["data"]["content"]
    return content
