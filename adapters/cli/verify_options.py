"""What `causebook verify` is asked, as a person types it, made into what a ledger is held against."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar, get_args

from ...domain.checkpoint import SignedCheckpoint
from ...domain.errors import BadData, CausebookError, IOFailure, Misuse
from ...domain.note import NOTE_BYTES_MAX
from ...domain.policy import POLICY_BYTES_MAX, Policy
from ...domain.streams import LEDGER, shorten
from ...domain.trust import TRUST_BYTES_MAX, Trust
from ..files import read_file
from ..findings import CheckName
from ..reading import Unreadable, read
from ..store.snapshot import open_snapshot
from ..verification.held import Against, Heard, TimeChecker
from ..verification.pin import Pin
from ..verification.pins import Pins, places_of

T = TypeVar("T")

_AGE = re.compile(r"([1-9][0-9]{0,8})([smhd])", re.ASCII)
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Asked:
    """The options of `verify`, each as it was typed."""

    checkpoints: Sequence[str] = ()
    trust: str | None = None
    policy: str | None = None
    max_age: str | None = None
    witnesses: Sequence[str] = ()
    tsa_ca: Sequence[str] = ()
    required: Sequence[str] = ()
    require_pin: bool = False
    no_pin: bool = False
    from_pin: bool = False
    split_view: str | None = None

    def check(self) -> None:
        """Raise `Misuse` for what does not go together, or is no check."""
        for option, given in (("--require-pin", self.require_pin), ("--from-pin", self.from_pin)):
            if given and self.no_pin:
                raise Misuse(
                    f"{option}: does not go together with --no-pin",
                    hint="--no-pin neither reads nor moves a pin",
                )
        if self.max_age is not None and self.policy is None:
            raise Misuse(
                "--max-age: expected a policy, whose quorum it is the age of",
                hint="--policy FILE names the witnesses",
            )
        names = get_args(CheckName)
        for name in self.required:
            if name not in names:
                raise Misuse(
                    f"--require: expected the name of a check, found {shorten(name)}",
                    hint=", ".join(names),
                )

    def against(
        self, url: str, pins: Sequence[Pin], why_no_pins: str, *, live: bool = False
    ) -> Against:
        """What the ledger at `url` is held against: files are read here, and witnesses asked.

        Raises `NoInput`, `BadData`, `Misuse`, `Denied`, `IOFailure` for what was named.
        """
        trust, policy = None, None
        if self.trust is not None:
            trust = _read(self.trust, TRUST_BYTES_MAX, "what to trust", Trust.parse)
        if self.policy is not None:
            policy = _read(self.policy, POLICY_BYTES_MAX, "a policy", Policy.parse)
        return Against(
            pins=pins,
            why_no_pins=why_no_pins,
            places=places_of(url),
            checkpoints=[
                (file, _read(file, NOTE_BYTES_MAX, "a checkpoint", SignedCheckpoint.parse))
                for file in self.checkpoints
            ],
            trust=trust,
            policy=policy,
            age_seconds_max=None if self.max_age is None else _seconds(self.max_age),
            heard=_ask(self.witnesses, policy, url, live=live) if self.witnesses else (),
            check_time=_time_checker(self.tsa_ca) if self.tsa_ca else None,
            required=frozenset(name for name in get_args(CheckName) if name in self.required),
            require_pin=self.require_pin,
            from_pin=self.from_pin,
        )


def pins_of_user() -> tuple[Pins | None, list[Pin], str]:
    """The user's pins, where they are kept, and why they cannot be read, where they cannot.

    Raises `BadData` for one that is damaged.
    """
    try:
        pins = Pins.of_user()
        return pins, pins.all(), ""
    except IOFailure as error:
        return None, [], error.message


def _read(file: str, bytes_max: int, what: str, parse: Callable[[bytes], T]) -> T:
    raw = read_file(file, bytes_max, what)
    try:
        return parse(raw)
    except BadData as error:
        raise BadData(f"{file}: {error.message}", hint=error.hint or _HINT) from None


_HINT: Final = "docs/format.md says what such a file holds"


def _seconds(text: str) -> int:
    found = _AGE.fullmatch(text)
    if found is None:
        raise Misuse(
            f"--max-age: expected a span of time, found {shorten(text)}",
            hint="36h, 7d, 90m or 30s",
        )
    return int(found[1]) * _UNITS[found[2]]


def _ask(urls: Sequence[str], policy: Policy | None, ledger: str, *, live: bool) -> list[Heard]:
    """What each witness says of the ledger.

    They are asked before the ledger is read: one that seals meanwhile does not look cut short.
    """
    from ..witness.client import WitnessClient

    known = () if policy is None else policy.witnesses.values()
    keys = {witness.url.rstrip("/"): witness.key for witness in known if witness.url is not None}
    clients = [WitnessClient(url, keys.get(url.rstrip("/"))) for url in urls]
    origin = _origin(ledger, live=live)
    if not origin:
        fault = "no record of the stream ledger says what the log is called"
        return [Heard(client.url, fault=fault) for client in clients]
    heard = []
    for client in clients:
        try:
            heard.append(Heard(client.url, client.newest(origin)))
        except CausebookError as error:
            heard.append(Heard(client.url, fault=error.message))
    return heard


def _origin(url: str, *, live: bool) -> str:
    with open_snapshot(url, live=live) as snapshot:
        for row in snapshot.stream(LEDGER):
            try:
                return read(row)[0].ledger
            except Unreadable:
                continue
    return ""


def _time_checker(files: Sequence[str]) -> TimeChecker:
    from ..timestamps import certificates, require_library, verify

    require_library()
    trusted = certificates([Path(file) for file in files])

    def check(reply: bytes, text: bytes) -> datetime:
        return verify(reply, text, trusted)

    return check
