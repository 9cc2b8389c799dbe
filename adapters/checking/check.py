"""`check`: files against keys, and against one another.

Bundles and tiles come first, since they bring the ledgers whose keys the other files are signed with. Then
each other file, and in the end what no file shows alone:

    two checkpoints of one size with two roots, both signed by a log key: the log was split
    a statement of heads, and a record that it leaves out though it stood in that log: the signer is convicted
    two records of one place, or two foundings under one name
    a key that another file shows to have ended before
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ...domain.checkpoint import SignedCheckpoint
from ...domain.errors import Misuse
from ...domain.note import NoteError, NoteKey
from ...domain.policy import Policy
from ...domain.record import Record, assemble, parse
from ...domain.trust import Trust
from ..findings import FORKED, UNVERIFIABLE
from .bundles import BundleCheck
from .given import given
from .known import Known, shown
from .report import FileReport
from .single import SingleCheck
from .together import Sealed, Stated, gathered
from .whole_log import TilesCheck


def check_files(
    names: Sequence[str],
    *,
    trust: Trust | None = None,
    policy: Policy | None = None,
    log_keys: Sequence[NoteKey] = (),
) -> list[FileReport]:
    """A report of each file, in the order given, and a last one where they contradict one another.

    Raises `NoInput`, `Denied`, `IOFailure` where a file cannot be read, `BadData` where it is of no kind.
    """
    if len(set(names)) != len(names):
        raise Misuse("FILE: expected each file once", hint="each is held against all others anyway")
    files = [given(name) for name in names]
    known = Known(tuple(log_keys), trust, policy)
    reports = {each.name: FileReport(each.name, each.kind) for each in files}
    together = gathered(files)
    for each in files:
        if each.kind in ("bundle", "tiles"):
            check = (BundleCheck if each.kind == "bundle" else TilesCheck)(
                each, known, reports[each.name]
            )
            check.run()
            together.sealed += check.sealed
            together.stated += check.stated
            together.checkpoints += check.checkpoints
            together.records += [record_bytes(sealed.record) for sealed in check.sealed]
    # Those that prove where a record stands, before those that ask it.
    for each in sorted(files, key=lambda one: one.kind == "record"):
        if each.kind not in ("bundle", "tiles"):
            SingleCheck(each, known, together, reports[each.name]).run()
    found = [reports[name] for name in names]
    known.ask_again()
    unsigned = {each.name for each in found if _is_unsigned(each)}
    together.sealed = [each for each in together.sealed if each.name not in unsigned]
    together.stated = [each for each in together.stated if each.name not in unsigned]
    last = _contradictions(known, together.sealed, together.stated, together.checkpoints)
    loose = [
        parse(each.raw) for each in files if each.kind == "record" and not reports[each.name].failed
    ]
    for report in found:
        _after(report, [each for each in together.stated if each.name == report.name], loose)
    return [*found, last] if last.answers else found


def _is_unsigned(report: FileReport) -> bool:
    """Whether its checkpoint is signed by nobody whose word counts, so that it shows nothing."""
    return any(answer.name == "checkpoint" and answer.faults for answer in report.answers)


def record_bytes(record: Record) -> bytes:
    """The bytes of a record that was taken apart."""
    return assemble(record.line, record.keyid, record.signature)


def _after(report: FileReport, stated: Sequence[Stated], loose: Sequence[Record]) -> None:
    """Say which records at hand lie after a head, where nothing shows whether they stood below its size."""
    for each in stated:
        later = [
            record
            for record in loose
            if record.ledger == each.heads.ledger
            and each.heads.left_out(record.stream, record.version, record.digest) is not None
        ]
        report.said += [
            f"after a head: {record.stream} v{record.version} {record.type}; whether it stood below size "
            f"{each.heads.size:,} takes its proof"
            for record in later
        ]


def _contradictions(
    known: Known,
    sealed: Sequence[Sealed],
    stated: Sequence[Stated],
    checkpoints: Sequence[SignedCheckpoint],
) -> FileReport:
    report = FileReport("these files", "together", anchored=True)
    _two_foundings(report, known)
    _split(report, known, checkpoints)
    _convicted(report, known, sealed, stated)
    _two_of_one_place(report, known, sealed)
    _past_trust(report, known, sealed)
    if report.answers:
        report.title = "held against one another"
    return report


def _two_foundings(report: FileReport, known: Known) -> None:
    for one, other in combinations(known.ledgers, 2):
        if (
            one.stream.origin == other.stream.origin
            and one.stream.founding != other.stream.founding
        ):
            found = (
                f"{one.stream.founding} in {one.name} and {other.stream.founding} in {other.name}"
            )
            report.ask("founding").fault(one.stream.origin, "one founding", found, FORKED)


def _split(report: FileReport, known: Known, checkpoints: Sequence[SignedCheckpoint]) -> None:
    """Two roots of one size, both signed by whoever seals this log."""
    signers: dict[tuple[str, int, bytes], NoteKey] = {}
    for each in checkpoints:
        said = each.checkpoint
        try:
            signed = known.signer(each)
        except NoteError:
            continue  # its own report says so
        if signed is not None:
            signers.setdefault((said.origin, said.size, said.root), signed.key)
    for (one, key), (other, second) in combinations(sorted(signers.items(), key=str), 2):
        if one[:2] == other[:2] and known.are_one_hand(key, second):
            answer = report.ask("checkpoints")
            expected = f"one root, signed by {shown(key)}"
            found = f"{one[2].hex()} and {other[2].hex()}, signed by {shown(second)}"
            answer.fault(f"{one[0]}, size {one[1]}", expected, found, FORKED)


def _convicted(
    report: FileReport, known: Known, sealed: Sequence[Sealed], stated: Sequence[Stated]
) -> None:
    """A record below the size of a statement that leaves it out: its signer said what is not so.

    Both the record's place and the statement carry a signature of the log's key. Where the two checkpoints
    differ, either the statement is false or the log was split; whoever holds the key did one of them.
    """
    for each in stated:
        heads, seen = each.heads, set[str]()
        for proved in sealed:
            record = proved.record
            if (
                record.ledger != heads.ledger
                or proved.index >= heads.size
                or proved.name == each.name  # its own report says so
                or record.digest in seen
                or not known.are_one_hand(proved.key, each.key)
            ):
                continue
            told = heads.left_out(record.stream, record.version, record.digest)
            if told is None:
                continue
            seen.add(record.digest)
            place = f"{record.stream} v{record.version} {record.type}, index {proved.index}"
            expected = f"a record that {shown(each.key)} does not leave out as of size {heads.size}"
            found = f"that it states, in {each.name}, {told}"
            report.ask("heads").fault(place, expected, found, FORKED)
            report.said.append(
                f"convicted: {shown(each.key)} signed {each.name}, which leaves out what {proved.name} "
                "proves to be in its log"
            )


def _past_trust(report: FileReport, known: Known, sealed: Sequence[Sealed]) -> None:
    """Records past the end of a key that their own file does not know of yet, the first of each key."""
    first: dict[tuple[str, str], Sealed] = {}
    for each in sealed:
        key = known.ended_signer(each.record, each.index, each.name)
        if key is None or (each.name, key.keyid) in first:
            continue
        first[each.name, key.keyid] = each
        place = f"{each.record.stream} v{each.record.version}, index {each.index} in {each.name}"
        found = f"{key.role} key {key.keyid[:8]}…, retired as of size {key.trusted_size}"
        expected = f"a key still trusted at index {each.index}"
        report.ask("roles").fault(place, expected, found, UNVERIFIABLE)


def _two_of_one_place(report: FileReport, known: Known, sealed: Sequence[Sealed]) -> None:
    first: dict[tuple[str, str, int], Sealed] = {}
    for each in sealed:
        record = each.record
        before = first.setdefault((record.ledger, record.stream, record.version), each)
        if before.record.digest != record.digest and known.are_one_hand(before.key, each.key):
            place = f"{record.stream} v{record.version}"
            found = f"{before.record.digest} in {before.name} and {record.digest} in {each.name}"
            report.ask("records").fault(place, "one record", found, FORKED)
