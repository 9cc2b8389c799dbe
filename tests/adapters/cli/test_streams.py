"""Streams that are closed or full, and signals: a panel is heard to its end or closed, never left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.cli.conftest import BLOCKER, PASS, Desk, invoke, say, verdict

COMMAND = f"{sys.executable} -W error -m causebook"
JUDGE = ("judge", "T-1", "--protocol", "protocol.toml", "--workspace", "work")
READING = (
    ("why", "T-1"),
    ("log",),
    ("tasks",),
    ("verify", "--no-pin"),
    ("replay", "T-1"),
    ("evidence", "T-1"),
)


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """What a person types, in a shell: streams can be closed there."""
    return subprocess.run(
        ["bash", "-c", line],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def typed(arguments: tuple[str, ...], redirections: str) -> subprocess.CompletedProcess[str]:
    return shell(f"{COMMAND} {' '.join(arguments)} {redirections}")


@pytest.mark.parametrize(
    "arguments", [*READING, JUDGE, ("init", "--ledger", "sqlite:///n.db")], ids=" ".join
)
def test_a_stdout_that_is_closed_is_said_before_anything_is_done(
    desk: Desk, arguments: tuple[str, ...]
) -> None:
    desk.protocol(PASS)
    before = desk.state()
    done = typed(arguments, ">&-")
    assert done.returncode == 74
    assert done.stderr.splitlines()[0] == (
        "error: standard output: expected a stream, found it closed"
    )
    assert desk.state() == before


def test_a_stderr_that_is_closed_or_full_changes_no_exit_code(desk: Desk) -> None:
    desk.judge("T-1", PASS)
    for redirection in ("2>&-", "2>/dev/full"):
        for arguments in READING:
            done = typed(arguments, redirection)
            assert done.returncode == (20 if arguments[0] == "verify" else 0)
            assert done.stdout
        assert typed(("why", "T-9"), redirection).returncode == 66
        assert typed(("nonsense",), redirection).returncode == 64
        desk.protocol(BLOCKER)
        judge = ("judge", f"E{len(redirection)}", *JUDGE[2:])
        assert typed((*judge, "--json"), redirection).returncode == 10


def test_a_file_opened_takes_no_closed_streams_place(desk: Desk) -> None:
    """Where stderr is closed, the ledger could be opened as number 2, and be written an error into."""
    desk.protocol(BLOCKER)
    assert typed(JUDGE, "2>&- <&-").returncode == 10
    assert invoke("verify").code == 20


@pytest.mark.parametrize("arguments", [*READING, ("keys", "list"), ("--help",)], ids=" ".join)
def test_a_disk_that_is_full_is_said_once(desk: Desk, arguments: tuple[str, ...]) -> None:
    desk.judge("T-1", PASS)
    done = typed(arguments, ">/dev/full")
    assert done.returncode == 74
    assert len(done.stderr.splitlines()) == 2, done.stderr
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_panel_is_heard_to_its_end_though_its_progress_cannot_be_written(
    desk: Desk, options: tuple[str, ...]
) -> None:
    desk.script("long", [*[say(None, ("rm", "{}"))] * 10, verdict("warn")])
    desk.protocol("long")
    done = typed((*JUDGE, *options), ">/dev/full")
    assert done.returncode == 74
    *_, error, hint = done.stderr.splitlines()
    assert error == (
        "error: standard output: No space left on device; the panel was heard to its end and decided: "
        "escalate"
    )
    assert hint == "hint: causebook why T-1"
    assert invoke("why", "T-1", "--json").json["halt_type"] == "escalate"


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "causebook", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_judge_told_to_stop_closes_its_panel(desk: Desk, number: signal.Signals) -> None:
    wait = {"error": {"status": 429, "type": "rate_limit", "message": "", "retry_after": 25}}
    desk.script("waits", [wait])
    desk.protocol("waits")
    with start(*JUDGE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("T-1, attempt 1")
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.splitlines()[0].startswith("error: task T-1: interrupted")
    payload = invoke("why", "T-1", "--json").json
    assert payload["halt_type"] == "validator_error"
    assert "gone" in payload["validator_results"][0]["justification"]
    assert invoke("verify").code == 20


def test_a_judge_told_to_stop_more_than_once_closes_its_panel_all_the_same(desk: Desk) -> None:
    wait = {"error": {"status": 429, "type": "rate_limit", "message": "", "retry_after": 25}}
    desk.script("waits", [wait])
    desk.protocol("waits")
    with start(*JUDGE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("T-1, attempt 1")
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert err.splitlines()[0].startswith("error: task T-1: interrupted")
    assert invoke("why", "T-1", "--json").json["halt_type"] == "validator_error"


def test_a_judge_under_nohup_goes_on_when_its_terminal_is_gone(desk: Desk) -> None:
    wait = {"error": {"status": 429, "type": "rate_limit", "message": "", "retry_after": 1}}
    desk.script("waits", [wait, verdict("pass")])
    desk.protocol("waits")
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    with start(*JUDGE, preexec_fn=ignore) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("T-1, attempt 1")
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_ctrl_c_while_it_is_loading_is_quiet(desk: Desk, tmp_path: Path) -> None:
    """A module that the command loads raises what Ctrl-C would raise there."""
    folder = tmp_path / "shadow"
    folder.mkdir()
    (folder / "typer.py").write_text("raise KeyboardInterrupt\n")
    done = subprocess.run(
        [sys.executable, "-m", "causebook", "tasks"],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_installed_command_is_the_one_that_loads_quietly() -> None:
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert 'causebook = "causebook.__main__:run"' in project
