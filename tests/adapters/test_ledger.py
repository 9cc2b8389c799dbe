"""What the library promises to an engine that brings its own loop, on SQLite and on PostgreSQL."""

from __future__ import annotations

import base64
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from causebook import Judge, Ledger
from causebook.adapters.keys import KeyFolder, KeySigner
from causebook.adapters.ledger import TaskHandle
from causebook.adapters.store.port import EvidenceRow, Row
from causebook.adapters.store.url import found, open_store
from causebook.adapters.takeover import take_over
from causebook.adapters.task_log import resolve
from causebook.domain.errors import (
    BadData,
    Busy,
    CannotCreate,
    CausebookError,
    Denied,
    IOFailure,
    Misuse,
    NoInput,
    VersionConflict,
)
from causebook.domain.events import (
    AttemptClosed,
    EvaluationFailed,
    KeyEnrolled,
    KeyRetired,
    LedgerFounded,
    PanelConvened,
    RawHaltType,
    TaskHalted,
    TaskOpened,
)
from causebook.domain.evidence import commitments_of
from causebook.domain.keyring import enrolment_bytes
from causebook.domain.ports import ModelFault, ReadResult, Response, ToolCall
from causebook.domain.quorum import CANONICAL, PANEL_HALTS
from causebook.domain.record import parse
from causebook.domain.streams import LEDGER

from .forge import file_of_80_lines, prose, reads, verdict
from .ledgers import Home, events_of, hear_each, hear_out, judges, watched

EVALUATION = "evaluation/T-1/1/post_execute/security"


@pytest.fixture
def home(store_url: str, tmp_path: Path) -> Home:
    """A founded ledger."""
    return Home.found(store_url, tmp_path)


# ── founding and opening ───────────────────────────────────────────────────────────────────────────


def test_a_ledger_is_founded_with_a_key_for_each_role_and_opened_by_its_name(home: Home) -> None:
    assert home.kinds(LEDGER) == ["LedgerFounded", "KeyEnrolled", "KeyEnrolled", "KeyEnrolled"]
    events = home.events(LEDGER)
    assert [e.role for e in events if isinstance(e, KeyEnrolled)] == ["engine", "authority", "log"]
    assert isinstance(events[0], LedgerFounded)
    assert events[0].custody == "together"
    with home.open() as ledger:
        assert ledger.origin == "audit.example.com/team"
    home.require_intact()


def test_without_a_name_a_ledger_gets_one_of_its_own(store_url: str, tmp_path: Path) -> None:
    with Ledger.found(store_url, keys=tmp_path / "keys") as ledger:
        prefix, _, name = ledger.origin.partition("/")
    assert (prefix, len(name)) == ("causebook.local", 32)


def test_a_founded_ledger_is_written_to_without_opening_it_again(
    store_url: str, tmp_path: Path
) -> None:
    with Ledger.found(store_url, keys=tmp_path / "keys") as ledger:
        ledger.task("T-1").start_attempt()
    Home(store_url, tmp_path / "keys").require_intact()


def test_a_name_that_is_none_is_refused_before_anything_is_made(
    store_url: str, tmp_path: Path
) -> None:
    for origin in ("", "a b", "a+b", "a\nb", "a\u0085b", "x" * 256):
        with pytest.raises(Misuse, match="origin"):
            Ledger.found(store_url, keys=tmp_path / "keys", origin=origin)
    assert not (tmp_path / "keys").exists()
    with pytest.raises(NoInput):
        open_store(store_url)


def test_founding_on_a_ledger_is_refused_and_changes_nothing(home: Home, tmp_path: Path) -> None:
    rows = home.rows()
    keys = {path.name: path.read_bytes() for path in home.keys.iterdir()}
    for folder in (home.keys, tmp_path / "others"):
        with pytest.raises(CannotCreate, match="a ledger is there already"):
            Ledger.found(home.url, keys=folder)
    assert home.rows() == rows
    assert {path.name: path.read_bytes() for path in home.keys.iterdir()} == keys
    assert not (tmp_path / "others").exists()


def test_a_founding_cut_short_before_its_records_is_finished_by_the_next(
    store_url: str, tmp_path: Path
) -> None:
    found(store_url).close()
    KeyFolder(tmp_path / "keys").make()
    root = KeyFolder(tmp_path / "keys").signer("root").public_key
    with pytest.raises(NoInput, match="no founding record") as refused:
        Ledger.open(store_url, keys=tmp_path / "keys")
    assert "init" in refused.value.hint
    Ledger.found(store_url, keys=tmp_path / "keys").close()
    home = Home(store_url, tmp_path / "keys")
    (founded, *_) = home.events(LEDGER)
    assert isinstance(founded, LedgerFounded)
    assert founded.root_key == root
    home.require_intact()


def test_a_founder_who_is_overtaken_is_told_and_changes_nothing(
    store_url: str, tmp_path: Path
) -> None:
    winner = Home(store_url, tmp_path / "winner" / "keys")

    def clock() -> datetime:
        # The first founder has passed the check that nothing is there, and has stored nothing yet.
        if not winner.keys.exists():
            Ledger.found(store_url, keys=winner.keys, origin="winner").close()
        return datetime.now(UTC)

    with pytest.raises(CannotCreate, match="founded here meanwhile"):
        Ledger.found(store_url, keys=tmp_path / "loser", origin="loser", clock=clock)
    with winner.open() as ledger:
        assert ledger.origin == "winner"
        ledger.task("T-1").start_attempt()
    assert winner.kinds(LEDGER) == ["LedgerFounded"] + ["KeyEnrolled"] * 3
    winner.require_intact()


def test_of_founders_at_once_one_wins(store_url: str, tmp_path: Path) -> None:
    barrier = threading.Barrier(4)
    ended: dict[int, object] = {}

    def race(number: int) -> None:
        barrier.wait()
        try:
            with Ledger.found(store_url, keys=tmp_path / str(number)) as ledger:
                ended[number] = ledger.origin
        except CausebookError as error:
            ended[number] = error

    threads = [threading.Thread(target=race, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [number for number, end in ended.items() if isinstance(end, str)]
    assert sum(isinstance(end, CannotCreate) for end in ended.values()) == 3
    home = Home(store_url, tmp_path / str(winner))
    with home.open() as ledger:
        assert ledger.origin == ended[winner]
        ledger.task("T-1").start_attempt()
    home.require_intact()


def test_other_peoples_keys_may_not_write_and_the_key_is_named(home: Home, tmp_path: Path) -> None:
    rows = home.rows()
    other = KeyFolder(tmp_path / "others")
    other.make()
    keyid = other.signer("engine").keyid
    with (
        Ledger.open(home.url, keys=other.path) as ledger,
        pytest.raises(Denied, match=f"key {keyid[:8]}… may not sign .* no enrolment") as refused,
    ):
        ledger.task("T-1").start_attempt()
    assert "--keys" in refused.value.hint
    assert home.rows() == rows


def test_a_key_of_another_role_may_not_write(home: Home) -> None:
    (home.keys / "engine.pem").write_bytes((home.keys / "log.pem").read_bytes())
    with (
        home.open() as ledger,
        pytest.raises(Denied, match="signed by engine, found a key for log"),
    ):
        ledger.task("T-1").start_attempt()


def test_a_ledger_opens_without_its_keys_and_asks_for_one_when_it_signs(home: Home) -> None:
    (home.keys / "engine.pem").unlink()
    with home.open() as ledger:
        task = ledger.task("T-1")
        with pytest.raises(Denied, match="the engine key is not here"):
            task.start_attempt()


def test_a_task_whose_name_is_no_id_is_refused(home: Home) -> None:
    with home.open() as ledger:
        for name in ("", "-x", "a/b", "a b", "a\n", "../x", "x" * 129, "é", "a\0"):
            with pytest.raises(Misuse, match="task id"):
                ledger.task(name)


# ── the loop of an engine of one's own ─────────────────────────────────────────────────────────────


def test_an_engine_with_a_loop_of_its_own_needs_under_15_lines(home: Home) -> None:
    said = iter([reads("src/app.py"), reads("./src//app.py"), verdict("pass")])

    def my_model(request: Any) -> Response:
        return next(said)

    def my_tool(read: Any) -> Any:
        return file_of_80_lines(read.tool, read.arguments)

    with Ledger.open(home.url, keys=home.keys) as ledger:
        attempt = ledger.task("T-1", spec="Fix the login").start_attempt()
        attempt.dispatch_coder("my-coder", brief="Look at src/app.py first")
        judge = Judge("security", "my-model", ["No secret in the clear."])
        panel = attempt.convene("post_execute", "unanimous", [judge])
        evaluation = panel.open("security")
        while (request := evaluation.next_request()) is not None:
            for read in evaluation.respond(my_model(request)):
                evaluation.answer(my_tool(read))
        decided = panel.decide()

    assert decided.action == "proceed"
    assert home.kinds("task/T-1") == [
        "TaskOpened",
        "AttemptStarted",
        "CoderDispatched",
        "PanelConvened",
        "PanelDecided",
        "AttemptClosed",
        "TaskCompleted",
    ]
    assert home.kinds(EVALUATION) == [
        "EvaluationOpened",
        *("TurnOpened", "ModelResponded", "ReadAnswered", "TurnCharged"),
        *("TurnOpened", "ModelResponded", "RepeatReadHit", "TurnSpared"),
        *("TurnOpened", "ModelResponded", "TurnCharged", "VerdictGiven"),
    ]
    # spec, coder's brief, brief, system message, one answer, one read, two answers more
    assert home.require_evidence("T-1") == 8
    assert home.require_intact().open_evaluations == ()


def test_each_coder_sent_to_work_is_counted(home: Home) -> None:
    with home.open() as ledger:
        task = ledger.task("T-1")
        for number in range(2):
            attempt = task.start_attempt()
            attempt.dispatch_coder("my-coder")
            attempt.dispatch_coder("my-coder", brief="again")
            attempt.halt("constraint", f"attempt {number}")
        assert task.log.state.coder_dispatches == 4
    home.require_intact()


def test_a_task_is_gone_on_with_by_another_process_and_keeps_its_spec(home: Home) -> None:
    with home.open() as ledger:
        attempt = ledger.task("T-1", spec="Fix the login").start_attempt()
        panel = attempt.convene("pre_execute", "any", judges("design"))
        hear_each(panel, {"design": [verdict("pass")]})
    with home.open() as ledger:
        attempt = ledger.task("T-1").open_attempt()
        panel = attempt.convene("post_execute", "any", judges("design"))
        hear_each(panel, {"design": [verdict("pass")]})
        with pytest.raises(Misuse, match="no attempt is open"):
            ledger.task("T-1").open_attempt()
        with pytest.raises(Misuse, match="the task is completed"):
            ledger.task("T-1").start_attempt()
    assert [kind for kind in home.kinds("task/T-1") if kind == "TaskOpened"] == ["TaskOpened"]
    home.require_intact()


ENGINE_HALTS = sorted(set(get_args(RawHaltType)) - PANEL_HALTS)


def test_an_engine_records_every_halt_of_its_own(home: Home) -> None:
    with home.open() as ledger:
        for raw in ENGINE_HALTS:
            attempt = ledger.task(raw).start_attempt()
            attempt.dispatch_coder("my-coder")
            attempt.halt(raw, f"stopped by {raw}")
    for raw in ENGINE_HALTS:
        _, _, _, halted, closed = home.events(f"task/{raw}")
        assert isinstance(halted, TaskHalted)
        assert isinstance(closed, AttemptClosed)
        assert (halted.raw_halt_type, halted.halt_type) == (raw, CANONICAL[raw])
        assert (halted.phase, halted.decided) == (None, None)
        assert closed.outcome == ("blocked" if CANONICAL[raw] == "blocker" else "error")
    assert len(ENGINE_HALTS) == 11
    home.require_intact()


def test_an_engine_halts_after_a_panel_that_let_the_task_go_on(home: Home) -> None:
    with home.open() as ledger:
        attempt = ledger.task("T-1").start_attempt()
        panel = attempt.convene("pre_execute", "any", judges("design"))
        hear_each(panel, {"design": [verdict("pass")]})
        attempt.halt("turn_budget_exhausted", "the coder used up its turns")
    halted = home.events("task/T-1")[-2]
    assert isinstance(halted, TaskHalted)
    assert (halted.phase, halted.halt_type) == ("pre_execute", "environment_error")
    home.require_intact()


def test_a_halt_type_that_is_not_an_engines_is_refused(home: Home) -> None:
    wrong: list[Any] = [*sorted(PANEL_HALTS), "unknown", "", "BLOCKED", "blocker"]
    with home.open() as ledger:
        attempt = ledger.task("T-1").start_attempt()
        rows = home.rows()
        for raw in wrong:
            with pytest.raises(Misuse, match="halt type: expected one of an engine's"):
                attempt.halt(raw, "because")
        assert home.rows() == rows
        attempt.halt("constraint", "the task is as it was")


def test_what_has_no_place_in_the_order_of_a_task_is_refused_and_stores_nothing(home: Home) -> None:
    with home.open() as ledger:
        task = ledger.task("T-1")
        attempt = task.start_attempt()
        with pytest.raises(Misuse, match="attempt 1 is still open"):
            task.start_attempt()
        panel = attempt.convene("post_execute", "any", judges("security"))
        rows = home.rows()
        for out_of_order in (
            lambda: attempt.dispatch_coder("my-coder"),
            lambda: attempt.halt("constraint", "too early"),
            lambda: attempt.convene("pre_execute", "any", judges("other")),
            panel.decide,
            lambda: panel.open("nobody"),
        ):
            with pytest.raises(Misuse):
                out_of_order()
        assert home.rows() == rows
        hear_each(panel, {"security": [verdict("pass")]})
    home.require_intact()


UNFIT = [
    Judge("a/b", "m", ["c"]),
    Judge("a", "m", []),
    Judge("a", "m", [""]),
    Judge("a", "m", ["\ud800"]),
    Judge("a", "m", ["x" * 16_385]),
    Judge("a", "m", ["c"] * 257),
    Judge("a", "m", ["c"], ["write_file"]),
    Judge("a", "m", ["c"], ["git_log", "git_log"]),
    Judge("a", "m", ["c"], max_tool_turns=0),
    Judge("a", "m", ["c"], max_tool_turns=201),
    Judge("a", "", ["c"]),
    Judge("a", "m" * 513, ["c"]),
    Judge("a", "\udfff", ["c"]),
]


def test_a_judge_that_cannot_be_convened_is_refused_and_stores_nothing(home: Home) -> None:
    with home.open() as ledger:
        attempt = ledger.task("T-1").start_attempt()
        rows = home.rows()
        for judge in UNFIT:
            with pytest.raises(Misuse):
                attempt.convene("post_execute", "any", [judge])
        assert home.rows() == rows


@pytest.mark.parametrize("field", ["criteria", "tools"])
def test_one_text_in_place_of_a_list_is_not_taken_letter_by_letter(home: Home, field: str) -> None:
    said: dict[str, Any] = {"criteria": ["It holds."], field: "read_file"}
    with home.open() as ledger:
        attempt = ledger.task("T-1").start_attempt()
        with pytest.raises(Misuse, match=f"{field}: expected a list of texts, found one text"):
            attempt.convene("post_execute", "any", [Judge("a", "m", **said)])


@pytest.mark.parametrize(
    ("response", "found"),
    [
        ("It is fine.", "expected a Response, found str"),
        (Response(None, (ToolCall("1", "read_file", {"path": "a"}),)), "as JSON text, found dict"),  # type: ignore[arg-type]
        (Response(None, ({"name": "read_file"},)), "expected ToolCall, .* found dict"),  # type: ignore[arg-type]
    ],
)
def test_what_only_looks_like_an_answer_is_refused_and_the_turn_can_go_on(
    home: Home, response: Any, found: str
) -> None:
    with home.open() as ledger:
        panel = ledger.task("T-1").start_attempt().convene("post_execute", "any", judges("a"))
        seat = panel.open("a")
        seat.next_request()
        with pytest.raises(Misuse, match=found):
            list(seat.respond(response))
        assert list(seat.respond(verdict("pass"))) == []
        panel.decide()
    home.require_intact()


def test_a_panel_has_1_to_32_judges_of_different_names(home: Home) -> None:
    many = judges(*(f"j{number}" for number in range(33)))
    with home.open() as ledger:
        attempt = ledger.task("T-1").start_attempt()
        for wrong in ([], many, judges("same", "same")):
            with pytest.raises(Misuse):
                attempt.convene("post_execute", "any", wrong)
        panel = attempt.convene("post_execute", "unanimous", many[:32])
        hear_each(panel, {f"j{number}": [verdict("pass")] for number in range(32)})
    home.require_intact()


# ── a person's resolution ──────────────────────────────────────────────────────────────────────────


def escalated(ledger: Ledger, task: str, phase: Any = "post_execute") -> TaskHandle:
    handle = ledger.task(task)
    panel = handle.start_attempt().convene(phase, "unanimous", judges("security"))
    hear_each(panel, {"security": [verdict("warn")]})
    return handle


def test_a_person_resolves_an_escalation(home: Home) -> None:
    who = {"name": "Ada Example", "meaning": "I have read the change"}
    with home.open() as ledger:
        for decision, status in (
            ("proceed", "completed"),
            ("halt", "blocked"),
            ("reject", "blocked"),
        ):
            log = escalated(ledger, decision).log
            decided = log.state.decided_digest
            recorded = resolve(log, decision, **who, comment="at noon")  # type: ignore[arg-type]
            assert recorded.decided == decided
            assert log.state.status == status
            assert log.state.outcomes == [(1, "warned")]
    assert home.kinds("task/proceed")[-3:] == [
        "ResolutionRecorded",
        "AttemptClosed",
        "TaskCompleted",
    ]
    assert home.kinds("task/reject")[-2:] == ["ResolutionRecorded", "AttemptClosed"]
    authority = KeyFolder(home.keys).signer("authority").keyid
    signed_by = {parse(row.record).keyid for row in home.rows() if row.type == "ResolutionRecorded"}
    assert signed_by == {authority}
    home.require_intact()


def test_a_resolution_to_proceed_before_the_work_lets_the_attempt_go_on(home: Home) -> None:
    with home.open() as ledger:
        handle = escalated(ledger, "T-1", "pre_execute")
        resolve(handle.log, "proceed", name="Ada Example", meaning="go on")
        panel = handle.open_attempt().convene("post_execute", "any", judges("security"))
        hear_each(panel, {"security": [verdict("pass")]})
        assert handle.log.state.status == "completed"
    home.require_intact()


def test_only_an_escalation_is_resolved_and_only_once(home: Home) -> None:
    with home.open() as ledger:
        unjudged = ledger.task("unjudged")
        unjudged.start_attempt()
        blocked = ledger.task("blocked")
        panel = blocked.start_attempt().convene("post_execute", "any", judges("a", "b"))
        hear_each(panel, {"a": [verdict("pass")], "b": [verdict("blocker")]})
        failed = ledger.task("failed")
        panel = failed.start_attempt().convene("post_execute", "any", judges("a", "b"))
        hear_each(panel, {"a": [verdict("pass")], "b": [prose("Fine."), prose("Fine.")]})
        resolved = escalated(ledger, "resolved")
        resolve(resolved.log, "halt", name="Ada Example", meaning="no")
        sitting = ledger.task("sitting")
        panel = sitting.start_attempt().convene("post_execute", "any", judges("a"))
        rows = home.rows()
        for handle in (ledger.task("unknown"), unjudged, blocked, failed, resolved, sitting):
            with pytest.raises(Misuse, match="only an escalation can be resolved"):
                resolve(handle.log, "proceed", name="Ada Example", meaning="go on")
        assert home.rows() == rows
        panel.interrupt()
    home.require_intact()


def test_of_two_people_who_resolve_at_once_one_is_told(home: Home) -> None:
    with home.open() as one, home.open() as other:
        mine = escalated(one, "T-1")
        theirs = other.task("T-1")
        resolve(theirs.log, "reject", name="Bob Example", meaning="no")
        with pytest.raises(VersionConflict):
            resolve(mine.log, "proceed", name="Ada Example", meaning="go on")
        assert mine.log.state.status == "blocked"
    home.require_intact()


# ── one turn, one transaction ──────────────────────────────────────────────────────────────────────

LONG = [reads("a.py", "b.py"), reads("a.py"), prose("Hm."), verdict("pass")]


def test_all_events_of_a_turn_and_their_evidence_are_in_one_transaction(home: Home) -> None:
    appended: list[tuple[list[str], set[str], set[str]]] = []

    def note(rows: Sequence[Row], evidence: Sequence[EvidenceRow]) -> None:
        named = {commitment for event in events_of(rows) for commitment in commitments_of(event)}
        appended.append(([row.type for row in rows], named, {item.commitment for item in evidence}))

    with home.open() as ledger:
        panel = (
            ledger.task("T-1").start_attempt().convene("post_execute", "any", judges("security"))
        )
        seat = panel.open("security")
        with watched(ledger, note):
            hear_out(seat, LONG)
        panel.decide()
    assert [kinds for kinds, _, _ in appended] == [
        ["TurnOpened", "ModelResponded", "ReadAnswered", "ReadAnswered", "TurnCharged"],
        ["TurnOpened", "ModelResponded", "RepeatReadHit", "TurnSpared"],
        ["TurnOpened", "ModelResponded", "Narrated", "TurnCharged"],
        ["ToolsWithdrawn", "TurnOpened", "ModelResponded", "TurnCharged", "VerdictGiven"],
    ]
    assert all(named == stored for _, named, stored in appended)
    home.require_evidence("T-1")
    home.require_intact()


def test_a_turn_is_stored_before_the_next_model_call(home: Home) -> None:
    """Seen from inside of each call, through a connection of its own."""
    seen: list[list[str]] = []
    with home.open() as ledger:
        panel = (
            ledger.task("T-1").start_attempt().convene("post_execute", "any", judges("security"))
        )
        seat = panel.open("security")
        said = iter(LONG)
        while (request := seat.next_request()) is not None:
            seen.append(home.kinds(EVALUATION))
            home.require_evidence("T-1")
            response = replace(next(said), tool_choice_sent=request.tool_choice is not None)
            for read in seat.respond(response):
                assert home.kinds(EVALUATION) == seen[-1]
                seat.answer(file_of_80_lines(read.tool, read.arguments))
        whole = home.kinds(EVALUATION)
        panel.decide()
    assert [len(kinds) for kinds in seen] == [1, 6, 10, 14]
    assert all(whole[: len(kinds)] == kinds for kinds in seen)
    ends = ["EvaluationOpened", "TurnCharged", "TurnSpared", "TurnCharged"]
    assert [kinds[-1] for kinds in seen] == ends
    assert whole[-1] == "VerdictGiven"


def test_the_tries_that_failed_are_in_their_turn_with_what_the_provider_said(home: Home) -> None:
    busy = ModelFault("rate_limit", status=429, retry_after_ms=5, retryable=True, detail="slow")
    down = ModelFault("auth", status=401, detail="who are you?")
    with home.open() as ledger:
        panel = (
            ledger.task("T-1").start_attempt().convene("post_execute", "any", judges("security"))
        )
        seat = panel.open("security")
        assert seat.next_request() is not None
        for read in seat.respond(reads("a.py"), failures=[(busy, False)]):
            seat.answer(file_of_80_lines(read.tool, read.arguments))
        assert seat.next_request() is not None
        seat.fail([(busy, False), (down, False)])
        assert seat.next_request() is None
        assert panel.decide().action == "halt"
    assert home.kinds(EVALUATION)[1:] == [
        *("TurnOpened", "ModelCallFailed", "ModelResponded", "ReadAnswered", "TurnCharged"),
        *("TurnOpened", "ModelCallFailed", "ModelCallFailed", "EvaluationFailed"),
    ]
    home.require_evidence("T-1")
    home.require_intact()


def test_a_model_that_was_not_asked_as_the_law_has_it_is_refused_at_the_door(home: Home) -> None:
    """Rules 2, 8 and 9: else the library would sign what verify calls unlawful."""
    declines = ModelFault("bad_request", status=400, declines_tool_choice=True)
    busy = ModelFault("rate_limit", status=429, retryable=True)
    forced = replace(verdict("pass"), tool_choice_sent=True)
    with home.open() as ledger:
        panel = (
            ledger.task("T-1").start_attempt().convene("post_execute", "any", judges("security"))
        )
        seat = panel.open("security")
        seat.next_request()
        rows = home.rows()
        for wrong in (
            lambda: list(seat.respond(forced)),
            lambda: list(seat.respond(verdict("pass"), failures=[(declines, True)])),
            lambda: seat.fail([]),
        ):
            with pytest.raises(Misuse, match="expected"):
                wrong()
        list(seat.respond(prose("Fine.")))
        seat.next_request()
        for wrong in (
            lambda: list(seat.respond(verdict("pass"))),
            lambda: list(seat.respond(forced, failures=[(declines, True)])),
            lambda: list(seat.respond(verdict("pass"), failures=[(declines, True)] * 2)),
            lambda: list(seat.respond(verdict("pass"), failures=[(busy, True)])),
            lambda: seat.fail([(busy, False), (declines, True)]),
        ):
            with pytest.raises(Misuse, match="expected"):
                wrong()
        assert home.kinds(EVALUATION)[-1] == "TurnCharged"
        assert len(home.rows()) == len(rows) + 4
        list(seat.respond(verdict("pass"), failures=[(declines, True), (busy, False)]))
        assert panel.decide().action == "proceed"
    home.require_intact()


# ── a turn that is broken off ──────────────────────────────────────────────────────────────────────


def test_a_turn_whose_tool_broke_is_not_stored_and_not_gone_on_with(home: Home) -> None:
    def broken(tool: str, arguments: object) -> ReadResult:
        raise ZeroDivisionError

    with home.open() as ledger:
        panel = (
            ledger.task("T-1").start_attempt().convene("post_execute", "any", judges("security"))
        )
        seat = panel.open("security")
        with pytest.raises(ZeroDivisionError):
            hear_out(seat, [reads("a.py", "b.py")], broken)
        for further in (
            seat.next_request,
            lambda: seat.fail([]),
            lambda: list(seat.respond(prose(""))),
        ):
            with pytest.raises(Misuse, match="turn 1 was begun and not stored"):
                further()
        assert home.kinds(EVALUATION) == ["EvaluationOpened"]
        panel.interrupt()
    closing = home.events(EVALUATION)[-1]
    assert isinstance(closing, EvaluationFailed)
    assert (closing.cause, closing.turn) == ("interrupted", None)
    home.require_evidence("T-1")
    home.require_intact()


def test_a_read_that_is_not_answered_is_a_programmers_mistake(home: Home) -> None:
    with home.open() as ledger:
        panel = (
            ledger.task("T-1").start_attempt().convene("post_execute", "any", judges("security"))
        )
        seat = panel.open("security")
        with pytest.raises(Misuse, match="no request is open"):
            list(seat.respond(reads("a.py")))
        seat.next_request()
        with pytest.raises(ValueError, match="was not answered"):
            list(seat.respond(reads("a.py")))
        panel.interrupt()
    home.require_intact()


def test_a_turn_that_could_not_be_stored_is_not_gone_on_with(home: Home) -> None:
    def full(rows: Sequence[Row], evidence: Sequence[EvidenceRow]) -> None:
        raise IOFailure("the disk is full")

    with home.open() as ledger:
        panel = (
            ledger.task("T-1").start_attempt().convene("post_execute", "any", judges("security"))
        )
        seat = panel.open("security")
        seat.next_request()
        with watched(ledger, full), pytest.raises(IOFailure):
            hear_out(seat, [reads("a.py")])
        with pytest.raises(Misuse, match="begun and not stored"):
            seat.next_request()
        panel.leave()
        log = ledger.task("T-1").log
        assert take_over(log)
        assert log.state.status == "blocked"
    home.require_evidence("T-1")
    home.require_intact()


def test_a_task_event_that_could_not_be_stored_leaves_the_handle_as_the_ledger_is(
    home: Home,
) -> None:
    def full(rows: Sequence[Row], evidence: Sequence[EvidenceRow]) -> None:
        raise IOFailure("the disk is full")

    with home.open() as ledger:
        task = ledger.task("T-1")
        with watched(ledger, full), pytest.raises(IOFailure):
            task.start_attempt()
        assert task.log.state.stage == "unopened"
        attempt = task.start_attempt()
        with watched(ledger, full):
            with pytest.raises(IOFailure):
                attempt.halt("constraint", "no")
            with pytest.raises(IOFailure):
                attempt.convene("post_execute", "any", judges("security"))
        panel = attempt.convene("post_execute", "any", judges("security"))
        hear_out(panel.open("security"), [verdict("pass")])
        with watched(ledger, full), pytest.raises(IOFailure):
            panel.decide()
        assert panel.decide().action == "proceed"
    home.require_intact()


# ── keys that come and go while a ledger is written to ─────────────────────────────────────────────


def enrol(ledger: Ledger, name: str) -> None:
    """Enrol another engine key, whose private half is thrown away."""
    signer = KeySigner.of(Ed25519PrivateKey.generate())
    keyring = ledger.writer.keyring
    message = enrolment_bytes(
        ledger.origin, keyring.nonce, keyring.root_key, "engine", name, signer.public_key
    )
    batch = ledger.writer.batch()
    batch.add(
        LEDGER,
        KeyEnrolled(
            role="engine",
            name=name,
            public_key=signer.public_key,
            possession=base64.b64encode(signer.sign(message)).decode(),
            rotates=None,
            handover=None,
        ),
    )
    batch.commit()
    ledger.writer.load()


def retire(ledger: Ledger, keyid: str) -> None:
    """End a key, trusted in all that is recorded now."""
    sealed = ledger.seal().checkpoint
    event = KeyRetired(
        keyid=keyid,
        compromised=False,
        reason="worn out",
        size=sealed.checkpoint.size,
        checkpoint=sealed.note.raw.decode(),
    )
    batch = ledger.writer.batch()
    batch.add(LEDGER, event)
    batch.commit()


def test_a_key_enrolled_meanwhile_by_another_does_not_stop_a_writer(home: Home) -> None:
    with home.open() as ledger, home.open() as other:
        panel = (
            ledger.task("T-1").start_attempt().convene("post_execute", "any", judges("security"))
        )
        seat = panel.open("security")
        seat.next_request()
        for number in range(3):
            enrol(other, f"engine {number}")
        hear_out(seat, [reads("a.py"), verdict("pass")])
        enrol(other, "engine 3")
        panel.decide()
        assert len(ledger.writer.keyring.keys) == 4 + 4
    assert home.kinds(LEDGER).count("KeyEnrolled") == 3 + 4
    home.require_intact()


def test_a_key_retired_meanwhile_signs_nothing_more(home: Home) -> None:
    with home.open() as ledger, home.open() as other:
        panel = (
            ledger.task("T-1").start_attempt().convene("post_execute", "any", judges("security"))
        )
        seat = panel.open("security")
        hear = [reads("a.py"), reads("b.py"), verdict("pass")]
        seat.next_request()
        for read in seat.respond(hear[0]):
            seat.answer(file_of_80_lines(read.tool, read.arguments))
        keyid = ledger.writer.signer("engine").keyid
        retire(other, keyid)
        rows = home.rows()
        with pytest.raises(Denied, match=f"key {keyid[:8]}… may not sign .* the key is retired"):
            hear_out(seat, hear[1:])
        with pytest.raises(Denied, match="the key is retired"):
            ledger.task("T-2").start_attempt()
        panel.leave()
    assert home.rows() == rows
    report = home.verify()
    assert report.findings == []
    assert report.open_evaluations == (EVALUATION,)


def test_two_who_change_the_keys_at_once_are_told_apart(home: Home) -> None:
    with home.open() as one, home.open() as other:
        enrol(other, "theirs")
        with pytest.raises(VersionConflict, match="keys changed meanwhile"):
            enrol(one, "mine")
        enrol(one, "mine")
    home.require_intact()


# ── others at the same ledger ──────────────────────────────────────────────────────────────────────


def test_who_convenes_second_is_told_who_has_the_attempt(home: Home) -> None:
    with home.open() as one, home.open() as other:
        mine = one.task("T-1").start_attempt()
        theirs = other.task("T-1").open_attempt()
        panel = mine.convene("post_execute", "any", judges("security"))
        runner = panel.convened.runner
        rows = home.rows()
        with pytest.raises(Busy, match=f"judged by process {runner.process} on {runner.host}"):
            theirs.convene("post_execute", "any", judges("security"))
        assert home.rows() == rows
        hear_each(panel, {"security": [verdict("pass")]})
    home.require_intact()


def test_who_starts_an_attempt_second_is_told(home: Home) -> None:
    with home.open() as one, home.open() as other:
        mine, theirs = one.task("T-1", spec="mine"), other.task("T-1", spec="theirs")
        mine.start_attempt()
        with pytest.raises(VersionConflict):
            theirs.start_attempt()
        assert theirs.open_attempt().number == 1
    assert home.kinds("task/T-1") == ["TaskOpened", "AttemptStarted"]
    home.require_evidence("T-1")
    home.require_intact()


def test_two_handles_of_one_task_in_one_process_never_part_from_the_record(home: Home) -> None:
    """What a handle decides by is what it read, however much newer the ledger is."""
    with home.open() as ledger:
        mine, stale = ledger.task("T-1"), ledger.task("T-1")
        attempt = mine.start_attempt()
        with pytest.raises(VersionConflict):
            stale.start_attempt()
        stale = ledger.task("T-1")
        attempt.dispatch_coder("my-coder")
        with pytest.raises(VersionConflict):
            stale.open_attempt().halt("constraint", "decided by an older state")
        panel = attempt.convene("post_execute", "any", judges("security"))
        hear_each(panel, {"security": [verdict("pass")]})
    home.require_intact()


def test_times_are_those_of_the_clock_given_in_utc(store_url: str, tmp_path: Path) -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    moment = datetime(2026, 11, 30, 23, 6, 0, 123456, tzinfo=east)
    with Ledger.found(store_url, keys=tmp_path / "keys", clock=lambda: moment) as ledger:
        ledger.task("T-1").start_attempt()
    ats = {parse(row.record).at for row in Home(store_url, tmp_path / "keys").rows()}
    assert ats == {"2026-11-30T17:36:00.123456Z"}


# ── a ledger that does not hold ────────────────────────────────────────────────────────────────────


def test_a_writer_builds_on_nothing_it_cannot_read(home: Home) -> None:
    """A record of another ledger, planted in a task's stream by somebody who has the store."""
    with home.open() as ledger:
        ledger.task("T-1").start_attempt()
    planted = [row._replace(stream="task/T-2") for row in home.rows() if row.stream == "task/T-1"]
    with home.store() as store:
        store.append(planted, [], ledger_version=4)
    with home.open() as ledger, pytest.raises(BadData, match="task/T-2 v1") as refused:
        ledger.task("T-2")
    assert "verify" in refused.value.hint


def test_a_task_that_is_not_lawful_is_not_gone_on_with(home: Home) -> None:
    with home.open() as ledger:
        batch = ledger.writer.batch()
        batch.add("task/T-1", TaskOpened(task="T-1", spec=None))
        batch.add("task/T-1", TaskOpened(task="T-1", spec=None))
        batch.commit()
        with pytest.raises(BadData, match="task/T-1 v2"):
            ledger.task("T-1")


def test_a_panel_names_its_runner_and_holds_that_lock_until_it_has_decided(home: Home) -> None:
    with home.open() as ledger, home.store() as store:
        panel = (
            ledger.task("T-1").start_attempt().convene("post_execute", "any", judges("security"))
        )
        convened = home.events("task/T-1")[-1]
        assert isinstance(convened, PanelConvened)
        assert store.try_lock(convened.runner.id) is None
        hear_each(panel, {"security": [verdict("pass")]})
        lock = store.try_lock(convened.runner.id)
        assert lock is not None
        lock.release()
