"""`causebook`: where the command line is put together, and where a failure becomes a line and an exit code.

    error: protocol.toml, judge 2, max_tool_turns: expected 1 to 200, found 0
    hint: the default is 20; a judge with no tools decides on its first turn

A command answers its exit code (design section 11). What goes wrong is raised as a `CausebookError`, which
has its own; an exception that nobody named is 70, with its traceback under CAUSEBOOK_DEBUG.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

import typer
from typer.main import get_command

from ...domain.errors import CausebookError, Denied, Interrupted
from . import commands, commands_keys, commands_log, commands_trust
from .help import HELP_OPTIONS, Command, Group
from .terminal import ReaderGone, complain, out, require_stdout

EXIT_USAGE: Final = 64
EXIT_INTERNAL: Final = 70
EXIT_IO: Final = 74

_GROUPS: Final = (
    ("keys", commands_keys.root, commands_keys.KEYS),
    ("pins", commands_trust.pins_root, commands_trust.PINS),
    ("witness", commands_trust.witness_root, commands_trust.WITNESS),
)
"""Each group of commands: its name, what it does alone, its commands."""

# Typer's usage errors live in click or in typer's own copy of it, depending on its version.
_UsageError: Final[Any] = typer.BadParameter.__mro__[1]


def application() -> typer.Typer:
    """The whole command line, wired."""
    settings = {"help_option_names": list(HELP_OPTIONS)}
    app = typer.Typer(
        name="causebook",
        cls=Group,
        context_settings=settings,
        help=(
            "The signed record of decisions made by LLM judges: why a task halted, who decided, on what "
            "evidence, by which rule, and whether it can be relied on."
        ),
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(commands.root)
    for name, command in (commands.COMMANDS | commands_log.COMMANDS).items():
        app.command(name, cls=Command)(_interruptible(command))
    for name, root, members in _GROUPS:
        group = typer.Typer(help=root.__doc__, cls=Group, rich_markup_mode=None)
        group.callback(invoke_without_command=True)(root)
        for member, command in members.items():
            group.command(member, cls=Command)(_interruptible(command))
        if members:
            app.add_typer(group, name=name)
    return app


def _interruptible(command: Callable[..., int]) -> Callable[..., int]:
    """`command`, whose Ctrl-C is an error of ours: typer would end it without a word."""

    @functools.wraps(command)
    def run_command(*arguments: Any, **options: Any) -> int:
        try:
            return command(*arguments, **options)
        except KeyboardInterrupt:
            raise Interrupted(
                "interrupted", hint="what is recorded stays; the command can be run again"
            ) from None

    return run_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Prints errors, raises nothing."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        require_stdout()
        command = get_command(application())
        # A command that runs others (demo) is handed what runs them.
        options: dict[str, Any] = {"standalone_mode": False, "obj": main}
        code = command.main(args=list(arguments), prog_name="causebook", **options)
        _flush()
        return code if isinstance(code, int) else 0
    except CausebookError as error:
        hint = error.hint or _hint(error.exit_code, arguments)
        complain(error.message, _at_ledger(hint, arguments))
        return error.exit_code
    except _UsageError as error:
        complain(*_usage(error))
        return EXIT_USAGE
    except (KeyboardInterrupt, typer.Abort):  # before a command began, or Ctrl-D at a question
        complain("interrupted", "nothing was done")
        return Interrupted.exit_code
    except (ReaderGone, SystemExit):  # typer leaves so where it finds a pipe closed
        return EXIT_IO
    except OSError as error:
        code = Denied.exit_code if isinstance(error, PermissionError) else EXIT_IO
        complain(f"{error.filename or 'input or output'}: {error.strerror or error}", _HINTS[code])
        _trace()
        return code
    except Exception as error:  # noqa: BLE001 - the last line of defence, which names what it caught
        complain(f"internal: {type(error).__name__}: {error}", _INTERNAL_HINT)
        _trace()
        return EXIT_INTERNAL


_HINTS: Final = {
    64: "causebook --help",
    65: "look at what was given: it is not what it should be",
    66: "look at the name, and at where it is looked for",
    69: "try again once it answers",
    73: "name another place",
    74: "look at the disk, and at who may read and write there",
    75: "try again",
    77: "look at who may read and write there",
}
"""What to try where an error does not say."""


_READS_A_LEDGER: Final = frozenset(
    {"why", "log", "evidence", "tasks", "replay", "rebuild", "judge", "resolve", "prove", "export"}
)


def _hint(code: int, arguments: Sequence[str]) -> str:
    if code == 65 and "verify" in arguments[:1]:
        return "no more can be told of this file; compare with an older copy of it"
    if code == 65 and _READS_A_LEDGER & set(arguments[:1]):
        return "causebook verify says all that is wrong with the ledger"
    return _HINTS.get(code, "")


_NAMES_NO_LEDGER = re.compile(
    r"\bcausebook (?:verify|tasks|log|why|rebuild|seal|checkpoint|resolve|keys list)\b(?! --ledger)"
)


def _at_ledger(hint: str, arguments: Sequence[str]) -> str:
    """The hint with the ledger that this command was given: what is typed next is to look at the same one."""
    named = [url for name, url in pairwise([*arguments, ""]) if name == "--ledger"]
    named += [a.removeprefix("--ledger=") for a in arguments if a.startswith("--ledger=")]
    if not any(named):
        return hint
    from .reading import at_ledger  # which loads what reads a ledger

    option = at_ledger(named[-1])
    return _NAMES_NO_LEDGER.sub(lambda found: found[0] + option, hint)


_INTERNAL_HINT: Final = "this is a fault of causebook; CAUSEBOOK_DEBUG=1 shows where it happened"


def _usage(error: Any) -> tuple[str, str]:
    message = " ".join(str(error.format_message()).split()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "causebook"
    hint = f"{path} --help"
    if "No such option" in message:
        hint += "; an argument that begins with a dash comes after --"
    return message[:1].lower() + message[1:], hint


def _trace() -> None:
    if os.environ.get("CAUSEBOOK_DEBUG"):
        import traceback

        from .terminal import err

        for line in traceback.format_exc().splitlines():
            err().line(line)


def _flush() -> None:
    """Hand over what is printed. Raises `ReaderGone` where nobody reads it, `IOFailure` where that fails."""
    out().flush()


def run() -> None:
    """The entry point of `causebook`: the streams, one command, its exit code."""
    _open_streams()
    # What a script or a model wrote may hold what the stream's encoding cannot say, error paths included.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    code = main()
    _let_go()
    sys.exit(code)


def _open_streams() -> None:
    """Put the null device where a stream is closed, or the next file opened would take its place."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free


def _let_go() -> None:
    """Drop what could not be printed: Python would try it again at its end, and say so at length."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, stream.fileno())
            os.close(devnull)
