"""Attacks with keys: one that was stolen, one out of its role or its span, one that nobody enrolled.

Whoever attacks has the store, and a key or two. Each attack starts from a ledger that was found intact a
moment ago (the fixtures `intruder` and `sealed`), which is its untouched twin.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.findings import TAMPERED, UNVERIFIABLE
from causebook.adapters.keys import KeyFolder, Signer
from causebook.adapters.store.port import Row
from causebook.domain.canonical import decode, encode
from causebook.domain.events import Event, KeyEnrolled, Role, TaskOpened
from causebook.domain.keyring import enrolment_bytes
from causebook.domain.record import assemble, pae, write, written_time
from tests.adapters.forge import Forge, Key, document, signed_row
from tests.adapters.ledgers import Home
from tests.attacks.intruder import Intruder, failed, looked_at, only, places, stored

SECURITY = "evaluation/T-1/1/post_execute/security"
NEW_TASK = TaskOpened(task="T-9", spec=None)


# ── out of role, out of span ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("role", ["root", "authority", "log", "witness", "exporter"])
def test_a_key_out_of_its_role(role: Role, forge: Forge, store_url: str) -> None:
    if role not in forge.keys:
        forge.enrol(role)
    stored(forge, store_url)
    assert looked_at(store_url).findings == []
    with Intruder(store_url) as intruder:
        intruder.insert(forge.write("task/T-9", NEW_TASK, key=forge.keys[role]))
    report = looked_at(store_url)
    assert (report.code, failed(report)) == (TAMPERED, {"roles"})
    finding = only(report, "roles")
    assert finding.place == "task/T-9 v1"
    assert finding.found == f"TaskOpened is signed by engine, found a key for {role}"


def test_the_twin_signed_by_the_engine(forge: Forge, intruder: Intruder, store_url: str) -> None:
    intruder.insert(forge.write("task/T-9", NEW_TASK))
    assert (looked_at(store_url).code, looked_at(store_url).findings) == (20, [])


def test_a_key_before_its_enrolment(forge: Forge, intruder: Intruder, store_url: str) -> None:
    late = Key("late")
    intruder.insert(forge.write("task/T-9", NEW_TASK, key=late))
    forge.enrol("engine", late)
    intruder.insert(forge.rows[-1])
    report = looked_at(store_url)
    assert (report.code, failed(report)) == (TAMPERED, {"roles"})
    finding = only(report, "roles")
    assert finding.place == "task/T-9 v1"
    assert finding.found == "a key that root had not enrolled by then"
    # Its twin: the same key, once it is enrolled.
    intruder.insert(forge.write("task/T-8", NEW_TASK.model_copy(update={"task": "T-8"})))
    assert places(looked_at(store_url), "roles") == ["task/T-9 v1"]


@dataclass
class Ended:
    """A ledger whose engine key was rotated and ended, and the key that was stolen."""

    forge: Forge
    url: str
    stolen: Key
    size: int


@pytest.fixture
def ended(forge: Forge, store_url: str) -> Ended:
    """Found intact, all of what the old key signed below the checkpoint included."""
    stolen = forge.keys["engine"]
    forge.enrol("log")
    size = len(forge.rows)
    forge.retire(stolen, size)
    forge.enrol("engine")
    forge.open_task("T-3")
    stored(forge, store_url)
    twin = looked_at(store_url)
    assert (twin.code, twin.findings) == (20, [])
    return Ended(forge, store_url, stolen, size)


def test_a_key_after_its_end(ended: Ended) -> None:
    with Intruder(ended.url) as intruder:
        intruder.insert(ended.forge.write("task/T-9", NEW_TASK, key=ended.stolen))
    report = looked_at(ended.url)
    assert (report.code, failed(report)) == (TAMPERED, {"roles"})
    assert (only(report, "roles").place, only(report, "roles").found) == (
        "task/T-9 v1",
        "the key is retired",
    )


def test_an_event_back_dated_by_a_stolen_key_is_out_of_its_span_whatever_it_says(
    ended: Ended,
) -> None:
    """`at` is a claim: where the record stands decides."""
    with Intruder(ended.url) as intruder:
        row = ended.forge.write(
            "task/T-9", NEW_TASK, key=ended.stolen, at="2026-11-30T15:36:00.000001Z"
        )
        intruder.insert(row)
    report = looked_at(ended.url)
    assert (report.code, places(report, "roles")) == (TAMPERED, ["task/T-9 v1"])


@pytest.mark.parametrize("signed_before_the_end", [0, 1, 2])
def test_what_a_stolen_key_signed_between_the_checkpoint_and_its_end(
    signed_before_the_end: int, forge: Forge, store_url: str
) -> None:
    """It may be its owner's or the thief's. Nobody can tell, and nobody calls it tampered."""
    forge.enrol("log")
    size = len(forge.rows)
    for number in range(signed_before_the_end):
        forge.write(f"task/T-{5 + number}", TaskOpened(task=f"T-{5 + number}", spec=None))
    forge.retire(forge.keys["engine"], size)
    stored(forge, store_url)
    report = looked_at(store_url)
    assert report.code == (UNVERIFIABLE if signed_before_the_end else 20)
    expected = [f"task/T-{5 + number} v1" for number in range(signed_before_the_end)]
    assert places(report, "roles") == expected
    assert all(finding.code == UNVERIFIABLE for finding in report.findings)


# ── sealed history ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def sealed(store_url: str, tmp_path: Path) -> Home:
    """A ledger with two tasks, all of it sealed, found intact a moment ago."""
    home = Home.found(store_url, tmp_path)
    with home.open() as ledger:
        for task in ("T-1", "T-2"):
            ledger.task(task).start_attempt()
        ledger.seal()
    assert home.require_intact()["tree"].status == "PASS"
    return home


def record(home: Home, signer: Signer, stream: str, event: Event, **fields: Any) -> Row:
    """A record of a new stream, signed with a stolen key."""
    with home.open() as ledger:
        said = {"previous": ledger.writer.founding, "version": 1} | fields
        raw, _ = write(
            event.kind(),
            event.fields(),
            at=written_time(datetime(2026, 1, 1, tzinfo=UTC)),
            ledger=ledger.origin,
            stream=stream,
            keyid=signer.keyid,
            sign=signer.sign,
            **said,
        )
    return Row(stream, said["version"], event.kind(), raw)


def test_an_event_back_dated_by_a_stolen_key_into_sealed_history(sealed: Home) -> None:
    """A whole new task, at home in every chain, put before what was sealed. The tree names it."""
    engine = KeyFolder(sealed.keys).signer("engine")
    planted = record(sealed, engine, "task/T-0", TaskOpened(task="T-0", spec=None))
    rows = sealed.rows()
    with Intruder(sealed.url) as intruder:
        intruder.sql("DELETE FROM stored_events")
        for row in [*rows[:4], planted, *rows[4:]]:
            intruder.insert(row)
    report = sealed.verify()
    assert (report.code, failed(report)) == (TAMPERED, {"tree"})
    assert report["tree"].findings[0].expected == "the hash of record 4"
    assert report["chains"].status == report["roles"].status == "PASS"


def test_the_twin_put_after_what_was_sealed_is_the_engines_own(sealed: Home) -> None:
    engine = KeyFolder(sealed.keys).signer("engine")
    with Intruder(sealed.url) as intruder:
        intruder.insert(record(sealed, engine, "task/T-0", TaskOpened(task="T-0", spec=None)))
    assert sealed.require_intact()["tree"].status == "PASS"


# ── key ids ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("signed", ["by the stranger", "as it was"])
def test_an_edited_record_relabelled_with_a_key_id_nobody_enrolled(
    signed: str, forge: Forge, intruder: Intruder, store_url: str
) -> None:
    """The whole stream `ledger` is at hand, so a key that it does not name is nobody's."""
    stranger = Key("stranger")
    version = forge.last(SECURITY, "VerdictGiven")
    row = forge.rows[forge.at(SECURITY, version)]
    said = document(row)
    said["data"]["severity"] = "pass"
    line = encode(said)
    own = base64.b64decode(row.record.split(b" ")[-1])
    signature = stranger.sign(pae(line)) if signed == "by the stranger" else own
    intruder.overwrite(SECURITY, version, assemble(line, stranger.keyid, signature))
    report = looked_at(store_url)
    assert report.code == TAMPERED
    finding = only(report, "signatures")
    assert finding.place == f"{SECURITY} v{version}"
    assert finding.expected == "a key that the ledger enrolled"
    assert finding.found == f"key id {stranger.keyid}"
    intruder.overwrite(SECURITY, version, row.record)
    assert looked_at(store_url).code == 20


def test_a_record_relabelled_with_another_enrolled_key(
    forge: Forge, intruder: Intruder, store_url: str
) -> None:
    row = forge.rows[forge.at(SECURITY, 2)]
    authority = forge.keys["authority"].keyid.encode()
    engine = forge.keys["engine"].keyid.encode()
    intruder.overwrite(SECURITY, 2, row.record.replace(engine, authority))
    report = looked_at(store_url)
    assert report.code == TAMPERED
    assert {"signatures", "roles"} <= failed(report)
    assert places(report, "signatures") == [f"{SECURITY} v2"]


# ── the stream `ledger` ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("role", ["engine", "authority", "log"])
def test_a_retirement_signed_by_another_than_root_ends_nothing(
    role: Role, forge: Forge, store_url: str
) -> None:
    """A thief who could end the engine's key would call all of its past unverifiable."""
    forge.enrol("log")
    stored(forge, store_url)
    assert looked_at(store_url).findings == []
    with Intruder(store_url) as intruder:
        intruder.insert(forge.retire(forge.keys["engine"], 2, key=forge.keys[role]))
        intruder.insert(forge.write("task/T-9", NEW_TASK))
    report = looked_at(store_url)
    assert (report.code, failed(report)) == (TAMPERED, {"roles"})
    finding = only(report, "roles")
    assert finding.found == f"KeyRetired is signed by root, found a key for {role}"
    assert finding.place.startswith("ledger v")


def test_a_retirement_over_a_checkpoint_that_no_log_key_signed(
    forge: Forge, store_url: str
) -> None:
    forge.enrol("log")
    stored(forge, store_url)
    assert looked_at(store_url).findings == []
    genuine = forge.keys["log"]
    forge.keys["log"] = Key("stranger")
    with Intruder(store_url) as intruder:
        intruder.insert(forge.retire(forge.keys["engine"], len(forge.rows)))
    forge.keys["log"] = genuine
    report = looked_at(store_url)
    assert report.code == TAMPERED
    finding = only(report, "roles")
    assert finding.found == ("checkpoint: expected it signed by a log key that is trusted so far")


def _enrolment(forge: Forge, new: Key, possession: bytes, **more: Any) -> KeyEnrolled:
    said = {
        "role": "engine",
        "name": "engine",
        "public_key": new.text,
        "possession": base64.b64encode(possession).decode(),
        "rotates": None,
        "handover": None,
    }
    return KeyEnrolled.model_validate(said | more)


def _asked(forge: Forge, new: Key, role: str = "engine") -> bytes:
    return enrolment_bytes(forge.origin, forge.nonce, forge.keys["root"].text, role, role, new.text)


def _no_possession(forge: Forge, new: Key) -> KeyEnrolled:
    return _enrolment(forge, new, forge.keys["root"].sign(_asked(forge, new)))


def _possession_of_another_role(forge: Forge, new: Key) -> KeyEnrolled:
    return _enrolment(forge, new, new.sign(_asked(forge, new, "exporter")))


def _possession_of_another_ledger(forge: Forge, new: Key) -> KeyEnrolled:
    root = forge.keys["root"].text
    message = enrolment_bytes(forge.origin, "0" * 64, root, "engine", "engine", new.text)
    return _enrolment(forge, new, new.sign(message))


def _handover(forge: Forge, new: Key, signer: Key) -> KeyEnrolled:
    message = _asked(forge, new)
    return _enrolment(
        forge,
        new,
        new.sign(message),
        rotates=forge.keys["engine"].keyid,
        handover=base64.b64encode(signer.sign(message)).decode(),
    )


def _handover_by_root(forge: Forge, new: Key) -> KeyEnrolled:
    return _handover(forge, new, forge.keys["root"])


def _handover_by_itself(forge: Forge, new: Key) -> KeyEnrolled:
    return _handover(forge, new, new)


def _second_root(forge: Forge, new: Key) -> KeyEnrolled:
    message = _asked(forge, new, "root")
    return _enrolment(forge, new, new.sign(message), role="root", name="root")


@pytest.mark.parametrize(
    ("forged", "found"),
    [
        (_no_possession, "possession: the new key did not sign its enrolment"),
        (_possession_of_another_role, "possession: the new key did not sign its enrolment"),
        (_possession_of_another_ledger, "possession: the new key did not sign its enrolment"),
        (_handover_by_root, "handover: the old key did not sign the enrolment"),
        (_handover_by_itself, "handover: the old key did not sign the enrolment"),
        (_second_root, "a ledger has one root, which founded it"),
    ],
)
def test_an_enrolment_without_the_consent_it_needs_enrols_nobody(
    forged: Callable[[Forge, Key], KeyEnrolled],
    found: str,
    forge: Forge,
    intruder: Intruder,
    store_url: str,
) -> None:
    """Root signs it, and is not asked alone."""
    new = Key("new")
    row = forge.write("ledger", forged(forge, new))
    intruder.insert(row)
    intruder.insert(forge.write("task/T-9", NEW_TASK, key=new))
    report = looked_at(store_url)
    assert (report.code, failed(report)) == (TAMPERED, {"roles"})
    assert [(f.place, f.found) for f in report["roles"].findings] == [
        (f"ledger v{row.version}", found),
        ("task/T-9 v1", "a key that root had not enrolled by then"),
    ]


def test_the_twin_with_both_consents_is_enrolled(
    forge: Forge, intruder: Intruder, store_url: str
) -> None:
    new = Key("new")
    intruder.insert(forge.write("ledger", _handover(forge, new, forge.keys["engine"])))
    intruder.insert(forge.write("task/T-9", NEW_TASK, key=new))
    report = looked_at(store_url)
    assert (report.code, report.findings) == (20, [])


def test_a_successor_that_keeps_the_log_key_of_the_ledger_it_continues(store_url: str) -> None:
    """With one key for both, the lost history could be sealed on under the old name."""
    before = Forge(origin="audit.example.com/before").found()
    log = before.enrol("log")
    note = before.note(len(before.rows))
    for key, expected in ((Key("its own"), 20), (log, TAMPERED)):
        after = Forge(seed="after").found(continues=note)
        after.enrol("log", key)
        report = _verified(after)
        assert report.code == expected
    assert only(report, "roles").found == (
        "expected a log key other than that of the ledger it continues"
    )
    stored(after, store_url)
    assert looked_at(store_url).code == TAMPERED


def _verified(forge: Forge) -> Any:
    from causebook.adapters.verification.verify import verify

    return verify(forge.source(), processes=0)


def test_a_founding_that_continues_itself(forge: Forge) -> None:
    forge.enrol("log")
    note = forge.note(3)
    again = Forge(seed="again").found(continues=note)
    report = _verified(again)
    assert report.code == TAMPERED
    assert report["roles"].findings[0].found == "continues: expected a checkpoint of another origin"
    said = decode(again.rows[0].record.partition(b"\n")[0])
    said["data"]["continues"] = None
    twin = Forge(seed="again").found()
    assert signed_row(said, twin.keys["root"]).record == twin.rows[0].record
    assert _verified(twin).code == 20
