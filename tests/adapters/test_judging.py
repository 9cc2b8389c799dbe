"""Judges side by side, panels that are cut off, and who may close what another left open (rule 10)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.judging import hear_panel, hear_seat, interrupted
from causebook.adapters.ledger import Ledger
from causebook.adapters.panel import Panel
from causebook.adapters.seat import Abandoned
from causebook.adapters.store.port import EvidenceRow, Row
from causebook.adapters.takeover import take_over
from causebook.adapters.writer import Written
from causebook.domain.errors import Busy, Interrupted, IOFailure
from causebook.domain.events import EvaluationFailed, EvaluationOpened, PanelDecided, VerdictGiven
from causebook.domain.ports import Model, ModelFault, ReadResult, Request, Response
from causebook.domain.streams import evaluation_stream

from .forge import file_of_80_lines, prose, reads, verdict
from .ledgers import Home, hear_out, judges, watched

SECONDS_MAX = 60
"""Of a wait for a condition: far longer than it takes, so that a test which fails ends."""

NAMES = ("conventions", "testing", "security", "architecture")


@pytest.fixture
def home(store_url: str, tmp_path: Path) -> Home:
    """A founded ledger."""
    return Home.found(store_url, tmp_path)


class Files:
    """A workspace in which every path is a file of 80 lines."""

    def read(self, tool: str, arguments: Any) -> ReadResult:
        return file_of_80_lines(tool, arguments)


@dataclass
class Answers:
    """A model that gives these answers, a fault where one stands."""

    said: list[Response | ModelFault]

    def complete(self, request: Request) -> Response:
        said = self.said.pop(0)
        if isinstance(said, ModelFault):
            raise said
        return replace(said, tool_choice_sent=request.tool_choice is not None)


@dataclass
class Hanging:
    """A model that answers when it is let go: `called` says that it was asked."""

    answer: Response

    def __post_init__(self) -> None:
        self.called, self.let_go, self.answered = (threading.Event() for _ in range(3))

    def complete(self, request: Request) -> Response:
        self.called.set()
        assert self.let_go.wait(SECONDS_MAX)
        self.answered.set()
        return self.answer


def convene(ledger: Ledger, *names: str, task: str = "T-1", turns: int = 5) -> Panel:
    attempt = ledger.task(task).start_attempt()
    return attempt.convene("post_execute", "unanimous", judges(*names, turns=turns))


def stream(judge: str) -> str:
    return evaluation_stream("T-1", 1, "post_execute", judge)


def closing(home: Home, judge: str) -> VerdictGiven | EvaluationFailed:
    event = home.events(stream(judge))[-1]
    assert isinstance(event, VerdictGiven | EvaluationFailed)
    return event


def cause(home: Home, judge: str) -> str | None:
    """Why an evaluation failed; None where it ended in a verdict."""
    event = closing(home, judge)
    return event.cause if isinstance(event, EvaluationFailed) else None


def judges_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("judge ")}


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    """No judge's thread outlives its test: the store under it is closed by then."""
    yield
    for thread in judges_threads():
        thread.join(SECONDS_MAX)
    assert not judges_threads()


# ── side by side ───────────────────────────────────────────────────────────────────────────────────


def test_the_judges_of_a_panel_are_heard_side_by_side(home: Home) -> None:
    """Every model waits in its call until all four are in theirs: one after the other would never end."""
    barrier = threading.Barrier(len(NAMES), timeout=SECONDS_MAX)

    class Meeting(Answers):
        def complete(self, request: Request) -> Response:
            barrier.wait()
            return super().complete(request)

    def said() -> list[Response | ModelFault]:
        return [reads("a.py"), reads("a.py"), verdict("pass")]

    told: list[tuple[str, list[Written]]] = []
    with home.open() as ledger:
        panel = convene(ledger, *NAMES)
        models = {name: Meeting(said()) for name in NAMES}
        decided = hear_panel(panel, models, Files(), lambda *news: told.append(news))
    assert (decided.action, decided.counts.pass_) == ("proceed", 4)
    for name in NAMES:
        kinds = [w.event.kind() for judge, written in told if judge == name for w in written]
        assert home.kinds(stream(name)) == ["EvaluationOpened", *kinds]
    home.require_evidence("T-1")
    assert home.require_intact().open_evaluations == ()


def test_each_turn_is_told_in_the_callers_thread_once_it_is_stored(home: Home) -> None:
    caller = threading.current_thread()

    def on_turn(judge: str, written: list[Written]) -> None:
        assert threading.current_thread() is caller
        assert written[-1].version <= len(home.kinds(written[-1].stream))

    with home.open() as ledger:
        panel = convene(ledger, "a", "b")
        models = {name: Answers([reads("a.py"), verdict("pass")]) for name in ("a", "b")}
        hear_panel(panel, models, Files(), on_turn)
    home.require_intact()


def test_a_turn_is_stored_before_that_judges_next_model_call(home: Home) -> None:
    seen: dict[str, list[str]] = {"a": [], "b": []}

    @dataclass
    class Looking(Answers):
        judge: str

        def complete(self, request: Request) -> Response:
            seen[self.judge].append(home.kinds(stream(self.judge))[-1])
            return super().complete(request)

    said = [reads("a.py"), reads("a.py"), reads("b.py"), verdict("warn")]
    with home.open() as ledger:
        panel = convene(ledger, "a", "b")
        hear_panel(panel, {name: Looking([*said], name) for name in ("a", "b")}, Files())
    ends = ["EvaluationOpened", "TurnCharged", "TurnSpared", "TurnCharged"]
    assert seen == {"a": ends, "b": ends}


def test_a_model_that_fails_for_good_closes_its_own_evaluation_alone(home: Home) -> None:
    down = ModelFault("auth", status=401)
    models: dict[str, Model] = {"a": Answers([verdict("pass")]), "b": Answers([down])}
    with home.open() as ledger:
        decided = hear_panel(convene(ledger, "a", "b"), models, Files())
    assert (decided.action, decided.blocker_validators) == ("halt", ("b",))
    assert [cause(home, judge) for judge in ("a", "b")] == [None, "provider_fault"]
    home.require_intact()


# ── a judge's thread fails ─────────────────────────────────────────────────────────────────────────


def test_a_store_that_fails_stops_every_judge_and_its_error_is_raised(home: Home) -> None:
    """Nothing waits for the judge whose model hangs, and nothing it says later is stored."""
    late = Hanging(verdict("pass"))

    def full(rows: Sequence[Row], evidence: Sequence[EvidenceRow]) -> None:
        if rows[0].stream == stream("unlucky") and rows[0].type == "TurnOpened":
            raise IOFailure("the disk is full")

    class Unlucky(Answers):
        def complete(self, request: Request) -> Response:
            assert late.called.wait(SECONDS_MAX)
            return super().complete(request)

    models: dict[str, Model] = {"unlucky": Unlucky([verdict("pass")]), "late": late}
    with home.open() as ledger:
        with watched(ledger, full), pytest.raises(IOFailure, match="the disk is full"):
            hear_panel(convene(ledger, "unlucky", "late"), models, Files())
        rows = home.rows()
        late.let_go.set()
        for thread in judges_threads():
            thread.join(SECONDS_MAX)
        assert home.rows() == rows
        assert sorted(home.require_intact().open_evaluations) == [stream("late"), stream("unlucky")]
        log = ledger.task("T-1").log
        assert take_over(log)
        assert log.state.status == "blocked"
    assert [cause(home, judge) for judge in ("unlucky", "late")] == ["interrupted"] * 2
    home.require_intact()


@pytest.mark.parametrize("where", ["model", "workspace", "on_turn"])
def test_a_programmers_mistake_is_raised_and_the_panel_left_to_the_next(
    home: Home, where: str
) -> None:
    def broken(*_: object) -> Any:
        raise ZeroDivisionError(where)

    def fine(*_: object) -> None:
        pass

    class BrokenModel:
        complete = broken

    class BrokenFiles:
        read = broken

    said: list[Response | ModelFault] = [reads("a.py"), verdict("pass")]
    model: Any = BrokenModel() if where == "model" else Answers(said)
    files: Any = BrokenFiles() if where == "workspace" else Files()
    on_turn = broken if where == "on_turn" else fine
    with home.open() as ledger:
        with pytest.raises(ZeroDivisionError, match=where):
            hear_panel(convene(ledger, "a"), {"a": model}, files, on_turn)
        for thread in judges_threads():
            thread.join(SECONDS_MAX)
        assert take_over(ledger.task("T-1").log)
    home.require_intact()


def test_a_decision_that_cannot_be_stored_is_taken_by_the_next(home: Home) -> None:
    def full(rows: Sequence[Row], evidence: Sequence[EvidenceRow]) -> None:
        if rows[0].type == "PanelDecided":
            raise IOFailure("the disk is full")

    with home.open() as ledger:
        with watched(ledger, full), pytest.raises(IOFailure):
            hear_panel(convene(ledger, "a"), {"a": Answers([verdict("pass")])}, Files())
        log = ledger.task("T-1").log
        assert take_over(log)
        assert log.state.status == "completed"
    assert cause(home, "a") is None
    home.require_intact()


# ── the person says stop ───────────────────────────────────────────────────────────────────────────


@contextmanager
def ctrl_c(when: threading.Event) -> Iterator[None]:
    """Interrupt the main thread, as Ctrl-C does, once `when` is set."""

    main = threading.main_thread().ident
    assert main is not None

    def press() -> None:
        if when.wait(SECONDS_MAX):
            signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_ctrl_c_closes_what_is_open_as_interrupted_and_decides(home: Home) -> None:
    """What came before stays; what a hanging model answers afterwards is not stored."""
    late = Hanging(verdict("pass"))
    told = threading.Event()
    ready = threading.Event()

    def on_turn(judge: str, written: list[Written]) -> None:
        if isinstance(written[-1].event, VerdictGiven):
            told.set()

    def press_once_both() -> None:
        if told.wait(SECONDS_MAX) and late.called.wait(SECONDS_MAX):
            ready.set()

    waiting = threading.Thread(target=press_once_both)
    waiting.start()
    models: dict[str, Model] = {"quick": Answers([reads("a.py"), verdict("pass")]), "late": late}
    with home.open() as ledger:
        panel = convene(ledger, "quick", "late")
        with ctrl_c(ready), pytest.raises(Interrupted, match="T-1: interrupted") as told_of:
            hear_panel(panel, models, Files(), on_turn)
        assert told_of.value.exit_code == 130
        waiting.join()
        rows = home.rows()
        late.let_go.set()
        assert late.answered.wait(SECONDS_MAX)
        for thread in judges_threads():
            thread.join(SECONDS_MAX)
        assert home.rows() == rows
        lock = ledger.store.try_lock(panel.convened.runner.id)
        assert lock is not None
        lock.release()
    assert cause(home, "quick") is None
    assert cause(home, "late") == "interrupted"
    decided = next(e for e in home.events("task/T-1") if isinstance(e, PanelDecided))
    assert (decided.action, decided.blocker_validators) == ("halt", ("late",))
    home.require_evidence("T-1")
    assert home.require_intact().open_evaluations == ()


def test_a_turn_under_way_when_the_panel_is_given_up_is_not_stored(home: Home) -> None:
    with home.open() as ledger:
        panel = convene(ledger, "a", "b")
        seat = panel.open("a")
        seat.next_request()
        turn = seat.respond(reads("a.py"))
        read = next(turn)
        panel.interrupt()
        seat.answer(file_of_80_lines(read.tool, read.arguments))
        with pytest.raises(Abandoned):
            next(turn)
        with pytest.raises(Abandoned):
            panel.open("b")
    assert home.kinds(stream("a")) == ["EvaluationOpened", "EvaluationFailed"]
    home.require_evidence("T-1")
    home.require_intact()


def test_an_interrupt_after_the_decision_leaves_it_as_it_is(home: Home) -> None:
    with home.open() as ledger:
        panel = convene(ledger, "a")
        hear_out(panel.open("a"), [verdict("pass")])
        panel.decide()
        rows = home.rows()
        assert not panel.interrupt()
        told = interrupted(panel).message
    assert told == "task T-1: interrupted; the panel had decided already, and that stands"
    assert home.rows() == rows


def test_who_is_told_to_stop_between_two_tries_does_not_ask_again(home: Home) -> None:
    """A try costs its person money."""
    stop, asked = threading.Event(), list[Request]()

    class Limited:
        def complete(self, request: Request) -> Response:
            asked.append(request)
            stop.set()
            raise ModelFault("rate_limit", status=429, retry_after_ms=1, retryable=True)

    with home.open() as ledger:
        panel = convene(ledger, "a")
        hear_seat(panel.open("a"), Limited(), Files(), stop)
        assert len(asked) == 1
        assert panel.interrupt()
    assert cause(home, "a") == "interrupted"


# ── the runner is gone ─────────────────────────────────────────────────────────────────────────────


def die(panel: Panel) -> None:
    """What the system does with the lock of a process that dies."""
    panel.lock.release()


def test_who_takes_over_closes_the_open_and_opens_and_closes_the_missing(home: Home) -> None:
    with home.open() as gone, home.open() as next_writer:
        panel = convene(gone, "decided", "halfway", "opened", "missing")
        hear_out(panel.open("decided"), [reads("a.py"), verdict("warn", "As it was.")])
        halfway = panel.open("halfway")
        halfway.next_request()
        for read in halfway.respond(reads("a.py")):
            halfway.answer(file_of_80_lines(read.tool, read.arguments))
        panel.open("opened")
        report = home.require_intact()
        assert report.open_evaluations == (stream("halfway"), stream("opened"))
        die(panel)
        log = next_writer.task("T-1").log
        assert take_over(log)
        assert not take_over(log)
        assert log.state.status == "blocked"
    warned = closing(home, "decided")
    assert isinstance(warned, VerdictGiven)
    assert warned.justification == "As it was."
    for judge in ("halfway", "opened", "missing"):
        assert cause(home, judge) == "interrupted"
    failed = closing(home, "halfway")
    assert isinstance(failed, EvaluationFailed)
    assert failed.examined.count == 1
    assert home.kinds(stream("missing")) == ["EvaluationOpened", "EvaluationFailed"]
    opened = home.events(stream("missing"))[0]
    assert isinstance(opened, EvaluationOpened)
    assert (opened.criteria, opened.prompt) == (None, None)
    assert home.kinds("task/T-1")[-3:] == ["PanelDecided", "TaskHalted", "AttemptClosed"]
    home.require_evidence("T-1")
    assert home.require_intact().open_evaluations == ()


def test_a_live_runners_panel_is_never_touched_and_the_runner_is_named(home: Home) -> None:
    with home.open() as living, home.open() as other:
        panel = convene(living, "a", "b")
        panel.open("a")
        rows = home.rows()
        runner = panel.convened.runner
        log = other.task("T-1").log
        for _ in range(3):
            with pytest.raises(Busy, match=f"process {runner.process} on {runner.host}") as busy:
                take_over(log)
        assert busy.value.exit_code == 75
        assert home.rows() == rows
        assert home.require_intact().open_evaluations == (stream("a"),)
        hear_out(panel.seats["a"], [verdict("pass")])
        hear_out(panel.open("b"), [verdict("pass")])
        assert panel.decide().action == "proceed"
    home.require_intact()


def test_a_runner_that_decided_meanwhile_is_left_with_its_decision(home: Home) -> None:
    with home.open() as runner, home.open() as other:
        panel = convene(runner, "a")
        seat = panel.open("a")
        log = other.task("T-1").log
        assert log.state.stage == "judging"
        hear_out(seat, [verdict("pass")])
        panel.decide()
        rows = home.rows()
        assert not take_over(log)
        assert log.state.status == "completed"
        assert home.rows() == rows


def test_who_got_the_lock_of_a_panel_that_is_over_does_not_close_the_next_one(home: Home) -> None:
    """By what it read the first panel sits; by now another does, whose runner lives."""
    with home.open() as first, home.open() as second, home.open() as slow:
        panel = convene(first, "a")
        log = slow.task("T-1").log
        hear_out(panel.open("a"), [verdict("blocker")])
        panel.decide()
        following = convene(second, "a")
        following.open("a")
        rows = home.rows()
        runner = following.convened.runner
        with pytest.raises(
            Busy, match=f"attempt 2, post_execute: judged by process {runner.process}"
        ):
            take_over(log)
        assert home.rows() == rows
        following.interrupt()
    home.require_intact()


def test_a_runner_that_lost_its_lock_stores_nothing_once_it_was_taken_over(home: Home) -> None:
    """As when a connection to the server breaks and the server drops the lock of a process that lives."""
    with home.open() as runner, home.open() as other:
        panel = convene(runner, "a", "b")
        seat = panel.open("a")
        die(panel)
        assert take_over(other.task("T-1").log)
        rows = home.rows()
        with pytest.raises(Busy):
            hear_out(seat, [verdict("pass")])
        with pytest.raises(Busy):
            panel.open("b")
        panel.interrupt()
        assert home.rows() == rows
    assert cause(home, "a") == "interrupted"
    home.require_intact()


def test_of_many_who_take_over_at_once_one_does(home: Home) -> None:
    with home.open() as gone:
        panel = convene(gone, "a", "b")
        panel.open("a")
        die(panel)
    barrier = threading.Barrier(4)
    done: list[bool | Busy] = []

    def race() -> None:
        with home.open() as ledger:
            log = ledger.task("T-1").log
            barrier.wait()
            try:
                done.append(take_over(log))
            except Busy as error:
                done.append(error)

    threads = [threading.Thread(target=race) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done.count(True) == 1
    assert len(done) == 4
    assert home.kinds(stream("a")) == ["EvaluationOpened", "EvaluationFailed"]
    home.require_intact()


def test_the_work_goes_on_after_a_take_over(home: Home) -> None:
    with home.open() as gone, home.open() as ledger:
        die(convene(gone, "a"))
        task = ledger.task("T-1")
        assert take_over(task.log)
        attempt = task.start_attempt(rejudges=1)
        panel = attempt.convene("post_execute", "any", judges("a"))
        assert hear_panel(panel, {"a": Answers([verdict("pass")])}, Files()).action == "proceed"
        assert task.log.state.outcomes == [(1, "error"), (2, "passed")]
    home.require_intact()


def test_prose_alone_ends_an_evaluation_without_a_verdict(home: Home) -> None:
    models = {"a": Answers([prose("Fine by me."), prose("As I said.")])}
    with home.open() as ledger:
        assert hear_panel(convene(ledger, "a"), models, Files()).action == "halt"
    assert cause(home, "a") == "no_verdict"
    home.require_intact()
