"""What the owner of the store can do without a key: each attack is found, named and placed."""

from __future__ import annotations

import random
import zlib

import pytest

from causebook.adapters.findings import DIFFERS, TAMPERED
from tests.adapters.forge import Forge, Key, document, signed_row
from tests.attacks.intruder import Intruder, failed, looked_at, only, places

SECURITY = "evaluation/T-1/1/post_execute/security"
ARCHITECTURE = "evaluation/T-1/1/post_execute/architecture"


def test_a_changed_byte_anywhere_in_a_record(
    forge: Forge, intruder: Intruder, store_url: str
) -> None:
    chance = random.Random(7)
    for row in chance.sample(forge.rows, 20):
        end_of_line_1 = row.record.index(b"\n")
        for at in (
            chance.randrange(end_of_line_1),
            chance.randrange(end_of_line_1, len(row.record)),
        ):
            changed = bytearray(row.record)
            changed[at] ^= chance.randrange(1, 256)
            intruder.overwrite(row.stream, row.version, bytes(changed))
            report = looked_at(store_url)
            assert report.code == TAMPERED
            place = f"{row.stream} v{row.version}"
            assert place in [*places(report, "records"), *places(report, "signatures")]
        intruder.overwrite(row.stream, row.version, row.record)
    assert looked_at(store_url).code == 20


def test_two_records_of_a_stream_swapped(intruder: Intruder, store_url: str) -> None:
    four, five = intruder.record(SECURITY, 4), intruder.record(SECURITY, 5)
    intruder.overwrite(SECURITY, 4, five)
    intruder.overwrite(SECURITY, 5, four)
    report = looked_at(store_url)
    assert report.code == TAMPERED
    assert places(report, "records") == [f"{SECURITY} v4", f"{SECURITY} v5"]


def test_two_rows_of_a_stream_swapped_in_the_order_of_commit(
    intruder: Intruder, store_url: str
) -> None:
    intruder.exchange_rows(SECURITY, 4, 5)
    report = looked_at(store_url)
    assert (report.code, failed(report)) == (TAMPERED, {"chains"})
    assert places(report, "chains")[0] == f"{SECURITY} v4"


def test_a_deleted_record_that_is_not_the_last(intruder: Intruder, store_url: str) -> None:
    intruder.delete(SECURITY, 6)
    report = looked_at(store_url)
    assert (report.code, failed(report)) == (TAMPERED, {"chains"})
    finding = only(report, "chains")
    assert (finding.place, finding.expected, finding.found) == (
        f"{SECURITY} v6",
        "a record",
        "v7 after v5",
    )


def test_the_founding_deleted(intruder: Intruder, store_url: str) -> None:
    intruder.delete("ledger", 1)
    report = looked_at(store_url)
    assert report.code == TAMPERED
    assert "the first record" in places(report, "records")


def test_a_renamed_topic(intruder: Intruder, store_url: str) -> None:
    intruder.sql(
        "UPDATE stored_events SET topic = 'os:system'"
        " WHERE originator_id = ? AND originator_version = 5",
        SECURITY,
    )
    report = looked_at(store_url)
    assert (report.code, failed(report)) == (TAMPERED, {"records"})
    finding = only(report, "records")
    assert (finding.place, finding.found) == (f"{SECURITY} v5", "topic os:system")


@pytest.mark.parametrize(
    "to",
    [ARCHITECTURE, "evaluation/T-2/1/post_execute/security", "task/T-2", "ledger", "elsewhere"],
)
def test_a_record_copied_to_another_stream(
    to: str, forge: Forge, intruder: Intruder, store_url: str
) -> None:
    version = 1 + sum(row.stream == to for row in forge.rows)
    copied = forge.rows[forge.at(SECURITY, 5)]._replace(stream=to, version=version)
    intruder.insert(copied)
    report = looked_at(store_url)
    assert (report.code, failed(report)) == (TAMPERED, {"records"})
    finding = only(report, "records")
    assert (finding.place, finding.found) == (f"{to} v{version}", f"{SECURITY} v5")


def test_a_record_of_another_ledger(forge: Forge, intruder: Intruder, store_url: str) -> None:
    other = Forge(origin="audit.example.net/other", seed="other").found()
    other.open_task("T-3")
    for row in other.rows[-2:]:
        intruder.insert(row)
    report = looked_at(store_url)
    assert report.code == TAMPERED
    assert places(report, "records") == ["task/T-3 v1", "task/T-3 v2"]
    assert places(report, "signatures") == ["task/T-3 v1", "task/T-3 v2"]
    assert places(report, "chains") == ["task/T-3 v1"]


def test_a_ledger_founded_anew_under_the_old_name(intruder: Intruder, store_url: str) -> None:
    """Its records hang together, and none of the old ones hangs on its founding."""
    other = Forge(seed="other").found()
    for row in other.rows[:3]:
        intruder.overwrite(row.stream, row.version, row.record)
    report = looked_at(store_url)
    assert report.code == TAMPERED
    assert places(report, "chains") == ["task/T-1 v1", "task/T-2 v1"]
    assert {"signatures", "chains"} <= failed(report)


def test_a_signature_by_a_key_that_nobody_enrolled(
    forge: Forge, intruder: Intruder, store_url: str
) -> None:
    row = forge.rows[forge.at(SECURITY, 22)]
    intruder.overwrite(SECURITY, 22, signed_row(document(row), Key("nobody")).record)
    report = looked_at(store_url)
    assert report.code == TAMPERED
    finding = only(report, "signatures")
    assert finding.place == f"{SECURITY} v22"
    assert finding.found == f"key id {Key('nobody').keyid}"


def test_evidence_swapped_between_two_events(
    forge: Forge, intruder: Intruder, store_url: str
) -> None:
    one, two = list(forge.evidence.values())[3:5]
    for of, by in ((one, two), (two, one)):
        intruder.sql(
            "UPDATE evidence SET salt = ?, body = ? WHERE commitment = ?",
            by.salt,
            by.body,
            of.commitment,
        )
    report = looked_at(store_url)
    assert (report.code, failed(report)) == (TAMPERED, {"evidence"})
    found = sorted(place.split(" evidence ")[1] for place in places(report, "evidence"))
    assert found == sorted([one.commitment, two.commitment])


def test_evidence_missing_without_an_erasure(
    forge: Forge, intruder: Intruder, store_url: str
) -> None:
    gone = list(forge.evidence)[3]
    intruder.sql("DELETE FROM evidence WHERE commitment = ?", gone)
    report = looked_at(store_url)
    assert (report.code, failed(report)) == (DIFFERS, {"evidence"})
    assert only(report, "evidence").place.endswith(f"evidence {gone}")


def test_evidence_that_unpacks_without_end(
    forge: Forge, intruder: Intruder, store_url: str
) -> None:
    row = list(forge.evidence.values())[3]
    bomb = zlib.compress(bytes(80 * 1024 * 1024), 9)
    intruder.sql("UPDATE evidence SET body = ? WHERE commitment = ?", bomb, row.commitment)
    report = looked_at(store_url)
    assert report.code == TAMPERED
    assert only(report, "evidence").found == "more than 67108864 bytes"


def test_a_cut_tail_is_not_found_at_a_first_look(
    forge: Forge, intruder: Intruder, store_url: str
) -> None:
    """Nothing in the records can tell: it takes an earlier look. The report says what was not checked."""
    for last in forge.rows[-3:]:
        # The whole of the last transaction.
        intruder.delete(last.stream, last.version)
    report = looked_at(store_url)
    assert (report.code, report["consistency"].status) == (20, "NOT CHECKED")


def test_the_twin_of_every_attack_passes(forge: Forge, intruder: Intruder, store_url: str) -> None:
    report = looked_at(store_url)
    assert (report.code, failed(report), report.records) == (20, set(), len(forge.rows))
