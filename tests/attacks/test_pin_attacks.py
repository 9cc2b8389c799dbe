"""Attacks on a look from a pin, on two looks at once, and on what of a ledger is only looked at now and then.

A look from a pin hashes what was verified before: whatever no hash covers has to be looked at again. Each
attack has its untouched twin.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.verification.audit import LOOKS_MAX, audit
from causebook.adapters.verification.held import Against
from causebook.adapters.verification.pin import Looked, Pin
from causebook.adapters.verification.pins import Pins, places_of
from causebook.domain.checkpoint import Checkpoint, SignedCheckpoint
from causebook.domain.errors import Busy
from causebook.projections.tree import Frontier, leaf_hash
from tests.adapters.cli.conftest import invoke
from tests.attacks.intruder import Intruder
from tests.attacks.test_rollback_attacks import Office, failed, finding, look_twice


@pytest.fixture
def office(store_url: str, tmp_path: Path) -> Office:
    return Office(store_url, tmp_path)


def from_pin_size(done: Any) -> int | None:
    """How many records were taken over from the pin; None where everything was looked at."""
    said = done.json["from_pin"]
    return None if said is None else int(said["size"])


# ── columns beside a record ──────────────────────────────────────────────────────────────────────────

EVALUATION = "evaluation/T-1/1/post_execute/a"

LABELS: dict[str, tuple[str, str]] = {
    "a-stream": ("originator_id = 'evaluation/T-1/1/post_execute/gone'", "originator_version > 0"),
    "a-version": ("originator_version = 99", "originator_version = 2"),
    "a-type": ("topic = 'VerdictWithdrawn'", "originator_version = 1"),
    "a-stream-that-quotes": (
        """originator_id = 'x","type":"y' || originator_id""",
        "originator_version = 1",
    ),
}


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("label", LABELS)
def test_a_record_below_the_pin_given_another_label(
    office: Office, label: str, sealed: bool
) -> None:
    """Every record is what it was, byte for byte; readers go by the columns."""
    if sealed:
        office.seal()
    look_twice(office)
    twin = office.verify("--from-pin")
    assert (twin.code, from_pin_size(twin)) == (0, office.records())
    change, which = LABELS[label]
    with Intruder(office.url) as intruder:
        intruder.sql(
            f"UPDATE stored_events SET {change} WHERE originator_id = ? AND {which}",
            EVALUATION,
        )
    done = office.verify("--from-pin")
    assert (done.code, from_pin_size(done)) == (28, None)
    assert "records" in failed(done)
    assert done.json["checks"] == office.verify().json["checks"]


# ── checkpoints ──────────────────────────────────────────────────────────────────────────────────────


def missigned(note: bytes, text: str | None = None) -> bytes:
    """A note whose signature names its key and is none."""
    said, line = note.decode().split("\n\n")
    dash, name, packed = line.split()
    packed = base64.b64encode(base64.b64decode(packed)[:4] + bytes(range(64))).decode()
    return f"{said if text is None else text[:-1]}\n\n{dash} {name} {packed}\n".encode()


@pytest.mark.parametrize("which", ["the-pinned", "an-older"])
def test_a_stored_checkpoint_whose_signature_is_forged(office: Office, which: str) -> None:
    first = office.seal().checkpoint.size
    office.judge("T-3")
    newest = office.seal().checkpoint.size
    look_twice(office)
    twin = office.verify("--from-pin")
    assert (twin.code, failed(twin)) == (0, set())
    size = newest if which == "the-pinned" else first
    before = Pins.of_user().all()
    with Intruder(office.url) as intruder:
        ((note,),) = intruder.sql("SELECT note FROM checkpoints WHERE size = ?", size)
        intruder.sql("UPDATE checkpoints SET note = ? WHERE size = ?", missigned(bytes(note)), size)
    for _ in range(2):
        done = office.verify("--from-pin")
        assert (done.code, failed(done)) == (28, {"tree"})
        assert finding(done, "tree")["place"] == f"checkpoint {size}"
    assert Pins.of_user().all() == before


def test_a_checkpoint_below_the_pin_that_no_log_key_signed(office: Office) -> None:
    """Its root is true. Who holds it against what they were given is told a size that was never sealed."""
    newest = office.seal()
    look_twice(office)
    with Intruder(office.url) as intruder:
        tree = Frontier()
        query = f"SELECT state FROM stored_events ORDER BY {intruder.row_id} LIMIT 7"
        for (record,) in intruder.sql(query):
            tree.append(leaf_hash(bytes(record)))
        text = Checkpoint(newest.checkpoint.origin, tree.size, tree.root()).text
        note = missigned(newest.note.raw, text)
        assert SignedCheckpoint.parse(note).checkpoint.size == 7
        intruder.sql("INSERT INTO checkpoints (size, note) VALUES (?, ?)", 7, note)
    done = office.verify("--from-pin")
    assert (done.code, failed(done)) == (28, {"tree"})
    assert finding(done, "tree")["place"] == "checkpoint 7"


@pytest.mark.parametrize("options", [(), ("--from-pin",)])
def test_an_older_checkpoint_deleted(office: Office, options: tuple[str, ...]) -> None:
    """The newest stands. Whoever kept the older one asks for it in vain."""
    first = office.seal().checkpoint.size
    office.judge("T-3")
    newest = office.seal().checkpoint.size
    look_twice(office)
    office.judge("T-4")
    office.seal()
    twin = office.verify(*options)
    assert (twin.code, failed(twin)) == (0, set())
    with Intruder(office.url) as intruder:
        intruder.sql("DELETE FROM checkpoints WHERE size = ?", first)
    done = office.verify(*options)
    assert (done.code, failed(done)) == (26, {"consistency"})
    found = finding(done, "consistency")
    size = office.records()
    assert found["expected"] == f"3 checkpoints up to size {size} in the store, as then"
    assert (found["found"], newest < size) == ("2", True)


# ── a key that is retired ────────────────────────────────────────────────────────────────────────────


def retire(office: Office, until: Path) -> None:
    engine = next(
        key["keyid"]
        for key in invoke("keys", "list", "--ledger", office.url, "--json").json["keys"]
        if key["role"] == "engine"
    )
    done = invoke(
        *("keys", "retire", engine, "--compromised", "--trusted-until", str(until)),
        *("--reason", "It leaked.", "--ledger", office.url, "--keys", str(office.keys)),
    )
    assert done.code == 0, done.err


def test_a_key_retired_since_the_pin_for_what_it_signed_before_it(
    office: Office, tmp_path: Path
) -> None:
    """Who had the stolen key wrote what the pin counts: it is not trusted any more, from a pin or not."""
    kept = tmp_path / "kept.txt"
    kept.write_bytes(office.seal().note.raw)
    office.judge("T-3")
    look_twice(office)
    retire(office, kept)
    done = office.verify("--from-pin")
    assert (done.code, failed(done), from_pin_size(done)) == (22, {"roles"}, None)
    roles = next(check for check in done.json["checks"] if check["check"] == "roles")
    assert "all looked at again: a key lost its trust since the pin" in roles["note"]
    assert finding(done, "roles") == finding(office.verify(), "roles")


def test_the_twin_a_key_retired_for_what_comes_after_the_pin(
    office: Office, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.txt"
    kept.write_bytes(office.seal().note.raw)
    look_twice(office)
    size = office.records()
    retire(office, kept)
    done = office.verify("--from-pin")
    assert (done.code, failed(done), from_pin_size(done)) == (0, set(), size)


# ── two looks at once ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Overtaken(Pins):
    """The pins of a user whose other look ends just before this one's pin is kept."""

    meanwhile: Callable[[], object] = lambda: None

    def move(self, looked: Looked, *, was: Pin | None, places: Any, at: str | None = None) -> bool:
        self.meanwhile()
        return super().move(looked, was=was, places=places, at=at)


def against(url: str, pins: Pins) -> Against:
    return Against(pins=pins.all(), places=places_of(url))


def test_two_forks_looked_at_at_once(office: Office) -> None:
    """One history for each of two auditors' looks, which end at the same time: one of them is told."""
    look_twice(office)
    base, pins = office.copy(), Pins.of_user()
    office.judge("T-3")
    one = office.copy()
    office.put_back(base)
    office.judge("T-4")
    office.judge("T-5")
    two = office.copy()
    office.put_back(one)
    others: list[int] = []

    def another_look() -> None:
        if not others:
            office.put_back(two)
            others.append(audit(office.url, against(office.url, pins), pins).report.code)
            office.put_back(one)

    overtaken = Overtaken(pins.folder, meanwhile=another_look)
    report = audit(office.url, against(office.url, pins), overtaken).report
    assert others == [0]
    assert report.code in (26, 27)
    assert report["consistency"].status == "FAIL"


def test_the_twin_of_two_looks_at_once_that_come_to_the_same(office: Office) -> None:
    pins = Pins.of_user()
    looks: list[int] = []

    def another_look() -> None:
        looks.append(audit(office.url, against(office.url, pins), pins).report.code)

    overtaken = Overtaken(pins.folder, meanwhile=another_look)
    audited = audit(office.url, against(office.url, pins), overtaken)
    assert (audited.report.code, audited.unkept, looks) == (20, None, [20])
    (pin,) = pins.all()
    assert pin.seen == audited.report.looked


def test_the_twin_of_two_looks_at_once_at_a_ledger_that_grew(office: Office) -> None:
    look_twice(office)
    pins = Pins.of_user()
    grown: list[int] = []

    def another_look() -> None:
        if not grown:
            office.judge("T-3")
            grown.append(audit(office.url, against(office.url, pins), pins).report.code)

    overtaken = Overtaken(pins.folder, meanwhile=another_look)
    audited = audit(office.url, against(office.url, pins), overtaken)
    assert (audited.report.code, audited.report.records, grown) == (0, office.records(), [0])


def test_a_look_that_is_overtaken_again_and_again_says_so(office: Office) -> None:
    looks, pins = 0, Pins.of_user()

    def another_look() -> None:
        nonlocal looks
        looks += 1
        office.judge(f"T-more-{looks}")
        assert audit(office.url, against(office.url, pins), pins).report.code in (0, 20)

    overtaken = Overtaken(pins.folder, meanwhile=another_look)
    with pytest.raises(Busy, match="was moved during each of 3 looks") as caught:
        audit(office.url, against(office.url, pins), overtaken)
    assert (looks, "\n" in caught.value.message) == (LOOKS_MAX, False)


# ── what another version made ────────────────────────────────────────────────────────────────────────


def test_derived_state_that_is_passed_off_as_another_version_s(office: Office) -> None:
    """What cannot be compared is not said to be missing."""
    office.seal()
    invoke("rebuild", "--ledger", office.url)
    twin = {check["check"]: check for check in office.verify("--no-pin").json["checks"]}
    assert (twin["projections"]["status"], twin["tree"]["status"]) == ("PASS", "PASS")
    with Intruder(office.url) as intruder:
        intruder.sql("UPDATE projection_positions SET version = version + 1")
        intruder.sql("DELETE FROM projection_rows")
    done = office.verify("--no-pin")
    checks = {check["check"]: check for check in done.json["checks"]}
    assert checks["projections"]["status"] == "NOT CHECKED"
    assert "made by version 2, and this program makes 1" in checks["projections"]["note"]
    assert (
        "its tiles are not checked, made by version 2: causebook rebuild"
        in (checks["tree"]["note"])
    )
    assert office.verify("--no-pin", "--require", "projections").code == 22
