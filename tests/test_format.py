"""docs/format.md says what the code writes: its example and its table are made again and compared.

`python -m tests.test_format` writes them anew.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from causebook.domain.events import EVENTS, STREAMS, TurnCharged
from causebook.domain.keyring import signer_of
from causebook.domain.record import parse, write, written_time

DOCUMENT = Path(__file__).parents[1] / "docs" / "format.md"


def example() -> str:
    """One real record: signed by the key whose 32 secret bytes are 0, 1, 2 to 31."""
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    spki = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    event = TurnCharged(turn=3, reasons=("fresh_read",), turns_used=3, max_tool_turns=20)
    raw, digest = write(
        event.kind(),
        event.fields(),
        at=written_time(datetime(2026, 11, 30, 15, 36, 0, 123456, tzinfo=UTC)),
        ledger="audit.example.com/team",
        previous=hashlib.sha256(b"the record before it").hexdigest(),
        stream="evaluation/T-104/1/post_execute/security",
        version=9,
        keyid=hashlib.sha256(spki).hexdigest(),
        sign=key.sign,
    )
    return (
        "Signed by the key whose 32 secret bytes are 0, 1, 2 to 31; its SubjectPublicKeyInfo is\n"
        f"`{base64.b64encode(spki).decode()}`.\n\n"
        f"```\n{raw.decode()}```\n\n"
        f"Line 1 has {len(parse(raw).line)} bytes without its LF, the record {len(raw)}; its digest is\n"
        f"`{digest}`."
    )


def table() -> str:
    """Which stream holds which type, and who signs it."""
    rows = ["| stream | type | signed by |", "|---|---|---|"]
    rows += [
        f"| `{kind}` | `{name}` | {signer_of(name)} |"
        for kind, types in STREAMS.items()
        for name in EVENTS
        if name in types
    ]
    return "\n".join(rows)


def with_part(document: str, name: str, content: str) -> str:
    """`document` with what stands between the two marks of `name` replaced."""
    pattern = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- /{name} -->)", re.DOTALL)
    assert len(pattern.findall(document)) == 1
    return pattern.sub(lambda match: f"{match[1]}{content}\n{match[2]}", document)


def test_the_documents_record_is_what_the_code_writes() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert with_part(document, "example", example()) == document


def test_the_documents_table_of_events_is_the_closed_list() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert with_part(document, "events", table()) == document


def test_the_script_for_checking_by_hand_takes_a_ledger_and_refuses_a_changed_one(
    tmp_path: Path,
) -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    script = re.search(r"<!-- by hand: [^>]*-->\n```python\n(.*?)```", document, re.DOTALL)
    assert script is not None
    command = [sys.executable, "-m", "causebook", "demo", "--keep", str(tmp_path / "demo")]
    subprocess.run(command, check=True, capture_output=True)
    ledger = tmp_path / "demo" / "ledger.db"
    by_hand = [sys.executable, "-W", "ignore", "-c", script[1], str(ledger)]
    done = subprocess.run(by_hand, check=False, capture_output=True, encoding="utf-8")
    assert done.stdout == "6 streams hold\n", done.stderr

    with contextlib.closing(sqlite3.connect(ledger)) as store:
        triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        for (trigger,) in store.execute(triggers).fetchall():
            store.execute(f"DROP TRIGGER {trigger}")
        changed = (
            "UPDATE stored_events SET state = CAST(replace(state, 'blocker', 'warning') AS BLOB)"
        )
        store.execute(changed)
        store.commit()
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert subprocess.run(by_hand, check=False, capture_output=True).returncode == 1


if __name__ == "__main__":
    written = DOCUMENT.read_text(encoding="utf-8")
    written = with_part(with_part(written, "example", example()), "events", table())
    DOCUMENT.write_text(written, encoding="utf-8")
