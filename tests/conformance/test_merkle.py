"""transparency-dev/merkle: every inclusion and consistency case, to accept and to reject, comes out right."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from causebook.domain.proof import ProofError
from causebook.projections.tree import verify_consistency, verify_inclusion

from .shared import shared


def _cases(kind: str) -> list[tuple[Path, dict[str, Any]]]:
    folder = shared("vectors", "transparency-dev-merkle", kind)
    return [(path, json.loads(path.read_text())) for path in sorted(folder.rglob("*.json"))]


def _bytes(text: str | None) -> bytes:
    return base64.b64decode(text or "")


def _path(case: dict[str, Any]) -> list[bytes]:
    return [_bytes(each) for each in case["proof"] or []]


def test_inclusion() -> None:
    cases = _cases("inclusion")
    wrong = []
    for path, case in cases:
        try:
            verify_inclusion(
                case["leafIdx"],
                case["treeSize"],
                _bytes(case["leafHash"]),
                _path(case),
                _bytes(case["root"]),
            )
            refused = False
        except ProofError:
            refused = True
        if refused is not case["wantErr"]:
            wrong.append(path)
    assert (len(cases), wrong) == (98, [])


def test_consistency() -> None:
    cases = _cases("consistency")
    wrong = []
    for path, case in cases:
        try:
            verify_consistency(
                case["size1"],
                case["size2"],
                _path(case),
                _bytes(case["root1"]),
                _bytes(case["root2"]),
            )
            refused = False
        except ProofError:
            refused = True
        if refused is not case["wantErr"]:
            wrong.append(path)
    assert (len(cases), wrong) == (98, [])
