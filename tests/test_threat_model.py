"""docs/threat-model.md names a test for each thing that is caught: each of them exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
TEXT = (TESTS.parent / "docs" / "threat-model.md").read_text(encoding="utf-8")


def test_each_test_that_it_names_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", TEXT)
    missing = [f"{file}::{name}" for file, name in named if name not in _functions(TESTS / file)]
    assert len(named) > 50
    assert missing == []


def test_each_row_of_an_attack_names_a_test() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| ")]
    attacks = [row for row in rows if row.count(" | ") == 2 and "what catches it" not in row]
    assert len(attacks) > 20
    assert [row for row in attacks if "::test_" not in row] == []


def test_each_party_has_a_test() -> None:
    parts = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
    *parties, end = parts
    assert end.startswith("What nothing here catches")
    assert len(parties) >= 9
    assert [part.splitlines()[0] for part in parties if "::test_" not in part] == []


def _functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
