"""What a person has at hand: files to judge, protocols with scripted judges, a ledger, and the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.adapters.ledgers import Home

SECONDS_MAX = 120
"""Of a wait for a condition: far longer than it takes, so that a test which fails ends."""

Line = Mapping[str, Any]
"""One line of a scripted model."""


def call(*calls: tuple[str, Mapping[str, Any]]) -> Line:
    """An answer with tool calls."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"c{place}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for place, (name, arguments) in enumerate(calls)
        ],
    }


def verdict(severity: str, justification: str = "Seen.") -> Line:
    return call(("submit_verdict", {"severity": severity, "justification": justification}))


def lines(start: int, end: int) -> Line:
    """A read of some lines of the file that every workspace here has."""
    return call(("read_file_lines", {"path": "app.py", "start": start, "end": end}))


BUSY: Line = {"error": {"status": 429, "type": "rate_limit", "message": "…", "retry_after": 30}}
"""A provider that asks for the longest wait there is."""


@dataclass(frozen=True)
class Desk:
    """A ledger, and a folder for the rest."""

    home: Home
    folder: Path

    @classmethod
    def made(cls, url: str, folder: Path) -> Desk:
        """Found a ledger at `url`, and make a git working tree with one file of 400 lines."""
        (folder / "workspace").mkdir()
        text = "".join(f"line {number} of the app\n" for number in range(1, 401))
        (folder / "workspace" / "app.py").write_text(text)
        who = ("-c", "user.name=Ada Example", "-c", "user.email=ada@example.com")
        for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "The app"]):
            subprocess.run(["git", *arguments], cwd=folder / "workspace", check=True)
        return cls(Home.found(url, folder), folder)

    def protocol(self, name: str, judges: Mapping[str, Sequence[Line]], turns: int = 20) -> Path:
        """A protocol whose judges, which may use `turns` turns, answer from files."""
        text = 'policy = "unanimous"\nphase = "post_execute"\n'
        for judge, answers in judges.items():
            script = self.folder / f"{name}-{judge}.jsonl"
            script.write_text("".join(json.dumps(line) + "\n" for line in answers))
            text += (
                f'\n[[judge]]\nid = "{judge}"\nmodel = "script:{script}"\n'
                f'criteria = ["It does what was asked."]\nmax_tool_turns = {turns}\n'
            )
        path = self.folder / f"{name}.toml"
        path.write_text(text)
        return path

    def judge(self, task: str, protocol: Path, *more: str) -> list[str]:
        """The arguments that put a task before a panel."""
        workspace = str(self.folder / "workspace")
        return ["judge", task, "--protocol", str(protocol), "--workspace", workspace, *more]

    def environment(self) -> dict[str, str]:
        """Nothing of the person who runs the tests, but what finds programs."""
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "LC_ALL", "TMPDIR")}
        return kept | {
            "CAUSEBOOK_LEDGER": self.home.url,
            "CAUSEBOOK_KEYS": str(self.home.keys),
            "HOME": str(self.folder),
            "COLUMNS": "100",
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, *arguments: str, stdout: Any = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start the command; its streams are pipes. SIGINT ends it, whatever it does to the tests."""
        return subprocess.Popen(
            [sys.executable, "-m", "causebook", *arguments],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=SECONDS_MAX)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, "the condition never came"
        time.sleep(0.01)


class Gate:
    """A pipe whose reader waits until it is opened: `--spec @GATE` holds a process at its very start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    def wait_for(self, process: subprocess.Popen[str]) -> None:
        """Until the process stands at the gate."""

        def is_there() -> bool:
            assert process.poll() is None, process.communicate()
            try:
                self._descriptor = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # nobody reads yet
                return False
            return True

        until(is_there)

    def open(self, text: str = "Make it so.") -> None:
        """Let it go on, with this for a spec."""
        os.write(self._descriptor, text.encode())
        os.close(self._descriptor)
