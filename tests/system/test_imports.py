"""Commands that only read load neither the models' library nor a database's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .desk import Desk, lines, verdict

HEAVY = {"litellm", "openai", "psycopg", "psycopg_pool"}

SCRIPT = """
import json, sys
from causebook.adapters.cli.main import main
code = main(sys.argv[1:])
loaded = sorted({name.partition(".")[0] for name in sys.modules})
sys.stderr.write(json.dumps([code, loaded]))
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A ledger with a task that was halted."""
    folder: Path = tmp_path_factory.mktemp("desk")
    made = Desk.made(f"sqlite:///{folder / 'ledger.db'}", folder)
    protocol = made.protocol("panel", {"security": [lines(1, 9), verdict("blocker", "It leaks.")]})
    done = made.run(*made.judge("T-1", protocol))
    assert done.returncode == 10, done.stderr
    done = made.run("export", "T-1", "--bundle", "kept.zip")
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--version"], 0, "causebook "),
        (["--help"], 0, "Usage"),
        (["why", "T-1"], 0, "It leaks."),
        (["why", "T-1", "--json"], 0, "It leaks."),
        (["verify"], 20, "a first look"),
        (["log", "T-1"], 0, "TurnCharged"),
        (["replay", "T-1"], 0, ""),
        (["tasks"], 0, "T-1"),
        (["keys", "list"], 0, "engine"),
        (["prove", "0"], 0, "c2sp.org/tlog-proof@v1"),
        (["export", "T-1", "--bundle", "T-1.zip"], 0, "heads"),
        (["check", "kept.zip"], 20, "self-asserted"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_that_reads_loads_no_model_and_no_server_library(
    desk: Desk, arguments: list[str], code: int, words: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=desk.folder,
        env=desk.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    found, loaded = json.loads(done.stderr)
    assert found == code
    assert words in done.stdout
    assert HEAVY.isdisjoint(loaded)


def test_the_heavy_libraries_are_there_to_be_loaded() -> None:
    """Else the test above would show nothing."""
    import importlib.util

    assert all(importlib.util.find_spec(name) for name in HEAVY)


def test_to_import_the_package_loads_next_to_nothing(desk: Desk) -> None:
    script = "import sys, causebook; print(*sorted(n.partition('.')[0] for n in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert {"pydantic", "eventsourcing", "cryptography", *HEAVY}.isdisjoint(done.stdout.split())
