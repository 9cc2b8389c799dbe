"""Eight processes judging different tasks on one ledger at once."""

from __future__ import annotations

from pathlib import Path

from causebook.domain.streams import evaluation_stream

from .desk import Desk, Gate, lines, verdict

PROCESSES = 8
TURNS = 15
JUDGES = ("careful", "hasty")


def test_eight_processes_lose_nothing_and_show_no_error(store_url: str, tmp_path: Path) -> None:
    desk = Desk.made(store_url, tmp_path)
    answers = [*(lines(number, number) for number in range(1, TURNS + 1)), verdict("pass")]
    protocol = desk.protocol("panel", dict.fromkeys(JUDGES, answers))
    tasks = [f"T-{number}" for number in range(PROCESSES)]
    gates = [Gate(tmp_path / f"spec-{task}") for task in tasks]
    processes = [
        desk.start(*desk.judge(task, protocol, "--spec", f"@{gate.path}"))
        for task, gate in zip(tasks, gates, strict=True)
    ]
    for gate, process in zip(gates, processes, strict=True):
        gate.wait_for(process)
    for gate in gates:
        gate.open()
    for task, process in zip(tasks, processes, strict=True):
        out, err = process.communicate()
        assert (process.returncode, err) == (0, ""), task
        assert out.count("\n") == 1 + len(JUDGES) * (TURNS + 1) + 1

    turn = ["TurnOpened", "ModelResponded", "ReadAnswered", "TurnCharged"]
    last = ["TurnOpened", "ModelResponded", "TurnCharged", "VerdictGiven"]
    for task in tasks:
        assert desk.home.kinds(f"task/{task}") == [
            *("TaskOpened", "AttemptStarted", "PanelConvened"),
            *("PanelDecided", "AttemptClosed", "TaskCompleted"),
        ]
        for judge in JUDGES:
            stream = evaluation_stream(task, 1, "post_execute", judge)
            assert desk.home.kinds(stream) == ["EvaluationOpened", *turn * TURNS, *last]
        desk.home.require_evidence(task)
    report = desk.home.require_intact()
    assert report.streams == 1 + PROCESSES * 3
    assert report.records == 4 + PROCESSES * (6 + 2 * (1 + 4 * TURNS + 4))
    verified = desk.run("verify")
    assert (verified.returncode, verified.stderr) == (20, "")
