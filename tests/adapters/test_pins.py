"""What a user verified before is kept in their own folder, moves only forward, and is never half believed."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from causebook.adapters.verification.pin import PIN_BYTES_MAX, Looked, Pin
from causebook.adapters.verification.pins import LOCATIONS_MAX, Pins, places_of, state_folder
from causebook.domain.canonical import encode
from causebook.domain.checkpoint import SignedCheckpoint
from causebook.domain.errors import BadData, Busy, IOFailure, NoInput
from tests.adapters.forge import Forge, Key

ORIGIN = "audit.example.com/team"
AT = "2026-11-29T15:36:00Z"
HERE = ("sqlite:////srv/ledger.db",)


def looked(size: int = 8, origin: str = ORIGIN, *, sealed: bool = False) -> Looked:
    """A look at a ledger of `size` records, whose root says no more than its size."""
    checkpoint = None
    if sealed:
        forge = Forge(origin).found()
        forge.enrol("log")
        checkpoint = SignedCheckpoint.parse(forge.note(len(forge.rows)).encode())
    return Looked(
        origin=origin,
        founding=hashlib.sha256(origin.encode()).hexdigest(),
        root_key=Key(origin).text,
        ledger_version=3,
        ledger_digest="3" * 64,
        size=size,
        root=hashlib.sha256(b"%d" % size).digest(),
        checkpoint=checkpoint,
    )


@pytest.fixture
def pins(tmp_path: Path) -> Pins:
    return Pins(tmp_path / "state" / "pins")


# ── one pin ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sealed", [False, True])
def test_a_pin_comes_back_as_it_was_kept(pins: Pins, sealed: bool) -> None:
    assert pins.of(ORIGIN) is None
    assert pins.move(looked(sealed=sealed), was=None, places=HERE, at=AT)
    pin = Pin(looked(sealed=sealed), HERE, AT)
    assert pins.of(ORIGIN) == pin
    assert Pin.parse(pin.raw) == pin
    assert pin.date == "2026-11-29"
    assert pins.all() == [pin]


def test_it_lies_where_only_its_user_reads(pins: Pins) -> None:
    pins.move(looked(), was=None, places=HERE)
    (file,) = pins.folder.glob("*.json")
    assert stat.S_IMODE(pins.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {path.name for path in pins.folder.iterdir()} == {file.name, ".lock"}


def test_the_time_is_the_look_s_own(pins: Pins) -> None:
    pins.move(looked(), was=None, places=HERE)
    pin = pins.of(ORIGIN)
    assert pin is not None
    assert Pin.parse(pin.raw).at == pin.at > "2026-01-01"


# ── moving ───────────────────────────────────────────────────────────────────────────────────────────


def test_it_moves_forward_and_keeps_every_place(pins: Pins) -> None:
    pins.move(looked(8), was=None, places=HERE, at=AT)
    later = "2026-11-30T09:00:00Z"
    assert pins.move(looked(9), was=pins.of(ORIGIN), places=("sqlite:////mnt/copy.db",), at=later)
    assert pins.of(ORIGIN) == Pin(looked(9), ("sqlite:////mnt/copy.db", *HERE), later)


def test_the_same_look_again_is_a_newer_one(pins: Pins) -> None:
    pins.move(looked(8), was=None, places=HERE, at=AT)
    later = "2026-11-30T09:00:00Z"
    assert pins.move(looked(8), was=pins.of(ORIGIN), places=HERE, at=later)
    assert pins.of(ORIGIN) == Pin(looked(8), HERE, later)


def test_it_never_goes_back(pins: Pins) -> None:
    pins.move(looked(9), was=None, places=HERE, at=AT)
    assert not pins.move(looked(8), was=pins.of(ORIGIN), places=HERE)
    assert pins.of(ORIGIN) == Pin(looked(9), HERE, AT)


def test_it_does_not_move_where_somebody_else_moved_it_meanwhile(pins: Pins) -> None:
    pins.move(looked(8), was=None, places=HERE, at=AT)
    known = pins.of(ORIGIN)
    assert pins.move(looked(20), was=known, places=HERE, at=AT)
    assert not pins.move(looked(10), was=known, places=HERE)
    assert not pins.move(looked(30), was=None, places=HERE)
    assert pins.of(ORIGIN) == Pin(looked(20), HERE, AT)


def test_of_many_looks_at_once_one_moves_it(pins: Pins) -> None:
    pins.move(looked(8), was=None, places=HERE)
    known, moved = pins.of(ORIGIN), list[bool]()
    start = threading.Barrier(8)

    def look(size: int) -> None:
        start.wait()
        moved.append(pins.move(looked(size), was=known, places=HERE))

    threads = [threading.Thread(target=look, args=(100 + n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(moved) == [False] * 7 + [True]
    pin = pins.of(ORIGIN)
    assert pin is not None
    assert 100 <= pin.seen.size < 108


def test_the_places_kept_are_bounded(pins: Pins) -> None:
    for n in range(LOCATIONS_MAX + 5):
        assert pins.move(looked(), was=pins.of(ORIGIN), places=(f"sqlite:////{n}.db",))
    pin = pins.of(ORIGIN)
    assert pin is not None
    assert len(pin.locations) == LOCATIONS_MAX
    assert pin.locations[0] == f"sqlite:////{LOCATIONS_MAX + 4}.db"


def test_where_places_are_long_the_oldest_are_let_go(pins: Pins) -> None:
    """A pin that its own reader refuses would make every later look an error."""
    long = [f"sqlite:////{n:02d}{'%C3%A9' * 2_000}.db" for n in range(LOCATIONS_MAX)]
    for place in long:
        assert pins.move(looked(sealed=True), was=pins.of(ORIGIN), places=(place,))
    pin = pins.of(ORIGIN)
    assert pin is not None
    assert 1 < len(pin.locations) < LOCATIONS_MAX
    assert list(pin.locations) == long[: -len(pin.locations) - 1 : -1]
    assert PIN_BYTES_MAX - len(long[0]) - 3 < len(pin.raw) <= PIN_BYTES_MAX


def test_a_pin_that_its_reader_would_refuse_is_not_written(pins: Pins) -> None:
    assert pins.move(looked(8), was=None, places=HERE, at=AT)
    known = pins.of(ORIGIN)
    with pytest.raises(IOFailure, match="no pin of this ledger can be kept: expected one line"):
        pins.move(looked(9), was=known, places=("postgresql://" + "h" * PIN_BYTES_MAX,))
    with pytest.raises(IOFailure, match="no pin of this ledger can be kept: at: expected a time"):
        pins.move(looked(9), was=known, places=HERE, at="yesterday")
    assert pins.of(ORIGIN) == known == Pin(looked(8), HERE, AT)


def test_who_holds_the_lock_for_long_is_told_of(pins: Pins) -> None:
    pins.move(looked(8), was=None, places=HERE, at=AT)
    with (pins.folder / ".lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Busy):
            replace(pins, lock_seconds=0.05).move(looked(9), was=pins.of(ORIGIN), places=HERE)
    assert pins.of(ORIGIN) == Pin(looked(8), HERE, AT)


# ── founding ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_ledger_founded_at_a_place_is_what_is_seen_there_from_then_on(pins: Pins) -> None:
    elsewhere = ("sqlite:////mnt/copy.db",)
    pins.move(looked(origin="old.example"), was=None, places=(*HERE, *elsewhere), at=AT)
    pins.found(looked(3, "new.example"), places=HERE)
    new, old = pins.of("new.example"), pins.of("old.example")
    assert new is not None
    assert old is not None
    assert (new.locations, old.locations) == (HERE, elsewhere)
    assert old.seen == looked(origin="old.example")


# ── forgetting ───────────────────────────────────────────────────────────────────────────────────────


def test_what_is_forgotten_is_gone(pins: Pins) -> None:
    pins.move(looked(), was=None, places=HERE)
    pins.move(looked(origin="other.example"), was=None, places=())
    assert pins.forget(ORIGIN) == ORIGIN
    assert pins.of(ORIGIN) is None
    assert [pin.seen.origin for pin in pins.all()] == ["other.example"]
    for name in (ORIGIN, "never.example", "0" * 64, "../pins"):
        with pytest.raises(NoInput):
            pins.forget(name)


def test_to_forget_needs_no_folder(tmp_path: Path) -> None:
    with pytest.raises(NoInput):
        Pins(tmp_path / "none").forget(ORIGIN)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_one_is_forgotten_by_its_file_s_name(pins: Pins) -> None:
    pins.move(looked(), was=None, places=HERE)
    (file,) = pins.folder.glob("*.json")
    file.write_bytes(b"{")
    with pytest.raises(BadData) as caught:
        pins.all()
    assert caught.value.hint == f"causebook pins forget {file.stem}"
    pins.forget(file.stem)
    assert pins.all() == []


# ── bytes that are no pin ────────────────────────────────────────────────────────────────────────────


def changed(**values: object) -> bytes:
    document = json.loads(Pin(looked(), HERE, AT).raw)
    return encode(document | values) + b"\n"


WRONG = {
    "empty": b"",
    "not-json": b"hello\n",
    "no-line-end": Pin(looked(), HERE, AT).raw[:-1],
    "two-line-ends": Pin(looked(), HERE, AT).raw + b"\n",
    "a-blank-more": Pin(looked(), HERE, AT).raw.replace(b'"size":', b'"size": '),
    "too-long": b" " * 300_000 + b"\n",
    "a-list": b"[]\n",
    "too-long-and-else-right": changed(locations=["x" * 300_000]),
    "an-origin-that-is-a-number": changed(origin=1),
    "another-key": changed(more=1),
    "a-later-format": changed(format=2),
    "no-origin": changed(origin=""),
    "an-origin-with-a-blank": changed(origin="a b"),
    "size-0": changed(size=0),
    "a-size-that-is-true": changed(size=True),
    "a-version-of-text": changed(ledger_version="3"),
    "half-a-digest": changed(founding="ab"),
    "a-digest-in-capitals": changed(ledger_digest="A" * 64),
    "a-short-root": changed(root="AAAA"),
    "a-root-that-is-none": changed(root=None),
    "another-key-s-text": changed(root_key="AAAA"),
    "places-of-numbers": changed(locations=[1]),
    "a-place-alone": changed(locations="sqlite:////a"),
    "a-time-with-an-offset": changed(at="2026-11-29T15:36:00+01:00"),
    "a-checkpoint-that-is-none": changed(checkpoint="a\n1\nb\n"),
    "a-checkpoint-that-is-a-number": changed(checkpoint=4),
    "another-origin-under-this-name": changed(origin="other.example"),
}


@pytest.mark.parametrize("raw", WRONG.values(), ids=WRONG.keys())
def test_a_file_that_is_no_pin_is_an_error_and_no_first_look(pins: Pins, raw: bytes) -> None:
    pins.move(looked(), was=None, places=HERE, at=AT)
    (file,) = pins.folder.glob("*.json")
    assert file.read_bytes() == changed()
    file.write_bytes(raw)
    reads: tuple[Callable[[], object], ...] = (pins.all, lambda: pins.of(ORIGIN))
    for read in reads:
        with pytest.raises(BadData) as caught:
            read()
        assert "\n" not in caught.value.message
        assert file.stem in caught.value.hint
    with pytest.raises(BadData):
        pins.move(looked(9), was=None, places=HERE)
    assert file.read_bytes() == raw


def test_a_file_that_cannot_be_read_is_an_io_failure(pins: Pins) -> None:
    pins.move(looked(), was=None, places=HERE)
    (file,) = pins.folder.glob("*.json")
    file.unlink()
    file.mkdir()
    with pytest.raises(IOFailure):
        pins.all()


def test_what_is_no_folder_is_an_io_failure(tmp_path: Path) -> None:
    (tmp_path / "pins").write_text("")
    pins = Pins(tmp_path / "pins")
    with pytest.raises(IOFailure):
        pins.all()
    with pytest.raises(IOFailure) as caught:
        pins.move(looked(), was=None, places=HERE)
    assert "--no-pin" in caught.value.hint


# ── where ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAUSEBOOK_STATE", "mine")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert state_folder() == tmp_path / "mine"
    monkeypatch.setenv("CAUSEBOOK_STATE", "")
    assert state_folder() == tmp_path / "xdg" / "causebook"
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    assert state_folder() == tmp_path / "home" / ".local" / "state" / "causebook"
    assert Pins.of_user().folder == state_folder() / "pins"


def test_a_file_is_known_by_each_name_it_is_reached_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("real").mkdir()
    Path("link").symlink_to("real")
    real = f"sqlite:///{tmp_path}/real/a.db"
    assert places_of("sqlite:///real/a.db") == (real,)
    assert places_of("sqlite:///./link/../real/a.db") == (real,)
    assert places_of("sqlite:///link/a.db") == (f"sqlite:///{tmp_path}/link/a.db", real)


def test_a_place_holds_ascii_alone() -> None:
    name = os.fsdecode(b"f\xc3\xa4%\xff 1.db")
    (place,) = places_of(f"sqlite:////srv/{name}")
    assert place == "sqlite:////srv/f%C3%A4%25%FF 1.db"


def test_a_database_is_known_without_user_and_password() -> None:
    one = places_of("postgresql://ada:secret@db.example.com/audit")
    two = places_of("postgres://bob@db.example.com:5432/audit")
    assert one == two == ("postgresql://db.example.com:5432/audit",)
    assert places_of("postgresql://ada@db.example.com/other") != one
