"""The runner's lock: whose it is, and that however a panel ends the next writer can have it (rule 10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from causebook.adapters.ledger import Ledger
from causebook.adapters.panel import Panel
from causebook.adapters.store.port import EvidenceRow, Row, RunnerLock, Store
from causebook.domain.errors import Busy, CausebookError, IOFailure, Misuse
from causebook.domain.streams import evaluation_stream

from .forge import file_of_80_lines, reads, verdict
from .ledgers import Home, Watched, hear_out, judges, watched

TASK = "task/T-1"


@pytest.fixture
def home(store_url: str, tmp_path: Path) -> Home:
    """A founded ledger."""
    return Home.found(store_url, tmp_path)


def convene(ledger: Ledger, *names: str) -> Panel:
    attempt = ledger.task("T-1").start_attempt()
    return attempt.convene("post_execute", "unanimous", judges(*names or ("a",)))


def stream(judge: str) -> str:
    return evaluation_stream("T-1", 1, "post_execute", judge)


def is_held(home: Home, panel: Panel) -> bool:
    """Whether somebody alive holds the lock of the panel's runner, asked from outside."""
    with home.store() as store:
        lock = store.try_lock(panel.convened.runner.id)
        if lock is None:
            return True
        lock.release()
        return False


def require_taken_over(home: Home, status: str = "blocked") -> None:
    """The next writer closes the panel, in a ledger that is intact before and after."""
    home.require_intact()
    with home.open() as ledger:
        task = ledger.task("T-1")
        assert task.take_over()
        assert task.log.state.status == status
    assert home.require_intact().open_evaluations == ()
    home.require_evidence("T-1")


def full(rows: Sequence[Row], evidence: Sequence[EvidenceRow]) -> None:
    raise IOFailure("the disk is full")


def pressed(rows: Sequence[Row], evidence: Sequence[EvidenceRow]) -> None:
    raise KeyboardInterrupt


Failing = Callable[[Sequence[Row], Sequence[EvidenceRow]], None]
KIND: dict[Failing, type[BaseException]] = {full: IOFailure, pressed: KeyboardInterrupt}


# ── the lock is given back ─────────────────────────────────────────────────────────────────────────


def test_while_a_panel_sits_its_lock_is_held(home: Home) -> None:
    with home.open() as ledger:
        panel = convene(ledger)
        assert is_held(home, panel)
        seat = panel.open("a")
        assert is_held(home, panel)
        hear_out(seat, [reads("a.py"), verdict("pass")])
        assert is_held(home, panel)
        panel.decide()
        assert not is_held(home, panel)
    home.require_intact()


@pytest.mark.parametrize("fails", [full, pressed])
def test_the_lock_is_given_back_where_closing_the_panel_fails(home: Home, fails: Failing) -> None:
    with home.open() as ledger:
        panel = convene(ledger, "a", "b")
        panel.open("a")
        rows = home.rows()
        with watched(ledger, fails), pytest.raises(KIND[fails]):
            panel.interrupt()
        assert home.rows() == rows
        assert not is_held(home, panel)
        require_taken_over(home)


def test_an_interrupt_that_failed_is_made_again(home: Home) -> None:
    with home.open() as ledger:
        panel = convene(ledger)
        panel.open("a")
        with watched(ledger, full), pytest.raises(IOFailure):
            panel.interrupt()
        panel.interrupt()
        assert not is_held(home, panel)
    assert home.kinds(stream("a")) == ["EvaluationOpened", "EvaluationFailed"]
    home.require_intact()


@pytest.mark.parametrize("error", [ZeroDivisionError(), KeyboardInterrupt(), Misuse("no")])
@pytest.mark.parametrize("turns", [None, 0, 1])
def test_the_lock_is_given_back_where_the_block_of_a_panel_ends_by_an_exception(
    home: Home, turns: int | None, error: BaseException
) -> None:
    """Before its judge is opened, before its first turn, and after it."""

    def broken(panel: Panel) -> None:
        with panel:
            if turns is not None:
                seat = panel.open("a")
                for _ in range(turns):
                    seat.next_request()
                    for read in seat.respond(reads("a.py")):
                        seat.answer(file_of_80_lines(read.tool, read.arguments))
            assert is_held(home, panel)
            raise error

    with home.open() as ledger:
        panel = convene(ledger)
        with pytest.raises(type(error)):
            broken(panel)
        assert not is_held(home, panel)
        require_taken_over(home)


def test_the_lock_is_given_back_once_the_panel_is_left(home: Home) -> None:
    with home.open() as ledger:
        panel = convene(ledger)
        seat = panel.open("a")
        seat.next_request()
        rows = home.rows()
        panel.leave()
        assert not is_held(home, panel)
        panel.leave()
        with pytest.raises(CausebookError, match="given up"):
            list(seat.respond(verdict("pass")))
        assert home.rows() == rows
        require_taken_over(home)


def test_a_panel_that_decided_is_over_at_the_end_of_its_block(home: Home) -> None:
    with home.open() as ledger, convene(ledger) as panel:
        hear_out(panel.open("a"), [verdict("pass")])
        panel.decide()
    assert not is_held(home, panel)
    assert home.kinds(TASK)[-1] == "TaskCompleted"
    home.require_intact()


def test_a_panel_that_could_not_decide_still_sits(home: Home) -> None:
    with home.open() as ledger, convene(ledger) as panel:
        seat = panel.open("a")
        with pytest.raises(Misuse, match="judge a has not decided"):
            panel.decide()
        assert is_held(home, panel)
        hear_out(seat, [verdict("pass")])
        with watched(ledger, full), pytest.raises(IOFailure):
            panel.decide()
        assert is_held(home, panel)
        assert panel.decide().action == "proceed"
    home.require_intact()


class Asked(Watched):
    """A store that fails to append and notes the locks that it is asked for."""

    def __init__(self, store: Store, before: Failing) -> None:
        super().__init__(store, before)
        self.locks: list[str] = []

    def try_lock(self, name: str) -> RunnerLock | None:
        self.locks.append(name)
        return self._store.try_lock(name)


@pytest.mark.parametrize("fails", [full, pressed])
def test_a_panel_that_could_not_be_convened_holds_no_lock(home: Home, fails: Failing) -> None:
    with home.open() as ledger:
        attempt = ledger.task("T-1").start_attempt()
        store = ledger.writer.store
        ledger.writer.store = asked = Asked(store, fails)
        with pytest.raises(KIND[fails]):
            attempt.convene("post_execute", "any", judges("a"))
        ledger.writer.store = store
        (name,) = asked.locks
        lock = store.try_lock(name)
        assert lock is not None
        lock.release()
        with attempt.convene("post_execute", "any", judges("a")) as panel:
            hear_out(panel.open("a"), [verdict("pass")])
            panel.decide()
    home.require_intact()


# ── the lock of somebody else ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fails", [full, pressed])
def test_who_took_over_and_failed_gives_the_dead_runners_lock_back(
    home: Home, fails: Failing
) -> None:
    with home.open() as ledger:
        panel = convene(ledger, "a", "b")
        hear_out(panel.open("a"), [verdict("pass")])
        panel.leave()
    with home.open() as ledger:
        task = ledger.task("T-1")
        rows = home.rows()
        with watched(ledger, fails), pytest.raises(KIND[fails]):
            task.take_over()
        assert (home.rows(), task.log.state.stage) == (rows, "judging")
        assert not is_held(home, panel)
        assert task.take_over()
    home.require_intact()


def test_who_would_take_over_a_living_runner_leaves_it_its_lock(home: Home) -> None:
    with home.open() as living, home.open() as other:
        panel = convene(living)
        with pytest.raises(Busy):
            other.task("T-1").take_over()
        assert is_held(home, panel)
        panel.interrupt()
    home.require_intact()


@pytest.mark.parametrize("stage", ["unopened", "between", "working", "waiting", "completed"])
def test_where_no_panel_sits_there_is_nothing_to_take_over(home: Home, stage: str) -> None:
    with home.open() as ledger:
        task = ledger.task("T-1")
        if stage == "between":
            task.start_attempt().halt("constraint", "no")
        elif stage != "unopened":
            attempt = task.start_attempt()
            if stage != "working":
                panel = attempt.convene("post_execute", "unanimous", judges("a"))
                said = verdict("warn" if stage == "waiting" else "pass")
                hear_out(panel.open("a"), [said])
                panel.decide()
        assert task.log.state.stage == stage
        rows = home.rows()
        assert not task.take_over()
        assert home.rows() == rows


# ── one seat a judge ───────────────────────────────────────────────────────────────────────────────


def test_a_judge_is_opened_once_a_panel(home: Home) -> None:
    """A second seat would sign a second history of the same evaluation."""
    with home.open() as ledger:
        panel = convene(ledger, "a", "b")
        seat = panel.open("a")
        rows = home.rows()
        with pytest.raises(Misuse, match="judge a was opened already"):
            panel.open("a")
        assert home.rows() == rows
        assert panel.seats == {"a": seat}
        hear_out(seat, [verdict("pass")])
        with pytest.raises(Misuse, match="judge a was opened already"):
            panel.open("a")
        hear_out(panel.open("b"), [verdict("pass")])
        assert panel.decide().action == "proceed"
    home.require_evidence("T-1")
    home.require_intact()


def test_a_judge_whose_opening_was_not_stored_is_opened_again(home: Home) -> None:
    with home.open() as ledger:
        panel = convene(ledger)
        with watched(ledger, full), pytest.raises(IOFailure):
            panel.open("a")
        assert panel.seats == {}
        hear_out(panel.open("a"), [verdict("pass")])
        panel.decide()
    assert home.kinds(stream("a"))[0] == "EvaluationOpened"
    home.require_evidence("T-1")
    home.require_intact()
