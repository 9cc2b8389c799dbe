"""What a bundle's sender can do, and that it is found. Each beside its untouched twin, which holds.

The sender writes every byte of the file. Most of these also make the manifest fit what they changed, so that
nothing but the thing attacked can find them.
"""

from __future__ import annotations

import hashlib
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.bundle.archive import (
    MANIFEST,
    Archive,
    BundleError,
    Entry,
    order,
    write_archive,
)
from causebook.adapters.bundle.manifest import FileFacts
from causebook.adapters.checking.report import FileReport
from causebook.adapters.findings import (
    DIFFERS,
    FIRST_LOOK,
    FORKED,
    INTACT,
    TAMPERED,
    TORN,
    TRUNCATED,
    UNVERIFIABLE,
)
from causebook.adapters.verification.verify import verify
from causebook.domain.checkpoint import Checkpoint, SignedCheckpoint
from causebook.domain.dsse import parse_envelope
from causebook.domain.errors import BadData
from causebook.domain.events import KeyEnrolled
from causebook.domain.heads import Heads, StreamHead
from causebook.domain.note import NoteKey, sign_note
from causebook.domain.proof import InclusionProof
from causebook.domain.record import digest, parse
from causebook.projections.tree import grow, inclusion_proof, leaf_hash, node_hash
from tests.adapters.bundles import (
    Files,
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
from tests.adapters.forge import Forge, Key, document, signed_row


@pytest.fixture
def forge() -> Forge:
    return sealed_ledger()


@pytest.fixture
def given(forge: Forge, tmp_path: Path) -> Path:
    """A bundle of T-1 with all that can be in it: the untouched twin, which holds."""
    path = tmp_path / "T-1.zip"
    bundle(forge, path, evidence=True)
    (report,) = checked(path, trust=trust_of(forge))
    assert (report.code, faults([report])) == (INTACT, [])
    return path


def found(report: FileReport) -> list[tuple[str, int]]:
    return faults([report])


def dropped(files: Files, which: Callable[[str, int], bool]) -> None:
    """Drop the records of these streams and versions, and their proofs."""
    for name in [name for name in files if name.endswith(".record")]:
        record = parse(files[name])
        if which(record.stream, record.version):
            del files[name], files[name.replace(".record", ".tlog-proof")]


# ── what is left out ─────────────────────────────────────────────────────────────────────────────────


def test_a_key_retired_dropped_from_the_end_of_the_ledger_stream(tmp_path: Path) -> None:
    """With the statement of heads, and without it by the trust file alone."""
    forge = sealed_ledger()
    forge.retire(forge.keys["engine"], len(forge.rows))
    forge.seal()
    path = tmp_path / "T-1.zip"
    bundle(forge, path)
    twin = checked(path, trust=trust_of(forge))
    assert (twin[0].code, faults(twin)) == (INTACT, [])
    last = trust_of(forge).ledger_version

    def drop(files: Files) -> None:
        dropped(files, lambda stream, version: (stream, version) == ("ledger", last))

    (report,) = checked(repacked(path, drop))
    assert found(report) == [("heads", TRUNCATED)]

    def drop_both(files: Files) -> None:
        drop(files)
        del files["heads.json"]

    (report,) = checked(repacked(path, drop_both), trust=trust_of(forge))
    assert found(report) == [("founding", TRUNCATED)]
    assert report.code == TRUNCATED


def test_a_key_retired_dropped_from_the_middle_of_the_ledger_stream(tmp_path: Path) -> None:
    forge = sealed_ledger()
    forge.retire(forge.keys["engine"], len(forge.rows))
    forge.enrol("engine", Key("another"))
    forge.seal()
    path = tmp_path / "T-1.zip"
    bundle(forge, path)
    assert checked(path)[0].code == FIRST_LOOK
    version = forge.last("ledger", "KeyRetired")

    def drop(files: Files) -> None:
        dropped(files, lambda stream, number: (stream, number) == ("ledger", version))

    (report,) = checked(repacked(path, drop))
    assert ("chains", TAMPERED) in found(report)
    assert report.code == TAMPERED


def test_one_tasks_last_events_dropped_and_its_head_stated_anew(
    forge: Forge, given: Path, tmp_path: Path
) -> None:
    """The sender drops them; then, holding the log's key, states heads that fit. Then a record convicts."""
    cut = forge.last("task/T-1", "PanelDecided")
    decided = forge.at("task/T-1", cut)

    def drop(files: Files) -> None:
        dropped(files, lambda stream, number: stream == "task/T-1" and number >= cut)

    (report,) = checked(repacked(given, drop), trust=trust_of(forge))
    assert found(report) == [("heads", TRUNCATED)]
    assert not any(sentence.startswith("complete") for sentence in report.said)

    def lie(files: Files) -> None:
        drop(files)
        stated = Heads.parse(parse_envelope(files["heads.json"]).payload)
        before = forge.rows[forge.at("task/T-1", cut - 1)]
        heads = {**stated.heads, "task/T-1": StreamHead(cut - 1, digest(before.record))}
        log = forge.keys["log"]
        files["heads.json"] = replace(stated, heads=heads).sealed(log.keyid, log.sign).raw

    lying = repacked(given, lie)
    (report,) = checked(lying, trust=trust_of(forge))
    assert found(report) == []  # alone, it is the word of the log's key
    assert any("asserted by" in sentence for sentence in report.said)

    files, _ = unpacked(given)
    proof = InclusionProof.parse(files[f"records/{decided}.tlog-proof"])
    later = tmp_path / "later.tlog-proof"
    later.write_bytes(replace(proof, extra=forge.rows[decided].record).raw)
    *_, together = checked(lying, later, trust=trust_of(forge))
    assert found(together) == [("heads", FORKED)]
    assert any(sentence.startswith("convicted: ") for sentence in together.said)
    # The record alone lies after the head, and its place is not shown; with the whole bundle it is.
    record = tmp_path / "later.record"
    record.write_bytes(forge.rows[decided].record)
    reports = checked(lying, record, trust=trust_of(forge))
    assert faults(reports) == []
    assert any(sentence.startswith("after a head: ") for sentence in reports[0].said)
    *_, together = checked(lying, given, trust=trust_of(forge))
    assert {code for _, code in found(together)} == {FORKED}
    # The untouched bundle and the same proof agree.
    reports = checked(given, later, trust=trust_of(forge))
    assert (len(reports), faults(reports)) == (2, [])


def test_a_bundle_without_any_record_is_a_fault_and_ends_no_other_check(
    given: Path, forge: Forge
) -> None:
    """Else one file that says nothing would keep the findings about all others from being said."""

    def drop(files: Files) -> None:
        dropped(files, lambda stream, version: True)

    empty = repacked(given, drop)
    reports = checked(empty, given, trust=trust_of(forge))
    assert [each.code for each in reports] == [TAMPERED, INTACT]
    assert found(reports[0]) == [("files", TAMPERED)]


def test_evidence_missing_without_an_erasure(given: Path, forge: Forge) -> None:
    def drop(files: Files) -> None:
        name = next(name for name in files if name.endswith(".salt"))
        del files[name], files[name.replace(".salt", ".bytes")]

    (report,) = checked(repacked(given, drop), trust=trust_of(forge))
    assert found(report) == [("evidence", DIFFERS)]
    assert report.code == DIFFERS


def test_evidence_erased_by_a_named_person_is_not_missing(tmp_path: Path) -> None:
    """The twin of the above: its erasure is in the stream `ledger`, which the bundle holds."""
    forge = sealed_ledger()
    forge.erase("T-1")
    forge.seal()
    path = tmp_path / "T-1.zip"
    bundle(forge, path, evidence=True)
    (report,) = checked(path, trust=trust_of(forge))
    assert (report.code, found(report)) == (INTACT, [])


# ── what is put in ───────────────────────────────────────────────────────────────────────────────────


def test_evidence_swapped_between_two_events(given: Path, forge: Forge) -> None:
    def swap(files: Files) -> None:
        one, other = [name for name in files if name.endswith(".salt")][:2]
        for first in (one, one.replace(".salt", ".bytes")):
            second = first.replace(one[9:73], other[9:73])
            files[first], files[second] = files[second], files[first]

    (report,) = checked(repacked(given, swap), trust=trust_of(forge))
    assert found(report) == [("evidence", TAMPERED), ("evidence", TAMPERED)]


def test_a_bundle_that_brings_its_own_root_key(given: Path, forge: Forge, tmp_path: Path) -> None:
    """Another founding under the same name, all of it lawful and well signed."""
    other = sealed_ledger(seed="mallory")
    path = tmp_path / "own.zip"
    bundle(other, path, evidence=True)
    (report,) = checked(path)
    assert (report.code, found(report)) == (FIRST_LOOK, [])  # nothing speaks against it, or for it
    (report,) = checked(path, trust=trust_of(forge))
    assert found(report) == [("founding", FORKED)]
    (report,) = checked(path, log_keys=[log_key_of(forge)])
    assert report.code == FORKED
    assert set(found(report)) == {("founding", FORKED), ("checkpoint", UNVERIFIABLE)}
    *_, together = checked(given, path)
    assert ("founding", FORKED) in found(together)


def test_a_bundle_that_enrols_the_true_log_key_under_another_root(
    forge: Forge, tmp_path: Path
) -> None:
    """The possession signature of the log's key is replayed: same nonce, same name, another root.

    It was given for one root, and is held against the one that founded: nobody reads on, writer or checker.
    """
    root, log = Key("mallory"), Key("mallory's log")
    mallory = Forge(seed="mallory").found()
    mallory.rows.clear()
    said = document(forge.rows[0])
    said["data"]["root_key"] = root.text
    mallory.rows.append(signed_row(said, root))
    mallory._heads = {"ledger": (1, digest(mallory.rows[0].record))}
    mallory.nonce, mallory.keys["root"] = forge.nonce, root
    for role in ("engine", "authority"):
        mallory.enrol(role, mallory.keys[role])
    replayed = next(
        data
        for data in (document(row)["data"] for row in forge.rows if row.type == "KeyEnrolled")
        if data["role"] == "log"
    )
    mallory.write("ledger", KeyEnrolled.model_validate(replayed))
    mallory.enrol("log", log)
    judged(mallory, "T-1")
    mallory.seal()
    with pytest.raises(BadData, match="ledger v4: possession: the new key did not sign"):
        bundle(mallory, tmp_path / "own.zip")
    report = verify(mallory.source(), processes=0)
    assert report.code == TAMPERED
    assert [each.place for each in report["roles"].findings] == ["ledger v4"]


def test_a_transplanted_stream(forge: Forge, given: Path, tmp_path: Path) -> None:
    """The records of an evaluation of another task, proofs and all, in this one's bundle."""
    other = tmp_path / "T-2.zip"
    bundle(forge, other, "T-2")
    donor, _ = unpacked(other)

    def transplant(files: Files) -> None:
        for name, raw in donor.items():
            if name.endswith(".record") and parse(raw).stream.startswith("evaluation/T-2/"):
                proof = name.replace(".record", ".tlog-proof")
                files[name], files[proof] = raw, donor[proof]

    (report,) = checked(repacked(given, transplant), trust=trust_of(forge))
    assert ("records", TAMPERED) in found(report)


def test_a_stream_transplanted_from_a_clone(forge: Forge, given: Path, tmp_path: Path) -> None:
    """The same streams of another ledger of the same name, in place of this one's."""
    other = tmp_path / "clone.zip"
    bundle(sealed_ledger(seed="clone"), other, evidence=True)
    donor, _ = unpacked(other)

    def transplant(files: Files) -> None:
        for name in [n for n in files if n.endswith(".record")]:
            if parse(files[name]).stream.startswith("evaluation/"):
                files[name] = donor[name]

    (report,) = checked(repacked(given, transplant), trust=trust_of(forge))
    assert {("tree", TAMPERED), ("signatures", TAMPERED), ("chains", TAMPERED)} <= set(
        found(report)
    )


def test_an_altered_record(forge: Forge, given: Path) -> None:
    def alter(files: Files) -> None:
        name = next(n for n in files if n.endswith(".record") and b'"blocker"' in files[n])
        files[name] = files[name].replace(b'"blocker"', b'"pass"')

    (report,) = checked(repacked(given, alter), trust=trust_of(forge))
    assert {("tree", TAMPERED), ("signatures", TAMPERED)} <= set(found(report))


def test_a_stripped_record_signature(forge: Forge, given: Path) -> None:
    def strip(files: Files) -> None:
        name = next(n for n in files if n.endswith(".record"))
        files[name] = files[name].split(b"\n")[0] + b"\n"

    (report,) = checked(repacked(given, strip), trust=trust_of(forge))
    assert ("records", TAMPERED) in found(report)


def test_a_stripped_log_signature(forge: Forge, given: Path) -> None:
    """The signature of the log's key, in place of which stands one of somebody."""

    def strip(files: Files) -> None:
        signed = SignedCheckpoint.parse(files["checkpoint"])
        stranger = Key("stranger")
        note = sign_note(
            signed.note.text, NoteKey("stranger.example", stranger.public), stranger.sign
        )
        for name in list(files):
            files[name] = files[name].replace(signed.note.raw, note.raw)

    (report,) = checked(repacked(given, strip), trust=trust_of(forge))
    assert (status(report, "checkpoint"), report.code) == ("NOT CHECKED", UNVERIFIABLE)
    (report,) = checked(repacked(given, strip), log_keys=[log_key_of(forge)])
    assert found(report) == [("checkpoint", UNVERIFIABLE)]


def test_a_log_signature_that_does_not_hold(forge: Forge, given: Path) -> None:
    def forge_it(files: Files) -> None:
        signed = SignedCheckpoint.parse(files["checkpoint"])
        note = sign_note(signed.note.text, log_key_of(forge), Key("stranger").sign)
        for name in list(files):
            files[name] = files[name].replace(signed.note.raw, note.raw)

    (report,) = checked(repacked(given, forge_it), trust=trust_of(forge))
    assert found(report) == [("checkpoint", TAMPERED)]


def test_heads_signed_by_another_key(forge: Forge, given: Path) -> None:
    def restate(files: Files) -> None:
        stated = Heads.parse(parse_envelope(files["heads.json"]).payload)
        engine = forge.keys["engine"]
        files["heads.json"] = stated.sealed(engine.keyid, engine.sign).raw

    (report,) = checked(repacked(given, restate), trust=trust_of(forge))
    assert found(report) == [("heads", TAMPERED)]


# ── proofs ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_proof_against_an_unsigned_root(forge: Forge, tmp_path: Path) -> None:
    """A root of the sender's own making, over a record of his own."""
    raw = forge.rows[7].record.replace(b"T-1", b"T-9")
    stranger = Key("stranger")
    text = Checkpoint(forge.origin, 1, leaf_hash(raw)).text
    note = sign_note(text, NoteKey(forge.origin, stranger.public), stranger.sign)
    proof = InclusionProof(0, (), SignedCheckpoint.parse(note.raw), raw)
    path = tmp_path / "p.tlog-proof"
    path.write_bytes(proof.raw)
    (report,) = checked(path, log_keys=[log_key_of(forge)])
    assert found(report) == [("checkpoint", UNVERIFIABLE)]
    (report,) = checked(path)
    assert report.code == UNVERIFIABLE


def test_a_proof_for_size_0(forge: Forge, tmp_path: Path) -> None:
    empty = Checkpoint(forge.origin, 0, hashlib.sha256(b"").digest())
    log = forge.keys["log"]
    note = sign_note(empty.text, log_key_of(forge), log.sign)
    path = tmp_path / "p.tlog-proof"
    path.write_bytes(b"c2sp.org/tlog-proof@v1\nindex 0\n\n" + note.raw)
    (report,) = checked(path, log_keys=[log_key_of(forge)])
    assert found(report) == [("file", TAMPERED)]
    assert "size: expected at least 1, found 0" in report.answers[0].faults[0].found


def test_a_leaf_passed_off_as_a_node(forge: Forge, tmp_path: Path) -> None:
    """The two children of a node as a record: where leaf and node hashed alike it would be in the log."""
    left, right = (leaf_hash(row.record) for row in forge.rows[:2])
    signed = SignedCheckpoint.parse(forge.sealed[-1].note)
    honest = InclusionProof(
        0, _path(forge, 0, signed.checkpoint.size), signed, forge.rows[0].record
    )
    path = tmp_path / "p.tlog-proof"
    path.write_bytes(honest.raw)
    (report,) = checked(path, log_keys=[log_key_of(forge)])
    assert (report.code, found(report)) == (INTACT, [])
    # One level up: the path without its first hash, and the pair in place of the record.
    assert node_hash(left, right) != leaf_hash(left + right)
    path.write_bytes(InclusionProof(0, honest.path[1:], signed, left + right).raw)
    (report,) = checked(path, log_keys=[log_key_of(forge)])
    assert ("inclusion", TAMPERED) in found(report)


def test_a_proof_moved_to_another_index(forge: Forge, tmp_path: Path) -> None:
    signed = SignedCheckpoint.parse(forge.sealed[-1].note)
    path = tmp_path / "p.tlog-proof"
    proof = _path(forge, 3, signed.checkpoint.size)
    path.write_bytes(InclusionProof(4, proof, signed, forge.rows[3].record).raw)
    (report,) = checked(path, log_keys=[log_key_of(forge)])
    assert found(report) == [("inclusion", TAMPERED)]


# ── zip files ────────────────────────────────────────────────────────────────────────────────────────


def refused(path: Path) -> tuple[str, int]:
    """What the reader says of a zip, and what `check` says of the file."""
    with path.open("rb") as file, pytest.raises(BundleError) as error:
        Archive(file)
    (report,) = checked(path)
    assert found(report) == [("files", error.value.code)]
    return error.value.message, error.value.code


def zipped(path: Path, entries: list[tuple[zipfile.ZipInfo | str, bytes]], **options: Any) -> Path:
    """A zip file as other tools write it."""
    with zipfile.ZipFile(path, "w", **options) as archive:
        for info, content in entries:
            archive.writestr(info, content)
    return path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../outside", "leads out"),
        ("records/../../outside", "leads out"),
        ("..\\outside", "leads out"),
        ("/etc/cron.d/x", "an absolute one"),
        ("C:\\x", "an absolute one"),
        ("records/\x1b[2J", "expected a name of"),
        ("records//x", "expected a name of"),
        (".hidden", "expected a name of"),
        ("x" * 201, "at most 200 bytes"),
    ],
)
def test_a_zip_with_names_that_lead_elsewhere(tmp_path: Path, name: str, said: str) -> None:
    path = zipped(tmp_path / "x.zip", [(name, b"x")])
    message, code = refused(path)
    assert said in message
    assert code == TAMPERED
    assert message.isprintable()
    assert {each.name for each in tmp_path.iterdir()} == {"x.zip"}


def test_a_zip_bomb(tmp_path: Path) -> None:
    path = zipped(
        tmp_path / "x.zip",
        [("records/0.record", b"0" * 50_000_000)],
        compression=zipfile.ZIP_DEFLATED,
    )
    assert path.stat().st_size < 100_000
    assert "found it compressed" in refused(path)[0]


def test_a_zip_whose_sizes_lie(given: Path, tmp_path: Path) -> None:
    raw = bytearray(given.read_bytes())
    directory = raw.rindex(b"PK\x01\x02")
    raw[directory + 24 : directory + 28] = struct.pack("<I", 0xFFFF_FFF0)  # the size unpacked
    path = tmp_path / "x.zip"
    path.write_bytes(raw)
    assert "expected one size" in refused(path)[0]


def test_a_zip_whose_entries_overlap(given: Path, tmp_path: Path) -> None:
    """Two lines of the directory that point at the same bytes, as in a bomb that needs no compression."""
    raw = given.read_bytes()
    with given.open("rb") as file:
        entries = list(Archive(file).entries.values())
    first, second = entries[0], entries[1]
    moved = second.central[:42] + struct.pack("<I", first.offset) + second.central[46:]
    path = tmp_path / "x.zip"
    path.write_bytes(raw.replace(second.central, moved))
    assert "right after the one before" in refused(path)[0]


def test_a_truncated_zip(given: Path, forge: Forge, tmp_path: Path) -> None:
    raw = given.read_bytes()
    path = tmp_path / "x.zip"
    for length in (len(raw) - 1, len(raw) - 22, len(raw) // 2, 30):
        path.write_bytes(raw[:length])
        (report,) = checked(path, trust=trust_of(forge))
        assert (report.code, found(report)) == (TORN, [("files", TORN)])


def test_a_zip_with_bytes_after_its_end(given: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(given.read_bytes() + b"more")
    message, code = refused(path)
    assert (code, "nothing after its directory" in message) == (TAMPERED, True)


def test_a_zip_with_bytes_before_its_first_entry(given: Path, tmp_path: Path) -> None:
    raw = given.read_bytes()
    path = tmp_path / "x.zip"
    path.write_bytes(b"PK\x03\x04" + raw)
    assert refused(path)[1] == TAMPERED


def test_a_zip_that_names_a_file_twice(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    # As our own writer would have written it, were it to write a name twice.
    entries = [
        Entry("checkpoint", 3, zlib.crc32(each), at) for each, at in ((b"one", 0), (b"two", 43))
    ]
    raw = b"".join(e.local + c for e, c in zip(entries, (b"one", b"two"), strict=True))
    lines = b"".join(entry.central for entry in entries)
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 2, 2, len(lines), len(raw), 0)
    path.write_bytes(raw + lines + end)
    message, code = refused(path)
    assert (code, "found it twice" in message) == (TAMPERED, True)


def test_a_zip_that_holds_a_link(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("checkpoint")
    link.create_system = 3
    link.external_attr = 0o120777 << 16
    path = zipped(tmp_path / "x.zip", [(link, b"/etc/passwd")])
    assert "found a link" in refused(path)[0]


def test_a_zip_that_holds_an_encrypted_file(given: Path, tmp_path: Path) -> None:
    raw = bytearray(given.read_bytes())
    directory = raw.rindex(b"PK\x01\x02")
    raw[directory + 8] |= 1
    path = tmp_path / "x.zip"
    path.write_bytes(raw)
    assert "found an encrypted one" in refused(path)[0]


def test_a_zip_whose_directory_says_other_than_its_entries(given: Path, tmp_path: Path) -> None:
    raw = given.read_bytes()
    name = b"VERIFY.md"
    assert raw.count(name) > 2
    path = tmp_path / "x.zip"
    path.write_bytes(raw.replace(name, b"VERIFY.ME", 1))  # in the entry's own header alone
    assert "what the directory says" in refused(path)[0]


def test_a_zip_whose_count_of_entries_lies(given: Path, tmp_path: Path) -> None:
    raw = bytearray(given.read_bytes())
    for count in (1, 0xFFFE, 0xFFFF):
        raw[-14:-10] = struct.pack("<HH", count, count)
        path = tmp_path / "x.zip"
        path.write_bytes(raw)
        assert refused(path)[1] == TAMPERED


def test_a_manifest_of_more_than_the_archive_holds(given: Path, tmp_path: Path) -> None:
    """It would take thirty times its size to read, before the first of its names is missed."""
    files, said = unpacked(given)
    path = tmp_path / "many.zip"
    raw = said.raw.replace(b'"files":[', b'"files":[' + b"{}," * 100_000, 1)
    content = {**files, MANIFEST: raw}
    with path.open("wb") as file:
        write_archive(file, ((name, content[name]) for name in sorted(content, key=order)))
    (report,) = checked(path)
    assert report.code == TAMPERED
    assert "expected one entry for each file" in str(report.answers)


def test_a_file_that_the_manifest_does_not_name(given: Path, forge: Forge, tmp_path: Path) -> None:
    files, manifest = unpacked(given)
    files[MANIFEST] = manifest.raw
    files["zzz"] = b"more"
    path = tmp_path / "x.zip"
    with path.open("wb") as file:
        write_archive(file, ((name, files[name]) for name in sorted(files, key=order)))
    (report,) = checked(path, trust=trust_of(forge))
    assert found(report) == [("files", TAMPERED)]
    assert "does not name" in report.answers[0].faults[0].found
    # And one that it names, of a kind that no bundle holds.
    (report,) = checked(repacked(given, lambda files: files.update({"zzz": b"more"})))
    assert "a file that a bundle can hold" in report.answers[0].faults[0].found


def test_a_file_that_the_manifest_says_otherwise(given: Path, forge: Forge, tmp_path: Path) -> None:
    files, manifest = unpacked(given)
    files["VERIFY.md"] = files["VERIFY.md"].replace(b"OpenSSL", b"OpenSSH")
    files[MANIFEST] = manifest.raw
    path = tmp_path / "x.zip"
    with path.open("wb") as file:
        write_archive(file, ((name, files[name]) for name in sorted(files, key=order)))
    (report,) = checked(path, trust=trust_of(forge))
    assert found(report) == [("files", TAMPERED)]
    assert FileFacts.of(files["VERIFY.md"]).sha256 in report.answers[0].faults[0].found


# ── helpers ──────────────────────────────────────────────────────────────────────────────────────────


def _path(forge: Forge, index: int, size: int) -> tuple[bytes, ...]:
    tiles = grow(lambda level, number: b"", 0, [leaf_hash(row.record) for row in forge.rows[:size]])
    return inclusion_proof(lambda *at: tiles.get(at, b""), index, size)
