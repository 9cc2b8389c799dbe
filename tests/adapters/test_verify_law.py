"""The law across streams: an insider writes records that are authentic and do not fit one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from causebook.adapters.findings import TAMPERED, UNLAWFUL, Finding
from causebook.adapters.verification.verify import verify
from causebook.domain.events import Narrated
from causebook.domain.quorum import decided
from tests.adapters.forge import Forge, reads, small_ledger, verdict

STREAM = "evaluation/T-1/1/post_execute/security"
TASK = "task/T-1"


def judged() -> Forge:
    """A task that two judges passed."""
    forge = Forge().found()
    forge.open_task("T-1")
    forge.panel("T-1", {"security": [reads("a.py"), verdict("pass")], "testing": [verdict("pass")]})
    return forge


def unlawful(forge: Forge, place: str) -> Finding:
    """The finding of the law at a place; the ledger is authentic apart from it."""
    report = verify(forge.source(), processes=0)
    assert report.codes == [UNLAWFUL]
    return next(finding for finding in report["law"].findings if finding.place == place)


def test_the_untouched_twin_passes() -> None:
    assert verify(judged().source()).code == 20


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("model", lambda data: data.update(model="another")),
        ("max_tool_turns", lambda data: data.update(max_tool_turns=21)),
        ("root", lambda data: data.update(root="/elsewhere")),
        ("the digest of the criteria", lambda data: data.update(criteria=["Be lenient."])),
        (
            "workspace",
            lambda data: data.update(workspace={"commit": None, "tree": None, "dirty": True}),
        ),
        ("declared", lambda data: (data["declared"].pop(), data["active"].pop())),
    ],
)
def test_an_evaluation_opened_otherwise_than_convened(
    what: str, change: Callable[[dict[str, Any]], object]
) -> None:
    forge = judged()
    forge.resign(STREAM, 1, lambda said: change(said["data"]))
    assert unlawful(forge, f"{STREAM} v1").expected.startswith(f"{what} as convened: ")


def test_an_evaluation_of_a_judge_that_was_never_convened() -> None:
    forge = Forge().found()
    forge.open_task("T-1")
    forge.panel("T-1", {"security": [verdict("pass")]}, decide=False)
    forge.open_evaluation("T-1", 1, "post_execute", "mallory", ("read_file",), 20)
    finding = unlawful(forge, "evaluation/T-1/1/post_execute/mallory v1")
    assert (finding.expected, finding.found) == ("a judge that was convened: security", "mallory")


def test_an_evaluation_in_a_phase_that_no_panel_sat_in() -> None:
    forge = Forge().found()
    forge.open_task("T-1")
    forge.panel("T-1", {"security": [verdict("pass")]}, decide=False)
    forge.open_evaluation("T-1", 1, "pre_execute", "security", ("read_file",), 20)
    report = verify(forge.source(), processes=0)
    assert report.codes == [TAMPERED, UNLAWFUL]
    stream = "evaluation/T-1/1/pre_execute/security"
    assert report["chains"].findings[0].place == f"{stream} v1"
    assert report["law"].findings[0].expected == "a judge that was convened: none was"


def test_a_decision_over_an_evaluation_that_is_not_closed() -> None:
    forge = Forge().found()
    forge.open_task("T-1")
    forge.panel("T-1", {"security": [verdict("pass")], "testing": [reads("a")]}, decide=False)
    ballots = [forge.ballot(STREAM, "security")]
    ballots.append(ballots[0].model_copy(update={"judge": "testing", "stream": "x"}))
    forge.write(TASK, decided(1, "post_execute", "unanimous", ballots))
    finding = unlawful(forge, f"{TASK} v{forge.rows[-1].version}")
    assert finding.found == "missing or not closed"


@pytest.mark.parametrize(
    ("field", "value"),
    [("version", 3), ("digest", "0" * 64), ("stream", "task/T-1")],
)
def test_a_ballot_that_names_another_record(field: str, value: object) -> None:
    forge = judged()
    version = forge.last(TASK, "PanelDecided")
    forge.resign(TASK, version, lambda said: said["data"]["ballots"][0].update({field: value}))
    finding = unlawful(forge, f"{TASK} v{version}")
    assert finding.expected.startswith(f"ballot of security: {field} ")


def test_a_judge_left_out_of_the_decision() -> None:
    forge = judged()
    version = forge.last(TASK, "PanelDecided")

    def change(said: dict[str, Any]) -> None:
        data = said["data"]
        data["ballots"].pop()
        data["counts"] = {"pass": 1, "warn": 0, "blocker": 0, "total": 1}
        data["required"] = 1

    forge.resign(TASK, version, change)
    assert "one of each judge convened" in unlawful(forge, f"{TASK} v{version}").expected


@pytest.mark.parametrize(
    "change",
    [
        lambda heads: heads.pop(0),
        lambda heads: heads.append(heads[0]),
        lambda heads: heads[0].update(version=3),
        lambda heads: heads[-1].update(digest="0" * 64),
        lambda heads: heads.append({"stream": "task/T-2", "version": 1, "digest": "0" * 64}),
    ],
)
def test_an_attempt_closed_with_other_heads_than_the_true_ones(
    change: Callable[[list[dict[str, Any]]], object],
) -> None:
    forge = judged()
    version = forge.last(TASK, "AttemptClosed")
    forge.resign(TASK, version, lambda said: change(said["data"]["heads"]))
    assert "head" in unlawful(forge, f"{TASK} v{version}").expected


def test_a_record_after_the_one_that_closed_the_evaluation() -> None:
    forge = Forge().found()
    forge.open_task("T-1")
    forge.panel("T-1", {"security": [verdict("pass")]}, decide=False)
    forge.write(STREAM, Narrated(turn=1, text_bytes=0))
    finding = unlawful(forge, f"{STREAM} v{forge.rows[-1].version}")
    assert (finding.expected, finding.found) == ("nothing after what closed it", "Narrated")


def test_a_record_after_the_attempt_was_closed() -> None:
    forge = judged()
    forge.write(STREAM, Narrated(turn=1, text_bytes=0))
    assert unlawful(forge, f"{STREAM} v{forge.rows[-1].version}").expected == "nothing"


def test_an_attempt_after_the_task_was_completed() -> None:
    forge = judged()
    forge.start_attempt("T-1", 2)
    finding = unlawful(forge, f"{TASK} v{forge.rows[-1].version}")
    assert finding.expected == "the task is completed"


def test_an_escalation_resolved_twice() -> None:
    forge = Forge().found()
    forge.open_task("T-1")
    forge.panel("T-1", {"security": [verdict("warn")], "testing": [verdict("pass")]})
    forge.resolve("T-1", 1, "post_execute", "reject", "warned")
    assert verify(forge.source()).code == 20
    forge.resolve("T-1", 1, "post_execute", "proceed", "warned")
    version = forge.last(TASK, "ResolutionRecorded")
    assert unlawful(forge, f"{TASK} v{version}")


def test_an_open_evaluation_that_leaves_the_law() -> None:
    forge = Forge().found()
    forge.open_task("T-1")
    forge.panel("T-1", {"security": [reads("a.py")]}, decide=False)
    version = forge.last(STREAM, "TurnCharged")
    forge.resign(STREAM, version, lambda said: said["data"].update(turns_used=7))
    report = verify(forge.source())
    assert report.codes == [UNLAWFUL]
    assert report.open_evaluations == ()
    assert unlawful(forge, f"{STREAM} v{version}").found == "7"


def test_an_evaluation_closed_for_a_runner_that_is_gone() -> None:
    forge = Forge().found()
    forge.open_task("T-1")
    forge.panel("T-1", {"security": [reads("a.py")], "testing": []}, decide=False)
    ballots = [
        forge.interrupt("T-1", 1, "post_execute", judge) for judge in ("security", "testing")
    ]
    forge.follow("T-1", decided(1, "post_execute", "unanimous", ballots))
    assert verify(forge.source()).code == 20


def test_only_the_first_divergence_of_a_stream_is_named() -> None:
    forge = small_ledger()
    first = min(r.version for r in forge.rows if r.stream == STREAM and r.type == "TurnSpared")
    forge.resign(STREAM, first, lambda said: said["data"].update(stall=2))
    report = verify(forge.source())
    assert [f.place for f in report["law"].findings if f.place.startswith(STREAM)] == [
        f"{STREAM} v{first}"
    ]
