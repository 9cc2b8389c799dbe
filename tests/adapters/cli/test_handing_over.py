"""`prove`, `export` and `check`, as a person types them: what they print, what they write, how they exit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from causebook.adapters.findings import FIRST_LOOK, FORKED, INTACT, TORN, UNVERIFIABLE
from causebook.adapters.keys import KeyFolder
from causebook.adapters.ledger import Ledger
from causebook.domain.canonical import decode, encode
from causebook.domain.dsse import parse_envelope, seal_envelope
from causebook.domain.note import COSIGNATURE, NoteKey
from causebook.domain.proof import ConsistencyProof, InclusionProof
from tests.adapters.cli.conftest import BLOCKER, PASS, Desk, Done, invoke
from tests.adapters.cli.test_guide import fields


@pytest.fixture
def judged(desk: Desk) -> Desk:
    """A task that was judged and sealed."""
    assert desk.judge("T-1", PASS, BLOCKER).code == 10
    assert invoke("seal").code == 0
    return desk


def run(*arguments: str, code: int = 0) -> Done:
    """A command that ends as it should, and says so in 80 columns."""
    done = invoke(*arguments)
    assert done.code == code, done.err or done.out
    if arguments[0] in ("check", "export") and not any(len(word) > 40 for word in arguments):
        assert max([0, *map(len, done.lines)]) <= 80 or "--json" in arguments
    return done


def log() -> list[dict[str, Any]]:
    return [json.loads(line) for line in invoke("log", "--json").lines]


def trust() -> str:
    """The name of a trust file for the ledger."""
    Path("trust").write_text(invoke("keys", "export", "--trust").out)
    return "trust"


def vkey() -> str:
    """The log's key, as it is given by hand."""
    return invoke("keys", "export", "log", "--vkey").out.strip()


def unsealed(desk: Desk, task: str) -> None:
    """Start an attempt that nobody seals."""
    with Ledger.open(desk.url, keys=desk.folder / "keys") as ledger:
        ledger.task(task).start_attempt()


# ── prove ────────────────────────────────────────────────────────────────────────────────────────────


def test_an_event_is_named_by_digest_place_or_number(judged: Desk) -> None:
    event = next(each for each in log() if each["type"] == "PanelDecided")
    place = f"{event['stream']}@{event['version']}"
    digest = event["digest"]
    named = [digest, digest[:8], digest[:10] + "…", place, str(event["seq"])]
    (raw,) = {run("prove", name).out for name in named}
    proof = InclusionProof.parse(raw.encode())
    assert proof.index == event["seq"]
    assert json.loads(proof.extra.split(b"\n")[0])["stream"] == "task/T-1"


@pytest.mark.parametrize(
    "name", ["x", "T-1", "task/T-1", "task/T-1@x", "task/T-1@01", "task@1", "12g4", "012", "1.0"]
)
def test_what_names_no_event(judged: Desk, name: str) -> None:
    done = run("prove", name, code=64)
    assert done.err.startswith("error: EVENT: expected a record, found")


@pytest.mark.parametrize("name", ["task/T-2@1", "task/T-1@99", "99999", "0123456789abcdef"])
def test_an_event_that_is_not_there(judged: Desk, name: str) -> None:
    assert "causebook log" in run("prove", name, code=66).err


def test_an_event_that_is_not_sealed_is_one_line_and_a_hint(judged: Desk) -> None:
    size = len(log())
    unsealed(judged, "T-2")
    done = run("prove", str(size), code=66)
    assert done.err.count("\n") == 2
    assert "not sealed yet" in done.err
    assert "hint: causebook seal" in done.err
    assert run("prove", "task/T-1@1", "--checkpoint", "3", code=66).err
    run("seal")
    run("prove", str(size))


def test_a_proof_is_written_to_a_new_file_and_is_checked_by_itself(judged: Desk) -> None:
    run("prove", "task/T-1@1", "--out", "p.tlog-proof")
    assert "found something" in run("prove", "task/T-1@1", "--out", "p.tlog-proof", code=73).err
    assert "no such key at hand" in " ".join(
        run("check", "p.tlog-proof", code=UNVERIFIABLE).out.split()
    )
    assert run("check", "p.tlog-proof", "--log-key", vkey()).lines[-1] == "holds"
    Path("log.vkey").write_text(vkey() + "\n")
    run("check", "p.tlog-proof", "--log-key", "log.vkey")


def test_a_witnesss_key_is_no_logs_key(judged: Desk) -> None:
    run("prove", "0", "--out", "p")
    name, _, _ = vkey().partition("+")
    witness = NoteKey(name, NoteKey.parse(vkey()).public, COSIGNATURE).vkey
    assert "of type 0x01" in run("check", "p", "--log-key", witness, code=65).err
    run("check", "p", "--log-key", "nowhere", code=66)
    run("check", "p", "--log-key", "a+b", code=65)


def test_consistency_takes_sizes_or_files(judged: Desk) -> None:
    old = json.loads(run("checkpoint", "--json").out)
    Path("old").write_text(old["note"])
    judged.judge("T-2", PASS)
    run("seal")
    new = json.loads(run("checkpoint", "--json").out)
    Path("new").write_text(new["note"])
    sizes = (str(old["size"]), str(new["size"]))
    bodies = {
        run("prove", "--consistency", *ends).out
        for ends in (sizes, ("old", "new"), ("old", sizes[1]), (sizes[0], "new"))
    }
    (body,) = bodies
    assert ConsistencyProof.parse(body.encode()).old_size == old["size"]
    run("prove", "--consistency", *sizes, "--out", "grown")
    assert {path.name for path in Path("grown").iterdir()} == {"consistency", "older-checkpoint"}
    assert Path("grown/older-checkpoint").read_text() == old["note"]
    files = ("grown/consistency", "grown/older-checkpoint")
    run("check", *files, "--log-key", vkey())
    run("prove", "--consistency", *sizes, "--out", "grown", code=73)
    assert "OLD up to NEW" in run("prove", "--consistency", *reversed(sizes), code=64).err
    run("prove", "--consistency", sizes[0], "999999", code=66)
    run("prove", "--consistency", "nowhere", "new", code=66)
    Path("bad").write_text("x")
    run("prove", "--consistency", "bad", "new", code=65)


def test_prove_asks_for_one_thing(judged: Desk) -> None:
    run("prove", code=64)
    run("prove", "5", "--consistency", "1", "2", code=64)
    run("prove", "5", "--checkpoint", "x", code=64)
    run("prove", "--consistency", "1", "2", "--checkpoint", "5", code=64)


def test_without_a_checkpoint_there_is_no_proof(desk: Desk) -> None:
    done = run("prove", "0", code=66)
    assert "hint: causebook seal" in done.err


# ── export and check ─────────────────────────────────────────────────────────────────────────────────


def test_a_bundle_is_exported_and_checked(judged: Desk) -> None:
    done = run("export", "T-1", "--bundle", "T-1.zip", "--evidence")
    assert done.lines[0].startswith("T-1 is in T-1.zip, as of size ")
    assert "heads        stated by a.example/t+" in done.out
    first = run("check", "T-1.zip", code=FIRST_LOOK)
    assert "self-asserted" in first.lines[-2]
    assert "complete as of size" in first.out
    assert run("check", "T-1.zip", "--trust", trust()).lines[-1] == "holds"
    assert run("check", "T-1.zip", "--log-key", vkey()).code == INTACT
    before = Path("T-1.zip").read_bytes()
    run("export", "T-1", "--bundle", "T-1.zip", code=73)
    assert Path("T-1.zip").read_bytes() == before
    run("export", "T-1", "--bundle", "again.zip", "--evidence")
    assert Path("again.zip").read_bytes() == before


def test_export_says_what_it_did_as_json_too(judged: Desk) -> None:
    facts = json.loads(run("export", "T-1", "--bundle", "T.zip", "--json").out)
    assert (facts["task"], facts["evidence"], facts["later"]) == ("T-1", 0, 0)
    assert facts["heads"] == vkey()
    report = json.loads(run("check", "T.zip", "--json", code=FIRST_LOOK).out)
    assert report["code"] == FIRST_LOOK
    (file,) = report["files"]
    assert (file["kind"], file["anchored"]) == ("bundle", False)
    assert {answer["question"] for answer in file["answers"]} >= {
        "files",
        "tree",
        "heads",
        "founding",
    }


def test_each_field_of_a_document_is_in_the_guide(exporting: Desk) -> None:
    for command in (
        ("export TASK --bundle FILE", "export", "T-1", "--bundle", "T.zip"),
        ("export --tiles DIR", "export", "--tiles", "tiles"),
        ("export TASK --attestation FILE", "export", "T-1", "--attestation", "T.json"),
        ("check FILE", "check", "T.zip", "--trust", trust()),
    ):
        assert set(json.loads(run(*command[1:], "--json").out)) == fields(command[0])


def test_without_the_logs_key_no_heads_are_stated(judged: Desk) -> None:
    done = run("export", "T-1", "--bundle", "T.zip", "--keys", "elsewhere")
    assert "not stated: no log key of this ledger in elsewhere" in done.out
    report = json.loads(run("check", "T.zip", "--trust", trust(), "--json").out)
    assert not any("asserted by" in said for said in report["files"][0]["said"])


def test_what_is_past_the_checkpoint_is_named(judged: Desk) -> None:
    with Ledger.open(judged.url, keys=judged.folder / "keys") as ledger:
        ledger.task("T-1").start_attempt()
    done = run("export", "T-1", "--bundle", "T.zip")
    assert "1 record past the checkpoint: causebook seal" in done.out


def test_since_an_older_checkpoint(judged: Desk) -> None:
    Path("old").write_text(json.loads(run("checkpoint", "--json").out)["note"])
    judged.judge("T-2", PASS)
    run("seal")
    run("export", "T-2", "--bundle", "T-2.zip", "--since", "old")
    assert "consistency   PASS" in run("check", "T-2.zip", code=FIRST_LOOK).out
    run("export", "T-2", "--bundle", "x.zip", "--since", "nowhere", code=66)


def test_what_export_is_not_asked_for(judged: Desk) -> None:
    for wrong in (
        (),
        ("T-1",),
        ("T-1", "--bundle", "a", "--tiles", "b"),
        ("--bundle", "a"),
        ("T-1", "--tiles", "b"),
        ("T-1", "--attestation", "a", "--evidence"),
        ("T-1", "--bundle", "a", "--attempt", "1"),
        ("T-1", "--attestation", "a", "--phase", "later"),
        ("T-1", "--bundle", "a", "--size", "0"),
        ("../x", "--bundle", "a"),
    ):
        run("export", *wrong, code=64)
    run("export", "T-9", "--bundle", "a", code=66)
    run("export", "T-1", "--bundle", "nowhere/a", code=73)
    assert not Path("a").exists()


def test_the_whole_log_is_exported_as_tiles_and_checked(judged: Desk) -> None:
    run("export", "--tiles", "mirror")
    done = run("check", "mirror", "--trust", trust())
    assert "it is the whole log" in done.out
    judged.judge("T-2", PASS)
    run("seal")
    facts = json.loads(run("export", "--tiles", "mirror", "--json").out)
    assert 0 < facts["before"] < facts["size"] == len(log())
    run("check", "mirror", "--log-key", vkey())
    Path("file").write_text("x")
    run("export", "--tiles", "file", code=73)
    run("export", "--tiles", "work", code=73)


def test_a_hostile_name_of_a_file_reaches_no_terminal(judged: Desk) -> None:
    name = "\x1b[2J\x1b]0;x\x07.zip"
    run("export", "T-1", "--bundle", "T.zip")
    Path("T.zip").rename(name)
    done = run("check", name, code=FIRST_LOOK)
    assert "\x1b" not in done.out + done.err
    Path("x").write_bytes(b'{"at":"\x1b[2J"}')
    done = run("check", "x", code=TORN)
    assert "\x1b" not in done.out + done.err


def test_files_that_contradict_each_other_are_said_to_together(
    judged: Desk, tmp_path: Path
) -> None:
    run("export", "T-1", "--bundle", "one.zip")
    other = tmp_path / "other"
    other.mkdir()
    url, keys = f"sqlite:///{other / 'ledger.db'}", str(other / "keys")
    run("init", "--ledger", url, "--keys", keys, "--origin", "a.example/t")
    judged.protocol(PASS)
    at = ("--ledger", url, "--keys", keys)
    invoke("judge", "T-1", "--protocol", "protocol.toml", "--workspace", "work", *at)
    invoke("seal", *at)
    run("export", "T-1", "--bundle", "two.zip", *at)
    done = run("check", "one.zip", "two.zip", code=FORKED)
    assert "these files, held against one another" in done.out
    assert "one founding" in done.out


# ── attestations ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def exporting(judged: Desk) -> Desk:
    """A ledger that enrolled an exporter, sealed since."""
    run("keys", "enrol", "exporter")
    run("seal")
    return judged


def test_a_decision_is_attested_and_checked_beside_a_bundle(exporting: Desk) -> None:
    done = run("export", "T-1", "--attestation", "T-1.json")
    assert done.lines[0] == "T-1, attempt 1, post_execute: halt, attested in T-1.json"
    envelope = parse_envelope(Path("T-1.json").read_bytes())
    assert envelope.payload_type == "application/vnd.in-toto+json"
    statement = json.loads(envelope.payload)
    assert statement["subject"][0]["digest"]["gitCommit"]
    run("check", "T-1.json", code=UNVERIFIABLE)
    # And by the library that in-toto's own tools use.
    exporter: Any = load_pem_public_key(invoke("keys", "export", "exporter").out.encode())
    keyid = envelope.signatures[0].keyid
    theirs = Envelope.from_dict(json.loads(Path("T-1.json").read_text()))
    assert list(theirs.verify([SSlibKey.from_crypto(exporter, keyid)], 1)) == [keyid]
    run("export", "T-1", "--bundle", "T-1.zip")
    done = run("check", "T-1.json", "T-1.zip", "--trust", trust())
    assert "halt, attempt 1, post_execute" in done.out
    told = statement["subject"][0]
    about = f"it is about {told['name']}, gitCommit:{told['digest']['gitCommit']}"
    assert about in " ".join(done.out.split())
    alone = run("check", "T-1.json", code=UNVERIFIABLE)
    assert f"says the exporter's key: {about}" in " ".join(alone.out.split())
    run("check", "T-1.json", "T-1.zip", code=FIRST_LOOK)
    run("export", "T-1", "--attestation", "T-1.json", code=73)
    run("export", "T-1", "--attestation", "x", "--attempt", "2", code=66)
    run("export", "T-1", "--attestation", "x", "--phase", "pre_execute", code=66)


def test_a_dirty_tree_is_attested_by_its_manifest(exporting: Desk) -> None:
    (exporting.folder / "work" / "a.txt").write_text("changed\n")
    exporting.judge("T-2", PASS)
    run("seal")
    run("export", "T-2", "--attestation", "T-2.json")
    (subject,) = json.loads(parse_envelope(Path("T-2.json").read_bytes()).payload)["subject"]
    assert list(subject["digest"]) == ["sha256"]
    assert "the manifest of the files judged" in subject["name"]


def test_without_an_exporter_nothing_is_attested(judged: Desk) -> None:
    done = run("export", "T-1", "--attestation", "T-1.json", code=77)
    assert "causebook keys enrol exporter" in done.err
    assert not Path("T-1.json").exists()


def test_an_attestation_that_says_other_than_its_record(exporting: Desk) -> None:
    """The exporter's key signs what the ledger does not say: its holder lies, and the record tells."""
    run("export", "T-1", "--attestation", "T-1.json")
    run("export", "T-1", "--bundle", "T-1.zip")
    statement = decode(parse_envelope(Path("T-1.json").read_bytes()).payload)
    statement["predicate"]["outcome"] = "proceed"
    signer = KeyFolder(exporting.folder / "keys").signer("exporter")
    kind = "application/vnd.in-toto+json"
    lie = seal_envelope(encode(statement), kind, signer.keyid, signer.sign)
    Path("lie.json").write_bytes(lie.raw)
    report = json.loads(run("check", "lie.json", "T-1.zip", "--json", code=28).out)["files"][0]
    faults = [a["question"] for a in report["answers"] if a["faults"]]
    assert faults == ["decision"]


def test_an_attestation_of_another_working_tree(exporting: Desk) -> None:
    """Only the subject is a lie, which neither the record of the decision nor its proof can tell."""
    run("export", "T-1", "--attestation", "T-1.json")
    run("export", "T-1", "--bundle", "T-1.zip")
    statement = decode(parse_envelope(Path("T-1.json").read_bytes()).payload)
    statement["subject"][0]["digest"]["gitCommit"] = "c" * 40
    signer = KeyFolder(exporting.folder / "keys").signer("exporter")
    kind = "application/vnd.in-toto+json"
    lie = seal_envelope(encode(statement), kind, signer.keyid, signer.sign)
    Path("lie.json").write_bytes(lie.raw)
    done = run("check", "lie.json", "T-1.zip", "--trust", trust(), code=28)
    assert "PanelConvened, in T-1.zip" in " ".join(done.out.split())
    report = json.loads(run("check", "lie.json", "T-1.zip", "--json", code=28).out)["files"][0]
    assert [a["question"] for a in report["answers"] if a["faults"]] == ["subject"]


# ── with nothing but files ───────────────────────────────────────────────────────────────────────────


def test_a_trust_file_says_where_its_record_stands_and_takes_an_older_bundle(judged: Desk) -> None:
    run("export", "T-1", "--bundle", "old.zip")
    run("keys", "enrol", "exporter")
    judged.judge("T-2", PASS)
    run("seal")
    document = json.loads(Path(trust()).read_text())
    last = [each["seq"] for each in log() if each["stream"] == "ledger"][-1]
    assert document["ledger_index"] == last
    assert "newer" in run("check", "old.zip", "--trust", "trust").out
    run("export", "T-1", "--bundle", "new.zip")
    assert "newer" not in run("check", "new.zip", "--trust", "trust").out
    assert invoke("verify", "--no-pin", "--trust", "trust").code == 0


def test_check_reads_no_ledger_and_loads_no_store(judged: Desk, tmp_path: Path) -> None:
    """In a folder of its own, without the environment of the ledger."""
    run("export", "T-1", "--bundle", str(tmp_path / "T.zip"), "--evidence")
    (tmp_path / "trust").write_text(invoke("keys", "export", "--trust").out)
    script = (
        "import sys; from causebook.adapters.cli.main import main;"
        "code = main(sys.argv[1:]);"
        "loaded = {'eventsourcing', 'litellm', 'psycopg', 'http.server', 'sqlite3'} & set(sys.modules);"
        "print(sorted(loaded), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "check", "T.zip", "--trust", "trust"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (INTACT, "[]")
    assert {path.name for path in tmp_path.iterdir()} >= {"T.zip", "trust"}
    assert not (tmp_path / ".local").exists()
