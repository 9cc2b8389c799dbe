"""Scripts of model behaviour: random ones, and a driver that puts them through the law without any world.

`random_script(rng)` makes one from any `random.Random`, the same from the same seed, so that
`random_script(Random(n))` for n in a range is a corpus. `SCRIPTS` is the same as a Hypothesis strategy, which
shrinks. A `Script` is whole: what the judge was granted, the files there are, and what the model says. `run`
puts it through the law; `ScriptModel` and `Tree` are its model and workspace for anything that wants ports.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from causebook.domain.admission import admit_fault, admit_response
from causebook.domain.evaluation import Evaluation, answer, fail, hear, interrupt, open_turn
from causebook.domain.events import (
    EvaluationOpened,
    Event,
    Granted,
    ModelCallFailed,
    ToolChoiceDeclined,
)
from causebook.domain.evidence import Item, commit, text_bytes
from causebook.domain.ports import ModelFault, ReadResult, Request, Response, ToolCall
from causebook.domain.streams import StreamName
from causebook.domain.tools import READ_TOOLS, active

from .account import Account, Said, judge_by_the_book

NAME = StreamName("evaluation", "T-1", 1, "post_execute", "architecture")
TRIES_MAX = 3


@dataclass(frozen=True)
class Failure:
    """One try that fails. `declines`: a 400 that is about `tool_choice`, where one was sent."""

    error: str
    status: int | None = None
    retryable: bool = False
    declines: bool = False
    retry_after_ms: int | None = None
    detail: str = ""

    @property
    def kind(self) -> str:
        """What it is to the account."""
        return "declines" if self.declines else "busy" if self.retryable else "broken"

    def fault(self, *, tool_choice_sent: bool) -> ModelFault:
        return ModelFault(
            self.error,
            status=self.status,
            retry_after_ms=self.retry_after_ms,
            retryable=self.retryable,
            declines_tool_choice=self.declines and tool_choice_sent,
            detail=self.detail,
        )


@dataclass(frozen=True)
class Step:
    """One turn of a model: tries that fail, then an answer, should it come to that."""

    response: Response
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True)
class Tree:
    """A workspace of files that have lines and nothing else. Answers at most `lines_max` lines."""

    files: Mapping[str, int]
    lines_max: int = 40

    def read(self, tool: str, arguments: Mapping[str, Any]) -> ReadResult:
        match tool:
            case "read_file":
                return self._lines(arguments["path"], 1, None)
            case "read_file_lines":
                return self._lines(arguments["path"], arguments["start"], arguments["end"])
            case "list_files" | "summarize_directory":
                directory = arguments.get("directory", ".")
                if ".." in directory or directory.startswith("/"):
                    return ReadResult("outside of the root", error=True)
                return ReadResult("\n".join(sorted(self.files)))
            case "git_show":
                # Lines are known for the tree alone, and a read of history covers none of it.
                return ReadResult(f"{arguments['path']} at {arguments['ref']}")
            case _:
                return ReadResult(f"{tool} {sorted(arguments.items())}")

    def _lines(self, path: str, start: int, end: int | None) -> ReadResult:
        there = self.files.get(path)
        if there is None:
            return ReadResult(f"{path}: no such file", error=True)
        if there == 0 and end is None:
            return ReadResult("")
        if start > there or (end is not None and end < start):
            # It says lines all the same: an answer that failed must cover none of them.
            return ReadResult(f"{path} has {there} lines", (1, max(there, 1)), error=True)
        wanted = there if end is None else min(end, there)
        last = min(wanted, start + self.lines_max - 1)
        blob = hashlib.sha1(path.encode(), usedforsecurity=False).hexdigest()
        return ReadResult(f"{path} {start}-{last}", (start, last), last < wanted, False, blob)


@dataclass(frozen=True)
class Script:
    """One evaluation to be played."""

    max_tool_turns: int
    declared: tuple[str, ...]
    steps: tuple[Step, ...]
    phase: str = "post_execute"
    root: str | None = "/src/app"
    tree: Tree = field(default_factory=lambda: Tree({"a.py": 30, "lib/b.py": 90, "empty": 0}))

    def opened(self) -> EvaluationOpened:
        return opened(self.max_tool_turns, self.declared, phase=self.phase, root=self.root)

    def name(self) -> StreamName:
        return replace(NAME, phase=self.phase)

    def account(self) -> Account:
        """What the second account says of it."""

        def look(tool: str, arguments: Mapping[str, Any]) -> tuple[tuple[int, int] | None, bool]:
            result = self.tree.read(tool, arguments)
            return result.lines, result.error

        said = [
            Said(
                tuple(failure.kind for failure in step.failures),
                tuple((call.id, call.name, call.arguments) for call in step.response.calls),
            )
            for step in self.steps
        ]
        return judge_by_the_book(
            self.max_tool_turns, self.declared, self.phase, self.root, said, look
        )


def opened(
    max_tool_turns: int = 20,
    declared: tuple[str, ...] = ("read_file", "read_file_lines"),
    *,
    phase: str = "post_execute",
    root: str | None = "/src/app",
    criteria: tuple[str, ...] | None = ("It holds together.",),
) -> EvaluationOpened:
    """The opening of an evaluation under the law."""
    ran = criteria is not None
    return EvaluationOpened.model_validate(
        {
            "task": NAME.task,
            "attempt": NAME.attempt,
            "phase": phase,
            "judge": NAME.judge,
            "law": "law/1",
            "max_tool_turns": max_tool_turns,
            "max_stall_turns": 3,
            "declared": declared,
            "active": tuple(
                Granted(name=name, defaults=READ_TOOLS[name].defaults())
                for name in active(declared, phase)
            ),
            "criteria": criteria,
            "model": "script/1",
            "prompt_version": "prompt/1",
            "prompt": ("1" * 64, "2" * 64) if ran else None,
            "root": root,
            "workspace": None,
        }
    )


class Keeper:
    """A `Committer` in memory. Salts are counted, so that one script gives one record."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}

    def __call__(self, body: bytes) -> str:
        salt = hashlib.sha256(b"salt %d" % len(self.items)).digest()
        commitment = commit(salt, body)
        self.items[commitment] = Item(commitment, salt, body)
        return commitment


class ScriptModel:
    """The model of a script, as the port wants it: a fault or an answer for each call."""

    def __init__(self, script: Script) -> None:
        self._said: list[Failure | Response] = []
        for step in script.steps:
            self._said += [*step.failures, step.response]

    def complete(self, request: Request) -> Response:
        sent = request.tool_choice is not None
        if not self._said:
            raise ModelFault("script_exhausted")
        said = self._said.pop(0)
        if isinstance(said, Failure):
            raise said.fault(tool_choice_sent=sent)
        return replace(said, tool_choice_sent=sent)


def run(
    script: Script, *, interrupted: bool = False, keep: Callable[[bytes], str] | None = None
) -> tuple[list[Event], Evaluation]:
    """Play a script to its end: every event of the stream, and the state they come to.

    Where the steps run out the evaluation stays open, or is closed by rule 10 where `interrupted`.
    """
    keep = keep or Keeper()
    first = script.opened()
    evaluation = Evaluation(first)
    events: list[Event] = [first]
    for step in script.steps:
        if evaluation.closed is not None:
            break
        events += open_turn(evaluation)
        events += _turn(evaluation, step, script.tree, keep)
    if interrupted and evaluation.closed is None:
        events += interrupt(evaluation)
    return events, evaluation


def _turn(
    evaluation: Evaluation, step: Step, tree: Tree, keep: Callable[[bytes], str]
) -> list[Event]:
    required = "submit_verdict" if evaluation.withdrawn else None
    sent = required is not None
    tries: list[ModelCallFailed | ToolChoiceDeclined] = []
    left = TRIES_MAX
    for failure in step.failures:
        fault = failure.fault(tool_choice_sent=sent)
        declined = fault.declines_tool_choice
        sent = sent and not declined
        number = len(tries) + 1
        tries.append(
            admit_fault(
                fault, turn=evaluation.turn, try_number=number, declined=declined, commit=keep
            )
        )
        if not declined:
            left = left - 1 if fault.retryable else 0
        if left == 0:
            return fail(evaluation, tries)
    responded = admit_response(
        replace(step.response, tool_choice_sent=sent),
        turn=evaluation.turn,
        try_number=len(tries) + 1,
        required=required,
        commit=keep,
    )
    turn = hear(evaluation, responded)
    try:
        place, read = next(turn)
        while True:
            result = tree.read(read.tool, read.arguments)
            answered = answer(
                read,
                turn=evaluation.turn,
                call=place,
                result=keep(text_bytes(result.text)),
                lines=result.lines,
                cut=result.cut,
                error=result.error,
                blob=result.blob,
            )
            place, read = turn.send(answered)
    except StopIteration as stop:
        following: list[Event] = stop.value
    return [*tries, *following]


# ── what a model may say ───────────────────────────────────────────────────────────────────────────


def say(*calls: ToolCall, content: str | None = None) -> Step:
    """A turn with these calls."""
    return Step(Response(content, calls, model="script/1", client="script", client_version="1"))


def read(path: str, start: int | None = None, end: int | None = None) -> ToolCall:
    """A read of a file, or of some of its lines."""
    if start is None:
        return call("read_file", path=path)
    return call("read_file_lines", path=path, start=start, end=end)


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall("call_x", name, json.dumps(arguments))


def verdict(severity: str = "pass", justification: str = "It holds.") -> ToolCall:
    return call("submit_verdict", severity=severity, justification=justification)


BUSY = Failure("rate_limit", 429, retryable=True, retry_after_ms=5, detail="slow down")
DOWN = Failure("auth", 401, detail="who are you?")
DECLINES = Failure("bad_request", 400, declines=True, detail="tool_choice is not supported")

_PATHS = ("a.py", "./a.py", "/src/app/a.py", "lib//b.py", "lib\\b.py", "lib/b.py/", "empty")
_STRAY_PATHS = ("gone.py", "lib/../a.py", "/src/application/a.py", "", ".", "é/☃.py", "a\u0001b")
_STRAY_NAMES = ("write_file", "read_files", "", "Submit_verdict", "submit_verdict ", "read_file\0")
_BROKEN = (
    "",
    " ",
    "{",
    '{"path":"a.py"',
    "{'path':'a.py'}",
    '{"path":"a.py",}',
    '{"path":"a.py"}{}',
    '{"path":NaN}',
    '{"path":"a\npy"}',
    '\ufeff{"path":"a.py"}',
    "null",
    "[]",
    '"a.py"',
    "7",
    '{"path":"a.py","path":"a.py"}',
    '{"path":{"a":1,"a":2}}',
    '{"path":"\\ud800"}',
    '{"path":"\\ud83d\\ude00"}',
    '{"path":' + "[" * 64 + "]" * 64 + "}",
)
_UNFIT: tuple[dict[str, Any], ...] = (
    {},
    {"path": 5},
    {"path": None},
    {"path": ["a.py"]},
    {"path": "a.py", "encoding": "utf-8"},
    {"path": "a.py", "start": 1},
    {"path": "a.py", "start": 0, "end": 4},
    {"path": "a.py", "start": "1", "end": "4"},
    {"path": "a.py", "start": True, "end": 4},
    {"path": "a.py", "start": 1.5, "end": 4},
    {"path": "a.py", "start": 1, "end": 10**25},
    {"n": 0},
    {"n": 101},
    {"directory": False},
)


def _read(rng: Random, declared: tuple[str, ...]) -> ToolCall:
    name = rng.choice(declared if declared and rng.random() < 0.9 else tuple(READ_TOOLS))
    if rng.random() < 0.3 and "read_file_lines" in declared:
        name = "read_file_lines"
    path = rng.choice(_PATHS if rng.random() < 0.85 else _STRAY_PATHS)
    arguments: dict[str, Any]
    match name:
        case "read_file":
            arguments = {"path": path}
        case "read_file_lines":
            start = rng.choice((1, 1, 5, 10, 41))
            arguments = {"path": path, "start": start, "end": start + rng.choice((-1, 0, 4, 30))}
            if arguments["end"] < 1:
                arguments["end"] = 1
        case "list_files" | "summarize_directory":
            arguments = rng.choice(
                ({}, {"directory": "."}, {"directory": None}, {"directory": "lib/"})
            )
        case "git_show":
            arguments = {"ref": rng.choice(("HEAD", "HEAD~1")), "path": path}
        case "git_log":
            arguments = rng.choice(({}, {"n": 5}, {"n": None}, {"n": 7}))
        case _:
            arguments = {"ref1": "HEAD~1", "ref2": rng.choice(("HEAD", "main"))}
    items = list(arguments.items())
    rng.shuffle(items)
    text = json.dumps(dict(items), ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.03:  # at the limit of 4 KiB, or one byte past it
        text += " " * (4096 - len(text.encode()) - text.count('"') - text.count("\\"))
        text += " " * rng.randrange(2)
    return ToolCall(rng.choice((None, "", "call_1", "call_1")), name, text, rng.random() < 0.05)


def _odd(rng: Random, declared: tuple[str, ...]) -> ToolCall:
    names = ("submit_verdict", *declared)
    match rng.randrange(6):
        case 0:
            return ToolCall(
                "c", rng.choice(_STRAY_NAMES), rng.choice(('{"path":"a.py"}', "{}", ""))
            )
        case 1:
            return ToolCall("c", rng.choice(names), rng.choice(_BROKEN))
        case 2:
            return ToolCall("c", rng.choice(names), json.dumps(rng.choice(_UNFIT)))
        case 3:  # over a limit, or just within
            name = rng.choice(names)
            text = rng.choice(('{"path":"a.py"}', verdict().arguments))
            return rng.choice(
                (
                    ToolCall("i" * 128, name, text),
                    ToolCall("i" * 129, name, text),
                    ToolCall("\u0001" * 22, name, text),
                    ToolCall("c", "n" * 129, text),
                    ToolCall("c", name, text + " " * 4_200),
                    ToolCall("c", name, text + " " * 16_400),
                )
            )
        case 4:  # not Unicode
            name = rng.choice(names)
            return rng.choice(
                (
                    ToolCall("\udc80", name, '{"path":"a.py"}'),
                    ToolCall("c", "read_file\ud800", '{"path":"a.py"}'),
                    ToolCall("c", name, '{"path":"\ud800"}'),
                )
            )
        case _:
            return rng.choice(
                (
                    verdict("ok"),
                    verdict("paſs"),
                    verdict("\u00a0pass"),
                    verdict("pass", ""),
                    verdict("pass", " \t\n"),
                    verdict("pass", "x" * 8_193),
                    verdict("pass", "\u0001" * 1_366),
                    verdict("pass", "\ud800"),
                    call("submit_verdict", severity="pass"),
                    call("submit_verdict", severity=None, justification="It holds."),
                    call("submit_verdict", severity="pass", justification=3),
                )
            )


def _verdict(rng: Random) -> ToolCall:
    if rng.random() < 0.1:
        return rng.choice((verdict("pass", "x" * 8_192), verdict("pass", "\u0001" * 1_365)))
    severity = rng.choice(("pass", "pass", " PASS\n", "warn", "Blocker"))
    return verdict(severity, rng.choice(("It holds.", "It holds.", "It holds. ")))


def _step(rng: Random, declared: tuple[str, ...], moods: list[float], said: list[ToolCall]) -> Step:
    """`said`: the reads of the turns before, to be said again."""
    kinds = ("fresh", "again", "odd", "prose", "verdict", "verdicts", "beside", "flood", "heavy")
    kind = rng.choices(kinds, moods)[0]
    calls: list[ToolCall] = []
    content = rng.choice((None, "", "Let me look.", "I think it passes. \ud800"))
    match kind:
        case "fresh":
            calls = [_read(rng, declared) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        case "again":
            pool = said or [read("a.py")]
            calls = [rng.choice(pool) for _ in range(rng.choice((1, 1, 2)))]
        case "odd":
            calls = [_odd(rng, declared) for _ in range(rng.choice((1, 1, 2)))]
            calls += [_read(rng, declared)] * rng.randrange(2)
        case "verdict":
            calls = [_verdict(rng)]
        case "verdicts":
            calls = [_verdict(rng), _verdict(rng)]
        case "beside":
            calls = [_read(rng, declared), _verdict(rng), _odd(rng, declared)]
            rng.shuffle(calls)
        case "flood":
            calls = [rng.choice((_read(rng, declared), _verdict(rng)))] * rng.choice(
                (63, 64, 65, 70)
            )
            calls.insert(rng.choice((0, 64)), _read(rng, declared))
        case "heavy":
            calls = [
                ToolCall("c", c.name, c.arguments + " " * rng.choice((3_900, 3_000)))
                for c in (_read(rng, declared) for _ in range(8))
            ]
            calls.append(_verdict(rng) if rng.random() < 0.3 else _read(rng, declared))
    said += [c for c in calls if c.name in READ_TOOLS and len(c.arguments) < 200]
    failures: tuple[Failure, ...] = ()
    if rng.random() < 0.08:
        failures = tuple(
            rng.choice((BUSY, BUSY, BUSY, DOWN, DECLINES)) for _ in range(rng.randint(1, 3))
        )
    return Step(
        Response(
            content,
            tuple(calls),
            model="script/1",
            finish_reason=rng.choice((None, "stop", "tool_calls")),
            prompt_tokens=rng.choice((None, 0, 1_000)),
            completion_tokens=rng.choice((None, 12)),
            milliseconds=rng.randrange(3),
            client="script",
            client_version="1",
        ),
        failures,
    )


def random_script(rng: Random) -> Script:
    """One script of model behaviour. The same `rng` gives the same."""
    declared = tuple(READ_TOOLS) if rng.random() < 0.5 else ("read_file", "read_file_lines")
    if rng.random() < 0.1:
        declared = rng.choice(((), ("git_log",), ("read_diff_between_refs",)))
    turns = rng.choice((1, 2, 3, 3, 4, 5, 6, 9))
    moods = [rng.choice((0.0, 1.0, 6.0)) for _ in range(6)]
    moods = [moods[0] + 1, *moods[1:3], moods[3] / 4, *(m / 4 for m in moods[4:]), 0.2, 0.05, 0.05]
    said: list[ToolCall] = []
    bound = 3 * turns + 2
    steps = [_step(rng, declared, moods, said) for _ in range(rng.randint(1, bound))]
    return Script(
        max_tool_turns=turns,
        declared=declared,
        steps=tuple(steps),
        phase=rng.choice(("pre_execute", "post_execute")),
        root=rng.choice(("/src/app", "/src/app", "/", None)),
        tree=Tree({"a.py": 30, "lib/b.py": 90, "empty": 0}, rng.choice((10, 40))),
    )


SCRIPTS = st.randoms(use_true_random=False).map(random_script)
"""`random_script` as a strategy."""
