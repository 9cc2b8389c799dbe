"""A whole look at a ledger, as the command `verify` and the library take it: its records, what was derived
from them, and the pins of whoever looks.

    from causebook import verify

    report = verify("sqlite:///ledger.db", checkpoints=[Path("kept.checkpoint").read_bytes()])
    if report.code not in (0, 20):
        print(report.meaning, *report.findings, sep="\\n")

`verify` takes values and bytes; the command reads the files that it is named, and prints. Both come together
in `audit`. What is looked at is never written to: see `open_snapshot`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, get_args

from ...domain.checkpoint import SignedCheckpoint
from ...domain.errors import BadData, Busy, CausebookError, Misuse
from ...domain.policy import Policy
from ...domain.streams import shorten
from ...domain.trust import Trust
from ...projections.catalogue import PROJECTIONS
from ..findings import FIRST_LOOK, INTACT, CheckName, Report, listed
from ..projector import Difference, obstacle
from ..projector import check as check_projections
from ..reading import Source
from ..store.snapshot import Snapshot, open_snapshot
from .held import Against, Named
from .pins import Pins, places_of
from .verify import verify as verify_ledger

LOOKS_MAX: Final = 3
"""How often a ledger is looked at whose pin another look moves meanwhile."""


def verify(
    url: str,
    *,
    checkpoints: Iterable[bytes | str] = (),
    trust: bytes | str | None = None,
    policy: bytes | str | None = None,
    age_seconds_max: int | None = None,
    required: Collection[str] = (),
    pins: bool = True,
    require_pin: bool = False,
    from_pin: bool = False,
    live: bool = False,
) -> Report:
    """Check the ledger at `url` in full, hold it against what is known of it, and pin what holds.

    The report's `code` is 0 where all holds and the founding was known beforehand, 20 where all holds and it
    was not (a first look), else the highest of 22 to 28 that applies; `findings` says what does not hold.
    A log is complete as of `sealed`, never simply complete. Nothing found is ever raised.

    `checkpoints`: signed notes that were kept away from the ledger. `trust`: a trust file, `policy`: a trust
    policy of witnesses; each by what it holds, and not by a file's name. `age_seconds_max`: how old that
    policy's quorum may be. `required`: names of checks that fail where they are not run. `pins`: hold it
    against the pins of this user, and move them; they lie in `$CAUSEBOOK_STATE`, or where the user's state
    does. `require_pin`: a first look fails. `from_pin`: only hash what was verified before. `live`: read a
    ledger in use in place.

    Raises `NoInput` where there is no ledger, `BadData` for what is none and for what was given, `Misuse`,
    `Busy`, `StoreUnavailable`, `Denied`, and `IOFailure` where pins cannot be read, or what holds cannot be
    kept as one: `pins=False` does without.
    """
    if not pins and (require_pin or from_pin):
        raise Misuse("pins: expected True beside require_pin or from_pin, found False")
    if age_seconds_max is not None and policy is None:
        raise Misuse("age_seconds_max: expected a policy, whose quorum it is the age of")
    user_pins = Pins.of_user() if pins else None
    against = Against(
        pins=() if user_pins is None else user_pins.all(),
        why_no_pins="" if pins else "no pin is read",
        places=places_of(url),
        checkpoints=[_named(number, _raw(text)) for number, text in enumerate(checkpoints, 1)],
        trust=None if trust is None else Trust.parse(_raw(trust)),
        policy=None if policy is None else Policy.parse(_raw(policy)),
        age_seconds_max=age_seconds_max,
        required=frozenset(_check_name(name) for name in required),
        require_pin=require_pin,
        from_pin=from_pin,
    )
    audited = audit(url, against, user_pins, live=live)
    if audited.unkept is not None:
        raise audited.unkept
    return audited.report


def _raw(text: bytes | str) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


@dataclass(frozen=True)
class Audit:
    """A look at a ledger. `unkept`: why what holds is not pinned, where it should have been."""

    report: Report
    unkept: CausebookError | None = None


def audit(url: str, against: Against, pins: Pins | None, *, live: bool = False) -> Audit:
    """Check a ledger and its projections, and move its pin where nothing failed; `pins` None keeps none.

    Where another look moved the pin meanwhile, this one was held against less than is known by now: it is
    done again, `LOOKS_MAX` times in all. Raises `Busy` after that, and what `open_snapshot` and
    `verify_ledger` raise.
    """
    for _ in range(LOOKS_MAX):
        with open_snapshot(url, live=live) as snapshot:
            report = _report(snapshot, against)
        if pins is None or report.code not in (INTACT, FIRST_LOOK) or report.looked is None:
            return Audit(report)
        try:
            was = against.pin_of(report.origin)
            if pins.move(report.looked, was=was, places=places_of(url)):
                return Audit(report)
            against = replace(against, pins=pins.all())
        except CausebookError as error:
            return Audit(report, error)
        if any(
            pin.seen == report.looked and set(pin.locations) >= set(places_of(url))
            for pin in against.pins
        ):
            return Audit(report)  # the other look came to the same
    raise Busy(
        f"the pin of {report.origin}: was moved during each of {LOOKS_MAX} looks",
        hint="other looks at this ledger are going on: run it again; --no-pin does without",
    )


def _named(number: int, raw: bytes) -> Named:
    name = f"checkpoint {number} of those given"
    try:
        return name, SignedCheckpoint.parse(raw)
    except BadData as error:
        raise BadData(f"{name}: {error.message}", hint=error.hint) from None


def _check_name(name: str) -> CheckName:
    names: tuple[CheckName, ...] = get_args(CheckName)
    for known in names:
        if name == known:
            return known
    raise Misuse(
        f"required: expected the name of a check, found {shorten(name)}", hint=", ".join(names)
    )


def _report(snapshot: Snapshot, against: Against) -> Report:
    obstacles = {p.name: why for p in PROJECTIONS if (why := obstacle(snapshot, p)) is not None}
    held = len(PROJECTIONS) - len(obstacles)

    def compare(_: Source) -> list[Difference]:
        return together(check_projections(snapshot))

    report = verify_ledger(
        snapshot,
        projections_check=compare if held else None,
        why_no_projections=_why_none(obstacles),
        against=against,
    )
    check = report["projections"]
    if check.status == "PASS":
        missing = f"; {listed(obstacles)} {next(iter(obstacles.values()))}" if obstacles else ""
        check.note = f"{held} agree with the events{missing}"
    return report


def _why_none(obstacles: Mapping[str, str]) -> str:
    """Why no projection can be compared: the reasons that there are, most often one."""
    by_words: dict[str, list[str]] = {}
    for name, why in obstacles.items():
        by_words.setdefault(why, []).append(name)
    if len(by_words) == 1:
        return next(iter(by_words))
    return "; ".join(f"{listed(names)} {why}" for why, names in by_words.items())


def together(differences: Iterable[Difference]) -> list[Difference]:
    """The differences, those that are of whole projections and say the same said once."""
    by_words: dict[tuple[str, str, str], list[Difference]] = {}
    for difference in differences:
        name = f"{difference.projection} {difference.key}" if difference.key else ""
        words = (name, difference.expected, difference.found)
        by_words.setdefault(words, []).append(difference)
    return [
        alike[0]
        if len(alike) == 1
        else Difference(_names([each.projection for each in alike]), "", expected, found)
        for (_, expected, found), alike in by_words.items()
    ]


def _names(projections: Sequence[str]) -> str:
    if len(projections) == len(PROJECTIONS):
        return f"all {len(projections)} projections"
    return listed(projections)
