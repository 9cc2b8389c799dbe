"""A desk: a folder with a repository, a protocol, scripted answers, a ledger, its keys, and the command."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.cli.main import main

KEPT = ("CAUSEBOOK_TEST_POSTGRES", "CAUSEBOOK_STATE")
"""Settings of the tests' own."""
PASS, WARN, BLOCKER, PROSE, FAULT = "pass", "warn", "blocker", "prose", "fault"


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout, read as one JSON document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """Stdout by lines, ended by LF alone."""
        return self.out.split("\n")[:-1]


def say(content: str | None, *calls: tuple[str, str]) -> dict[str, Any]:
    """One answer of a scripted model: prose and (tool, argument text) calls."""
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": text}}
            for n, (name, text) in enumerate(calls)
        ],
    }


def verdict(severity: str, justification: str = "Seen.") -> dict[str, Any]:
    return say(
        None,
        ("submit_verdict", json.dumps({"severity": severity, "justification": justification})),
    )


def read(path: str) -> dict[str, Any]:
    return say(None, ("read_file", json.dumps({"path": path})))


ANSWERS: dict[str, Sequence[dict[str, Any]]] = {
    PASS: [verdict("pass", "Fine as it is.")],
    WARN: [read("a.txt"), verdict("warn", "Look at the tests.")],
    BLOCKER: [read("a.txt"), read("a.txt"), verdict("blocker", "It leaks.")],
    PROSE: [say("I would say yes."), say("As I said.")],
    FAULT: [{"error": {"status": 401, "type": "auth", "message": "no such key"}}],
}


def invoke(*arguments: str, encoding: str = "utf-8") -> Done:
    """Run one command in this process, its streams piped."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding, write_through=True) for _ in range(2)]
    kept = sys.stdout, sys.stderr, sys.stdin
    sys.stdout, sys.stderr = streams
    sys.stdin = io.StringIO()
    try:
        code = main(arguments)
    finally:
        sys.stdout, sys.stderr, sys.stdin = kept
    out, err = (stream.buffer.getvalue().decode(encoding) for stream in streams)  # type: ignore[attr-defined]
    return Done(code, out, err)


def git(root: Path, *arguments: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    environment |= {
        f"GIT_{r}_{k}": "x@example.com" for r in ("AUTHOR", "COMMITTER") for k in ("NAME", "EMAIL")
    }
    subprocess.run(["git", *arguments], cwd=root, env=environment, check=True, capture_output=True)


@dataclass(frozen=True)
class Desk:
    """The folder, which is the working directory; `ledger.db`, `keys`, `work`, `protocol.toml` lie in it."""

    folder: Path

    def protocol(
        self, *answers: str, policy: str = "unanimous", phase: str = "post_execute"
    ) -> str:
        """Write a protocol with one judge for each of `answers` (a key of `ANSWERS`): j1, j2 and so on."""
        text = f'policy = "{policy}"\nphase = "{phase}"\n'
        for number, name in enumerate(answers, 1):
            text += f'[[judge]]\nid = "j{number}"\nmodel = "script:{name}.jsonl"\n'
            text += 'criteria = ["It does what was asked."]\n'
        (self.folder / "protocol.toml").write_text(text)
        return "protocol.toml"

    def script(self, name: str, answers: Sequence[dict[str, Any]]) -> str:
        """Write a script of answers."""
        (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(a) + "\n" for a in answers))
        return name

    def judge(self, task: str, *answers: str, options: Sequence[str] = (), **protocol: str) -> Done:
        """Put `task` before a panel that answers as `answers` say."""
        name = self.protocol(*answers, **protocol)
        return invoke("judge", task, "--protocol", name, "--workspace", "work", *options)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'ledger.db'}"

    def state(self) -> dict[str, str]:
        """Every file, and the digest of its bytes: what a command that changes nothing leaves as it was."""
        return {
            str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }


@pytest.fixture(scope="session")
def founded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A desk nobody sat at, to be copied."""
    folder = tmp_path_factory.mktemp("desk")
    work = folder / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\n")
    git(work, "init", "--quiet", "--initial-branch=main")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message", "first")
    (work / "a.txt").write_text("one\ntwo\nthree\n")
    git(work, "commit", "--quiet", "--all", "--message", "second")
    for name, answers in ANSWERS.items():
        Desk(folder).script(name, answers)
    url = f"sqlite:///{folder / 'ledger.db'}"
    arguments = ("init", "--ledger", url, "--keys", str(folder / "keys"), "--origin", "a.example/t")
    with pytest.MonkeyPatch.context() as patch:
        # The desks made of it are somebody else's, who has not seen the ledger yet.
        patch.setenv("CAUSEBOOK_STATE", str(tmp_path_factory.mktemp("founder")))
        done = invoke(*arguments)
    assert done.code == 0, done.err
    return folder


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests counts."""
    for name in list(os.environ):
        if name.startswith("CAUSEBOOK_") and name not in KEPT:
            monkeypatch.delenv(name)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def desk(founded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk of the test's own, with its ledger and keys in the environment."""
    folder = tmp_path / "desk"
    shutil.copytree(founded, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CAUSEBOOK_LEDGER", f"sqlite:///{folder / 'ledger.db'}")
    monkeypatch.setenv("CAUSEBOOK_KEYS", str(folder / "keys"))
    return Desk(folder)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Callable[[Path], Path]]:
    """Mount a folder a second time, read-only; as root, file modes would stop nothing."""
    mounted: list[Path] = []

    def mount(folder: Path) -> Path:
        point = tmp_path / f"read-only-{len(mounted)}"
        point.mkdir()
        done = subprocess.run(
            ["mount", "--bind", folder, point], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
        mounted.append(point)
        subprocess.run(["mount", "-o", "remount,bind,ro", point], check=True)
        return point

    if shutil.which("mount") is None:
        pytest.skip("there is no mount command here")
    yield mount
    for point in mounted:
        subprocess.run(["umount", point], check=True)
