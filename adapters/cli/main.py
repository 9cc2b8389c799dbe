"""`causebook`: where the command line is put together, and where a failure becomes a line and an exit code.

    error: protocol.toml, judge 2, max_tool_turns: expected 1 to 200, found 0
    hint: the default is 20; a judge with no tools decides on its first turn

A command answers its exit code (design section 11). What goes wrong is raised as a `CausebookError`, which
has its own; an exception that nobody named is 70, with its traceback under CAUSEBOOK_DEBUG.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import typer
from typer.main import get_command

from ...domain.errors import CausebookError, Interrupted
from . import commands
from .terminal import ReaderGone, complain

EXIT_USAGE: Final = 64
EXIT_INTERNAL: Final = 70
EXIT_IO: Final = 74

# Typer's usage errors live in click or in typer's own copy of it, depending on its version.
_UsageError: Final[Any] = typer.BadParameter.__mro__[1]


def application() -> typer.Typer:
    """The whole command line, wired."""
    app = typer.Typer(
        name="causebook",
        help=(
            "The signed record of decisions made by LLM judges: why a task halted, who decided, on what "
            "evidence, by which rule, and whether it can be relied on."
        ),
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(commands.root)
    for name, command in commands.COMMANDS.items():
        app.command(name)(_interruptible(command))
    keys = typer.Typer(help="The keys that may sign.", rich_markup_mode=None)
    keys.callback(invoke_without_command=True)(commands.keys_root)
    keys.command("list")(_interruptible(commands.keys_list))
    app.add_typer(keys, name="keys")
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
        command = get_command(application())
        code = command.main(args=list(arguments), prog_name="causebook", standalone_mode=False)
        _flush()
        return code if isinstance(code, int) else 0
    except CausebookError as error:
        complain(error.message, error.hint or _HINTS.get(error.exit_code, ""))
        return error.exit_code
    except _UsageError as error:
        complain(*_usage(error))
        return EXIT_USAGE
    except (KeyboardInterrupt, typer.Abort):  # before a command began, or Ctrl-D at a question
        complain("interrupted", "nothing was done")
        return Interrupted.exit_code
    except (ReaderGone, SystemExit):  # typer leaves so where it finds a pipe closed
        _close_stdout()
        return EXIT_IO
    except OSError as error:
        complain(
            f"{error.filename or 'input or output'}: {error.strerror or error}", _HINTS[EXIT_IO]
        )
        _trace()
        return EXIT_IO
    except Exception as error:  # noqa: BLE001 - the last line of defence, which names what it caught
        complain(f"internal: {type(error).__name__}: {error}", _INTERNAL_HINT)
        _trace()
        return EXIT_INTERNAL


_HINTS: Final = {
    64: "causebook --help",
    65: "causebook verify says all that is wrong with a ledger",
    66: "look at the name, and at where it is looked for",
    69: "try again once it answers",
    73: "name another place",
    74: "look at the disk, and at who may read and write there",
    75: "try again",
    77: "look at who may read and write there",
}
"""What to try where an error does not say."""

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
    """Hand over what is printed: a reader that left by now has had its answer by its own choice."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _close_stdout()


def _close_stdout() -> None:
    # Whoever read the pipe is gone, and Python would complain when it flushes at the end.
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def run() -> None:
    """The entry point of `causebook`."""
    # What a script or a model wrote may hold what the stream's encoding cannot say, error paths included.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    sys.exit(main())
