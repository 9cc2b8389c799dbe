"""One ledger for each way a task can stand. `SCENARIOS` maps a name to what makes it."""

from __future__ import annotations

from collections.abc import Callable

from .ledgers import DECLINED, FAULT, Book, Script, TaskBook, example, read, verdict

PASS: Script = [[read("a.py")], [verdict("pass")]]
WARN: Script = [[verdict("warn")]]
BLOCKER: Script = [[verdict("blocker", "no")]]
PROSE: Script = ["Looks fine.", "As I said."]


def _opened(book: Book) -> None:
    book.task("T")


def _started(book: Book) -> None:
    book.task("T").attempt(dispatches=2)


def _panel(policy: str, **scripts: Script) -> Callable[[Book], TaskBook]:
    def make(book: Book) -> TaskBook:
        task = book.task("T")
        task.attempt()
        task.panel("post_execute", policy, scripts)  # type: ignore[arg-type]
        return task

    return make


def _resolved(decision: str) -> Callable[[Book], None]:
    def make(book: Book) -> None:
        _panel("unanimous", one=PASS, two=WARN)(book).resolve(decision)  # type: ignore[arg-type]

    return make


def _sitting(book: Book) -> None:
    task = book.task("T")
    task.attempt()
    task.convene("pre_execute", "majority", ["closed", "failed", "reading", "unheard"])
    task.hear("closed", PASS)
    task.hear("failed", PROSE)
    task.hear("reading", [[read("a.py")]])


def _interrupted(book: Book) -> None:
    task = book.task("T")
    task.attempt()
    task.convene("post_execute", "any", ["done", "midway", "unheard"])
    task.hear("done", PASS)
    task.hear("midway", [[read("a.py")]])
    task.take_over()


def _both_phases(book: Book) -> TaskBook:
    task = book.task("T")
    task.attempt()
    task.panel("pre_execute", "unanimous", {"one": PASS, "two": WARN})
    task.resolve("proceed")
    task.panel("post_execute", "unanimous", {"one": PASS, "two": PASS})
    return task


def _engine(book: Book) -> None:
    task = book.task("T")
    task.attempt(dispatches=3)
    task.engine_halt("turn_budget_exhausted")


def _engine_after_panel(book: Book) -> None:
    task = book.task("T")
    task.attempt()
    task.panel("pre_execute", "any", {"one": PASS})
    task.engine_halt("head_not_moved", "post_execute")


def _attempts(book: Book) -> None:
    task = book.task("T")
    task.attempt(dispatches=1)
    task.panel("post_execute", "unanimous", {"one": BLOCKER})
    task.attempt(dispatches=2)
    task.engine_halt("execution_error")
    task.attempt(rejudges=1)
    task.panel("post_execute", "unanimous", {"one": PROSE})
    task.attempt()
    task.panel("post_execute", "majority", {"one": PASS, "two": PASS, "three": WARN})


def _again(book: Book) -> None:
    _panel("unanimous", one=BLOCKER)(book).attempt()


SCENARIOS: dict[str, Callable[[Book], object]] = {
    "example": lambda book: example(book, "T"),
    "opened": _opened,
    "started": _started,
    "sitting": _sitting,
    "all_pass": _panel("unanimous", one=PASS, two=PASS),
    "warn_is_logged": _panel("majority", one=PASS, two=PASS, three=WARN),
    "escalated": _panel("unanimous", one=PASS, two=WARN),
    "resolved_proceed": _resolved("proceed"),
    "resolved_halt": _resolved("halt"),
    "resolved_reject": _resolved("reject"),
    "blocked": _panel("any", one=PASS, two=BLOCKER, three=WARN),
    "no_verdict": _panel("any", one=PASS, two=PROSE, three=BLOCKER),
    "provider_fault": _panel("any", one=[[read("a.py")], FAULT], two=PASS),
    "tool_choice_declined": _panel("any", one=["Hm.", DECLINED, [verdict("pass")]]),
    "interrupted": _interrupted,
    "both_phases": _both_phases,
    "engine": _engine,
    "engine_after_panel": _engine_after_panel,
    "attempts": _attempts,
    "again": _again,
}
