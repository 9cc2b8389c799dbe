"""What a model, a path or an engine wrote never reaches a terminal raw, on any page, nor a format string."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.ledger import Ledger
from causebook.adapters.seat import Judge
from causebook.adapters.task_log import resolve
from causebook.domain.canonical import encode
from tests.adapters.cli.conftest import Desk, invoke, say

EVIL = (
    "\x1b[2J\x1b]0;owned\x07 \x9b31m \u2028 \x85 \u202e\u2066 \x00\x08\x7f \ufeff\u200b "
    "[red]x[/red] [link=http://e]y[/link] %s %(a)s {0} {x!r} $HOME `id` :bomb: '; DROP TABLE t; --"
)


def submit(severity: str, justification: str) -> dict[str, Any]:
    text = encode({"severity": severity, "justification": justification}).decode()
    return say(EVIL, ("submit_verdict", text))


@pytest.fixture
def evil(desk: Desk) -> Desk:
    """A task whose judges, files, engine and person all write what they should not."""
    Path("work", "e\x1b[31mvil\u202e.txt").write_text(EVIL.replace("\x00", ""))
    reads = [
        say(
            EVIL,
            ("read_file", encode({"path": "e\x1b[31mvil\u202e.txt"}).decode()),
            ("read_file", encode({"path": EVIL}).decode()),
            ("read_file", encode({"path": "../../etc/passwd"}).decode()),
            (EVIL[:60], "{}"),
            ("list_files", '{"directory": "\\ud800"}'),
            ("list_files", '{"a": 1, "a": 2}'),
            ("submit_verdict", encode({"severity": EVIL, "justification": EVIL}).decode()),
        ),
        say(EVIL + "\ud800"),
        submit("warn", EVIL),
    ]
    desk.script("evil", reads)
    desk.script("plain", [submit("pass", "x" * 5000 + EVIL)])
    desk.script("fails", [{"error": {"status": 401, "type": "auth", "message": EVIL}}])
    done = desk.judge("T-1", "evil", "plain")
    assert done.code == 11, done.err
    require_harmless(done.out + done.err)
    # The command takes no control character; the library stores what an engine's person says.
    with Ledger.open(desk.url, keys=desk.folder / "keys") as ledger:
        resolve(ledger.task("T-1").log, "halt", name="Ada" + EVIL, meaning=EVIL)
    done = desk.judge("T-2", "fails", "evil", "evil")
    assert done.code == 12
    require_harmless(done.out)
    with Ledger.open(desk.url, keys=desk.folder / "keys") as ledger:
        attempt = ledger.task("T-3").start_attempt()
        attempt.dispatch_coder(EVIL)
        attempt.halt("internal_error", EVIL)
        open_panel = ledger.task("T-4").start_attempt()
        panel = open_panel.convene("post_execute", "any", [Judge("j", EVIL, (EVIL,), ())])
        panel.open("j")
        panel.interrupt()
    return desk


def require_harmless(text: str) -> None:
    for character in text:
        category = unicodedata.category(character)
        assert character == "\n" or category not in ("Cc", "Cf", "Cs", "Zl", "Zp"), repr(text)


PAGES = [
    *(("why", f"T-{n}") for n in (1, 2, 3, 4)),
    *(("why", f"T-{n}", "--json") for n in (1, 2, 3, 4)),
    ("why", "T-1", "--judge", "j2"),
    *(("log", *which, *form) for which in ((), ("T-1",)) for form in ((), ("--json",))),
    ("tasks",),
    ("tasks", "--json"),
    ("verify",),
    ("verify", "--json"),
    ("replay", "T-1"),
    ("replay", "T-1", "--json"),
    ("rebuild", "--json"),
    ("keys", "list"),
]


def test_no_page_hands_a_control_character_on(evil: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in ("80", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        for encoding in ("utf-8", "ascii", "latin-1"):
            for page in PAGES:
                done = invoke(*page, encoding=encoding)
                assert done.code in (0, 20), (page, done.err)
                require_harmless(done.out)
                require_harmless(done.err)
    page = invoke("why", "T-1", "--judge", "j1").out
    assert "\\x1b[2J" in page
    assert "[red]x[/red]" in " ".join(page.split())
    assert "%(a)s {0} {x!r}" in " ".join(page.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("why", EVIL),
        ("log", EVIL),
        ("log", f"task/{EVIL}"),
        ("why", "T-1", "--judge", EVIL),
        ("why", "T-1", f"--{EVIL}"),
        (EVIL,),
        ("tasks", "--ledger", EVIL.replace("\x00", "")),
        ("tasks", "--ledger", f"sqlite:///{EVIL}"),
        ("tasks", "--ledger", f"postgresql://{EVIL}"),
        ("init", "--origin", EVIL),
        ("judge", "T-9", "--protocol", EVIL, "--workspace", "work"),
        ("judge", "T-9", "--protocol", "protocol.toml", "--workspace", EVIL),
        ("judge", "T-9", "--protocol", "protocol.toml", "--workspace", "work", "--base", EVIL),
        ("judge", "T-9", "--protocol", "protocol.toml", "--workspace", "work", "--model", EVIL),
        ("judge", "T-9", "--protocol", "protocol.toml", "--workspace", "work", "--phase", EVIL),
        (
            "judge",
            "T-9",
            "--protocol",
            "protocol.toml",
            "--workspace",
            "work",
            "--spec",
            f"@{EVIL}",
        ),
        ("judge", "T-9", "--protocol", "evil.toml", "--workspace", "work"),
        ("verify", "--lock-timeout", EVIL),
        ("rebuild", "--lock-timeout", EVIL),
    ],
    ids=range(19),
)
def test_no_error_hands_a_control_character_on(desk: Desk, arguments: tuple[str, ...]) -> None:
    desk.judge("T-1", "pass")
    quoted = EVIL.replace("\\", "\\\\").replace('"', '\\"').encode("unicode_escape").decode()
    escaped = quoted.replace("\\x", "\\u00")
    Path("evil.toml").write_text(f'policy = "{escaped}"\n')
    done = invoke(*arguments)
    assert done.code in (64, 65, 66, 69), done
    assert len(done.err.split("\n")) == 3, done.err
    require_harmless(done.err)
    assert done.out == ""
