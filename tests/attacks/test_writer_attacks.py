"""What is put before a writer to build on: it signs nothing that follows from a record nobody vouches for.

The store's owner plants a record past its triggers, or an engine's key signs one that is not lawful. It
stands where an honest one could; the honest twin is gone on with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from causebook.adapters.ledger import Ledger
from causebook.adapters.panel import Panel
from causebook.adapters.store.port import Row
from causebook.adapters.takeover import take_over
from causebook.domain.errors import BadData
from causebook.domain.events import (
    EvaluationFailed,
    EvaluationOpened,
    Event,
    Phase,
    ResolutionRecorded,
    TaskOpened,
    VerdictGiven,
)
from causebook.domain.record import NO_PREVIOUS, digest, write, written_time
from causebook.domain.streams import evaluation_stream
from tests.adapters.forge import Key, file_of_80_lines, reads, verdict
from tests.adapters.ledgers import Home, hear_each, hear_out, judges
from tests.attacks.intruder import Intruder

TASK = "task/T-1"
Signing = Callable[[Ledger, bytes], tuple[str, bytes]]
"""(ledger, what is to be signed) → (key id, signature)."""


@pytest.fixture
def home(store_url: str, tmp_path: Path) -> Home:
    """A founded ledger."""
    return Home.found(store_url, tmp_path)


def by(role: str) -> Signing:
    """Signed by the ledger's own key of a role."""

    def sign(ledger: Ledger, message: bytes) -> tuple[str, bytes]:
        signer = ledger.writer.signer(role)
        return signer.keyid, signer.sign(message)

    return sign


def junk(ledger: Ledger, message: bytes) -> tuple[str, bytes]:
    """Bytes that are no signature, under a key id that is enrolled for just this."""
    return ledger.writer.signer("authority").keyid, bytes(64)


def engines_junk(ledger: Ledger, message: bytes) -> tuple[str, bytes]:
    """As `junk`, under the engine's key id."""
    return ledger.writer.signer("engine").keyid, bytes(64)


def stranger(ledger: Ledger, message: bytes) -> tuple[str, bytes]:
    """A good signature by a key that nobody enrolled."""
    key = Key("stranger")
    return key.keyid, key.sign(message)


@dataclass(frozen=True)
class Planter:
    """Whoever owns the store, with a ledger open to copy from."""

    home: Home

    def plant(
        self, stream: str, event: Event, signing: Signing, *, previous: str | None = None
    ) -> str:
        """Insert the next record of `stream` past the triggers; its place, as a message names it.

        `previous`: what it hangs on, by default the digest of the record before it.
        """
        rows = [row for row in self.home.rows() if row.stream == stream]
        with self.home.open() as ledger:
            record, _ = write(
                event.kind(),
                event.fields(),
                at=written_time(datetime(2026, 11, 30, tzinfo=UTC)),
                ledger=ledger.origin,
                previous=previous if previous is not None else digest(rows[-1].record),
                stream=stream,
                version=len(rows) + 1,
                keyid=signing(ledger, b"")[0],
                sign=lambda message: signing(ledger, message)[1],
            )
        with Intruder(self.home.url) as intruder:
            intruder.insert(Row(stream, len(rows) + 1, event.kind(), record))
        return f"{stream} v{len(rows) + 1}"


@pytest.fixture
def planter(home: Home) -> Planter:
    return Planter(home)


def refused(place: str) -> str:
    """The message of a refusal that names `place`."""
    return f"^{place}: "


# ── a person's resolution that no person gave ──────────────────────────────────────────────────────


def escalated(home: Home, phase: Phase = "pre_execute") -> ResolutionRecorded:
    """An escalation that waits, and the resolution that would let the task go on."""
    with home.open() as ledger:
        task = ledger.task("T-1")
        panel = task.start_attempt().convene(phase, "unanimous", judges("a"))
        hear_each(panel, {"a": [verdict("warn")]})
        decided = task.log.state.decided_digest
    assert decided is not None
    return ResolutionRecorded(
        attempt=1,
        phase=phase,
        decision="proceed",
        name="Ada Example",
        meaning="I have read the change",
        comment="",
        decided=decided,
    )


@pytest.mark.parametrize("signing", [junk, stranger, by("engine"), by("root")])
def test_a_planted_resolution_is_not_gone_on_with(
    home: Home, planter: Planter, signing: Signing
) -> None:
    place = planter.plant(TASK, escalated(home), signing)
    rows = home.rows()
    with home.open() as ledger, pytest.raises(BadData, match=refused(place)) as told:
        ledger.task("T-1")
    assert "verify" in told.value.hint
    assert home.rows() == rows
    assert home.verify().code == 28


def test_the_twin_that_the_authority_signed_is_gone_on_with(home: Home, planter: Planter) -> None:
    planter.plant(TASK, escalated(home), by("authority"))
    with home.open() as ledger:
        attempt = ledger.task("T-1").open_attempt()
        panel = attempt.convene("post_execute", "any", judges("a"))
        hear_each(panel, {"a": [verdict("pass")]})
    assert home.kinds(TASK)[-1] == "TaskCompleted"
    home.require_intact()


@pytest.mark.parametrize("signing", [junk, stranger, by("engine")])
def test_a_resolution_planted_under_a_writer_stops_it(
    home: Home, planter: Planter, signing: Signing
) -> None:
    """It has read the task already, and is told by the store that there is more."""
    resolution = escalated(home)
    with home.open() as ledger:
        task = ledger.task("T-1")
        place = planter.plant(TASK, resolution, signing)
        rows = home.rows()
        for _ in range(2):  # the second time it knows that what it holds is old
            with pytest.raises(BadData, match=refused(place)):
                task.resolve("reject", name="Bob Example", meaning="no")
            assert task.log.state.stage == "waiting"
        assert home.rows() == rows


# ── a verdict that no judge gave ───────────────────────────────────────────────────────────────────

JUDGE = evaluation_stream("T-1", 1, "post_execute", "a")
PASS = VerdictGiven(turn=1, call=0, severity="pass", justification="Fine.")


def abandoned(home: Home, *, turns: int = 1) -> Panel:
    """A panel of one judge whose runner is gone, after so many turns."""
    with home.open() as ledger:
        panel = ledger.task("T-1").start_attempt().convene("post_execute", "any", judges("a"))
        seat = panel.open("a")
        for _ in range(turns):
            seat.next_request()
            for read in seat.respond(reads("a.py")):
                seat.answer(file_of_80_lines(read.tool, read.arguments))
        panel.leave()
    return panel


def require_refused(home: Home, place: str, why: str = "") -> None:
    """A take-over is refused at `place`, appends nothing and gives the dead runner's lock back."""
    rows = home.rows()
    with home.open() as ledger:
        task = ledger.task("T-1")
        with pytest.raises(BadData, match=refused(place) + why):
            task.take_over()
        assert task.log.state.stage == "judging"
        panel = task.log.state.panel
        assert panel is not None
        lock = ledger.store.try_lock(panel.runner.id)
        assert lock is not None
        lock.release()
    assert home.rows() == rows


@pytest.mark.parametrize("signing", [engines_junk, stranger, by("authority"), by("root")])
def test_a_verdict_planted_in_a_dead_runners_evaluation_is_not_counted(
    home: Home, planter: Planter, signing: Signing
) -> None:
    abandoned(home)
    require_refused(home, planter.plant(JUDGE, PASS, signing))


@pytest.mark.parametrize("turns", [0, 1])
def test_a_verdict_that_follows_no_turn_is_not_counted_though_the_engine_signed_it(
    home: Home, planter: Planter, turns: int
) -> None:
    abandoned(home, turns=turns)
    place = planter.plant(JUDGE, PASS, by("engine"))
    require_refused(home, place, "expected TurnOpened, found VerdictGiven")


def test_a_failure_with_no_try_is_not_counted_though_the_engine_signed_it(
    home: Home, planter: Planter
) -> None:
    """`interrupted` with another account of what the judge looked at."""
    abandoned(home)
    with home.open() as ledger:
        panel = ledger.task("T-2").start_attempt().convene("post_execute", "any", judges("a"))
        panel.open("a")
        panel.interrupt()
    other = home.events(JUDGE.replace("T-1", "T-2"))[-1]
    assert isinstance(other, EvaluationFailed)
    require_refused(home, planter.plant(JUDGE, other, by("engine")), "expected EvaluationFailed")


@pytest.mark.parametrize("turns", [0, 1])
def test_the_twin_without_a_planted_verdict_is_taken_over(home: Home, turns: int) -> None:
    abandoned(home, turns=turns)
    with home.open() as ledger:
        assert take_over(ledger.task("T-1").log)
    assert home.kinds(JUDGE)[-1] == "EvaluationFailed"
    home.require_intact()


def test_the_twin_whose_judge_did_decide_counts_what_it_decided(home: Home) -> None:
    with home.open() as ledger:
        panel = ledger.task("T-1").start_attempt().convene("post_execute", "any", judges("a"))
        hear_out(panel.open("a"), [reads("a.py"), verdict("pass")])
        panel.leave()
    with home.open() as ledger:
        task = ledger.task("T-1")
        assert task.take_over()
        assert task.log.state.status == "completed"
    home.require_intact()


# ── what a stream's first record hangs on ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("previous", [NO_PREVIOUS, "ab" * 32, "the engine's enrolment"])
def test_a_task_that_hangs_on_another_founding_is_not_gone_on_with(
    home: Home, planter: Planter, previous: str
) -> None:
    if previous == "the engine's enrolment":
        previous = digest(home.rows()[1].record)
    opened = TaskOpened(task="T-1", spec=None)
    place = planter.plant(TASK, opened, by("engine"), previous=previous)
    rows = home.rows()
    with home.open() as ledger, pytest.raises(BadData, match=refused(place)) as told:
        ledger.task("T-1")
    assert ledger.writer.founding[:8] in told.value.message
    assert home.rows() == rows


def test_the_twin_that_hangs_on_its_own_founding_is_gone_on_with(
    home: Home, planter: Planter
) -> None:
    founding = digest(home.rows()[0].record)
    planter.plant(TASK, TaskOpened(task="T-1", spec=None), by("engine"), previous=founding)
    with home.open() as ledger:
        ledger.task("T-1").start_attempt()
    assert home.kinds(TASK) == ["TaskOpened", "AttemptStarted"]
    home.require_intact()


def twice_convened(home: Home) -> tuple[EvaluationOpened, str, str]:
    """A second panel whose runner is gone before it opened its judge.

    (how it would have opened it, the digest of the first panel's record, that of the second's).
    """
    with home.open() as ledger:
        attempt = ledger.task("T-1").start_attempt()
        panel = attempt.convene("pre_execute", "any", judges("a"))
        first = panel.log.panel_digest
        hear_each(panel, {"a": [verdict("pass")]})
        panel = attempt.convene("post_execute", "any", judges("a"))
        second = panel.log.panel_digest
        panel.leave()
    opened = home.events(JUDGE.replace("post_execute", "pre_execute"))[0]
    assert isinstance(opened, EvaluationOpened)
    assert opened.prompt is not None
    prompt = (opened.prompt[0], panel.convened.brief)
    update = {"phase": "post_execute", "prompt": prompt}
    return opened.model_copy(update=update), first, second


@pytest.mark.parametrize("elsewhere", [None, "ab" * 32])
def test_an_evaluation_that_hangs_on_another_panel_is_not_gone_on_with(
    home: Home, planter: Planter, elsewhere: str | None
) -> None:
    opened, first, second = twice_convened(home)
    place = planter.plant(JUDGE, opened, by("engine"), previous=elsewhere or first)
    require_refused(home, place, f"expected it to hang on {second[:8]}")


def test_the_twin_that_hangs_on_its_own_panel_is_closed(home: Home, planter: Planter) -> None:
    opened, _, second = twice_convened(home)
    planter.plant(JUDGE, opened, by("engine"), previous=second)
    with home.open() as ledger:
        assert take_over(ledger.task("T-1").log)
    assert home.kinds(JUDGE) == ["EvaluationOpened", "EvaluationFailed"]
    home.require_intact()
