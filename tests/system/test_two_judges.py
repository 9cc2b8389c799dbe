"""Two processes that judge the same attempt of the same task: one goes on, the other is told who has it."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from pathlib import Path

import pytest

from causebook.domain.events import PanelConvened

from .desk import Desk, Gate, lines, verdict

PIPE_BYTES = 4096
TURNS = 60


@pytest.fixture
def desk(store_url: str, tmp_path: Path) -> Desk:
    return Desk.made(store_url, tmp_path)


def require_told(done: tuple[int | None, str, str], runner: subprocess.Popen[str]) -> None:
    """Exit code 75, and one line on stderr that names who has it, with a hint under it."""
    code, out, err = done
    assert code == 75, err
    assert out == ""
    error, hint = err.splitlines()
    host = re.escape(os.uname().nodename)
    assert re.fullmatch(
        rf"error: task T-1, attempt 1, post_execute: judged by process {runner.pid} on {host}",
        error,
    )
    assert hint.startswith("hint: ")


def test_who_comes_second_is_told_who_has_it_and_changes_nothing(desk: Desk) -> None:
    """The first is held where it stands: it prints a line a turn into a pipe that nobody empties."""
    answers = [*(lines(number, number) for number in range(1, TURNS + 1)), verdict("pass")]
    protocol = desk.protocol("panel", {"a": answers, "b": answers}, turns=TURNS + 2)
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    first = desk.start(*desk.judge("T-1", protocol), stdout=write_end)
    os.close(write_end)
    with os.fdopen(read_end) as page:
        head = page.read(80)  # it sits
        assert head.startswith("T-1, attempt 1, post_execute")
        for _ in range(2):
            second = desk.run(*desk.judge("T-1", protocol))
            require_told((second.returncode, second.stdout, second.stderr), first)
        assert first.poll() is None
        whole = head + page.read()
    _, complaint = first.communicate()
    assert (first.returncode, complaint) == (0, "")
    assert len(whole) > 2 * PIPE_BYTES
    convened = [e for e in desk.home.events("task/T-1") if isinstance(e, PanelConvened)]
    assert [panel.runner.process for panel in convened] == [first.pid]
    desk.home.require_evidence("T-1")
    assert desk.home.require_intact().open_evaluations == ()


def test_of_two_that_start_at_the_same_moment_one_goes_on(desk: Desk) -> None:
    """Whichever it is: the other names it, or comes when all is over and says that."""
    answers = [*(lines(number, number) for number in range(1, TURNS + 1)), verdict("pass")]
    protocol = desk.protocol("panel", {"a": answers, "b": answers}, turns=TURNS + 2)
    gates = [Gate(desk.folder / name) for name in ("one", "other")]
    both = [desk.start(*desk.judge("T-1", protocol, "--spec", f"@{gate.path}")) for gate in gates]
    for gate, process in zip(gates, both, strict=True):
        gate.wait_for(process)
    for gate in gates:
        gate.open()
    ended = [process.communicate() for process in both]
    winner = 0 if both[0].returncode == 0 else 1
    loser = 1 - winner
    assert both[winner].returncode == 0, ended[winner]
    assert ended[winner][1] == ""
    if both[loser].returncode == 64:
        assert "completed at attempt 1" in ended[loser][1]
    else:
        require_told((both[loser].returncode, *ended[loser]), both[winner])
    kinds = desk.home.kinds("task/T-1")
    assert kinds == [
        *("TaskOpened", "AttemptStarted", "PanelConvened"),
        *("PanelDecided", "AttemptClosed", "TaskCompleted"),
    ]
    desk.home.require_evidence("T-1")
    desk.home.require_intact()
