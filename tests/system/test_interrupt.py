"""Ctrl-C in the middle of a panel."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from causebook.domain.events import EvaluationFailed, PanelDecided, VerdictGiven

from .desk import BUSY, Desk, lines, verdict

STREAM = "evaluation/T-1/1/post_execute/"


@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_keeps_what_is_recorded_and_closes_the_open_as_interrupted(
    store_url: str, tmp_path: Path, as_json: bool
) -> None:
    desk = Desk.made(store_url, tmp_path)
    protocol = desk.protocol(
        "panel",
        {
            "quick": [lines(1, 20), verdict("pass", "It holds.")],
            "waiting": [lines(1, 20), lines(1, 5), BUSY, verdict("pass")],
        },
    )
    process = desk.start(*desk.judge("T-1", protocol, *(["--json"] if as_json else [])))
    page = process.stderr if as_json else process.stdout
    assert page is not None
    second_turn_of = set[str]()
    while second_turn_of != {"quick", "waiting"}:
        line = page.readline()
        assert line, process.communicate()
        if told := re.match(r" *(quick|waiting) +2 ", line):
            second_turn_of.add(told[1])
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()

    assert process.returncode == 130, err
    error, hint = err.splitlines()[-2:]
    assert error.startswith("error: task T-1: interrupted; what was recorded stays")
    assert hint == "hint: causebook why T-1"
    assert out == ""
    assert desk.home.kinds(f"{STREAM}waiting") == [
        "EvaluationOpened",
        *("TurnOpened", "ModelResponded", "ReadAnswered", "TurnCharged"),
        *("TurnOpened", "ModelResponded", "RepeatReadHit", "TurnSpared"),
        "EvaluationFailed",
    ]
    closing = desk.home.events(f"{STREAM}waiting")[-1]
    assert isinstance(closing, EvaluationFailed)
    assert (closing.cause, closing.examined.count) == ("interrupted", 2)
    assert isinstance(desk.home.events(f"{STREAM}quick")[-1], VerdictGiven)
    (decided,) = (e for e in desk.home.events("task/T-1") if isinstance(e, PanelDecided))
    assert (decided.action, decided.blocker_validators) == ("halt", ("waiting",))
    desk.home.require_evidence("T-1")
    assert desk.home.require_intact().open_evaluations == ()

    why = desk.run("why", "T-1")
    assert "interrupted" in why.stdout
    protocol = desk.protocol("again", {"quick": [verdict("pass")]})
    again = desk.run(*desk.judge("T-1", protocol))
    assert (again.returncode, again.stderr) == (0, "")
    verified = desk.run("verify")
    assert (verified.returncode, verified.stderr) == (20, "")
