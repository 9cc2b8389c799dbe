"""The life of a task: every order of events, held against a grammar of its own."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import pytest

from causebook.domain.events import (
    AttemptClosed,
    AttemptStarted,
    Ballot,
    CoderDispatched,
    Event,
    Mandate,
    PanelConvened,
    PanelDecided,
    Phase,
    ResolutionRecorded,
    Runner,
    Severity,
    TaskCompleted,
    TaskHalted,
    TaskOpened,
    TurnSpared,
)
from causebook.domain.quorum import decided, halt_reason
from causebook.domain.task import Task

# ── the grammar ────────────────────────────────────────────────────────────────────────────────────
#
# A letter for each event:
#   O opened  S attempt started  C coder dispatched  A attempt closed  D completed
#   P, Q a panel convened on pre_execute, post_execute
#   g, l, h, v, e it decided to proceed, log, halt on a blocker, halt on an error, escalate
#   H the panel's halt  X an engine's halt  r a person lets it proceed  n a person does not

GO = "([gl]|eHr)"
STOP = "([hv]H|eHn)"
FAILED = "SC*((PGOC*|)(X|QSTOP|QGOX)|PSTOP)A".replace("GO", GO).replace("STOP", STOP)
PASSED = "SC*(PGOC*|)QGOAD".replace("GO", GO)
LIFE = f"O({FAILED})*({PASSED}|)"
LETTERS = "OSCPQglhveHXrnAD"

# A pattern is None (matches nothing) or a tuple: ("",), (letter,), ("cat", a, b), ("alt", a, b), ("star", a).
Pattern = tuple[Any, ...] | None
EMPTY: Pattern = ("",)


def parsed(text: str) -> Pattern:
    """The pattern that `text` writes, with ( ) | * and [ ]."""
    position = 0

    def alternatives() -> Pattern:
        nonlocal position
        pattern = sequence()
        while text[position : position + 1] == "|":
            position += 1
            pattern = either(pattern, sequence())
        return pattern

    def sequence() -> Pattern:
        nonlocal position
        pattern = EMPTY
        while position < len(text) and text[position] not in "|)":
            if text[position] == "(":
                position += 1
                item = alternatives()
            elif text[position] == "[":
                end = text.index("]", position)
                item = None
                for letter in text[position + 1 : end]:
                    item = either(item, (letter,))
                position = end
            else:
                item = (text[position],)
            position += 1
            if text[position : position + 1] == "*":
                position += 1
                item = ("star", item)
            pattern = then(pattern, item)
        return pattern

    return alternatives()


def either(one: Pattern, other: Pattern) -> Pattern:
    if one is None or one == other:
        return other
    return one if other is None else ("alt", one, other)


def then(one: Pattern, other: Pattern) -> Pattern:
    if one is None or other is None:
        return None
    if one == EMPTY:
        return other
    return one if other == EMPTY else ("cat", one, other)


def may_end(pattern: Pattern) -> bool:
    match pattern:
        case ("",) | ("star", _):
            return True
        case ("cat", one, other):
            return may_end(one) and may_end(other)
        case ("alt", one, other):
            return may_end(one) or may_end(other)
    return False


@cache
def after(pattern: Pattern, letter: str) -> Pattern:
    """What may follow once `letter` was read (Brzozowski's derivative); None where it may not be."""
    match pattern:
        case ("cat", one, other):
            found = then(after(one, letter), other)
            return either(found, after(other, letter)) if may_end(one) else found
        case ("alt", one, other):
            return either(after(one, letter), after(other, letter))
        case ("star", one):
            return then(after(one, letter), pattern)
        case (single,) if single == letter:
            return EMPTY
    return None


# ── events for letters ─────────────────────────────────────────────────────────────────────────────

JUDGES = ("architecture", "security", "tests")
FALLS: dict[str, tuple[tuple[Severity, bool], ...]] = {
    "g": (("pass", False), ("pass", False), ("pass", False)),
    "l": (("pass", False), ("warn", False), ("pass", False)),
    "e": (("warn", False), ("pass", False), ("warn", False)),
    "h": (("pass", False), ("blocker", False), ("pass", False)),
    "v": (("blocker", True), ("warn", False), ("pass", False)),
}
WORST = ("error", "blocked", "warned", "passed")
OUTCOME_OF = {"g": "passed", "l": "warned", "e": "warned", "h": "blocked", "v": "error"}


@dataclass
class Clerk:
    """Writes the events that letters stand for, from the letters alone."""

    word: str = ""

    @property
    def attempt(self) -> int:
        return self.word.count("S")

    @property
    def this_attempt(self) -> str:
        return self.word[self.word.rfind("S") + 1 :] if "S" in self.word else ""

    @property
    def phase(self) -> Phase:
        convened = [letter for letter in self.this_attempt if letter in "PQ"]
        return "post_execute" if convened[-1:] == ["Q"] else "pre_execute"

    @property
    def decision(self) -> str:
        return next((c for c in reversed(self.this_attempt) if c in FALLS), "h")

    def digest(self) -> str:
        """The digest given to the newest decision's record."""
        return digest_at(max(0, *(self.word.rfind(c) for c in FALLS)))

    def outcome(self) -> str:
        if "X" in self.this_attempt:
            return "blocked"
        found = {OUTCOME_OF[c] for c in self.this_attempt if c in FALLS} or {"passed"}
        return next(o for o in WORST if o in found)

    def ballots(self, letter: str) -> tuple[Ballot, ...]:
        return tuple(
            Ballot(
                judge=judge,
                severity=severity,
                error=error,
                stream=f"evaluation/T-1/{max(self.attempt, 1)}/{self.phase}/{judge}",
                version=9,
                digest="b" * 64,
            )
            for judge, (severity, error) in zip(JUDGES, FALLS[letter], strict=True)
        )

    def decided(self, letter: str) -> PanelDecided:
        attempt = max(self.attempt, 1)
        return decided(attempt, self.phase, "majority", self.ballots(letter))

    def event(self, letter: str) -> Event:
        attempt = max(self.attempt, 1)
        match letter:
            case "O":
                return TaskOpened(task="T-1", spec=None)
            case "S":
                return AttemptStarted(attempt=self.attempt + 1, rejudges=None)
            case "C":
                return CoderDispatched(attempt=attempt, coder="coder", brief=None)
            case "P":
                return convened(attempt, "pre_execute")
            case "Q":
                return convened(attempt, "post_execute")
            case "g" | "l" | "h" | "v" | "e":
                return self.decided(letter)
            case "H":
                raw, halt = {
                    "v": ("validator_error", "validator_error"),
                    "e": ("escalated", "escalate"),
                }.get(self.decision, ("blocked", "blocker"))
                return TaskHalted.model_validate(
                    {
                        "attempt": attempt,
                        "phase": self.phase,
                        "raw_halt_type": raw,
                        "halt_type": halt,
                        "reason": halt_reason(self.decided(self.decision)),
                        "decided": self.digest(),
                    }
                )
            case "X":
                return TaskHalted(
                    attempt=attempt,
                    phase=None,
                    raw_halt_type="max_iterations",
                    halt_type="blocker",
                    reason="Twelve rounds.",
                    decided=None,
                )
            case "r" | "n":
                return ResolutionRecorded(
                    attempt=attempt,
                    phase=self.phase,
                    decision="proceed" if letter == "r" else "reject",
                    name="Ada Lovelace",
                    meaning="I take it upon me.",
                    comment="",
                    decided=self.digest(),
                )
            case "A":
                return AttemptClosed.model_validate(
                    {"attempt": attempt, "outcome": self.outcome(), "heads": ()}
                )
            case _:
                return TaskCompleted(attempt=attempt)


def convened(
    attempt: int,
    phase: Phase,
    judges: tuple[str, ...] = JUDGES,
    tools: tuple[str, ...] = ("read_file",),
) -> PanelConvened:
    return PanelConvened(
        attempt=attempt,
        phase=phase,
        policy="majority",
        judges=tuple(
            Mandate(
                judge=judge,
                model="script/1",
                criteria_digest="c" * 64,
                tools=tools,
                max_tool_turns=20,
            )
            for judge in judges
        ),
        brief=None,
        base=None,
        workspace=None,
        root=None,
        runner=Runner(id="0" * 32, host="host", process=1),
    )


def digest_at(place: int) -> str:
    return f"{place:064x}"


def status_of(word: str) -> str:
    """What the task's status is, from the letters: blocked from a halt until a person or an attempt."""
    if word.endswith("D"):
        return "completed"
    halted = max(word.rfind("H"), word.rfind("X"))
    return "blocked" if halted > max(word.rfind("r"), word.rfind("S")) else "open"


def lived(word: str) -> tuple[Task, Clerk]:
    """The task after the events of `word`, each of which has to be lawful."""
    task, clerk = Task("T-1"), Clerk()
    for letter in word:
        event = clerk.event(letter)
        assert task.objection(event) is None, (clerk.word, letter)
        task.apply(event, digest_at(len(clerk.word)))
        clerk.word += letter
    return task, clerk


# ── every order ────────────────────────────────────────────────────────────────────────────────────


def explore(task: Task, clerk: Clerk, pattern: Pattern, left: int) -> int:
    """Try every letter here and below; the number of lawful orders found."""
    assert task.status == status_of(clerk.word), clerk.word
    found = 1
    for letter in LETTERS:
        event = clerk.event(letter)
        objection = task.objection(event)
        rest = after(pattern, letter)
        assert (objection is None) == (rest is not None), (clerk.word, letter, objection)
        if rest is not None and left:
            further = copy.deepcopy(task)
            further.apply(event, digest_at(len(clerk.word)))
            found += explore(further, Clerk(clerk.word + letter), rest, left - 1)
    return found


def test_every_order_of_a_tasks_events_is_lawful_exactly_where_the_grammar_says() -> None:
    assert explore(Task("T-1"), Clerk(), parsed(LIFE), left=9) > 1_000


@pytest.mark.parametrize("seed", range(40))
def test_long_lives_of_many_attempts_follow_the_grammar(seed: int) -> None:
    rng = Random(seed)
    task, clerk, pattern = Task("T-1"), Clerk(), parsed(LIFE)
    for _ in range(120):
        lawful = []
        for letter in LETTERS:
            rest = after(pattern, letter)
            assert (task.objection(clerk.event(letter)) is None) == (rest is not None)
            if rest is not None:
                lawful.append((letter, rest))
        if not lawful:
            break
        # A life that is completed is over: put that off.
        letter, rest = rng.choice(
            [o for o in lawful if o[0] not in "gl" or rng.random() < 0.4] or lawful
        )
        task.apply(clerk.event(letter), digest_at(len(clerk.word)))
        clerk.word += letter
        pattern = rest
        assert task.status == status_of(clerk.word)
        assert task.attempt == clerk.attempt
        assert task.coder_dispatches == clerk.word.count("C")
        assert len(task.outcomes) == clerk.word.count("A")


@pytest.mark.parametrize(
    ("word", "outcomes"),
    [
        ("OSQgA", ["passed"]),
        ("OSPlQgA", ["warned"]),
        ("OSQhHA", ["blocked"]),
        ("OSQvHA", ["error"]),
        ("OSPlQvHA", ["error"]),
        ("OSQeHrA", ["warned"]),
        ("OSQeHnA", ["warned"]),
        ("OSXA", ["blocked"]),
        ("OSQgXA", ["blocked"]),
        ("OSQhHASXASPgCQlAD", ["blocked", "blocked", "warned"]),
    ],
)
def test_an_attempts_outcome_comes_from_its_own_ballots_or_its_engines_halt(
    word: str, outcomes: list[str]
) -> None:
    task, _ = lived(word)
    assert task.outcomes == list(enumerate(outcomes, 1))


def test_an_attempt_begins_with_nothing_of_the_one_before() -> None:
    task, _ = lived("OSPlQeHnAS")
    assert (task.ballots, task.phases, task.resolution, task.halted) == ([], [], None, None)
    assert (task.panel, task.decided, task.engine_halt) == (None, None, None)


# ── every refusal ──────────────────────────────────────────────────────────────────────────────────


def changed(word: str, letter: str, **update: Any) -> Event:
    """The event that `letter` stands for after `word`, with other values in it."""
    return lived(word)[1].event(letter).model_copy(update=update)


def other_ballots(word: str, letter: str, **update: Any) -> Event:
    event = lived(word)[1].decided(letter)
    first = event.ballots[0].model_copy(update=update)
    return event.model_copy(update={"ballots": (first, *event.ballots[1:])})


@pytest.mark.parametrize(
    ("word", "event", "objection"),
    [
        ("", changed("", "S"), "the task is not open"),
        ("", changed("", "O", task="T-2"), "the stream is that of T-1"),
        ("O", changed("", "O"), "the task is open already"),
        ("O", changed("", "S", attempt=2), "attempt: expected 1, found 2"),
        ("OS", changed("OS", "S"), "attempt 1 is still open"),
        ("OSXA", changed("", "S"), "attempt: expected 2, found 1"),
        ("OSXA", changed("OSXA", "S", rejudges=2), "rejudges: expected an earlier attempt"),
        ("OSQgAD", changed("OSQgAD", "S"), "the task is completed"),
        ("O", changed("", "C"), "attempt 1 is not open"),
        ("OSXA", changed("", "C"), "attempt 1 is not open"),
        ("OS", changed("OS", "C", attempt=2), "attempt 2 is not open"),
        ("OSQgAD", changed("OS", "D"), "attempt 1 is not open"),
        ("OSP", changed("OSP", "C"), "CoderDispatched has no place here: a panel sits"),
        (
            "OSPh",
            changed("OSPh", "C"),
            "CoderDispatched has no place here: the panel halted the task and TaskHalted is due",
        ),
        (
            "OSPe",
            changed("OSPe", "Q"),
            "PanelConvened has no place here: the panel escalated and TaskHalted is due",
        ),
        (
            "OSPeH",
            changed("OSPeH", "Q"),
            "PanelConvened has no place here: the attempt waits for a person's resolution",
        ),
        (
            "OSQg",
            changed("OSQg", "C"),
            "CoderDispatched has no place here: post_execute let the task go on and AttemptClosed is due",
        ),
        (
            "OSPhH",
            changed("OSPhH", "D"),
            "TaskCompleted has no place here: the task is halted and AttemptClosed is due",
        ),
        ("OSQgA", changed("OSQgA", "A"), "AttemptClosed has no place here: TaskCompleted is due"),
        ("OS", changed("OS", "g"), "PanelDecided has no place here: no panel sits"),
        ("OSPg", changed("OSPg", "P"), "pre_execute was judged in this attempt already"),
        ("OS", convened(1, "pre_execute", ("a", "b", "a")), "two judges of one id"),
        (
            "OS",
            convened(1, "pre_execute", tools=("read_file", "read_mind")),
            "no read tool of ours: 'read_mind'",
        ),
        (
            "OSP",
            changed("OSP", "g", phase="post_execute"),
            "phase and policy: expected those the panel was convened with",
        ),
        (
            "OSP",
            changed("OSP", "g", policy="any"),
            "phase and policy: expected those the panel was convened with",
        ),
        (
            "OSP",
            other_ballots("OSP", "g", judge="somebody"),
            "ballots: expected one of each judge convened, in order: architecture, security, tests",
        ),
        (
            "OSP",
            changed("OSP", "g", ballots=()),
            "ballots: expected one of each judge convened, in order: architecture, security, tests",
        ),
        ("OSP", other_ballots("OSP", "g", error=True), "a judge that errored counts as a blocker"),
        (
            "OSP",
            changed("OSP", "h", action="proceed"),
            "the ballots come to halt, found proceed or other counts",
        ),
        (
            "OSP",
            changed("OSP", "g", required=1),
            "the ballots come to proceed, found proceed or other counts",
        ),
        ("OS", changed("OS", "X", halt_type="internal_error"), "max_iterations is blocker"),
        (
            "OS",
            changed("OS", "X", raw_halt_type="blocked"),
            "blocked is written by a panel, and none decided so",
        ),
        (
            "OS",
            changed("OS", "X", decided="d" * 64),
            "max_iterations is written by a panel, and none decided so",
        ),
        ("OSP", changed("OSP", "X"), "TaskHalted has no place here: a panel sits"),
        (
            "OSPh",
            changed("OSPh", "H", decided="d" * 64),
            "a panel's halt names the record that decided it",
        ),
        (
            "OSPh",
            changed("OSPh", "H", phase="post_execute"),
            "a panel's halt names the record that decided it",
        ),
        (
            "OSPh",
            changed("OSPh", "H", raw_halt_type="wf3"),
            "raw halt type: the panel's ballots make it blocked",
        ),
        (
            "OSPv",
            changed("OSPv", "H", raw_halt_type="blocked", halt_type="blocker"),
            "raw halt type: the panel's ballots make it validator_error",
        ),
        (
            "OSPe",
            changed("OSPe", "H", raw_halt_type="blocked", halt_type="blocker"),
            "raw halt type: the panel's ballots make it escalated",
        ),
        (
            "OSPh",
            changed("OSPh", "H", reason="Because."),
            "reason: not the one that follows from the ballots",
        ),
        ("OS", changed("OS", "r"), "only an escalation can be resolved, and none is waiting"),
        ("OSPhH", changed("OSPhH", "r"), "only an escalation can be resolved, and none is waiting"),
        ("OSPvH", changed("OSPvH", "r"), "only an escalation can be resolved, and none is waiting"),
        (
            "OSPeHr",
            changed("OSPeHr", "r"),
            "only an escalation can be resolved, and none is waiting",
        ),
        (
            "OSPeH",
            changed("OSPeH", "r", decided="d" * 64),
            "a resolution names the very record it answers",
        ),
        (
            "OSPeH",
            changed("OSPeH", "r", phase="post_execute"),
            "a resolution names the very record it answers",
        ),
        ("OSQg", changed("OSQg", "A", outcome="warned"), "outcome: expected passed, found warned"),
        (
            "OS",
            TurnSpared(turn=1, stall=1, max_stall_turns=3),
            "attempt None is not open",
        ),
    ],
)
def test_what_has_no_place_is_refused_in_words(word: str, event: Event, objection: str) -> None:
    assert lived(word)[0].objection(event) == objection


def test_pre_execute_never_comes_after_post_execute() -> None:
    """No order that is lawful so far gets there, so the state is made by hand."""
    task, clerk = lived("OSQ")
    task.stage = "working"
    assert task.objection(clerk.event("P")) == "pre_execute never comes after post_execute"


def test_asking_changes_nothing() -> None:
    task, clerk = lived("OSPeH")
    before = copy.deepcopy(task)
    for letter in LETTERS:
        task.objection(clerk.event(letter))
    assert task == before
