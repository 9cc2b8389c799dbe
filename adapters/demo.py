"""The demo: a real small git repository with a seeded defect, judged by four judges on recorded answers.

Nothing here is pretended but the models: the repository, the reads, the ledger, the signatures, the checks
are what any task gets. Each recorded answer stands in `DIR/answers/<judge>.jsonl`, so that with `--keep DIR`
the whole of it can be looked at, changed and run again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..domain.errors import CannotCreate, IOFailure, NoInput

TASK: Final = "T-104"
SPEC: Final = "Let people reset a forgotten password by a link that works once, for 30 minutes."

_APP_BEFORE: Final = '''"""Accounts of the shop."""

import hashlib
import secrets

USERS: dict[str, str] = {}


def hash_password(password: str, salt: str) -> str:
    return hashlib.scrypt(password.encode(), salt=salt.encode(), n=2**14, r=8, p=1).hex()


def register(email: str, password: str) -> None:
    salt = secrets.token_hex(16)
    USERS[email] = salt + ":" + hash_password(password, salt)


def login(email: str, password: str) -> bool:
    salt, _, known = USERS[email].partition(":")
    return secrets.compare_digest(known, hash_password(password, salt))
'''

# The seeded defect: the token is never forgotten and never expires, whatever the task asked for.
_APP_AFTER: Final = (
    _APP_BEFORE.replace("import secrets\n", "import secrets\nimport time\n", 1)
    + """

TOKENS: dict[str, tuple[str, float]] = {}


def request_reset(email: str) -> str:
    token = secrets.token_urlsafe(32)
    TOKENS[token] = (email, time.time())
    return f"https://shop.example/reset?token={token}"


def reset(token: str, password: str) -> None:
    email, _asked_at = TOKENS[token]
    register(email, password)
"""
)

_TESTS: Final = """from src.app import login, register


def test_login():
    register("ada@example.com", "correct horse")
    assert login("ada@example.com", "correct horse")
    assert not login("ada@example.com", "wrong")
"""

_README: Final = (
    "# Shop accounts\n\nPasswords are stored with scrypt, each under a salt of its own.\n"
)

_PROTOCOL: Final = """# Four judges; every one has to pass for the task to go on.
policy = "unanimous"
phase = "post_execute"

[[judge]]
id = "conventions"
model = "script:answers/conventions.jsonl"
criteria = ["Names, types and layout follow the code around them."]

[[judge]]
id = "testing"
model = "script:answers/testing.jsonl"
criteria = ["What changed is tested, its failures too."]

[[judge]]
id = "security"
model = "script:answers/security.jsonl"
criteria = ["A reset link works once, and for 30 minutes.", "No secret is stored or compared in the clear."]

[[judge]]
id = "architecture"
model = "script:answers/architecture.jsonl"
criteria = ["State lives in one place, and that place can be replaced."]
"""


def _say(content: str) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def _call(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"call_{place}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for place, (name, arguments) in enumerate(calls)
        ],
    }


def _verdict(severity: str, justification: str) -> dict[str, Any]:
    return _call(("submit_verdict", {"severity": severity, "justification": justification}))


_APP: Final = {"path": "src/app.py"}
_ANSWERS: Final[dict[str, Sequence[dict[str, Any]]]] = {
    "conventions": (
        _call(("list_files", {})),
        _call(("read_file", _APP), ("read_file", {"path": "README.md"})),
        _verdict(
            "pass",
            "The new functions read like the old ones: typed, small, named for what they do.",
        ),
    ),
    "testing": (
        _call(("summarize_directory", {})),
        _call(("read_file", {"path": "tests/test_app.py"})),
        _call(("read_file", _APP)),
        _verdict(
            "warn",
            "tests/test_app.py covers login alone. request_reset and reset have no test, nor has a token "
            "that is used twice or comes too late.",
        ),
    ),
    "security": (
        _call(("read_file", _APP)),
        _call(("git_show", {"ref": "HEAD^", "path": "src/app.py"})),
        _call(("read_file", {"path": "./src/app.py"})),
        _call(("read_file_lines", {"path": "src/app.py", "start": 24, "end": 35})),
        _call(("read_file", _APP)),
        _verdict(
            "blocker",
            "reset() in src/app.py never removes the token and never looks at _asked_at: a reset link works "
            "for ever and any number of times, where the task asks for once and 30 minutes.",
        ),
    ),
    "architecture": (
        _call(("read_file", _APP)),
        _say(
            "Overall the change is reasonable. TOKENS is module state, as USERS is. I would approve it."
        ),
        _say("As I said, I have no objections to this change and would let it through."),
    ),
}


@dataclass(frozen=True)
class Stage:
    """Where the demo plays: `folder` holds the repository, the protocol, the answers, ledger and keys."""

    folder: Path

    @property
    def repository(self) -> Path:
        """The git working tree that is judged."""
        return self.folder / "repository"

    @property
    def protocol(self) -> Path:
        """The panel's protocol."""
        return self.folder / "protocol.toml"

    @property
    def ledger(self) -> str:
        """The ledger's URL."""
        return f"sqlite:///{os.path.realpath(self.folder / 'ledger.db')}"

    @property
    def keys(self) -> Path:
        """The folder of its keys."""
        return self.folder / "keys"


def set_stage(folder: Path) -> Stage:
    """Make the repository, the protocol and the recorded answers in `folder`, which is made or is empty.

    Raises `CannotCreate` where something is there already, `NoInput` where git is not installed.
    """
    stage = Stage(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise CannotCreate(
                f"{folder}: expected an empty folder, found something in it",
                hint="the demo replaces nothing: name another with --keep DIR",
            )
        answers = folder / "answers"
        answers.mkdir()
        for judge, lines in _ANSWERS.items():
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (answers / f"{judge}.jsonl").write_text(text, encoding="utf-8")
        stage.protocol.write_text(_PROTOCOL, encoding="utf-8")
        _make_repository(stage.repository)
    except OSError as error:
        raise CannotCreate(
            f"{folder}: cannot make the demo here: {error.strerror}", hint="--keep DIR"
        ) from None
    return stage


def _make_repository(root: Path) -> None:
    for folder in ("src", "tests"):
        (root / folder).mkdir(parents=True)
    (root / "README.md").write_text(_README, encoding="utf-8")
    (root / "src" / "app.py").write_text(_APP_BEFORE, encoding="utf-8")
    (root / "tests" / "test_app.py").write_text(_TESTS, encoding="utf-8")
    _git(root, "init", "--quiet", "--initial-branch=main")
    _git(root, "add", "--all")
    _git(root, "commit", "--quiet", "--message", "Keep accounts", at="2026-11-02T09:00:00Z")
    (root / "src" / "app.py").write_text(_APP_AFTER, encoding="utf-8")
    _git(root, "add", "--all")
    _git(root, "commit", "--quiet", "--message", "Reset a password", at="2026-11-02T10:30:00Z")


def _git(root: Path, *arguments: str, at: str = "2026-11-02T09:00:00Z") -> None:
    git = shutil.which("git")
    if git is None:
        raise NoInput("git: not found, and the demo judges a real repository", hint="install git")
    who = {"NAME": "Ada Example", "EMAIL": "ada@example.com", "DATE": at}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_{key}": value for key, value in who.items()}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        [git, *arguments], cwd=root, env=environment, capture_output=True, check=False
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise IOFailure(f"git {arguments[0]}: {words[-1] if words else 'failed'}")


EXPECTED_EXIT: Final = 12
"""How the recorded panel ends: one judge gave no verdict, which halts the task as `validator_error`."""
EXPECTED: Final = {
    "conventions": ("pass", 3, 3),
    "testing": ("warn", 4, 4),
    "security": ("blocker", 3, 6),
    "architecture": ("error", 3, 3),
}
"""Each judge's verdict, its turns charged and all its turns, as recorded."""
