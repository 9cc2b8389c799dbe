"""A task as a writer holds it: one transaction at a time, its spec, its limits, and where it stands after."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from causebook import Judge, Ledger
from causebook.adapters.ledger import TaskHandle
from causebook.adapters.store.port import EvidenceRow, Row
from causebook.adapters.writer import Satchel
from causebook.domain.errors import BadData, Denied, IOFailure, Misuse, VersionConflict
from causebook.domain.events import PanelConvened, TaskHalted, TaskOpened
from causebook.domain.evidence import commit
from causebook.domain.limits import EVIDENCE_BYTES_MAX, REASON_BYTES_MAX
from causebook.domain.record import parse
from causebook.domain.tools import READ_TOOLS
from tests.adapters.cli import conftest as cli
from tests.attacks.intruder import Intruder

from .forge import verdict
from .ledgers import Home, Watched, hear_each, judges, watched

TASK = "task/T-1"

# The desk of the command's tests, with no setting of whoever runs them.
founded, desk, plain_environment = cli.founded, cli.desk, cli.plain_environment


@pytest.fixture
def home(store_url: str, tmp_path: Path) -> Home:
    """A founded ledger."""
    return Home.found(store_url, tmp_path)


def full(rows: Sequence[Row], evidence: Sequence[EvidenceRow]) -> None:
    raise IOFailure("the disk is full")


def escalated(ledger: Ledger) -> TaskHandle:
    """T-1, escalated by its only judge: it waits for a person."""
    task = ledger.task("T-1")
    panel = task.start_attempt().convene("post_execute", "unanimous", judges("a"))
    hear_each(panel, {"a": [verdict("warn")]})
    return task


# ── a transaction that is not stored ───────────────────────────────────────────────────────────────


def test_a_transaction_refused_halfway_leaves_the_handle_as_stored_and_is_made_again(
    home: Home,
) -> None:
    """TaskOpened was in the draft already, and its spec."""
    with home.open() as ledger:
        task = ledger.task("T-1", spec="Fix the login")
        before = vars(task.log).copy()
        for _ in range(2):
            with pytest.raises(Misuse, match="rejudges: expected an earlier attempt"):
                task.start_attempt(rejudges=5)
            assert vars(task.log) == before
        assert task.log.state.stage == "unopened"
        assert task.start_attempt().number == 1
        assert task.log.state.stage == "working"
    assert home.kinds(TASK) == ["TaskOpened", "AttemptStarted"]
    assert home.require_evidence("T-1") == 1
    home.require_intact()


@pytest.mark.parametrize("error", [ZeroDivisionError(), KeyboardInterrupt(), Misuse("no")])
def test_what_is_raised_inside_of_a_transaction_is_raised_and_nothing_is_stored(
    home: Home, error: BaseException
) -> None:
    with home.open() as ledger:
        log = ledger.task("T-1").log

        def broken() -> None:
            with log.transaction() as draft:
                draft.add(TaskOpened(task="T-1", spec=draft.satchel.commit(b"Fix the login")))
                raise error

        with pytest.raises(type(error)):
            broken()
        assert (log.state.stage, log.tip, log.spec) == ("unopened", (0, ""), None)
        with log.transaction() as draft:
            draft.add(TaskOpened(task="T-1", spec=None))
        assert log.state.stage == "between"
    assert home.kinds(TASK) == ["TaskOpened"]
    assert home.require_evidence("T-1") == 0


def test_the_state_that_a_handle_shows_is_never_one_in_the_making(home: Home) -> None:
    with home.open() as ledger:
        log = ledger.task("T-1").log
        with log.transaction() as draft:
            draft.add(TaskOpened(task="T-1", spec=None))
            assert (draft.state.stage, log.state.stage, log.tip) == ("between", "unopened", (0, ""))
        assert (log.state.stage, log.tip[0]) == ("between", 1)


def test_a_resolution_whose_closing_cannot_be_signed_leaves_the_task_waiting(home: Home) -> None:
    """The authority's key opens and signs; the engine's, which signs what follows, is not here."""
    who = {"name": "Ada Example", "meaning": "I have read the change"}
    with home.open() as ledger:
        escalated(ledger)
    engine = home.keys / "engine.pem"
    away = engine.rename(home.keys.parent / "engine.away")
    rows = home.rows()
    with home.open() as ledger:
        task = ledger.task("T-1")
        for _ in range(2):
            with pytest.raises(Denied, match="the engine key is not here"):
                task.resolve("proceed", **who)
            assert (task.log.state.stage, task.log.state.resolution) == ("waiting", None)
            assert task.log.state.status == "blocked"
        assert home.rows() == rows
        away.rename(engine)
        task.resolve("proceed", **who)
        assert task.log.state.status == "completed"
    assert home.kinds(TASK)[-3:] == ["ResolutionRecorded", "AttemptClosed", "TaskCompleted"]
    home.require_intact()


class Forgetful(Watched):
    """A store that appends, and then does not say so: the answer was lost on the way."""

    def append(
        self, rows: Sequence[Row], evidence: Sequence[EvidenceRow], *, ledger_version: int
    ) -> None:
        super().append(rows, evidence, ledger_version=ledger_version)
        raise IOFailure("the connection broke")


@contextmanager
def forgetful(ledger: Ledger) -> Iterator[None]:
    store = ledger.writer.store
    ledger.writer.store = Forgetful(store, lambda rows, evidence: None)
    try:
        yield
    finally:
        ledger.writer.store = store


def test_after_a_commit_that_failed_the_next_transaction_builds_on_what_was_stored(
    home: Home,
) -> None:
    with home.open() as ledger:
        task = ledger.task("T-1")
        with forgetful(ledger), pytest.raises(IOFailure, match="the connection broke"):
            task.start_attempt()
        assert task.log.state.stage == "unopened"
        with pytest.raises(Misuse, match="attempt 1 is still open"):
            task.start_attempt()
        attempt = task.open_attempt()
        with forgetful(ledger), pytest.raises(IOFailure):
            attempt.dispatch_coder("my-coder")
        attempt.dispatch_coder("my-coder")
        assert task.log.state.coder_dispatches == 2
    assert home.kinds(TASK) == ["TaskOpened", "AttemptStarted", *["CoderDispatched"] * 2]
    home.require_intact()


def test_a_resolution_stored_though_its_commit_failed_is_not_recorded_twice(home: Home) -> None:
    who = {"name": "Ada Example", "meaning": "I have read the change"}
    with home.open() as ledger:
        task = escalated(ledger)
        with forgetful(ledger), pytest.raises(IOFailure):
            task.resolve("reject", **who)
        with pytest.raises(Misuse, match="task T-1"):
            task.resolve("proceed", **who)
        assert (task.log.state.stage, task.log.state.status) == ("between", "blocked")
    assert home.kinds(TASK).count("ResolutionRecorded") == 1
    home.require_intact()


@pytest.mark.parametrize("error", [IOFailure("the disk is full"), KeyboardInterrupt()])
def test_after_a_commit_that_failed_with_nothing_stored_the_plain_retry_works(
    home: Home, error: BaseException
) -> None:
    def fails(rows: Sequence[Row], evidence: Sequence[EvidenceRow]) -> None:
        raise error

    with home.open() as ledger:
        task = ledger.task("T-1", spec="Fix the login")
        with watched(ledger, fails), pytest.raises(type(error)):
            task.start_attempt()
        attempt = task.start_attempt()
        with watched(ledger, fails), pytest.raises(type(error)):
            attempt.halt("constraint", "no")
        attempt.halt("constraint", "yes")
        assert task.start_attempt(rejudges=1).number == 2
    assert home.require_evidence("T-1") == 1
    home.require_intact()


# ── what a task asks for ───────────────────────────────────────────────────────────────────────────


def brief_of(home: Home, ledger: Ledger) -> str:
    """What the panel that was convened last tells its judges; the panel is left."""
    panel = ledger.task("T-1").open_attempt().convene("post_execute", "any", judges("a"))
    panel.leave()
    with home.store() as store:
        named = panel.convened.brief
        assert named is not None
        row = store.evidence(named)
    assert row is not None
    assert commit(row.salt, panel.brief.encode()) == named
    return panel.brief


def opened(home: Home, spec: str | None) -> None:
    """T-1, opened with this spec, in an attempt."""
    with home.open() as ledger:
        ledger.task("T-1", spec=spec).start_attempt()


@pytest.mark.parametrize("given", [None, "Fix the login"])
def test_a_known_task_is_briefed_with_the_spec_it_was_opened_with(
    home: Home, given: str | None
) -> None:
    opened(home, "Fix the login")
    with home.open() as ledger:
        task = ledger.task("T-1", spec=given)
        assert (task.spec, task.log.spec_text()) == ("Fix the login",) * 2
        assert task.open_attempt().spec == "Fix the login"
        assert "Fix the login" in brief_of(home, ledger)
    assert home.require_evidence("T-1") == 2
    home.require_intact()


@pytest.mark.parametrize(
    ("kept", "given", "opened_with"),
    [
        ("Fix the login", "Remove the login", "another"),
        ("Fix the login", "Fix the login ", "another"),
        ("Fix the login", "", "another"),
        ("", "Fix the login", "another"),
        (None, "Fix the login", "none"),
        (None, "", "none"),
    ],
)
def test_a_known_task_with_another_spec_is_another_task(
    home: Home, kept: str | None, given: str, opened_with: str
) -> None:
    opened(home, kept)
    rows = home.rows()
    with home.open() as ledger:
        with pytest.raises(Misuse, match=f"opened with, which is {opened_with}") as told:
            ledger.task("T-1", spec=given)
        assert "another task" in told.value.hint
        assert ledger.task("T-1").spec == kept
    assert home.rows() == rows


def test_a_task_opened_without_a_spec_is_briefed_without_one(home: Home) -> None:
    opened(home, None)
    with home.open() as ledger:
        assert ledger.task("T-1").spec is None
        assert "T-1" in brief_of(home, ledger)


def test_once_the_spec_is_erased_the_one_given_is_taken(home: Home) -> None:
    opened(home, "Fix the login")
    with home.store() as store:
        assert store.erase_evidence(store.evidence_of("T-1")) == 1
    with home.open() as ledger:
        assert ledger.task("T-1").spec is None
        attempt = ledger.task("T-1", spec="Fix the login").open_attempt()
        attempt.halt("constraint", "not today")
        task = ledger.task("T-1", spec="As it was")
        assert task.spec == "As it was"
        panel = task.start_attempt().convene("post_execute", "any", judges("a"))
        assert "As it was" in panel.brief
        panel.leave()
    (first, *_) = home.events(TASK)
    assert isinstance(first, TaskOpened)
    assert first.spec is not None


@pytest.mark.parametrize("given", [None, "Fix the login"])
def test_who_was_overtaken_in_opening_a_task_judges_by_the_spec_it_was_opened_with(
    home: Home, given: str | None
) -> None:
    with home.open() as ledger, home.open() as other:
        task = ledger.task("T-1", spec=given)
        other.task("T-1", spec="Fix the login").start_attempt()
        with pytest.raises(VersionConflict):
            task.start_attempt()
        panel = task.open_attempt().convene("post_execute", "any", judges("a"))
        assert "Fix the login" in panel.brief
        assert task.spec == "Fix the login"
        panel.interrupt()
        assert task.start_attempt().spec == "Fix the login"
    home.require_intact()


def test_who_was_overtaken_with_another_spec_judges_nothing_by_it(home: Home) -> None:
    with home.open() as ledger, home.open() as other:
        task = ledger.task("T-1", spec="Remove the login")
        other.task("T-1", spec="Fix the login").start_attempt()
        with pytest.raises(VersionConflict):
            task.start_attempt()
        attempt = task.open_attempt()
        rows = home.rows()
        for brief in (None, "Remove the login"):
            with pytest.raises(Misuse, match="opened with, which is another"):
                attempt.convene("post_execute", "any", judges("a"), brief=brief)
        assert home.rows() == rows
        attempt.halt("constraint", "the engine has its own reasons")
        with pytest.raises(Misuse, match="opened with, which is another"):
            task.start_attempt()
        assert home.kinds(TASK)[-1] == "AttemptClosed"
    home.require_intact()


def test_a_spec_that_was_changed_in_the_store_is_not_briefed(home: Home) -> None:
    opened(home, "Fix the login")
    with home.open() as ledger:
        assert ledger.task("T-1").spec == "Fix the login"
    with Intruder(home.url) as intruder:
        intruder.sql("UPDATE evidence SET salt = ?", b"\0" * 32)
    rows = home.rows()
    with (
        home.open() as ledger,
        pytest.raises(BadData, match="not the bytes that were committed to"),
    ):
        ledger.task("T-1")
    assert home.rows() == rows


@pytest.mark.parametrize("spec", ["é\ud800 \U0001f600", "x" * 100_000, " ", ""])
def test_any_text_is_given_back_as_it_was(home: Home, spec: str) -> None:
    opened(home, spec)
    with home.open() as ledger:
        assert ledger.task("T-1").spec == spec
        assert ledger.task("T-1", spec=spec).spec == spec


# ── limits, held before anything is stored ─────────────────────────────────────────────────────────

LONG_MODELS = ["m" * 513, "é" * 257, '"' * 257, "\x01" * 86, "", "\ud800"]
TOO_LONG: dict[str, Callable[[Any], object]] = {
    "reason": lambda attempt: attempt.halt("constraint", "x" * 20_000),
    "reason, one more": lambda attempt: attempt.halt("constraint", "x" * (REASON_BYTES_MAX + 1)),
    "reason, escaped": lambda attempt: attempt.halt("constraint", '"' * REASON_BYTES_MAX),
    "reason, no Unicode": lambda attempt: attempt.halt("constraint", "\ud800"),
    "no coder": lambda attempt: attempt.dispatch_coder(""),
    "blank coder": lambda attempt: attempt.dispatch_coder(" \n"),
    "coder": lambda attempt: attempt.dispatch_coder("x" * 513, brief="go"),
    "coder, no Unicode": lambda attempt: attempt.dispatch_coder("\udfff"),
    "brief": lambda attempt: attempt.dispatch_coder(
        "my-coder", brief="x" * (EVIDENCE_BYTES_MAX + 1)
    ),
    "root": lambda attempt: attempt.convene("post_execute", "any", judges("a"), root="/" * 8_193),
    **{
        f"model {model[:2]!r}": lambda attempt, model=model: attempt.convene(
            "post_execute", "any", [*judges("a"), Judge("b", model, ["c"])]
        )
        for model in LONG_MODELS
    },
}


def test_what_does_not_fit_the_record_is_refused_before_anything_is_stored(home: Home) -> None:
    with home.open() as ledger:
        task = ledger.task("T-1")
        attempt = task.start_attempt()
        rows = home.rows()
        for what, call in TOO_LONG.items():
            with pytest.raises(Misuse, match="expected"):
                call(attempt)
            assert task.log.state.stage == "working", what
        assert home.rows() == rows
        attempt.dispatch_coder("x" * 512)
        attempt.halt("constraint", "x" * REASON_BYTES_MAX)
    assert home.require_evidence("T-1") == 0
    home.require_intact()


@pytest.mark.parametrize(
    "reason", ["", '"' * (REASON_BYTES_MAX // 2), "é" * (REASON_BYTES_MAX // 2)]
)
def test_a_reason_as_long_as_it_may_be_is_kept(tmp_path: Path, reason: str) -> None:
    home = Home.found(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path)
    with home.open() as ledger:
        ledger.task("T-1").start_attempt().halt("constraint", reason)
    halted = home.events(TASK)[-2]
    assert isinstance(halted, TaskHalted)
    assert halted.reason == reason
    home.require_intact()


def test_evidence_has_a_size_that_a_reader_still_unpacks() -> None:
    satchel = Satchel("T-1")
    with pytest.raises(Misuse, match=f"at most {EVIDENCE_BYTES_MAX} bytes, found") as told:
        satchel.commit(bytes(EVIDENCE_BYTES_MAX + 1))
    assert satchel.rows == []
    assert "cut it" in told.value.hint
    satchel.commit(bytes(EVIDENCE_BYTES_MAX))
    assert len(satchel.rows) == 1


@pytest.mark.parametrize("model", ["m" * 512, "é" * 256, '"' * 256])
def test_a_panel_of_32_judges_with_the_longest_names_is_one_record(home: Home, model: str) -> None:
    """Convened, opened and closed: each record of it fits."""
    task = "t" * 128
    seated = [
        Judge(f"{number:02}" + "j" * 126, model, ["c"], tuple(READ_TOOLS), 200)
        for number in range(32)
    ]
    with home.open() as ledger:
        attempt = ledger.task(task).start_attempt()
        panel = attempt.convene("post_execute", "any", seated, root="/" * 8_192)
        panel.interrupt()
    rows = [row for row in home.rows() if row.stream == f"task/{task}"]
    assert [row.type for row in rows][-4:] == [
        *("PanelConvened", "PanelDecided", "TaskHalted", "AttemptClosed")
    ]
    convened = home.events(f"task/{task}")[2]
    assert isinstance(convened, PanelConvened)
    assert len(convened.judges) == 32
    assert len(rows[2].record) > 32_000
    assert parse(rows[2].record).type == "PanelConvened"
    home.require_intact()


# ── where the command says a task stands, once a person let it go on ───────────────────────────────


def resolved(desk: cli.Desk) -> None:
    """A proposal that was escalated, and that a person let go on."""
    assert desk.judge("T-1", cli.WARN, phase="pre_execute").code == 11
    words = ("--name", "Ada Example", "--meaning", "I have read it")
    assert cli.invoke("resolve", "T-1", "--decision", "proceed", *words).code == 0


@pytest.mark.parametrize(
    ("answers", "code", "last_line", "halt"),
    [
        ((cli.PASS,), 0, "passed", None),
        ((cli.PASS, cli.WARN), 0, "passed, with a warn noted", None),
        ((cli.BLOCKER,), 10, "halted: blocker", "blocker"),
        ((cli.WARN,), 11, "halted: escalate", "escalate"),
        ((cli.PROSE,), 12, "halted: validator_error", "validator_error"),
    ],
)
def test_the_work_is_answered_for_itself_after_its_proposal_was_resolved(
    desk: cli.Desk, answers: tuple[str, ...], code: int, last_line: str, halt: str | None
) -> None:
    """The proposal's halt is over: it is no answer to what was judged since."""
    resolved(desk)
    done = desk.judge("T-1", *answers, policy="any")
    assert (done.code, done.err) == (code, "")
    assert done.lines[0].startswith("T-1, attempt 1, post_execute")
    assert done.lines[-1].startswith(f"{last_line}  ")
    payload = json.loads(cli.invoke("why", "T-1", "--json").out)
    if halt is not None:
        assert payload["halt_type"] == halt
    assert cli.invoke("verify").code == 20


def test_the_twin_that_nobody_resolved_still_waits(desk: cli.Desk) -> None:
    assert desk.judge("T-1", cli.WARN, phase="pre_execute").code == 11
    assert desk.judge("T-1", cli.PASS).code == 64
