"""What README.md shows is what happens: its page, its protocol, its library example, its table of commands.

`python -m tests.test_readme` writes the page anew.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from causebook import Ledger, Read, ReadResult, Request, Response, ToolCall
from causebook.adapters.cli.commands import COMMANDS
from causebook.adapters.cli.commands_log import COMMANDS as LOG_COMMANDS
from causebook.adapters.protocol import load_protocol

from .test_format import with_part

README = Path(__file__).parents[1] / "README.md"


def part(name: str) -> str:
    """The fenced block that follows the mark `name`."""
    text = README.read_text(encoding="utf-8")
    match = re.search(rf"<!-- {name}: [^>]*-->\n```[a-z]*\n(.*?)```", text, re.DOTALL)
    assert match is not None
    return match[1]


def pages() -> dict[str, str]:
    """What the demo prints: its second act, and what `causebook why` says.

    Times and digests, new each time, are masked: like as like.
    """
    done = subprocess.run(
        [sys.executable, "-m", "causebook", "demo"],
        capture_output=True,
        encoding="utf-8",
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "80", "LC_ALL": "C.UTF-8"},
        check=True,
    )
    why = "$ causebook why " + _between(done.stdout, "$ causebook why ", "\n\n$ causebook ")
    act = "# turned.db: " + _between(done.stdout, "# turned.db: ", "\n\nThe first two ")
    numbers: dict[str, int] = {}

    def masked(match: re.Match[str]) -> str:
        number = numbers.setdefault(match[0], len(numbers) + 1)
        return hashlib.sha256(f"record {number}".encode()).hexdigest()[:8] + "…"

    why = re.sub(r"[0-9a-f]{8}…", masked, why.rstrip())
    return {"act": act, "why": re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "2026-11-02 10:41", why)}


def _between(text: str, start: str, end: str) -> str:
    return text.split(start, 1)[1].split(end, 1)[0]


def shown(text: str) -> str:
    """README.md with the pages that the demo prints now."""
    for name, page in pages().items():
        text = with_part(text, name, f"```\n{page}\n```")
    return text


def test_the_pages_are_what_the_demo_prints() -> None:
    text = README.read_text(encoding="utf-8")
    assert shown(text) == text


def test_the_tampering_stands_on_the_first_screen() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert next(n for n, line in enumerate(lines) if line.startswith("truncated: ")) < 40


def test_the_protocol_is_one(tmp_path: Path) -> None:
    file = tmp_path / "protocol.toml"
    file.write_text(part("protocol"), encoding="utf-8")
    assert [judge.id for judge in load_protocol(str(file)).judges] == ["security"]


def test_the_library_example_runs_in_under_15_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Ledger.found("sqlite:///ledger.db", keys="keys").close()
    answers = iter(
        [
            ToolCall("1", "read_file", '{"path": "login.py"}'),
            ToolCall("2", "submit_verdict", '{"severity": "pass", "justification": "Sound."}'),
        ]
    )

    def my_model(request: Request) -> Response:
        return Response(None, (next(answers),), model=request.model)

    def my_tool(read: Read) -> ReadResult:
        return ReadResult(f"the text of {read.target}", lines=(1, 1))

    example = part("library")
    assert len(example.splitlines()) < 15
    names: dict[str, Any] = {"my_model": my_model, "my_tool": my_tool}
    exec(compile(example, "README.md", "exec"), names)
    assert capsys.readouterr().out == "proceed\n"


def test_every_command_is_in_the_table() -> None:
    text = README.read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([a-z]+)", text, re.MULTILINE))
    assert {*COMMANDS, *LOG_COMMANDS} <= rows | {"checkpoint"}
    assert "`seal`, `checkpoint`" in text
    assert {"keys", "pins", "witness"} <= rows


def test_the_test_command_is_the_one_ci_calls() -> None:
    run = (README.parent / ".ci" / "run").read_text(encoding="utf-8")
    assert "make test" in run
    assert "`make test`" in README.read_text(encoding="utf-8")


if __name__ == "__main__":
    README.write_text(shown(README.read_text(encoding="utf-8")), encoding="utf-8")
