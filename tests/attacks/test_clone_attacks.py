"""A stream transplanted from a clone: the same ledger, judged on elsewhere with the same keys.

Every record of it is authentic, chained and lawful, and hangs on the same founding. What tells is that
another one was sealed, or seen.
"""

from __future__ import annotations

from causebook.adapters.findings import DIFFERS, FORKED, TAMPERED
from causebook.adapters.ledger import Ledger
from tests.adapters.forge import verdict
from tests.adapters.ledgers import hear_each, judges
from tests.attacks.intruder import Intruder
from tests.attacks.test_rollback_attacks import (
    Copy,
    Office,
    failed,
    finding,
    look_twice,
    office,
)

__all__ = ["office"]

TASK = "T-3"
OF_TASK = f"originator_id IN ('task/{TASK}', 'evaluation/{TASK}/1/post_execute/a')"


def judged(office: Office, severity: str) -> Copy:
    """The task judged, and what its records and evidence are then."""
    with Ledger.open(office.url, keys=office.keys) as ledger:
        attempt = ledger.task(TASK).start_attempt()
        with attempt.convene("post_execute", "any", judges("a")) as panel:
            hear_each(panel, {"a": [verdict(severity)]})
    with Intruder(office.url) as intruder:
        return {
            "stored_events": intruder.sql(
                "SELECT originator_id, originator_version, topic, state FROM stored_events"
                f" WHERE {OF_TASK} ORDER BY {intruder.row_id}"
            ),
            "evidence": intruder.sql(f"SELECT * FROM evidence WHERE task = '{TASK}'"),
        }


def transplant(office: Office, donor: Copy) -> None:
    """Put the donor's streams of the task in place of those that are there."""
    with Intruder(office.url) as intruder:
        intruder.sql(f"DELETE FROM stored_events WHERE {OF_TASK}")
        intruder.sql(f"DELETE FROM evidence WHERE task = '{TASK}'")
        columns = "(originator_id, originator_version, topic, state)"
        for row in donor["stored_events"]:
            intruder.sql(f"INSERT INTO stored_events {columns} VALUES (?, ?, ?, ?)", *row)
        for row in donor["evidence"]:
            intruder.sql("INSERT INTO evidence VALUES (?, ?, ?, ?)", *row)


def test_a_stream_transplanted_from_a_clone_into_what_was_sealed(office: Office) -> None:
    before = office.copy()
    donor = judged(office, "pass")  # the clone's history
    office.put_back(before)
    judged(office, "blocker")
    office.seal()
    assert office.verify("--no-pin").code == 20
    transplant(office, donor)
    done = office.verify("--no-pin")  # a first look finds it: the checkpoint is there
    assert (done.code, failed(done)) == (TAMPERED, {"tree"})


def test_a_stream_transplanted_from_a_clone_into_what_was_only_seen(office: Office) -> None:
    before = office.copy()
    donor = judged(office, "pass")
    office.put_back(before)
    judged(office, "blocker")
    look_twice(office)
    transplant(office, donor)
    done = office.verify()
    assert (done.code, failed(done)) == (FORKED, {"consistency"})
    assert finding(done, "consistency")["place"].startswith("the pin of")


def test_the_twin_whose_streams_are_put_back_as_they_were(office: Office) -> None:
    own = judged(office, "blocker")
    office.seal()
    look_twice(office)
    transplant(office, own)
    done = office.verify()
    # PostgreSQL gives no row id twice, and the tree kept the old ones: the records stand.
    is_sqlite = office.url.startswith("sqlite")
    assert (done.code, failed(done)) == ((0, set()) if is_sqlite else (DIFFERS, {"tree"}))
