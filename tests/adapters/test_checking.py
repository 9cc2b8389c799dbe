"""`check`: each kind of file by itself, and files against one another."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from causebook.adapters.checking.check import check_files
from causebook.adapters.findings import (
    FIRST_LOOK,
    FORKED,
    INTACT,
    TAMPERED,
    TORN,
    TRUNCATED,
    UNVERIFIABLE,
)
from causebook.adapters.handover.sealed_log import sealed_log
from causebook.adapters.handover.tiles import write_tiles
from causebook.adapters.split_view import find
from causebook.domain.checkpoint import SignedCheckpoint
from causebook.domain.dsse import Envelope, EnvelopeSignature, parse_envelope, seal_envelope
from causebook.domain.errors import BadData, CausebookError, Misuse, NoInput
from causebook.domain.events import PanelDecided, WorkspaceFacts
from causebook.domain.heads import Heads, StreamHead
from causebook.domain.note import NoteKey, sign_note
from causebook.domain.proof import ConsistencyProof, InclusionProof
from causebook.domain.record import PAYLOAD_TYPE, parse
from causebook.projections.attestation import PAYLOAD_TYPE as ATTESTATION_TYPE
from causebook.projections.attestation import statement, subject_of
from causebook.projections.facts import Entry, read_stream
from tests.adapters.bundles import (
    bundle,
    checked,
    faults,
    judged,
    log_key_of,
    repacked,
    sealed_ledger,
    status,
    trust_of,
    unpacked,
)
from tests.adapters.forge import Forge, Key


class Desk:
    """A ledger with two checkpoints, and every kind of file that is made from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.forge = sealed_ledger("T-1")
        self.old = SignedCheckpoint.parse(self.forge.sealed[-1].note)
        judged(self.forge, "T-2")
        self.forge.seal()
        self.new = SignedCheckpoint.parse(self.forge.sealed[-1].note)
        self.key = log_key_of(self.forge)
        log = sealed_log(self.forge.source())
        self.bundle = folder / "T-1.zip"
        bundle(self.forge, self.bundle)
        record = self.forge.rows[9].record
        proof = InclusionProof(9, log.view.inclusion(9), self.new, record)
        path = log.view.consistency(self.old.checkpoint.size)
        self.record = self.put("event.record", record)
        self.proof = self.put("event.tlog-proof", proof.raw)
        self.bare = self.put("bare.tlog-proof", replace(proof, extra=b"").raw)
        self.older = self.put("older", self.old.note.raw)
        self.newer = self.put("newer", self.new.note.raw)
        self.grown = self.put(
            "grown", ConsistencyProof(self.old.checkpoint.size, path, self.new).raw
        )
        self.heads = self.put("heads.json", unpacked(self.bundle)[0]["heads.json"])
        self.tiles = folder / "tiles"
        write_tiles(log, self.tiles)

    def put(self, name: str, raw: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(raw)
        return path


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


# ── each by itself ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["proof", "newer", "older", "heads", "bundle", "tiles"])
def test_with_the_logs_key_it_holds_and_without_a_key_it_does_not(desk: Desk, name: str) -> None:
    path = getattr(desk, name)
    (report,) = checked(path, log_keys=[desk.key])
    assert (report.code, faults([report])) == (INTACT, [])
    (report,) = checked(path)
    assert report.code == (FIRST_LOOK if name in ("bundle", "tiles") else UNVERIFIABLE)
    assert faults([report]) == []
    stranger = NoteKey(desk.key.name, Key("stranger").public)
    (report,) = checked(path, log_keys=[stranger])
    assert report.code in (UNVERIFIABLE, FORKED)
    assert not report.anchored


@pytest.mark.parametrize("name", ["proof", "bare", "record", "newer", "grown", "heads"])
def test_beside_a_bundle_it_is_held_against_that_bundles_ledger(desk: Desk, name: str) -> None:
    """Which is anchored by a trust file, and else only asserts itself."""
    others = [desk.bundle, *([desk.older] if name == "grown" else [])]
    path = getattr(desk, name)
    for against, code in (({"trust": trust_of(desk.forge)}, INTACT), ({}, FIRST_LOOK)):
        reports = checked(path, *others, **against)
        assert [each.code for each in reports] == [code] * len(reports), name
        assert faults(reports) == []


def test_a_proof_without_its_record_takes_it_from_beside(desk: Desk) -> None:
    assert checked(desk.bare, log_keys=[desk.key])[0].code == UNVERIFIABLE
    proof, record = checked(desk.bare, desk.record, log_keys=[desk.key])
    assert proof.code == INTACT
    assert record.code == UNVERIFIABLE  # whose key signed it is in no file here
    other = desk.put("other.record", desk.forge.rows[8].record)
    assert checked(desk.bare, other, log_keys=[desk.key])[0].code == UNVERIFIABLE


def test_a_record_alone_is_unverifiable_and_not_tampered_with(desk: Desk) -> None:
    (report,) = checked(desk.record, log_keys=[desk.key])
    assert (report.code, faults([report])) == (UNVERIFIABLE, [])
    assert status(report, "record") == "PASS"
    report, _ = checked(desk.record, desk.proof, log_keys=[desk.key])
    assert status(report, "inclusion") == "PASS"


def test_a_record_whose_signature_does_not_hold(desk: Desk) -> None:
    raw = desk.record.read_bytes()
    assert raw.startswith(b'{"at":"2026-11-30T15:36:00.')
    desk.record.write_bytes(raw.replace(b"T15:36:00.", b"T15:36:01.", 1))
    report, _ = checked(desk.record, desk.bundle, trust=trust_of(desk.forge))
    assert faults([report]) == [("signature", TAMPERED)]


def test_a_record_as_an_envelope_is_the_same_record(desk: Desk) -> None:
    record = parse(desk.record.read_bytes())
    signature = EnvelopeSignature(record.keyid, record.signature)
    envelope = desk.put("r.json", Envelope(PAYLOAD_TYPE, record.line, (signature,)).raw)
    reports = checked(envelope, desk.bundle, trust=trust_of(desk.forge))
    assert [each.code for each in reports] == [INTACT, INTACT]


@pytest.mark.parametrize("name", ["proof", "record", "newer", "grown", "heads"])
def test_a_file_that_ends_early_is_torn(desk: Desk, name: str) -> None:
    path = getattr(desk, name)
    raw = path.read_bytes()
    lengths = [len(raw) // 2, len(raw) - 10]
    if name != "heads":  # whose last byte is the end of its one line
        lengths += [len(raw) - 1, raw.rindex(b"\n", 0, len(raw) - 1) + 1]
    for length in lengths:
        path.write_bytes(raw[:length])
        (report,) = checked(path, log_keys=[desk.key])
        assert (report.code, faults([report])) == (TORN, [("file", TORN)]), length


def test_a_consistency_proof_needs_the_older_checkpoint(desk: Desk) -> None:
    assert checked(desk.grown, log_keys=[desk.key])[0].code == UNVERIFIABLE
    reports = checked(desk.grown, desk.older, log_keys=[desk.key])
    assert [each.code for each in reports] == [INTACT, INTACT]
    fork = sealed_ledger("T-7")
    note = fork.note(desk.old.checkpoint.size, desk.forge.keys["log"])
    other = desk.put("other", note.encode())
    report, _ = checked(desk.grown, other, log_keys=[desk.key])
    assert faults([report]) == [("consistency", FORKED)]


def test_what_is_of_no_kind_is_said_to_be(desk: Desk, tmp_path: Path) -> None:
    for raw in (b"", b"\x00", b"hello\n", b"{}", b"hello\nworld\n", b"\xff" * 100):
        with pytest.raises(BadData, match="found something else"):
            checked(desk.put("x", raw))
    with pytest.raises(NoInput, match="found none"):
        checked(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    with pytest.raises(NoInput, match="a folder without checkpoint"):
        checked(tmp_path / "folder")
    (tmp_path / "folder" / "checkpoint").write_text("as a bundle has one, too")
    (tmp_path / "folder" / "manifest.json").write_text("{}")
    with pytest.raises(BadData, match="found an unpacked bundle"):
        checked(tmp_path / "folder")
    with pytest.raises(Misuse, match="each file once"):
        check_files([str(desk.proof), str(desk.proof)])


# ── against one another ──────────────────────────────────────────────────────────────────────────────


def test_two_checkpoints_of_one_size_and_two_roots_are_a_split_log(desk: Desk) -> None:
    fork = sealed_ledger("T-7")
    judged(fork, "T-8")
    note = fork.note(desk.new.checkpoint.size, desk.forge.keys["log"])
    other = desk.put("other", note.encode())
    *each, together = checked(desk.newer, other, log_keys=[desk.key])
    assert [report.code for report in each] == [INTACT, INTACT]  # alone, each of them holds
    assert faults([together]) == [("checkpoints", FORKED)]
    # Of two keys that are not one log's, it is no split.
    stranger = desk.put("stranger", fork.note(desk.new.checkpoint.size, Key("stranger")).encode())
    assert len(checked(desk.newer, stranger, log_keys=[desk.key])) == 2


def test_a_split_view_convicts_whoever_holds_the_key(desk: Desk) -> None:
    fork = sealed_ledger("T-7")
    judged(fork, "T-8")
    note = fork.note(desk.new.checkpoint.size, desk.forge.keys["log"])
    view = find(desk.new, SignedCheckpoint.parse(note.encode()), None)
    assert view is not None
    path = desk.put("split.json", view.raw)
    (report,) = checked(path, log_keys=[desk.key])
    assert (report.code, faults([report])) == (FORKED, [("split view", FORKED)])
    assert report.said
    (report,) = checked(path)
    assert faults([report]) == [("split view", UNVERIFIABLE)]
    # Two checkpoints that agree show nothing.
    agreeing = desk.put("agreeing.json", replace(view, newer=desk.new, older=desk.new).raw)
    (report,) = checked(agreeing, log_keys=[desk.key])
    assert ("file", TAMPERED) in faults([report])


def test_a_split_view_of_a_key_that_was_not_the_only_signer(desk: Desk) -> None:
    """Around a rotation the older checkpoint has both keys' signatures, the newer one that of the second."""
    newer = Key("newer")
    second = NoteKey(desk.key.name, newer.public)
    forge = desk.forge
    forge.enrol("log", newer)
    forge.seal()
    size = len(forge.rows)
    both = SignedCheckpoint.parse(forge.note(size, newer).encode())
    first = sign_note(both.note.text, desk.key, Key(f"forge/log/{LOG_ENROLLED_AT}").sign)
    both = replace(
        both, note=replace(both.note, signatures=(*first.signatures, *both.note.signatures))
    )
    fork = sealed_ledger("T-7")
    judged(fork, "T-8", "T-9")
    other = SignedCheckpoint.parse(fork.note(size, newer).encode())
    view = find(both, other, None)
    assert view is not None
    path = desk.put("split.json", view.raw)
    for keys in ([desk.key, second], [second, desk.key]):
        (report,) = checked(path, log_keys=keys)
        assert (report.code, faults([report])) == (FORKED, [("split view", FORKED)])
        assert report.anchored
        assert report.said[0].startswith(f"{second.name}+{second.keyid.hex()} signed size")
    # The keys of a ledger at hand do as well.
    whole = desk.folder / "whole.zip"
    bundle(forge, whole)
    report, _ = checked(path, whole, trust=trust_of(forge))
    assert faults([report]) == [("split view", FORKED)]
    # By the first key alone it convicts nobody, and that is no tampering.
    (report,) = checked(path, log_keys=[desk.key])
    assert faults([report]) == [("split view", UNVERIFIABLE)]


def test_heads_alone_and_a_later_record_with_its_proof_convict(desk: Desk) -> None:
    """The statement of T-1's heads is of the whole log; a second attempt it does not name is in there."""
    forge = desk.forge
    forge.start_attempt("T-1", 2)
    forge.seal()
    log = sealed_log(forge.source())
    index = log.size - 1
    raw = forge.rows[index].record
    later = desk.put(
        "later.tlog-proof",
        InclusionProof(index, log.view.inclusion(index), log.checkpoint, raw).raw,
    )
    # As of its own size the statement is true: the record stands past it.
    reports = checked(desk.heads, later, log_keys=[desk.key])
    assert [each.code for each in reports] == [INTACT, INTACT]
    # A statement as of the later size that still names the old heads is false.
    said = Heads.parse(parse_envelope(desk.heads.read_bytes()).payload)
    at = log.checkpoint.checkpoint
    signer = forge.keys["log"]
    false = replace(said, size=at.size, root=at.root).sealed(signer.keyid, signer.sign)
    lie = desk.put("lie.json", false.raw)
    *_, together = checked(lie, later, log_keys=[desk.key])
    assert faults([together]) == [("heads", FORKED)]


def test_a_strangers_bundle_convicts_nobody(desk: Desk) -> None:
    """One of the same name, with its own keys: its records were never in this log."""
    other = sealed_ledger("T-1", seed="mallory")
    other.start_attempt("T-1", 2)
    other.seal()
    path = desk.folder / "own.zip"
    bundle(other, path)
    reports = checked(desk.heads, desk.bundle, path, trust=trust_of(desk.forge))
    convicted = [each for each in reports for s in each.said if s.startswith("convicted")]
    assert convicted == []
    assert ("founding", FORKED) in faults(reports)


# ── attestations ─────────────────────────────────────────────────────────────────────────────────────


class Attested:
    """A ledger with an exporter, whose key signs statements that name whatever subject it likes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.forge = folder, Forge().found()
        self.forge.enrol("log")
        self.exporter = self.forge.enrol("exporter")
        judged(self.forge, "T-1")
        self.forge.seal()
        self.bundle = folder / "T-1.zip"
        bundle(self.forge, self.bundle)

    def statement(self, commit: str) -> Path:
        """The attestation of T-1's decision, said to be about that commit; none was recorded of it."""
        forge, log = self.forge, sealed_log(self.forge.source())
        row = forge.rows[forge.at("task/T-1", forge.last("task/T-1", "PanelDecided"))]
        rows = [each.record for each in forge.rows if each.stream == "task/T-1"]
        entry = next(e for e in read_stream("task/T-1", rows) if isinstance(e.event, PanelDecided))
        index = forge.rows.index(row)
        proof = InclusionProof(index, log.view.inclusion(index), log.checkpoint, row.record)
        subject = subject_of("T-1", WorkspaceFacts(commit=commit, tree=None, dirty=False))
        assert subject is not None
        decided = cast("Entry[PanelDecided]", entry)
        payload = statement(forge.origin, log.ledger.founding, "T-1", decided, proof, subject)
        signer = self.exporter
        path = self.folder / "T-1.json"
        path.write_bytes(seal_envelope(payload, ATTESTATION_TYPE, signer.keyid, signer.sign).raw)
        return path


def test_a_subject_is_the_exporters_word_until_the_panel_is_at_hand(tmp_path: Path) -> None:
    attested = Attested(tmp_path)
    path, against = attested.statement("c" * 40), {"trust": trust_of(attested.forge)}
    # Another task's bundle brings the exporter's key, and not the panel.
    judged(attested.forge, "T-2")
    attested.forge.seal()
    other = tmp_path / "T-2.zip"
    bundle(attested.forge, other, "T-2")
    report, _ = checked(path, other, **against)
    assert (report.code, status(report, "subject")) == (INTACT, "NOT CHECKED")
    told = f"T-1: the commit judged, gitCommit:{'c' * 40}"
    assert f"says the exporter's key: it is about {told}" in report.said
    # With the panel it is held against what that recorded: here, no working tree.
    report, _ = checked(path, attested.bundle, **against)
    assert faults([report]) == [("subject", TAMPERED)]
    assert not any("it is about" in sentence for sentence in report.said)


def test_an_attested_decision_convicts_a_statement_that_leaves_it_out(tmp_path: Path) -> None:
    """It carries a record and its place, as any proof does, and is held against all others likewise."""
    attested = Attested(tmp_path)
    forge = attested.forge
    path = attested.statement("c" * 40)
    said = Heads.parse(parse_envelope(unpacked(attested.bundle)[0]["heads.json"]).payload)
    cut = forge.last("task/T-1", "PanelDecided") - 1
    before = StreamHead(cut, parse(forge.rows[forge.at("task/T-1", cut)].record).digest)
    log = forge.keys["log"]
    lie = tmp_path / "lie.json"
    false = replace(said, heads={**said.heads, "task/T-1": before})
    lie.write_bytes(false.sealed(log.keyid, log.sign).raw)
    *_, together = checked(path, lie, log_keys=[log_key_of(forge)])
    assert faults([together]) == [("heads", FORKED)]


def test_a_bundle_with_an_altered_record_convicts_nobody(desk: Desk) -> None:
    """Its sender altered it: that it was ever in the log is not shown, whatever signed the checkpoint."""

    def alter(files: dict[str, bytes]) -> None:
        name = max(
            (n for n, raw in files.items() if n.endswith(".record") and b'"task/T-1"' in raw),
            key=lambda n: parse(files[n]).version,
        )
        files[name] = files[name].replace(b'"at":"2026', b'"at":"2027', 1)

    altered = repacked(desk.bundle, alter)
    reports = checked(altered, desk.heads, desk.proof, log_keys=[desk.key])
    assert ("tree", TAMPERED) in faults([reports[0]])
    assert len(reports) == 3
    assert not any(s.startswith("convicted") for each in reports for s in each.said)


# ── tiles ────────────────────────────────────────────────────────────────────────────────────────────


def test_tiles_are_checked_as_a_whole_ledger(desk: Desk) -> None:
    (report,) = checked(desk.tiles, trust=trust_of(desk.forge))
    assert (report.code, faults([report])) == (INTACT, [])
    for question in ("tree", "records", "signatures", "roles", "chains", "law"):
        assert status(report, question) == "PASS"


@pytest.mark.parametrize("name", ["tile/entries/000.p/*", "tile/0/000.p/*", "checkpoint"])
def test_tiles_that_were_changed(desk: Desk, name: str) -> None:
    (path,) = desk.tiles.glob(name)
    raw = bytearray(path.read_bytes())
    raw[60] ^= 1
    path.write_bytes(raw)
    (report,) = checked(desk.tiles, trust=trust_of(desk.forge))
    assert report.code == TAMPERED


def test_tiles_of_which_one_is_gone(desk: Desk) -> None:
    shutil.rmtree(desk.tiles / "tile" / "entries")
    (report,) = checked(desk.tiles, trust=trust_of(desk.forge))
    assert faults([report]) == [("tree", TRUNCATED)]


# ── any bytes ────────────────────────────────────────────────────────────────────────────────────────


BEGINNINGS = (
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"c2sp.org/tlog-proof@v1\n",
    b"old 7\n",
    b'{"kind":"causebook split view/1","newer":"',
    b'{"payload":"',
    b'{"at":"',
    b"o\n7\n",
)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(BEGINNINGS), st.binary(max_size=300))
def test_any_bytes_are_answered_by_a_report_or_a_named_error(
    tmp_path: Path, beginning: bytes, rest: bytes
) -> None:
    path = tmp_path / "x"
    path.write_bytes(beginning + rest)
    with suppress(CausebookError):
        (report,) = checked(path)
        assert report.code in (TORN, TAMPERED, UNVERIFIABLE)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_any_change_of_a_proof_is_found(tmp_path: Path, data: st.DataObject) -> None:
    """No byte of a proof with its record can be another."""
    forge = FORGE
    raw = bytearray(PROOF)
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != raw[at]))
    path = tmp_path / "x"
    path.write_bytes(raw)
    with suppress(CausebookError):
        (report,) = checked(path, log_keys=[log_key_of(forge)])
        assert report.code in (TORN, TAMPERED, UNVERIFIABLE)


FORGE: Forge = sealed_ledger("T-1")
LOG_ENROLLED_AT = next(
    n for n, row in enumerate(FORGE.rows) if row.type == "KeyEnrolled" and b'"log"' in row.record
)
LOG = sealed_log(FORGE.source())
PROOF = InclusionProof(9, LOG.view.inclusion(9), LOG.checkpoint, FORGE.rows[9].record).raw
