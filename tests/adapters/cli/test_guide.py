"""What docs/guide.md says is so: its script plays, its exit codes and JSON fields are the ones there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.cli.commands import COMMANDS
from causebook.domain.errors import CausebookError
from tests.adapters.cli.conftest import BLOCKER, PASS, WARN, Desk, invoke

GUIDE = (Path(__file__).parents[3] / "docs" / "guide.md").read_text(encoding="utf-8")


def fields(command: str) -> set[str]:
    """The fields at the top of a command's document, as its row in the table names them."""
    row = re.search(rf"^\| `{re.escape(command)}` \| (.*) \|$", GUIDE, re.MULTILINE)
    assert row is not None
    outside = row[1].split(";")[0]
    for _ in range(3):  # lists of lists
        outside = re.sub(r"\[[^\[\]]*\]|\([^()]*\)", "", outside)
    return set(re.findall(r"`([a-z_]+)`", outside))


def test_the_script_plays(desk: Desk) -> None:
    match = re.search(r"<!-- script: [^>]*-->\n```json\n(.*?)```", GUIDE, re.DOTALL)
    assert match is not None
    Path("guide.jsonl").write_text(match[1])
    assert desk.judge("T-1", "guide").code == 11
    result = invoke("why", "T-1", "--json").json["validator_results"][0]
    assert (result["severity"], result["justification"]) == ("warn", "a.txt has no test.")
    assert [look["target"] for look in result["examined"]] == ["a.txt"]


@pytest.mark.parametrize(
    "command",
    [
        *("verify", "pins list", "replay TASK", "evidence TASK", "tasks", "keys list", "rebuild"),
        *("seal", "checkpoint"),
    ],
)
def test_each_field_of_a_document_is_named(desk: Desk, command: str) -> None:
    desk.judge("T-1", BLOCKER)
    document: dict[str, Any] = invoke(*command.replace("TASK", "T-1").split(), "--json").json
    assert set(document) == fields(command)


def test_each_field_of_the_others_is_named(desk: Desk) -> None:
    made = invoke("init", "--ledger", "sqlite:///new.db", "--keys", "new", "--json").json
    assert set(made) == fields("init")
    desk.judge("T-1", WARN)
    line = json.loads(invoke("log", "--json").lines[0])
    assert set(line) <= fields("log")
    for words in ("`resolve TASK` | the same", "`judge TASK` | the same"):
        assert words in GUIDE


def test_every_exit_code_of_ours_is_in_the_table() -> None:
    kinds: list[type[CausebookError]] = [CausebookError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    for code in {kind.exit_code for kind in kinds}:
        assert re.search(rf"^\| {code} \|", GUIDE, re.MULTILINE), code
    for code in (0, 20, 22, 23, 24, 25, 26, 27, 28):
        assert re.search(rf"^\| {code} \| (all|verify)\b", GUIDE, re.MULTILINE)
        assert f"{code}" in invoke("verify", "--help").out
    assert re.search(r"^\| 25 \| verify \| kept for ", GUIDE, re.MULTILINE)
    assert "25 is kept for" in " ".join(invoke("verify", "--help").out.split())


def test_a_blocked_task_gets_an_attempt_more_and_a_completed_one_none(desk: Desk) -> None:
    assert desk.judge("T-1", BLOCKER).code == 10
    assert "  attempt 2  causebook judge T-1 --protocol FILE" in invoke("why", "T-1").out
    assert desk.judge("T-1", PASS).code == 0
    refused = desk.judge("T-1", PASS)
    assert refused.code == 64
    assert "what is completed is not judged again" in refused.err
    assert "attempt 3" not in invoke("why", "T-1").out


def test_every_command_is_known_to_the_guide_or_the_readme() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"`{name}" in GUIDE + readme
