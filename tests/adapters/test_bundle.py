"""Bundles: what is in one, that it is the same to the byte, and what its checker says of it."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import subprocess
import sys
import zipfile
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causebook.adapters.bundle.archive import (
    ENTRIES_MAX,
    ENTRY_BYTES_MAX,
    MANIFEST,
    Archive,
    BundleError,
    Entry,
    order,
    write_archive,
)
from causebook.adapters.bundle.manifest import FileFacts, Manifest
from causebook.adapters.bundle.write import sealed_task, write_bundle
from causebook.adapters.findings import FIRST_LOOK, FORKED, INTACT, TAMPERED, UNVERIFIABLE
from causebook.adapters.handover.attestation import attest
from causebook.adapters.handover.new_file import write_new
from causebook.domain.checkpoint import SignedCheckpoint, cosign
from causebook.domain.errors import BadData, CannotCreate, NoInput
from causebook.domain.limits import RECORD_BYTES_MAX
from causebook.domain.note import COSIGNATURE, NOTE_BYTES_MAX, NoteKey, NoteSignature
from causebook.domain.policy import Policy
from causebook.domain.proof import HASHES_MAX, InclusionProof
from causebook.domain.record import digest, parse
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


@pytest.fixture
def forge() -> Forge:
    return sealed_ledger()


def streams_in(path: Path) -> set[str]:
    files, _ = unpacked(path)
    return {parse(raw).stream for name, raw in files.items() if name.endswith(".record")}


# ── what is in it ────────────────────────────────────────────────────────────────────────────────────


def test_it_holds_the_task_and_the_ledger_stream_and_nothing_of_another(
    forge: Forge, tmp_path: Path
) -> None:
    path = tmp_path / "T.zip"
    written = bundle(forge, path)
    assert streams_in(path) == {
        "ledger",
        "task/T-1",
        "evaluation/T-1/1/post_execute/security",
        "evaluation/T-1/1/post_execute/testing",
    }
    files, manifest = unpacked(path)
    wanted = {
        index: row.record
        for index, row in enumerate(forge.rows)
        if row.stream == "ledger" or row.stream.split("/")[1] == "T-1"
    }
    assert {
        int(name[8:-7]): raw for name, raw in files.items() if name.endswith(".record")
    } == wanted
    assert written.records == len(wanted)
    assert manifest.founding == digest(forge.rows[0].record)
    assert not any(name.startswith("evidence/") for name in files)


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    """Whenever it is exported, wherever, and by whichever process."""
    bundle(sealed_ledger(), tmp_path / "here.zip", evidence=True)
    script = (
        "import sys, pathlib, tests.adapters.bundles as b;"
        "b.bundle(b.sealed_ledger(), pathlib.Path(sys.argv[1]), evidence=True)"
    )
    for number, zone in enumerate(("UTC", "Pacific/Auckland")):
        there = tmp_path / f"{number}.zip"
        subprocess.run(
            [sys.executable, "-c", script, there],
            cwd=Path(__file__).parents[2],
            env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": str(number + 1), "TZ": zone},
            check=True,
        )
        assert there.read_bytes() == (tmp_path / "here.zip").read_bytes()


def test_any_unzip_reads_it(forge: Forge, tmp_path: Path) -> None:
    path = tmp_path / "T.zip"
    bundle(forge, path, evidence=True)
    files, manifest = unpacked(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.read(MANIFEST) == manifest.raw
        assert {name: archive.read(name) for name in files} == files
        for info in archive.infolist():
            assert info.date_time == (1980, 1, 1, 0, 0, 0)
            assert info.compress_type == zipfile.ZIP_STORED


def test_evidence_is_in_it_where_it_is_asked_for(forge: Forge, tmp_path: Path) -> None:
    path = tmp_path / "T.zip"
    written = bundle(forge, path, evidence=True)
    files, _ = unpacked(path)
    salts = [name for name in files if name.endswith(".salt")]
    assert len(salts) == written.evidence > 5
    for name in salts:
        body = files[name.replace(".salt", ".bytes")]
        assert hashlib.sha256(files[name] + body).hexdigest() == name[9:73]
    assert {row.task for row in forge.evidence.values()} == {"T-1", "T-2"}
    assert len(salts) < len(forge.evidence)


def test_evidence_that_is_missing_is_not_passed_over(forge: Forge, tmp_path: Path) -> None:
    gone = next(row.commitment for row in forge.evidence.values() if row.task == "T-1")
    del forge.evidence[gone]
    with pytest.raises(BadData, match="evidence is missing"):
        bundle(forge, tmp_path / "T.zip", evidence=True)
    assert list(tmp_path.iterdir()) == []
    bundle(forge, tmp_path / "T.zip")


# ── as of which checkpoint ───────────────────────────────────────────────────────────────────────────


def test_what_lies_past_the_checkpoint_is_left_out_and_said_to_be(
    forge: Forge, tmp_path: Path
) -> None:
    size = len(forge.rows)
    forge.start_attempt("T-1", 2)
    written = bundle(forge, tmp_path / "T.zip")
    assert (written.size, written.later) == (size, 1)
    forge.seal()
    assert bundle(forge, tmp_path / "newer.zip").later == 0
    assert bundle(forge, tmp_path / "older.zip", size=size).size == size


def test_a_task_that_is_not_sealed_is_not_exported(forge: Forge, tmp_path: Path) -> None:
    forge.open_task("T-3")
    with pytest.raises(NoInput, match="nothing of it is below the checkpoint"):
        bundle(forge, tmp_path / "T.zip", "T-3")
    with pytest.raises(NoInput, match="nothing is recorded of it"):
        bundle(forge, tmp_path / "T.zip", "T-4")
    with pytest.raises(NoInput, match="no checkpoint is kept"):
        bundle(judged(Forge().found(), "T-1"), tmp_path / "T.zip", stated=False)
    assert list(tmp_path.iterdir()) == []


def test_records_that_do_not_hold_are_not_exported(forge: Forge, tmp_path: Path) -> None:
    at = forge.at("task/T-1", 2)
    forge.rows[at] = forge.rows[at]._replace(record=forge.rows[at].record.replace(b"1", b"2"))
    with pytest.raises(BadData):
        bundle(forge, tmp_path / "T.zip")


def test_a_store_that_lost_another_tasks_row_hands_out_nothing_past_it(
    forge: Forge, tmp_path: Path
) -> None:
    """The rows after it have moved up by one, and the tiles have not: no such proof would hold."""
    source = forge.source()
    del source.stored[forge.at("task/T-1", 1)]
    asked: list[str] = []

    def find(keyid: str) -> None:
        asked.append(keyid)

    path = tmp_path / "T-2.zip"
    with pytest.raises(BadData, match="expected the record that the tree has at index") as error:
        write_new(path, lambda file: write_bundle(source, "T-2", file, find_log_key=find))
    assert error.value.hint == "causebook verify says all that is wrong"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BadData, match="expected the record that the tree has at index"):
        attest(sealed_task(source, "T-2"), find)
    assert asked == []  # nobody's key was to sign what such a store says


def test_it_proves_that_the_log_grew_out_of_an_older_checkpoint(
    tmp_path: Path,
) -> None:
    forge = sealed_ledger("T-1")
    older = SignedCheckpoint.parse(forge.sealed[-1].note)
    judged(forge, "T-2")
    forge.seal()
    path = tmp_path / "T.zip"
    assert bundle(forge, path, since=older).since == older.checkpoint.size
    (report,) = checked(path)
    assert status(report, "consistency") == "PASS"
    files, _ = unpacked(path)
    assert files["older-checkpoint"] == older.note.raw
    # Out of that of another history it did not grow, and out of a larger one neither.
    other = sealed_ledger("T-9")
    forked = SignedCheckpoint.parse(other.note(len(other.rows), forge.keys["log"]).encode())
    with pytest.raises(BadData, match="signed by its log key"):
        bundle(forge, tmp_path / "x.zip", since=forked)
    newer = SignedCheckpoint.parse(forge.sealed[-1].note)
    with pytest.raises(NoInput, match="expected a checkpoint up to size"):
        bundle(forge, tmp_path / "x.zip", size=older.checkpoint.size, since=newer)


def test_nothing_is_written_over(forge: Forge, tmp_path: Path) -> None:
    path = tmp_path / "T.zip"
    path.write_bytes(b"mine")
    with pytest.raises(CannotCreate):
        bundle(forge, path)
    assert path.read_bytes() == b"mine"
    link = tmp_path / "link.zip"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(CannotCreate):
        bundle(forge, link)
    assert not (tmp_path / "nowhere").exists()


def test_what_goes_wrong_leaves_nothing_behind(forge: Forge, tmp_path: Path) -> None:
    source = forge.source()

    class Failing(io.BytesIO):
        def write(self, content: Any) -> int:
            if self.tell() > 5_000:
                raise OSError(28, "No space left on device")
            return super().write(content)

    with pytest.raises(OSError, match="No space left"):
        write_bundle(source, "T-1", Failing())
    assert list(tmp_path.iterdir()) == []


# ── what its checker says ────────────────────────────────────────────────────────────────────────────


def test_a_first_look_says_that_it_is_self_asserted(forge: Forge, tmp_path: Path) -> None:
    path = tmp_path / "T.zip"
    bundle(forge, path, evidence=True)
    (report,) = checked(path)
    assert (report.code, faults([report])) == (FIRST_LOOK, [])
    assert status(report, "founding") == "NOT CHECKED"
    assert f"founding {digest(forge.rows[0].record)}" in report.said
    for question in (
        "files",
        "tree",
        "records",
        "signatures",
        "roles",
        "chains",
        "law",
        "evidence",
    ):
        assert status(report, question) == "PASS", question


def test_by_a_trust_file_or_by_the_logs_key_it_holds(forge: Forge, tmp_path: Path) -> None:
    path = tmp_path / "T.zip"
    bundle(forge, path)
    for against in (
        {"trust": trust_of(forge)},
        {"trust": trust_of(forge, 1)},
        {"log_keys": [log_key_of(forge)]},
        {"trust": trust_of(forge), "log_keys": [log_key_of(forge)]},
        {"policy": Policy.parse(f"log {log_key_of(forge).vkey}\nquorum none\n".encode())},
    ):
        (report,) = checked(path, **against)
        assert (report.code, faults([report])) == (INTACT, []), against


def test_with_heads_it_is_complete_as_of_a_size_and_without_as_of_a_closed_attempt(
    forge: Forge, tmp_path: Path
) -> None:
    bundle(forge, tmp_path / "stated.zip")
    bundle(forge, tmp_path / "unstated.zip", stated=False)
    (stated,), (unstated,) = checked(tmp_path / "stated.zip"), checked(tmp_path / "unstated.zip")
    key = log_key_of(forge)
    claim = f"complete as of size {len(forge.rows):,}: asserted by {key.name}+{key.keyid.hex()}"
    assert claim in stated.said
    assert not any("asserted by" in each for each in unstated.said)
    closed = forge.at("task/T-1", forge.last("task/T-1", "AttemptClosed"))
    head = f"complete as of head at index {closed}: "
    assert any(each.startswith(head) for each in stated.said)
    assert any(each.startswith(head) for each in unstated.said)
    assert any("only the whole log proves" in each for each in unstated.said)
    assert status(unstated, "heads") == "NOT CHECKED"


def test_what_lies_after_a_head_is_listed(forge: Forge, tmp_path: Path) -> None:
    forge.start_attempt("T-1", 2)
    forge.seal()
    bundle(forge, tmp_path / "T.zip")
    (report,) = checked(tmp_path / "T.zip")
    index = len(forge.rows) - 1
    version = forge.rows[-1].version
    assert f"after that head: task/T-1 v{version} AttemptStarted, index {index}" in report.said


def test_an_open_task_is_said_to_be_asserted_complete_by_nobody(tmp_path: Path) -> None:
    forge = Forge().found()
    forge.enrol("log")
    forge.open_task("T-1")
    forge.seal()
    bundle(forge, tmp_path / "T.zip", stated=False)
    (report,) = checked(tmp_path / "T.zip")
    assert "nobody asserts that this is all of the task" in report.said


def test_a_key_that_was_rotated_states_and_another_signed(forge: Forge, tmp_path: Path) -> None:
    """The checkpoint is the old key's, the statement the new one's: both are the ledger's."""
    forge.enrol("log", Key("newer"))
    forge.seal()
    path = tmp_path / "T.zip"
    written = bundle(forge, path)
    assert written.heads == log_key_of(forge)
    assert checked(path, trust=trust_of(forge))[0].code == INTACT


def test_a_bundle_from_before_a_rotation_holds_by_either_of_the_keys(
    forge: Forge, tmp_path: Path
) -> None:
    """Whoever has the old key and the new one gives both, and is not told of a fork that is none."""
    old = log_key_of(forge)
    path = tmp_path / "T.zip"
    bundle(forge, path)
    forge.enrol("log", Key("newer"))
    forge.seal()
    new = log_key_of(forge)
    for keys in ([old, new], [new, old]):
        (report,) = checked(path, log_keys=keys)
        assert (report.code, faults([report])) == (INTACT, [])
    stranger = NoteKey(old.name, Key("stranger").public)
    (report,) = checked(path, log_keys=[new, stranger])
    assert ("founding", FORKED) in faults([report])


def test_records_past_the_trust_in_their_key_are_unverifiable_by_their_true_index(
    tmp_path: Path,
) -> None:
    """In a bundle records are fewer than in the log: what counts is where they stand in the log."""
    forge = sealed_ledger("T-2")
    retired_at = len(forge.rows)
    judged(forge, "T-1")
    forge.seal()
    engine = forge.keys["engine"]
    forge.retire(engine, retired_at)
    forge.seal()
    path = tmp_path / "T.zip"
    bundle(forge, path, "T-2")
    assert checked(path, trust=trust_of(forge))[0].code == INTACT
    target = tmp_path / "T-1.zip"
    bundle(forge, target, "T-1")
    (report,) = checked(target, trust=trust_of(forge))
    assert set(faults([report])) == {("roles", UNVERIFIABLE)}
    assert report.code == UNVERIFIABLE


# ── witnesses ────────────────────────────────────────────────────────────────────────────────────────


def cosigned(forge: Forge, witness: Key, name: str, time: int = 1_780_000_000) -> NoteKey:
    """Have a witness cosign the newest checkpoint."""
    key = NoteKey(name, witness.public, COSIGNATURE)
    row = forge.sealed[-1]
    line = cosign(SignedCheckpoint.parse(row.note).note.text, key, time, witness.sign).line
    forge.sealed[-1] = replace(row, cosignatures=(*row.cosignatures, line.encode()))
    return key


def test_cosignatures_kept_beside_the_note_go_with_it_and_a_policy_asks_for_them(
    forge: Forge, tmp_path: Path
) -> None:
    key = cosigned(forge, Key("w"), "w.example/1")
    path = tmp_path / "T.zip"
    bundle(forge, path)
    files, _ = unpacked(path)
    assert files["checkpoint"].count("—".encode()) == 2
    other = NoteKey("w.example/2", Key("other").public, COSIGNATURE)
    log = log_key_of(forge).vkey
    for quorum, code in (("any", INTACT), ("all", UNVERIFIABLE)):
        policy = Policy.parse(
            f"log {log}\nwitness A {key.vkey}\nwitness B {other.vkey}\ngroup G {quorum} A B\n"
            "quorum G\n".encode()
        )
        (report,) = checked(path, policy=policy)
        assert report.code == code
        assert (status(report, "witnesses") == "PASS") is (code == INTACT)


def test_a_cosignature_that_does_not_hold_rejects_the_note(forge: Forge, tmp_path: Path) -> None:
    key = cosigned(forge, Key("w"), "w.example/1")
    path = tmp_path / "T.zip"
    bundle(forge, path)
    claimed = NoteKey(key.name, key.public, COSIGNATURE)
    policy = Policy.parse(
        f"log {log_key_of(forge).vkey}\nwitness A {claimed.vkey}\nquorum A\n".encode()
    )
    assert checked(path, policy=policy)[0].code == INTACT

    def forged(files: dict[str, bytes]) -> None:
        note = SignedCheckpoint.parse(files["checkpoint"]).note
        lie = cosign(note.text, claimed, 1_790_000_000, Key("stranger").sign)
        changed = note.raw.replace(note.signatures[1].line.encode(), lie.line.encode())
        for name in list(files):
            files[name] = files[name].replace(note.raw, changed)

    (report,) = checked(repacked(path, forged), policy=policy)
    assert faults([report]) == [("witnesses", TAMPERED)]


# ── the file itself ──────────────────────────────────────────────────────────────────────────────────


def archived(files: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    write_archive(file, ((name, files[name]) for name in sorted(files, key=order)))
    return file.getvalue()


def hollow(path: Path, kind: str, count: int) -> None:
    """A zip of so many files of 64 MiB, none of which takes room on the disk, and whose bytes do not hold."""
    entries: list[Entry] = []
    facts = FileFacts(ENTRY_BYTES_MAX, "0" * 64)
    names = sorted((f"records/{number}.{kind}" for number in range(count)), key=order)
    said = Manifest("o", "0" * 64, "T", 1, bytes(32), False, dict.fromkeys(names, facts)).raw
    with path.open("wb") as file:
        for name in names:
            entries.append(Entry(name, ENTRY_BYTES_MAX, 1, file.tell()))
            file.write(entries[-1].local)
            file.seek(ENTRY_BYTES_MAX, os.SEEK_CUR)
        entries.append(Entry(MANIFEST, len(said), zlib.crc32(said), file.tell()))
        file.write(entries[-1].local + said)
        begin = file.tell()
        lines = b"".join(each.central for each in entries)
        end = (b"PK\x05\x06", 0, 0, len(entries), len(entries), len(lines), begin, 0)
        file.write(lines + struct.pack("<4sHHHHIIH", *end))


@pytest.mark.parametrize(
    ("kind", "count", "said"),
    [
        ("record", 9, "records: expected at most 536,870,912 bytes, found more"),
        ("record", 8, "the checksum"),  # the limit itself is no fault
        ("tlog-proof", 17, "the checksum"),  # proofs are read one by one
    ],
)
def test_reader_and_writer_count_the_same_bytes(
    tmp_path: Path, kind: str, count: int, said: str
) -> None:
    """Whatever a writer makes its reader takes: only records count, and both have one limit for them."""
    path = tmp_path / "hollow.zip"
    hollow(path, kind, count)
    (report,) = checked(path)
    (fault,) = report.answers[0].faults
    assert said in fault.found


def test_a_proof_of_the_longest_record_to_the_longest_checkpoint_is_read(forge: Forge) -> None:
    said = SignedCheckpoint.parse(forge.sealed[-1].note)
    room = NOTE_BYTES_MAX - len(said.note.raw) - len("—  \n".encode())
    letters = room % 4 or 4  # and the rest in base64, four for three bytes, the key id's among them
    long = NoteSignature("w" * letters, bytes(4), bytes((room - letters) // 4 * 3 - 4))
    checkpoint = SignedCheckpoint.parse(
        replace(said.note, signatures=(*said.note.signatures, long)).raw
    )
    assert len(checkpoint.note.raw) == NOTE_BYTES_MAX
    path = tuple([bytes(32)] * HASHES_MAX)
    proof = InclusionProof(2**53 - 1, path, checkpoint, b"x" * RECORD_BYTES_MAX)
    assert InclusionProof.parse(proof.raw) == proof


def opened(raw: bytes, path: Path) -> dict[str, bytes]:
    path.write_bytes(raw)
    with path.open("rb") as file:
        archive = Archive(file)
        return {name: archive.read(name) for name in archive.entries}


@pytest.mark.parametrize("count", [0, 1, 3, 0xFFFE, 0xFFFF, 0x1_0003])
def test_an_archive_of_any_number_of_files_is_read_as_it_was_written(
    tmp_path: Path, count: int
) -> None:
    """Past 65,534 the directory takes zip64's form, which other tools read as well."""
    files = {f"records/{n}.record": b"%d" % n for n in range(count)}
    raw = archived(files)
    assert opened(raw, tmp_path / "x.zip") == files
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        assert len(archive.namelist()) == count < ENTRIES_MAX


SMALL = archived({"checkpoint": b"one", "records/0.record": b"two\n", MANIFEST: b"{}\n"})


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_change_of_any_byte_is_a_named_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """One spelling: every other file of about the same bytes is refused, and by name."""
    raw = bytearray(SMALL)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        kind = data.draw(st.sampled_from(["set", "cut", "put"]))
        if kind == "set":
            raw[at] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del raw[at : at + data.draw(st.integers(1, 40))]
        else:
            raw[at:at] = data.draw(st.binary(min_size=1, max_size=40))
        if not raw:
            raw = bytearray(b"P")
    path = tmp_path_factory.getbasetemp() / "fuzzed.zip"
    with suppress(BundleError):
        files = opened(bytes(raw), path)
        assert archived(files) == bytes(raw)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=600))
def test_any_bytes_are_a_manifest_or_a_named_error(raw: bytes) -> None:
    with suppress(BundleError):
        assert Manifest.parse(raw).raw == raw
