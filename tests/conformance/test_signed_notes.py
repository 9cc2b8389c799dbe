"""Signed notes that others wrote: those of Go's sumdb/note, C2SP's example, and one with a wrong key id."""

from __future__ import annotations

import json
from typing import Any

from causebook.adapters.signatures import verify
from causebook.domain.checkpoint import cosignature_by
from causebook.domain.note import COSIGNATURE, NoteError, NoteKey, is_signed_by, parse_note

from .shared import shared


def _holds(case: dict[str, Any]) -> bool:
    """Whether the note is signed by one of its known keys, and none of them is belied."""
    try:
        note = parse_note(case["note"].encode())
        keys = [NoteKey.parse(vkey) for vkey in case["vkeys"]]
        found = [
            cosignature_by(note, key, verify) is not None
            if key.kind == COSIGNATURE
            else is_signed_by(note, key, verify)
            for key in keys
        ]
    except NoteError:
        return False
    return any(found)


def test_every_note_is_believed_or_not_as_its_source_says() -> None:
    cases = json.loads(shared("vectors", "signed-note", "notes.json").read_text())
    answers = {case["name"]: _holds(case) for case in cases}
    assert answers == {case["name"]: case["valid"] for case in cases}
    assert len(answers) == 8
