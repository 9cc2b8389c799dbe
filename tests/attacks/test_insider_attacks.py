"""What whoever holds a key of the ledger can sign: authentic records, and still found out.

The insider changes a record and signs anew all that hangs on it, so chains and signatures hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causebook.adapters.findings import TAMPERED, UNLAWFUL, UNVERIFIABLE, Report
from causebook.adapters.verification.verify import verify
from causebook.domain.canonical import encode
from causebook.domain.events import event_from
from tests.adapters.forge import (
    Forge,
    Key,
    document,
    signed_line,
    signed_row,
    small_ledger,
)
from tests.attacks.intruder import failed, only, places

SECURITY = "evaluation/T-1/1/post_execute/security"
CONVENTIONS = "evaluation/T-1/1/post_execute/conventions"
TASK = "task/T-1"
PRISTINE = small_ledger()


def look(forge: Forge) -> Report:
    return verify(forge.source(), processes=0)


@pytest.fixture
def forge() -> Forge:
    forge = small_ledger()
    assert look(forge).code == 20
    return forge


@settings(deadline=None)
@given(data=st.data())
def test_a_changed_byte_anywhere(data: st.DataObject) -> None:
    """Not an insider: the same attack as on a store, at every place hypothesis can think of."""
    source = PRISTINE.source()
    n = data.draw(st.integers(0, len(source.stored) - 1))
    row = source.stored[n]
    at = data.draw(st.integers(0, len(row.record) - 1))
    record = bytearray(row.record)
    record[at] ^= data.draw(st.integers(1, 255))
    source.stored[n] = type(row)(row.stream, row.version, row.type, bytes(record))
    report = verify(source, processes=0)
    assert report.code == TAMPERED
    found = [*places(report, "records"), *places(report, "signatures")]
    assert f"{row.stream} v{row.version}" in found


def test_a_verdict_flipped_and_chained_anew(forge: Forge) -> None:
    last = forge.last(SECURITY, "VerdictGiven")
    forge.resign(SECURITY, last, _set(severity="pass"))
    report = look(forge)
    assert (report.code, failed(report)) == (UNLAWFUL, {"law"})
    finding = next(f for f in report["law"].findings if f.place.startswith(SECURITY))
    assert finding.place == f"{SECURITY} v{last}"
    assert (finding.expected, finding.found) == ("VerdictGiven.severity 'blocker'", "'pass'")


def test_a_charge_altered_and_chained_anew(forge: Forge) -> None:
    version = forge.last(CONVENTIONS, "TurnCharged")
    forge.resign(CONVENTIONS, version, _set(turns_used=2))
    report = look(forge)
    assert (report.code, failed(report)) == (UNLAWFUL, {"law"})
    finding = only(report, "law")
    assert finding.place == f"{CONVENTIONS} v{version}"
    assert (finding.expected, finding.found) == ("TurnCharged.turns_used 3", "2")


def test_an_error_made_a_pass_in_the_decision_alone(forge: Forge) -> None:
    version = forge.last(TASK, "PanelDecided")

    def change(said: dict[str, Any]) -> None:
        said["data"]["ballots"][3] |= {"severity": "pass", "error": False}

    forge.resign(TASK, version, change)
    report = look(forge)
    assert (report.code, failed(report)) == (UNLAWFUL, {"law"})
    finding = only(report, "law")
    assert finding.place == f"{TASK} v{version}"
    assert finding.expected == "ballot of architecture: severity blocker"


def test_a_halt_made_a_proceed(forge: Forge) -> None:
    version = forge.last(TASK, "PanelDecided")
    forge.resign(TASK, version, _set(action="proceed"))
    report = look(forge)
    assert (report.code, failed(report)) == (UNLAWFUL, {"law"})
    assert places(report, "law") == [f"{TASK} v{version}"]


def test_an_evaluation_moved_to_another_task(forge: Forge) -> None:
    """Signed anew under another name, it hangs on no panel there."""
    forge.open_task("T-2")
    stream = SECURITY.replace("T-1", "T-2")
    opened = document(forge.rows[forge.at(SECURITY, 1)])
    opened["stream"] = stream
    opened["data"]["task"] = "T-2"
    forge.rows.append(signed_row(opened, forge.keys["engine"]))
    report = look(forge)
    assert report.code == TAMPERED
    assert places(report, "chains") == [f"{stream} v1"]
    assert places(report, "law") == [f"{stream} v1"]


def test_a_record_moved_to_another_ledger(forge: Forge) -> None:
    """One engine key for two ledgers does not make their records interchangeable."""
    said = document(forge.rows[-1]) | {"ledger": "audit.example.net/other"}
    forge.rows[-1] = signed_row(said, forge.keys["engine"])
    report = look(forge)
    assert (report.code, failed(report)) == (TAMPERED, {"records"})
    assert only(report, "records").found == "of audit.example.net/other"


@pytest.mark.parametrize(
    ("stream", "kind", "role"),
    [
        (SECURITY, "TurnCharged", "authority"),
        (TASK, "PanelDecided", "root"),
        ("ledger", "KeyEnrolled", "engine"),
    ],
)
def test_a_record_signed_by_a_key_of_another_role(
    stream: str, kind: str, role: str, forge: Forge
) -> None:
    version = forge.last(stream, kind)
    n = forge.at(stream, version)
    forge.rows[n] = signed_row(document(forge.rows[n]), forge.keys[role])
    report = look(forge)
    assert report.code == TAMPERED
    finding = only(report, "roles")
    assert finding.place == f"{stream} v{version}"
    assert f"found a key for {role}" in finding.found
    assert report["signatures"].status == "PASS"


def test_a_key_used_before_it_was_enrolled(forge: Forge) -> None:
    late = Key("late")
    forge.rows[-1] = signed_row(document(forge.rows[-1]), late)
    forge.enrol("engine", late)
    report = look(forge)
    assert (report.code, failed(report)) == (TAMPERED, {"roles"})
    assert only(report, "roles").found == "a key that root had not enrolled by then"


def test_a_key_used_after_it_was_retired(forge: Forge) -> None:
    engine = forge.keys["engine"]
    forge.enrol("log")
    forge.retire(engine, len(forge.rows))
    forge.enrol("engine")
    forge.open_task("T-2")
    assert look(forge).code == 20
    forge.keys["engine"] = engine
    forge.start_attempt("T-2", 2)
    report = look(forge)
    assert report["roles"].codes == {TAMPERED}
    assert only(report, "roles").found == "the key is retired"


def test_a_key_trusted_no_further_than_it_was_sealed(forge: Forge) -> None:
    """Its holder may have signed what came between the last seal and its end."""
    last = forge.rows[-1]
    forge.enrol("log")
    forge.retire(forge.keys["engine"], len(forge.rows) - 2)
    report = look(forge)
    assert (report.code, failed(report)) == (UNVERIFIABLE, {"roles"})
    assert only(report, "roles").place == f"{TASK} v{last.version}"


def test_a_second_founding(forge: Forge) -> None:
    founding = document(forge.rows[0])
    forge.write("ledger", event_from("LedgerFounded", founding["data"]))
    report = look(forge)
    assert (report.code, failed(report)) == (TAMPERED, {"roles"})
    assert only(report, "roles").found == "a ledger is founded once"


def test_a_key_enrolled_without_its_own_consent(forge: Forge) -> None:
    forge.resign("ledger", 3, _set(possession="A" * 86 + "=="))
    report = look(forge)
    assert "roles" in failed(report)
    assert places(report, "roles")[0] == "ledger v3"


@pytest.mark.parametrize("line", [b'{"turn":9,', b"{ "])
def test_another_spelling_signed_anew(line: bytes, forge: Forge) -> None:
    """A duplicate key, a blank: what it says would depend on who reads it."""
    n = forge.at(SECURITY, 5)
    row = forge.rows[n]
    text = encode(document(row)).replace(b'"data":{', b'"data":' + line, 1)
    forge.rows[n] = signed_line(text, row, forge.keys["engine"])
    report = look(forge)
    assert report.code == TAMPERED
    finding = only(report, "records")
    assert (finding.place, finding.found) == (
        f"{SECURITY} v5",
        "line 1: not canonical JSON (RFC 8785)",
    )


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("os:system", "a type that stands in a stream of kind evaluation"),
        ("TaskCompleted", "a type that stands in a stream of kind evaluation"),
    ],
)
def test_a_type_outside_the_closed_union(kind: str, expected: str, forge: Forge) -> None:
    n = forge.at(SECURITY, 5)
    forge.rows[n] = signed_row(document(forge.rows[n]) | {"type": kind}, forge.keys["engine"])
    report = look(forge)
    assert report.code == TAMPERED
    finding = only(report, "records")
    assert (finding.place, finding.expected, finding.found) == (f"{SECURITY} v5", expected, kind)


def _set(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda said: said["data"].update(fields)
