"""What somebody can hand to `check` who holds a key that ended, or who leaves out what ends it.

Each beside its untouched twin, which holds; and beside the honest file that looks like the attack.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.checking.report import FileReport
from causebook.adapters.findings import (
    FIRST_LOOK,
    FORKED,
    INTACT,
    TAMPERED,
    TRUNCATED,
    UNVERIFIABLE,
)
from causebook.adapters.handover.sealed_log import sealed_log
from causebook.adapters.handover.tiles import packed_entries, tile_path, write_tiles
from causebook.domain.checkpoint import Checkpoint, SignedCheckpoint
from causebook.domain.dsse import parse_envelope
from causebook.domain.events import KeyRetired
from causebook.domain.heads import Heads, StreamHead
from causebook.domain.note import NoteKey, sign_note
from causebook.domain.policy import Policy
from causebook.domain.proof import InclusionProof
from causebook.domain.record import digest, parse
from causebook.domain.trust import Trust
from causebook.projections.tree import leaf_hash
from tests.adapters.bundles import (
    Files,
    bundle,
    checked,
    faults,
    finder,
    judged,
    log_key_of,
    repacked,
    sealed_ledger,
    status,
    trust_of,
    unpacked,
)
from tests.adapters.forge import Forge, Key, document, signed_row
from tests.adapters.test_checking import Attested


def found(report: FileReport) -> list[tuple[str, int]]:
    return faults([report])


def note_of(report: FileReport, question: str) -> str:
    return next(answer.note for answer in report.answers if answer.name == question)


def signed_by(signed: SignedCheckpoint, key: Key) -> bytes:
    """The note of that checkpoint, signed by another log key."""
    return sign_note(signed.note.text, NoteKey(signed.checkpoint.origin, key.public), key.sign).raw


def stolen(path: Path, key: Key) -> Path:
    """The bundle with its checkpoint signed by another log key: what a thief of that key can make."""

    def sign(files: Files) -> None:
        signed = SignedCheckpoint.parse(files["checkpoint"])
        note = signed_by(signed, key)
        for name in list(files):
            files[name] = files[name].replace(signed.note.raw, note)

    return repacked(path, sign)


def without_last_of_ledger(files: Files) -> None:
    """Drop the last record of the stream `ledger`, and its proof."""
    own = {n: parse(raw) for n, raw in files.items() if n.endswith(".record")}
    name = max((n for n, r in own.items() if r.stream == "ledger"), key=lambda n: own[n].version)
    del files[name], files[name.replace(".record", ".tlog-proof")]


# ── a log key that ended ─────────────────────────────────────────────────────────────────────────────


class Rotated:
    """A ledger whose log key was stolen: another was enrolled, and the first ended at the size before."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.forge = folder, sealed_ledger()
        self.old = self.forge.keys["log"]
        self.old_key = log_key_of(self.forge)
        self.size = len(self.forge.rows)
        self.forge.enrol("log")
        judged(self.forge, "T-3")
        # Before anybody knows: the first key sealed, as it did before.
        self.forge.seal(key=self.old)
        self.early = folder / "early.zip"
        bundle(self.forge, self.early, stated=False)
        self.forge.sealed.pop()
        self.forge.retire(self.old, self.size)
        self.forge.seal()
        self.honest = folder / "T-1.zip"
        bundle(self.forge, self.honest)
        self.trust = trust_of(self.forge)


@pytest.fixture
def rotated(tmp_path: Path) -> Rotated:
    return Rotated(tmp_path)


def given_old(rotated: Rotated) -> list[Mapping[str, Any]]:
    """Every way to give the key that ended."""
    policy = Policy.parse(f"log {rotated.old_key.vkey}\nquorum none\n".encode())
    return [
        {"log_keys": [rotated.old_key]},
        {"log_keys": [rotated.old_key], "trust": rotated.trust},
        {"log_keys": [rotated.old_key, log_key_of(rotated.forge)]},
        {"policy": policy, "trust": rotated.trust},
    ]


def test_a_retired_log_key_seals_nothing_past_its_end_whoever_gave_it(rotated: Rotated) -> None:
    twins = [{"trust": rotated.trust}, *given_old(rotated)[1:]]
    for against in twins:
        (report,) = checked(rotated.honest, **against)
        assert (report.code, found(report)) == (INTACT, [])
    thiefs = stolen(rotated.honest, rotated.old)
    for against in given_old(rotated):
        (report,) = checked(thiefs, **against)
        assert found(report) == [("checkpoint", UNVERIFIABLE)]
        assert report.code == UNVERIFIABLE
    # Nor does its signature there say whose ledger it is.
    (report,) = checked(thiefs, log_keys=[rotated.old_key])
    assert (status(report, "founding"), report.anchored) == ("NOT CHECKED", False)
    (report,) = checked(thiefs, trust=rotated.trust)
    assert (status(report, "checkpoint"), report.code) == ("FAIL", UNVERIFIABLE)


def test_the_same_of_tiles_and_of_a_checkpoint_alone(rotated: Rotated) -> None:
    tiles = rotated.folder / "tiles"
    write_tiles(sealed_log(rotated.forge.source()), tiles)
    for against in [{"trust": rotated.trust}, *given_old(rotated)[1:]]:
        assert [each.code for each in checked(tiles, **against)] == [INTACT]
    signed = SignedCheckpoint.parse((tiles / "checkpoint").read_bytes())
    note = signed_by(signed, rotated.old)
    (tiles / "checkpoint").write_bytes(note)
    for against in given_old(rotated):
        (report,) = checked(tiles, **against)
        assert found(report) == [("checkpoint", UNVERIFIABLE)]
    alone = rotated.folder / "alone"
    alone.write_bytes(note)
    report, _ = checked(alone, rotated.honest, trust=rotated.trust, log_keys=[rotated.old_key])
    assert found(report) == [("checkpoint", UNVERIFIABLE)]
    # Up to its end it counts, as it did.
    alone.write_bytes(rotated.forge.note(rotated.size, rotated.old).encode())
    reports = checked(alone, rotated.honest, trust=rotated.trust, log_keys=[rotated.old_key])
    assert [each.code for each in reports] == [INTACT, INTACT]


def test_what_was_believed_is_taken_back_when_the_end_is_read(rotated: Rotated) -> None:
    """An older bundle does not know of the end, in whatever order the two are given."""
    keys = [rotated.old_key, log_key_of(rotated.forge)]
    assert checked(rotated.early, log_keys=keys)[0].code == INTACT
    for files in ([rotated.early, rotated.honest], [rotated.honest, rotated.early]):
        reports = {each.name: each for each in checked(*files, log_keys=keys)}
        assert found(reports[str(rotated.early)]) == [("checkpoint", UNVERIFIABLE)]
        assert reports[str(rotated.honest)].code == INTACT


def test_a_strangers_ledger_ends_nobodys_key(rotated: Rotated) -> None:
    """A thief of the log key can found under the same name, enrol that key, and end it at once.

    He would have it say nothing against him. It takes an anchored ledger to end a key that was given.
    """
    mallory = Forge(seed="mallory").found()
    mallory.enrol("log", rotated.old)
    mallory.retire(rotated.old, 4)
    mallory.enrol("log", Key("mallory's log"))
    judged(mallory, "T-1")
    mallory.seal()
    path = rotated.folder / "own.zip"
    bundle(mallory, path)
    twin, _ = checked(rotated.early, path, log_keys=[rotated.old_key])[:2]
    assert (twin.code, found(twin)) == (INTACT, [])


def test_records_past_the_end_of_a_key_that_another_file_shows(tmp_path: Path) -> None:
    """The engine's key was stolen, and judged T-2; the bundle of T-2 was made before anybody knew."""
    forge = sealed_ledger("T-1")
    engine, size = forge.keys["engine"], len(forge.rows)
    judged(forge, "T-2")
    forge.seal()
    early, later = tmp_path / "T-2.zip", tmp_path / "T-1.zip"
    bundle(forge, early, "T-2")
    log = sealed_log(forge.source())
    proof = InclusionProof(size, log.view.inclusion(size), log.checkpoint, forge.rows[size].record)
    one = tmp_path / "one.tlog-proof"
    one.write_bytes(proof.raw)
    twin = checked(early, one, log_keys=[log_key_of(forge)])
    assert ([each.code for each in twin], faults(twin)) == ([INTACT, INTACT], [])
    forge.retire(engine, size)
    forge.enrol("engine")
    forge.seal()
    bundle(forge, later, "T-1")
    known: dict[str, Any] = {"trust": trust_of(forge)}
    assert checked(later, **known)[0].code == INTACT
    reports = checked(early, later, one, **known)
    assert [found(each) for each in reports] == [
        [],
        [],
        [("signature", UNVERIFIABLE)],
        [("roles", UNVERIFIABLE), ("roles", UNVERIFIABLE)],
    ]


def test_an_exporters_key_that_ended_as_a_newer_file_shows(tmp_path: Path) -> None:
    attested = Attested(tmp_path)
    forge, statement = attested.forge, attested.statement("c" * 40)
    size = len(forge.rows)
    other = tmp_path / "T-2.zip"
    judged(forge, "T-2")
    forge.seal()
    bundle(forge, other, "T-2")
    twin, *_ = checked(statement, other, trust=trust_of(forge))
    assert (twin.code, found(twin)) == (INTACT, [])
    forge.retire(attested.exporter, size - 1)
    forge.seal()
    newer = tmp_path / "newer.zip"
    bundle(forge, newer, "T-2")
    for files in ([other, newer], [newer, other]):
        report, *_ = checked(statement, *files, trust=trust_of(forge))
        assert found(report) == [("exporter", UNVERIFIABLE)]


def test_history_below_a_retirement_that_is_written_anew(tmp_path: Path) -> None:
    """With the ended keys of log and engine: the root at that size stands in the honest `KeyRetired`."""
    forge, fork = sealed_ledger("T-1", "T-2"), sealed_ledger("T-1", "T-7")
    size, old = len(forge.rows), forge.keys["log"]
    proofs = []
    for each in (fork, forge):
        log = sealed_log(each.source())
        path = tmp_path / f"{len(proofs)}.tlog-proof"
        record = each.rows[size - 1].record
        path.write_bytes(
            InclusionProof(size - 1, log.view.inclusion(size - 1), log.checkpoint, record).raw
        )
        proofs.append(path)
    evil, good = proofs
    forge.retire(old, size)
    forge.retire(forge.keys["engine"], size)
    forge.sealed.clear()
    forge.enrol("log")
    forge.seal()
    honest, tiles = tmp_path / "T-1.zip", tmp_path / "tiles"
    bundle(forge, honest)
    write_tiles(sealed_log(forge.source()), tiles)
    for whole in (honest, tiles):
        twin = checked(good, whole, trust=trust_of(forge))
        assert ([each.code for each in twin], faults(twin)) == ([INTACT, INTACT], [])
        reports = checked(evil, whole, trust=trust_of(forge))
        assert faults(reports) == [("checkpoints", FORKED)]


# ── the checkpoint in a retirement ───────────────────────────────────────────────────────────────────


def ended(kind: str) -> tuple[Forge, SignedCheckpoint]:
    """A ledger in which a key ended as of a checkpoint; and the true one of the size that this names."""
    forge = sealed_ledger("T-1")
    log, size = forge.keys["log"], len(forge.rows)
    before = SignedCheckpoint.parse(forge.note(size).encode())
    claimed = {"true": size, "false root": size, "beyond it": size + 1, "beyond all": 9999}[kind]
    root = before.checkpoint.root if kind == "true" else b"\7" * 32
    text = Checkpoint(forge.origin, claimed, root).text
    note = sign_note(text, log_key_of(forge), log.sign).raw.decode()
    retired = KeyRetired(
        keyid=forge.keys["authority"].keyid,
        compromised=True,
        reason="lost",
        size=claimed,
        checkpoint=note,
    )
    forge.write("ledger", retired)
    forge.start_attempt("T-1", 2)
    forge.sealed.clear()
    forge.seal()
    return forge, before


@pytest.mark.parametrize("kind", ["true", "false root", "beyond it", "beyond all"])
def test_a_retirement_as_of_a_checkpoint_that_is_not_this_logs(kind: str, tmp_path: Path) -> None:
    """As `verify` names it. Of a bundle the root at that size is known where a consistency proof shows it."""
    forge, before = ended(kind)
    expected = [] if kind == "true" else [("tree", TAMPERED)]
    tiles, path = tmp_path / "tiles", tmp_path / "T-1.zip"
    write_tiles(sealed_log(forge.source()), tiles)
    bundle(forge, path, since=before)
    for each in (tiles, path):
        report = checked(each, trust=trust_of(forge))[0]
        assert found(report) == expected, each
        assert report.code == (TAMPERED if expected else INTACT)


def test_a_retirement_beyond_its_place_in_a_bundle_without_a_consistency_proof(
    tmp_path: Path,
) -> None:
    path = tmp_path / "T-1.zip"
    for kind in ("beyond it", "true"):
        forge, _ = ended(kind)
        bundle(forge, path)
        (report,) = checked(path, trust=trust_of(forge))
        assert found(report) == ([("tree", TAMPERED)] if kind == "beyond it" else [])
        path.unlink()


# ── tiles without end ────────────────────────────────────────────────────────────────────────────────


def endless(folder: Path, size: int, *, links: bool) -> Path:
    """A folder of tiles that claims `size` records; with `links`, each of its paths leads to a tile."""
    record = b"x"
    for name, content in (
        ("entries", packed_entries([record] * 256)),
        ("0", leaf_hash(record) * 256),
    ):
        tile = folder / "tile" / name
        tile.mkdir(parents=True)
        (tile / "000").write_bytes(content)
        for number in range(1, 1000 if links else 0):
            (tile / f"{number:03}").symlink_to("000")
        for number in range(1000 if links else 0):
            (tile / f"x{number:03}").symlink_to(".")
    stranger = Key("stranger")
    text = Checkpoint("log.example/x", size, b"r" * 32).text
    note = sign_note(text, NoteKey("log.example/x", stranger.public), stranger.sign)
    (folder / "checkpoint").write_bytes(note.raw)
    return folder


def test_tiles_of_links_that_have_no_end(tmp_path: Path) -> None:
    folder = endless(tmp_path / "tiles", 2**52, links=True)
    (report,) = checked(folder)
    assert found(report) == [("tree", TAMPERED)]
    assert "found a link" in report.answers[0].faults[0].found
    short = endless(tmp_path / "short", 2**52, links=False)
    (report,) = checked(short)
    assert found(report) == [("tree", TRUNCATED)]


def test_tiles_that_no_given_key_sealed_are_not_walked(tmp_path: Path) -> None:
    folder = endless(tmp_path / "tiles", 2**52, links=False)
    given = NoteKey("log.example/x", Key("given").public)
    (report,) = checked(folder, log_keys=[given])
    assert found(report) == [("checkpoint", UNVERIFIABLE)]
    assert status(report, "tree") == "NOT CHECKED"


@pytest.mark.parametrize(
    "name", ["checkpoint", "tile", "tile/entries", tile_path(0, 0, 1).split(".")[0] + ".p"]
)
def test_no_part_of_a_folder_of_tiles_is_a_link(tmp_path: Path, name: str) -> None:
    forge = sealed_ledger("T-1")
    tiles, elsewhere = tmp_path / "tiles", tmp_path / "elsewhere"
    write_tiles(sealed_log(forge.source()), tiles)
    linked = tmp_path / "linked"
    linked.symlink_to(tiles)  # where the folder itself lies is for whoever names it
    assert checked(linked, trust=trust_of(forge))[0].code == INTACT
    os.rename(tiles / name, elsewhere)
    (tiles / name).symlink_to(elsewhere)
    assert found(checked(tiles, trust=trust_of(forge))[0]) == [("tree", TAMPERED)]


# ── a trust file that is newer than the bundle ───────────────────────────────────────────────────────


def test_a_bundle_from_before_the_trust_file_holds_and_says_what_it_cannot_tell(
    tmp_path: Path,
) -> None:
    forge, path = sealed_ledger(), tmp_path / "T-1.zip"
    bundle(forge, path)
    at = len(forge.rows)
    forge.enrol("exporter")
    forge.seal()
    trust = trust_of(forge)
    assert trust.ledger_index == at
    (report,) = checked(path, trust=trust)  # of `at` records: it was sealed before
    assert (report.code, found(report)) == (INTACT, [])
    assert "newer" in note_of(report, "founding")
    assert "whether a key ended since is not told" in note_of(report, "founding")
    # With one record more it has to hold that one.
    later = tmp_path / "later.zip"
    bundle(forge, later)
    (report,) = checked(later, trust=trust)
    assert (report.code, "newer" in note_of(report, "founding")) == (INTACT, False)

    def drop(files: Files) -> None:
        without_last_of_ledger(files)
        del files["heads.json"]

    (report,) = checked(repacked(later, drop), trust=trust)
    assert found(report) == [("founding", TRUNCATED)]


@pytest.mark.parametrize("change", [{"ledger_index": 99}, {"founding": "0" * 64}])
def test_a_trust_file_of_another_history(tmp_path: Path, change: Mapping[str, Any]) -> None:
    """Where the record stands elsewhere, or the founding is another, no age explains it."""
    forge, path = sealed_ledger(), tmp_path / "T-1.zip"
    bundle(forge, path)
    trust: Trust = trust_of(forge)
    assert checked(path, trust=trust)[0].code == INTACT
    (report,) = checked(path, trust=replace(trust, **change))
    assert found(report) == [("founding", FORKED)]


# ── an enrolment that is not at hand ─────────────────────────────────────────────────────────────────


def with_another_engine() -> Forge:
    """A ledger whose last enrolment is that of the engine which judged T-2."""
    forge = sealed_ledger("T-1")
    forge.enrol("engine", Key("another"))
    judged(forge, "T-2")
    forge.seal()
    return forge


def test_an_enrolment_left_out_is_unverifiable_and_not_tampered(tmp_path: Path) -> None:
    forge, path = with_another_engine(), tmp_path / "T-2.zip"
    bundle(forge, path, "T-2")
    trust = trust_of(forge)
    assert checked(path, trust=trust)[0].code == INTACT
    (report,) = checked(repacked(path, without_last_of_ledger))
    assert set(found(report)) == {
        ("signatures", UNVERIFIABLE),
        ("roles", UNVERIFIABLE),
        ("heads", TRUNCATED),
    }

    def drop(files: Files) -> None:
        without_last_of_ledger(files)
        del files["heads.json"]

    dropped = repacked(path, drop)
    (report,) = checked(dropped)
    assert set(found(report)) == {("signatures", UNVERIFIABLE), ("roles", UNVERIFIABLE)}
    (report,) = checked(dropped, trust=trust)
    assert set(report.codes) == {TRUNCATED, UNVERIFIABLE}


def test_a_key_that_a_whole_stream_does_not_name_is_nobodys(tmp_path: Path) -> None:
    """The log's key states the head of `ledger`, and that is here: nothing is missing that could name it."""
    forge, path = with_another_engine(), tmp_path / "T-2.zip"
    bundle(forge, path, "T-2")
    assert checked(path, trust=trust_of(forge))[0].code == INTACT
    last = max(n for n, row in enumerate(forge.rows) if row.stream == "task/T-2")
    forge.rows[last] = signed_row(document(forge.rows[last]), Key("stranger"))
    forge.seal()
    for stated, code in ((True, TAMPERED), (False, UNVERIFIABLE)):
        (report,) = checked(_bundled_anew(forge, path, last, stated=stated))
        assert set(found(report)) == {("signatures", code), ("roles", code)}


def _bundled_anew(forge: Forge, path: Path, changed: int, *, stated: bool) -> Path:
    """The bundle of T-2 with the records as they are now, whether they hold or not."""
    view, log = sealed_log(forge.source()), forge.keys["log"]
    said = view.checkpoint.checkpoint

    def anew(files: Files) -> None:
        heads = Heads.parse(parse_envelope(files["heads.json"]).payload)
        for name in [name for name in files if name.endswith(".record")]:
            index = int(name.removeprefix("records/").removesuffix(".record"))
            proof = InclusionProof(index, view.view.inclusion(index), view.checkpoint)
            files[name] = forge.rows[index].record
            files[f"records/{index}.tlog-proof"] = proof.raw
        files["checkpoint"] = view.checkpoint.note.raw
        row = forge.rows[changed]
        named = {**heads.heads, row.stream: StreamHead(row.version, digest(row.record))}
        anew = replace(heads, root=said.root, heads=named)
        files["heads.json"] = anew.sealed(log.keyid, log.sign).raw
        if not stated:
            del files["heads.json"]

    return repacked(path, anew, root=said.root)


# ── heads by a key that is not at hand ───────────────────────────────────────────────────────────────


def test_an_older_checkpoint_is_stated_by_no_key_that_came_after_it(tmp_path: Path) -> None:
    """An honest `export --size N` after the log key was rotated."""
    forge, path = sealed_ledger(), tmp_path / "T-1.zip"
    old, size, trust = forge.keys["log"], len(forge.rows), trust_of(forge)
    forge.enrol("log")
    forge.seal()
    written = bundle(forge, path, size=size)
    assert written.heads is None
    files, _ = unpacked(path)
    assert "heads.json" not in files
    assert b"There is no `heads.json`" in files["VERIFY.md"]
    for known in (trust, trust_of(forge)):
        assert checked(path, trust=known)[0].code == INTACT
    path.unlink()
    written = bundle(forge, path, size=size, find_log_key=finder(old))
    assert written.heads is not None
    assert b"There is no `heads.json`" not in unpacked(path)[0]["VERIFY.md"]
    assert checked(path, trust=trust)[0].code == INTACT


def test_heads_by_a_key_that_is_not_at_hand_are_unverifiable(tmp_path: Path) -> None:
    forge, path = sealed_ledger(), tmp_path / "T-1.zip"
    bundle(forge, path)
    old, later = log_key_of(forge), forge.enrol("log")

    def restate(files: Files) -> None:
        stated = Heads.parse(parse_envelope(files["heads.json"]).payload)
        files["heads.json"] = stated.sealed(later.keyid, later.sign).raw

    restated = repacked(path, restate)
    (report,) = checked(restated)
    assert (status(report, "heads"), report.codes) == ("NOT CHECKED", [UNVERIFIABLE])
    (report,) = checked(restated, log_keys=[old])
    assert (found(report), report.code) == ([], UNVERIFIABLE)
    (report,) = checked(restated, log_keys=[old, log_key_of(forge)])
    assert (found(report), report.code) == ([], INTACT)
    alone = tmp_path / "heads.json"
    alone.write_bytes(unpacked(restated)[0]["heads.json"])
    report, _ = checked(alone, path)
    assert (found(report), report.code) == ([], UNVERIFIABLE)
    assert checked(path)[0].code == FIRST_LOOK
