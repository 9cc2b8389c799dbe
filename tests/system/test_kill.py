"""kill -9 of a process that is judging: nothing acknowledged is lost, and the next one takes over."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from causebook.adapters.ledger import Ledger
from causebook.adapters.takeover import take_over
from causebook.domain.errors import Busy
from causebook.domain.events import EvaluationFailed, PanelConvened, PanelDecided, VerdictGiven
from causebook.domain.streams import evaluation_stream
from tests.adapters.ledgers import Home

from .runner import JUDGES

KILLS = 30
RUNNER = Path(__file__).with_name("runner.py")


class Killed:
    """One run of the runner: what it acknowledged until it was killed."""

    def __init__(self, home: Home, seed: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, RUNNER, home.url, home.keys, "T-1", seed],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.acknowledged: list[tuple[str, int]] = []
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            _, complaint = self.process.communicate()
            raise AssertionError(f"the runner ended by itself: {complaint}")
        return line.rstrip("\n")

    def follow(self, lines: int) -> None:
        """Until it has acknowledged that many more appends."""
        for _ in range(lines):
            self._note(self._line())

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        out, complaint = self.process.communicate()
        assert self.process.returncode == -signal.SIGKILL, complaint
        assert complaint == ""
        for line in out.split("\n")[:-1]:  # the last may be cut off: nobody was told
            self._note(line)

    def _note(self, line: str) -> None:
        stream, _, version = line.rpartition(" ")
        self.acknowledged.append((stream, int(version)))


def take_over_once_noticed(ledger: Ledger) -> None:
    """A server notices a moment later that a client is gone."""
    while True:
        try:
            take_over(ledger.task("T-1").log)
        except Busy:
            time.sleep(0.01)
        else:
            return


def require_live_runner_untouched(home: Home, ledger: Ledger) -> None:
    """Another who would take over is refused, and what is open stays open."""
    log = ledger.task("T-1").log
    panel = log.state.panel
    assert log.state.stage == "judging"
    assert panel is not None
    with pytest.raises(Busy, match=f"judged by process {panel.runner.process} on"):
        take_over(log)
    for judge in JUDGES[1:]:
        kinds = home.kinds(evaluation_stream("T-1", panel.attempt, panel.phase, judge))
        assert "EvaluationFailed" not in kinds


def test_30_kills_at_random_moments_lose_nothing_that_was_acknowledged(
    store_url: str, tmp_path: Path
) -> None:
    home = Home.found(store_url, tmp_path)
    rng = Random(f"kill {store_url.partition(':')[0]}")
    acknowledged: set[tuple[str, int]] = set()
    left_open: set[str] = set()
    with home.open() as other:
        for number in range(KILLS):
            run = Killed(home, str(number))
            # Some are killed while they open, take over or convene; most amid the turns of four judges.
            appends = 0 if rng.random() < 0.25 else rng.randint(1, 10)
            run.follow(appends)
            if appends > 2:
                require_live_runner_untouched(home, other)
            time.sleep(rng.random() * (0.15 if appends == 0 else 0.01))
            run.kill()

            acknowledged.update(run.acknowledged)
            stored = {(row.stream, row.version) for row in home.rows()}
            assert acknowledged <= stored
            left_open.update(home.require_intact().open_evaluations)
        take_over_once_noticed(other)

    report = home.require_intact()
    assert report.open_evaluations == ()
    events = home.events("task/T-1")
    decisions = [event for event in events if isinstance(event, PanelDecided)]
    interrupted = set()
    for ballot in (ballot for decided in decisions for ballot in decided.ballots):
        closing = home.events(ballot.stream)[-1]
        if isinstance(closing, EvaluationFailed):
            assert closing.cause == "interrupted"
            interrupted.add(ballot.stream)
        else:
            assert isinstance(closing, VerdictGiven)
            assert ballot.judge == "quick"
    assert len(decisions) == sum(isinstance(event, PanelConvened) for event in events)
    assert left_open <= interrupted
    assert len(left_open) > KILLS
    home.require_evidence("T-1")
