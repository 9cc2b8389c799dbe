"""The command itself: exit codes, what it loads, what it does to a closed pipe, what it asks and of whom."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from causebook import __version__
from causebook.adapters.cli import commands, main, tasks
from causebook.domain import errors
from tests.adapters.cli.conftest import PASS, WARN, Desk, invoke


def test_the_version() -> None:
    assert invoke("--version").out == f"causebook {__version__}\n"


def test_help_is_there_for_every_command_and_option() -> None:
    page = invoke()
    assert page.code == 0
    assert page.out == invoke("--help").out
    for name in [*commands.COMMANDS, "keys"]:
        assert f"\n  {name} " in page.out
        assert invoke(name, "--help").code == 0
    assert "..." not in page.out.replace("[ARGS]...", "")
    assert "list" in invoke("keys").out


@pytest.mark.parametrize("name", [*commands.COMMANDS, "keys list"])
def test_every_option_has_help_and_help_is_ascii(name: str) -> None:
    page = invoke(*name.split(), "--help").out
    assert page.isascii()
    options = page[page.index("Options:") :].splitlines()[1:]
    for line in options:
        if line.strip().startswith("--"):
            following = options[options.index(line) + 1 : options.index(line) + 2]
            told = line.strip().split("  ", 1)[1:] or [part.strip() for part in following]
            assert told, line
            assert told[0].strip(), line


@pytest.mark.parametrize("name", ["", *commands.COMMANDS, "keys", "keys list"])
def test_help_is_written_for_a_person(name: str) -> None:
    page = invoke(*name.split(), "-h")
    assert (page.code, page.out) == (0, invoke(*name.split(), "--help").out)
    for machine in ("{", "[[", "<", ">=", "x>", "float", "[env", "[required]", "30.0"):
        assert machine not in page.out
    assert all(len(line) <= 80 for line in page.lines)
    assert page.out.split()[-1] == "docs/guide.md."
    usage = page.lines[0]
    if name == "why":
        assert usage == "Usage: causebook why TASK [OPTIONS]"
    if name == "log":
        assert usage == "Usage: causebook log [TASK|STREAM] [OPTIONS]"


def test_help_names_the_environment_and_the_default() -> None:
    page = " ".join(invoke("judge", "--help").out.split())
    assert "By default CAUSEBOOK_LOCK_TIMEOUT, else 30." in page
    assert "By default CAUSEBOOK_LEDGER, else sqlite:///.causebook/ledger.db." in page
    assert page.count("Required.") == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("why", "T-1", "--attempt", "zero"),
            "--attempt: expected a whole number from 1, found 'zero'",
        ),
        (("why", "T-1", "--attempt", "0"), "--attempt: expected a whole number from 1, found '0'"),
        (
            ("rebuild", "--lock-timeout", "-1"),
            "--lock-timeout: expected 0 to 3600 seconds, found '-1'",
        ),
        (
            ("rebuild", "--lock-timeout", "inf"),
            "--lock-timeout: expected 0 to 3600 seconds, found 'inf'",
        ),
        (("tasks", "--ledger", ""), "the ledger: expected the URL of a store, found nothing"),
        (("tasks", "--ledger", "a.db"), "the ledger: expected the URL of a store, found 'a.db'"),
    ],
)
def test_a_value_that_does_not_fit_is_told_as_expected_and_found(
    desk: Desk, arguments: tuple[str, ...], error: str
) -> None:
    done = invoke(*arguments)
    assert done.code == 64
    assert done.err.splitlines()[0] == f"error: {error}"


def test_an_error_of_the_library_carries_its_hint_into_a_traceback() -> None:
    error = errors.Misuse("what happened", hint="what to try")
    assert error.__notes__ == ["hint: what to try"]
    assert str(error) == "what happened"
    assert not hasattr(errors.Misuse("what happened"), "__notes__")


def test_no_command_imports_what_imports_it() -> None:
    """The modules of the command line hang together without a circle, late imports counted too."""
    folder = Path(main.__file__).parent
    names = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    imports = {
        name: names & set(re.findall(r"from \.(\w+) import", (folder / f"{name}.py").read_text()))
        for name in names
    }
    for name, wanted in imports.items():
        if " defaults" in (folder / f"{name}.py").read_text():
            wanted.add("defaults")
    while imports:
        free = {name for name, wanted in imports.items() if not wanted & imports.keys()}
        assert free, imports
        imports = {name: wanted for name, wanted in imports.items() if name not in free}


def test_an_unexpected_exception_is_internal(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> int:
        raise ZeroDivisionError("by\x1b[31m zero")

    monkeypatch.setattr(tasks, "tasks", broken)
    done = invoke("tasks")
    assert done.code == 70
    assert done.err.splitlines() == [
        "error: internal: ZeroDivisionError: by\\x1b[31m zero",
        "hint: this is a fault of causebook; CAUSEBOOK_DEBUG=1 shows where it happened",
    ]
    monkeypatch.setenv("CAUSEBOOK_DEBUG", "1")
    assert "Traceback" in invoke("tasks").err


@pytest.mark.parametrize(
    ("raised", "code"),
    [(KeyboardInterrupt(), 130), (OSError(28, "No space left on device"), 74), (EOFError(), 130)],
)
def test_other_ends(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int
) -> None:
    def ends(*_: object, **__: object) -> int:
        raise raised

    monkeypatch.setattr(tasks, "tasks", ends)
    done = invoke("tasks")
    assert done.code == code
    assert done.err.lstrip("\n").startswith("error: ")


def test_every_error_of_ours_ends_with_its_own_code(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, Exception)]
    for kind in kinds:

        def raises(*_: object, kind: Any = kind, **__: object) -> int:
            raise kind("what\nhappened")

        monkeypatch.setattr(tasks, "tasks", raises)
        done = invoke("tasks")
        assert done.code == kind.exit_code
        assert done.err.startswith("error: what\\nhappened\n")


# ── what is loaded ───────────────────────────────────────────────────────────────────────────────────

LOADED = """
import sys
from causebook.adapters.cli.main import main
code = main(sys.argv[1:])
heavy = {"litellm", "psycopg", "eventsourcing", "httpx", "rich.markup", "rich.console", "pytest"}
print(code, sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("why", "T-1"),
        ("log",),
        ("tasks",),
        ("verify",),
        ("replay", "T-1"),
        ("keys", "list"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_reads_loads_no_writer_no_model_and_no_server(
    desk: Desk, arguments: tuple[str, ...]
) -> None:
    desk.judge("T-1", PASS)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOADED, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == f"{20 if arguments == ('verify',) else 0} []\n"


def test_the_version_is_told_without_the_domain() -> None:
    script = (
        "import sys; from causebook.adapters.cli.main import main; main(['--version']);"
        "print(sorted({'causebook.domain.events', 'cryptography'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[1:] == ["[]"]


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "causebook", *arguments],
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        **options,
    )


def test_a_pipe_closed_early_is_quiet(desk: Desk) -> None:
    desk.judge("T-1", PASS)
    for arguments in (("log", "--json"), ("why", "T-1"), ("--help",)):
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = run(*arguments, stdout=write_end, stderr=subprocess.PIPE)
        os.close(write_end)
        assert done.stderr == ""
        assert done.returncode in (0, 74)


def test_the_locale_c_and_an_ascii_stdout(desk: Desk) -> None:
    desk.judge("T-1", PASS, WARN)
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = run("why", "T-1", env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert "-> escalate" in done.stdout


def on_a_terminal(
    *arguments: str, answers: bytes = b"", columns: int = 100, **environment: str
) -> tuple[int, str]:
    """Run a command on a terminal of its own; its exit code and all that was shown."""
    pid, master = pty.fork()
    if pid == 0:
        os.environ.update(environment, COLUMNS=str(columns), TERM="xterm-256color")
        os.execv(sys.executable, [sys.executable, "-m", "causebook", *arguments])
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([master], [], [], 1)
        if not ready:
            continue
        try:
            chunk = os.read(master, 65_536)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
        if answers and (b"assphrase" in chunk or b"again" in chunk):
            line, _, answers = answers.partition(b"\n")
            os.write(master, line + b"\n")
    _, status = os.waitpid(pid, 0)
    os.close(master)
    return os.waitstatus_to_exitcode(status), shown.decode().replace("\r\n", "\n")


def test_colour_on_a_terminal_and_the_same_text_without(desk: Desk) -> None:
    desk.judge("T-1", WARN)
    code, coloured = on_a_terminal("why", "T-1")
    assert code == 0
    assert "\x1b[33mT-1 halted: escalate\x1b[0m" in coloured
    code, plain = on_a_terminal("why", "T-1", NO_COLOR="1")
    assert "\x1b" not in plain
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    piped = run("why", "T-1", capture_output=True, env={**os.environ, "COLUMNS": "100"})
    assert piped.stdout == plain


def test_a_rebuild_shows_a_bar_on_a_terminal(desk: Desk) -> None:
    desk.judge("T-1", PASS)
    code, shown = on_a_terminal("rebuild")
    assert code == 0
    assert "rebuilding" in shown
    assert "rebuilt, equal to what was there" in shown


def test_a_passphrase_is_asked_for_on_a_terminal_and_not_shown(desk: Desk) -> None:
    at = ("--ledger", "sqlite:///e.db", "--keys", "e")
    code, shown = on_a_terminal("init", "--encrypt", *at, answers=b"sesame\nsesame\n")
    assert code == 0, shown
    assert "Passphrase for the new keys:" in shown
    assert "sesame" not in shown
    assert b"ENCRYPTED" in Path("e/engine.pem").read_bytes()

    name = desk.protocol(PASS)
    judge = ("judge", "T-1", "--protocol", name, "--workspace", "work", *at)
    code, shown = on_a_terminal(*judge, answers=b"sesame\n")
    assert code == 0, shown
    assert "Passphrase of e/engine.pem:" in shown
    code, shown = on_a_terminal(*judge[:1], "T-2", *judge[2:], answers=b"wrong\n")
    assert code == 77
    assert "does not open this key" in shown


def test_two_passphrases_that_differ_make_nothing(desk: Desk) -> None:
    at = ("--ledger", "sqlite:///e.db", "--keys", "e")
    code, shown = on_a_terminal("init", "--encrypt", *at, answers=b"one\ntwo\n")
    assert code == 64
    assert "differ" in shown
    assert not Path("e").exists()
    assert not Path("e.db").exists()


def test_main_answers_a_code_and_run_ends_with_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["causebook", "why", "T-9"])
    with pytest.raises(SystemExit) as ended:
        main.run()
    assert ended.value.code == 66
    assert capsys.readouterr().err.startswith("error: task T-9")
