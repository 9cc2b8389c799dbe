"""Pins: what this user verified of a ledger before, so that the next look is held against it.

As ssh remembers hosts, and in the user's own state folder, never near the ledger:

    $CAUSEBOOK_STATE, else $XDG_STATE_HOME/causebook, else ~/.local/state/causebook
        pins/                             mode 0700
            <sha256 of the origin>.json   mode 0600, one ledger each, canonical JSON and one LF
            .lock                         held by whoever writes

A pin is known by the ledger's origin and by the places it was seen at. It names the founding, the root key,
size and root of all that was verified, sealed or not, the last record of the stream `ledger`, and the newest
checkpoint verified. It moves under a lock, durably and whole, and never back. Whether a move is right, with
nothing failed and out of what it names, is asked of who moves it (adapters/verification/verify.py).

A pin file that cannot be read is an error of its own: to pass over it would make any look a first one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import string
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

from ...domain.errors import BadData, Busy, CausebookError, IOFailure, NoInput
from ..durable import make_folder_durably, replace_durably, sync_folder
from ..store.location import SQLiteLocation, locate
from .pin import PIN_BYTES_MAX, Looked, Pin

LOCATIONS_MAX: Final = 32
LOCK_SECONDS_MAX: Final = 10.0
_PLAIN: Final = string.ascii_letters + string.digits + "/ -._~:@!$&'()*+,;="


def state_folder() -> Path:
    """The user's state folder. Raises `IOFailure` where nothing says where it is."""
    given = os.environ.get("CAUSEBOOK_STATE")
    if given:
        return Path(given).absolute()
    base = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(base):  # the XDG text has others passed over
        return Path(base) / "causebook"
    try:
        return Path.home() / ".local" / "state" / "causebook"
    except RuntimeError:
        raise IOFailure(
            "pins: this user has no home folder to keep them in",
            hint="CAUSEBOOK_STATE names another folder",
        ) from None


def places_of(url: str) -> tuple[str, ...]:
    """The places that a store URL means, each in one spelling.

    A file that is reached through links is known by its own name and by the one it was asked for by: whoever
    points a link elsewhere is found by it.
    """
    where = locate(url)
    if isinstance(where, SQLiteLocation):
        asked = os.path.abspath(where.shown)
        paths = dict.fromkeys([asked, str(where.path)])
        return tuple(f"sqlite:///{quote(os.fsencode(path), safe=_PLAIN)}" for path in paths)
    parts = [where.conninfo.get(part, "") for part in ("host", "port", "dbname")]
    host, port, name = (quote(part, safe="") for part in parts)
    return (f"postgresql://{host}:{port}/{name}",)


@dataclass(frozen=True)
class Pins:
    """The pins of one user. `folder` is made, with mode 0700, when the first is kept.

    `lock_seconds`: how long a move waits for another's.
    """

    folder: Path
    lock_seconds: float = LOCK_SECONDS_MAX

    @classmethod
    def of_user(cls) -> Self:
        """The pins of whoever runs this. Raises `IOFailure` where nothing says where they are."""
        return cls(state_folder() / "pins")

    def all(self) -> list[Pin]:
        """Every pin, by origin.

        Raises `BadData` for a file that is no pin, `IOFailure` where one cannot be read.
        """
        try:
            names = sorted(path.name for path in self.folder.iterdir() if path.suffix == ".json")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable(self.folder, error) from None
        found = [pin for name in names if (pin := self._read(self.folder / name)) is not None]
        return sorted(found, key=lambda pin: pin.seen.origin)

    def of(self, origin: str) -> Pin | None:
        """The pin of an origin. Raises as `all` does."""
        return self._read(self._file(origin))

    def move(
        self, looked: Looked, *, was: Pin | None, places: Iterable[str], at: str | None = None
    ) -> bool:
        """Keep what was verified, where the pin still is `was`, the one that it was held against.

        False, and nothing is done, where somebody moved it meanwhile, or it would go back. Raises `Busy`
        where another holds the lock for long, `IOFailure` where it cannot be kept.
        """
        with self._locked():
            if self.of(looked.origin) != was:
                return False
            if was is not None and looked.size < was.seen.size:
                return False
            self._keep(looked, places, () if was is None else was.locations, at)
        return True

    def found(self, looked: Looked, *, places: Iterable[str]) -> None:
        """Keep the pin of a ledger that this user has just founded.

        What was seen at these places before is seen there no longer: they are that ledger's own by its
        founder's act. Raises as `move` does.
        """
        here = tuple(places)
        with self._locked():
            for pin in self.all():
                left = tuple(place for place in pin.locations if place not in here)
                if left != pin.locations and pin.seen.origin != looked.origin:
                    self._write(replace(pin, locations=left))
            self._keep(looked, here, (), None)

    def forget(self, name: str) -> str:
        """Delete the pin of an origin, or of a file in the folder by its name; what was deleted.

        Needs no readable file. Raises `NoInput` where there is none.
        """
        files = [self._file(name)]
        if re.fullmatch(r"[0-9a-f]{64}(\.json)?", name):
            files.append(self.folder / f"{name.removesuffix('.json')}.json")
        if not self.folder.is_dir():
            raise _no_pin(name)
        with self._locked():
            for file in files:
                try:
                    file.unlink()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise _unwritable(self.folder, error) from None
                sync_folder(self.folder)
                return name
        raise _no_pin(name)

    def _keep(
        self, looked: Looked, places: Iterable[str], before: Iterable[str], at: str | None
    ) -> None:
        known = tuple(dict.fromkeys([*places, *before]))[:LOCATIONS_MAX]
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()) if at is None else at
        # Places can be long. The oldest go, as they do beyond the number kept.
        while len(known) > 1 and len(Pin(looked, known, moment).raw) > PIN_BYTES_MAX:
            known = known[:-1]
        self._write(Pin(looked, known, moment))

    def _file(self, origin: str) -> Path:
        digest = hashlib.sha256(origin.encode("utf-8", "surrogatepass")).hexdigest()
        return self.folder / f"{digest}.json"

    def _read(self, file: Path) -> Pin | None:
        try:
            with file.open("rb") as stream:
                raw = stream.read(PIN_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(file, error) from None
        try:
            pin = Pin.parse(raw)
            if self._file(pin.seen.origin) != file:
                raise ValueError("it is kept under the name of another origin")
        except ValueError as error:
            raise BadData(
                f"{file}: is no pin: {error}", hint=f"causebook pins forget {file.stem}"
            ) from None
        return pin

    def _write(self, pin: Pin) -> None:
        raw = pin.raw
        try:
            Pin.parse(raw)  # what its own reader would refuse makes every later look an error
            replace_durably(self._file(pin.seen.origin), raw)
        except OSError as error:
            raise _unwritable(self.folder, error) from None
        except ValueError as error:
            raise IOFailure(
                f"{self.folder}: no pin of this ledger can be kept: {error}",
                hint="--no-pin does without",
            ) from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            make_folder_durably(self.folder)
            descriptor = os.open(
                self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise _unwritable(self.folder, error) from None
        try:
            _lock(descriptor, self.folder, self.lock_seconds)
            yield
        finally:
            os.close(descriptor)


def _lock(descriptor: int, folder: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Busy(
                    f"{folder}: another process has held the pins for {seconds:g} s"
                ) from None
            time.sleep(0.02)
        except OSError as error:
            raise _unwritable(folder, error) from None
        else:
            return


def _unreadable(path: Path, error: OSError) -> CausebookError:
    return IOFailure(f"{path}: pins cannot be read: {error.strerror}", hint=_ELSEWHERE)


def _unwritable(path: Path, error: OSError) -> CausebookError:
    return IOFailure(f"{path}: no pin can be kept here: {error.strerror}", hint=_ELSEWHERE)


_ELSEWHERE: Final = "CAUSEBOOK_STATE names another folder; --no-pin does without"


def _no_pin(name: str) -> NoInput:
    return NoInput(f"no pin of {name} is kept", hint="causebook pins list")
