"""`causebook keys …` and a founding apart, as a person types them: what is printed, made and refused."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.cli import commands_keys
from causebook.adapters.keys import KeyFolder
from causebook.domain.note import COSIGNATURE, ED25519, NoteKey
from causebook.domain.trust import Trust
from tests.adapters.cli.conftest import PASS, WARN, Desk, Done, invoke
from tests.tools import tool

PEM = "-----BEGIN PUBLIC KEY-----"


def refused(done: Done, code: int, *words: str) -> None:
    """One line that says what is wrong and one that says what to do, and nothing else."""
    assert (done.code, done.out) == (code, ""), done.err
    lines = done.err.splitlines()
    assert [line.split(" ")[0] for line in lines] == ["error:", "hint:"], done.err
    for word in words:
        assert word in done.err


def keys() -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = invoke("keys", "list", "--json").json["keys"]
    return listed


def key(role: str) -> str:
    """The id of a role's newest key that is not retired."""
    return str([k["keyid"] for k in keys() if k["role"] == role and k["retired"] is None][-1])


def files(folder: str = "keys") -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir() if path.suffix in (".pem", ".uri"))


def intact() -> None:
    done = invoke("verify", "--no-pin")
    assert done.code == 20, done.out


# ── the life of a key ────────────────────────────────────────────────────────────────────────────────


def test_a_key_is_rotated_sealed_and_retired_by_what_each_page_says_next(desk: Desk) -> None:
    old = key("engine")
    done = invoke("keys", "rotate", "engine")
    assert done.code == 0, done.err
    new = key("engine")
    assert new != old
    assert done.lines[0] == f"engine {new[:8]}… is enrolled"
    assert f"  file    {desk.folder}/keys/engine.pem" in done.lines
    assert f"causebook keys retire {old[:8]} --trusted-until SIZE" in done.out
    assert files() == [
        "authority.pem", f"engine-{old[:8]}.pem", "engine.pem", "log.pem", "root.pem",
    ]  # fmt: skip
    for name in files():
        assert stat.S_IMODE((Path("keys") / name).stat().st_mode) == 0o600
    assert desk.judge("T-1", PASS).code == 0
    size = invoke("checkpoint").out.split("\n")[1]
    done = invoke("keys", "retire", old[:8], "--trusted-until", size, "--reason", "old")
    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == f"engine {old[:8]}… is retired"
    assert "it signs nothing more, and can be destroyed" in done.out
    intact()
    rows = [line.split() for line in invoke("keys", "list").lines]
    assert ["engine", "engine", "2", "6", "retired,", "trusted", "to", size, f"{old[:8]}…"] in rows
    assert desk.judge("T-2", PASS).code == 0


def test_a_compromised_key_is_listed_as_that(desk: Desk) -> None:
    old = key("engine")
    kept = Path("checkpoint.txt")
    assert desk.judge("T-1", PASS).code == 0
    kept.write_text(invoke("checkpoint").out)
    assert invoke("keys", "rotate", "engine").code == 0
    done = invoke(
        "keys", "retire", old, "--compromised", "--trusted-until", str(kept), "--reason", "stolen"
    )
    assert (done.code, done.err) == (0, "")
    (listed,) = [k for k in keys() if k["keyid"] == old]
    assert (listed["compromised"], listed["trusted_size"]) == (True, _size(kept))
    assert "compromised, trusted to" in invoke("keys", "list").out


def _size(checkpoint: Path) -> int:
    return int(checkpoint.read_text().split("\n")[1])


def test_what_becomes_unverifiable_is_said_before_it_does(desk: Desk) -> None:
    assert invoke("seal").code == 0
    assert desk.judge("T-1", PASS).code == 0
    done = invoke("keys", "retire", "engine", "--trusted-until", "4", "--reason", "stolen")
    assert done.code == 0
    warning = " ".join(done.err.split())
    assert "records that engine" in warning
    assert "past size 4 are unverifiable once it is retired" in warning
    assert "no other engine key is enrolled: causebook keys enrol engine enrols one" in warning
    assert invoke("verify", "--no-pin").code == 22
    assert invoke("keys", "enrol", "engine").code == 0
    assert desk.judge("T-2", PASS).code == 0


def test_a_key_of_each_further_role_is_enrolled(desk: Desk) -> None:
    for role, name in (("exporter", "Exports"), ("witness", "w.example.com")):
        done = invoke("keys", "enrol", role, "--name", name, "--json")
        assert done.code == 0, done.err
        (record,) = done.json["records"]
        assert (record["type"], record["role"], record["name"]) == ("KeyEnrolled", role, name)
        assert f"{role}.pem" in files()
    assert invoke("keys", "enrol", "authority").code == 0
    assert len([name for name in files() if name.startswith("authority")]) == 2
    intact()


def test_a_key_made_before_the_power_went_is_the_one_enrolled(desk: Desk) -> None:
    signer, path = KeyFolder(Path("keys")).add("exporter", None, beside=False)
    assert invoke("keys", "enrol", "exporter").code == 0
    assert key("exporter") == signer.keyid
    assert files().count(path.name) == 1
    assert len([name for name in files() if name.startswith("exporter")]) == 1


def test_encrypted_keys_rotate_under_their_passphrase(desk: Desk) -> None:
    Path("phrase").write_text("correct horse\n")
    at = ("--ledger", "sqlite:///e.db", "--keys", "e", "--passphrase-file", "phrase")
    assert invoke("init", *at).code == 0
    assert invoke("keys", "rotate", "log", *at).code == 0
    for name in files("e"):
        assert b"ENCRYPTED" in (Path("e") / name).read_bytes()
    done = invoke("keys", "rotate", "log", "--ledger", "sqlite:///e.db", "--keys", "e")
    refused(done, 77, "the key is encrypted")
    assert len(files("e")) == 5


# ── what is handed out ───────────────────────────────────────────────────────────────────────────────


def test_public_keys_are_read_by_openssl(desk: Desk) -> None:
    openssl = tool("openssl")
    pem = invoke("keys", "export", "engine").out.encode()
    command = [openssl, "pkey", "-pubin", "-outform", "DER"]
    der = subprocess.run(command, input=pem, capture_output=True, check=True).stdout
    (listed,) = [k for k in keys() if k["role"] == "engine"]
    assert base64.b64encode(der).decode() == listed["public_key"]
    assert invoke("keys", "export", listed["keyid"][:8]).out.encode() == pem
    whole = invoke("keys", "export").out
    assert whole.count(PEM) == 4
    assert [line for line in whole.splitlines() if line.startswith("engine")] == [
        f"engine {listed['keyid']}"
    ]


def test_log_and_witness_keys_as_verifier_keys(desk: Desk) -> None:
    assert invoke("keys", "enrol", "witness", "--name", "w.example.com").code == 0
    log, witness = (NoteKey.parse(line) for line in invoke("keys", "export", "--vkey").lines)
    assert (log.name, log.kind) == ("a.example/t", ED25519)
    assert (witness.name, witness.kind) == ("w.example.com", COSIGNATURE)
    assert invoke("keys", "export", "log", "--vkey").lines == [log.vkey]
    refused(invoke("keys", "export", "engine", "--vkey"), 64, "found one for engine")
    refused(invoke("keys", "export", "log", "--trust"), 64, "--trust")
    shown = invoke("keys", "export", "--json").json
    assert [each["vkey"] for each in shown if each["vkey"]] == [log.vkey, witness.vkey]


def test_the_trust_file_names_the_ledger_as_it_is_now(desk: Desk) -> None:
    before = Trust.parse(invoke("keys", "export", "--trust").out.encode())
    assert (before.origin, before.ledger_version) == ("a.example/t", 4)
    assert invoke("keys", "enrol", "exporter").code == 0
    after = Trust.parse(invoke("keys", "export", "--trust").out.encode())
    assert after.ledger_version == 5
    assert (after.founding, after.root_key) == (before.founding, before.root_key)
    Path("trust.json").write_bytes(after.raw)
    assert invoke("verify", "--no-pin", "--trust", "trust.json").code == 0


# ── keys elsewhere ───────────────────────────────────────────────────────────────────────────────────


def made(role: str, folder: str) -> str:
    """Make a key where it will live; the file of its public half."""
    done = invoke("keys", "make", role, "--keys", folder)
    assert done.code == 0, done.err
    Path(f"{role}.pub").write_text(done.out)
    return f"{role}.pub"


APART = ("--ledger", "sqlite:///apart.db", "--keys", "k")


@pytest.fixture
def apart(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """The ledger of the desk is one whose root lives in `safe` and whose authority in `boss`."""
    asked = invoke(
        "init", *APART, "--origin", "a.example/apart", "--request", "f.json",
        "--root-pub", made("root", "safe"), "--authority-pub", made("authority", "boss"),
    )  # fmt: skip
    assert asked.code == 0, asked.err
    assert not Path("apart.db").exists()
    assert invoke("keys", "sign", "f.json", "--keys", "boss").code == 0
    assert invoke("keys", "sign", "f.json", "--keys", "safe").code == 0
    done = invoke("init", *APART, "--signed", "f.json")
    assert done.code == 0, done.err
    assert done.lines[0] == "a.example/apart is founded"
    monkeypatch.setenv("CAUSEBOOK_LEDGER", "sqlite:///apart.db")
    monkeypatch.setenv("CAUSEBOOK_KEYS", "k")
    return desk


def test_root_and_authority_elsewhere(apart: Desk) -> None:
    assert files("k") == ["engine.pem", "log.pem"]
    assert files("safe") == ["root.pem"]
    assert apart.judge("T-1", PASS).code == 0
    intact()
    assert "self-asserted" not in invoke("verify", "--no-pin", "--json").json["checks"][2]["note"]
    founded = json.loads(invoke("log", "ledger", "--json").lines[0])
    assert (founded["data"]["custody"], founded["data"]["continues"]) == ("apart", None)


def test_what_is_asked_is_shown_before_it_is_signed(apart: Desk) -> None:
    assert invoke("keys", "rotate", "engine", "--request", "r.json").code == 0
    before = Path("r.json").read_bytes()
    shown = invoke("keys", "sign", "r.json", "--show", "--keys", "safe")
    assert (shown.code, Path("r.json").read_bytes()) == (0, before)
    old = key("engine")
    for fact in ("a.example/apart", "KeyEnrolled", "role        engine", f"rotates     {old}"):
        assert fact in shown.out
    assert "possession  signed" in shown.out
    assert "handover    signed" in shown.out
    assert f"record      wanted, by root {key('root')[:8]}…" in shown.out
    signed = invoke("keys", "sign", "r.json", "--keys", "safe")
    assert signed.code == 0
    assert signed.out.startswith(shown.out)
    assert Path("r.json").read_bytes() != before


def test_a_rotation_and_a_retirement_go_round(apart: Desk) -> None:
    old = key("engine")
    refused(invoke("keys", "rotate", "engine"), 77, "the root key is not here", "--request FILE")
    assert files("k") == ["engine.pem", "log.pem"]
    assert invoke("keys", "rotate", "engine", "--request", "r.json").code == 0
    assert len(files("k")) == 3
    assert apart.judge("T-1", PASS).code == 0  # meanwhile the old key signs
    refused(invoke("keys", "submit", "r.json"), 65, "no record signature by root")
    assert invoke("keys", "sign", "r.json", "--keys", "safe").code == 0
    done = invoke("keys", "submit", "r.json")
    assert done.code == 0, done.err
    assert files("k") == [f"engine-{old[:8]}.pem", "engine.pem", "log.pem"]
    assert invoke("seal").code == 0
    retire = ("keys", "retire", old[:8], "--trusted-until", invoke("checkpoint").lines[1])
    assert invoke(*retire, "--reason", "old", "--request", "e.json").code == 0
    assert invoke("keys", "sign", "e.json", "--keys", "safe").code == 0
    assert invoke("keys", "submit", "e.json").code == 0
    assert apart.judge("T-2", PASS).code == 0
    intact()


def test_a_person_elsewhere_resolves_an_escalation(apart: Desk) -> None:
    assert apart.judge("T-1", PASS, WARN).code == 11
    said = ("--decision", "proceed", "--name", "Ada", "--meaning", "risk accepted")
    refused(invoke("resolve", "T-1", *said), 77, "the authority key is not here")
    done = invoke("resolve", "T-1", *said, "--request", "r.json")
    assert done.code == 0, done.err
    assert "meaning     risk accepted" in done.out
    done = invoke("keys", "sign", "r.json", "--keys", "safe")
    refused_after_showing(done, "wanted next: record by authority")
    assert invoke("keys", "sign", "r.json", "--keys", "boss").code == 0
    done = invoke("keys", "submit", "r.json")
    assert (done.code, done.lines[0]) == (0, "T-1 resolved: proceed, by Ada")
    assert invoke("why", "T-1", "--json").json["status"] == "completed"
    intact()
    refused(invoke("keys", "submit", "r.json"), 64, "found it stored as task/T-1 v")


def _fact(document: dict[str, Any]) -> None:
    document["records"][0]["data"]["name"] = "somebody else"


def _time(document: dict[str, Any]) -> None:
    document["records"][0]["at"] = "2026-01-01T00:00:00.000000Z"


def _key(document: dict[str, Any]) -> None:
    document["records"][0]["keyid"] = key("engine")


@pytest.mark.parametrize(("change", "code"), [(_fact, 65), (_time, 65), (_key, 77)])
def test_a_request_changed_after_it_was_signed_is_refused(
    change: Callable[[dict[str, Any]], None], code: int, apart: Desk
) -> None:
    assert invoke("keys", "rotate", "log", "--request", "r.json").code == 0
    assert invoke("keys", "sign", "r.json", "--keys", "safe").code == 0
    good = Path("r.json").read_bytes()
    document = json.loads(good)
    change(document)
    Path("r.json").write_text(json.dumps(document))
    refused(invoke("keys", "submit", "r.json"), code)
    Path("r.json").write_bytes(good)
    assert invoke("keys", "submit", "r.json").code == 0


def test_a_founding_changed_after_it_was_signed_is_refused(desk: Desk) -> None:
    asked = invoke(
        "init", *APART, "--request", "f.json",
        "--root-pub", made("root", "safe"), "--authority-pub", made("authority", "boss"),
    )  # fmt: skip
    assert asked.code == 0
    for folder in ("boss", "safe"):
        assert invoke("keys", "sign", "f.json", "--keys", folder).code == 0
    good = Path("f.json").read_bytes()
    document = json.loads(good)
    document["records"][0]["data"]["custody"] = "together"
    Path("f.json").write_text(json.dumps(document))
    refused(invoke("init", *APART, "--signed", "f.json"), 65, "the signature does not hold")
    assert not Path("apart.db").exists()
    Path("f.json").write_bytes(good)
    refused(invoke("keys", "submit", "f.json"), 64, "founds a ledger")
    refused(
        invoke("init", "--ledger", "sqlite:///apart.db", "--keys", "keys", "--signed", "f.json"),
        77, "expected the engine key that the request enrols",
    )  # fmt: skip
    assert invoke("init", *APART, "--signed", "f.json").code == 0
    refused(invoke("init", *APART, "--signed", "f.json"), 73)


def test_a_stale_request_is_refused_and_can_be_written_again(apart: Desk) -> None:
    for role in ("engine", "log"):
        assert invoke("keys", "rotate", role, "--request", f"{role}.json").code == 0
        assert invoke("keys", "sign", f"{role}.json", "--keys", "safe").code == 0
    assert invoke("keys", "submit", "engine.json").code == 0
    refused(invoke("keys", "submit", "log.json"), 75, "expected it to follow v5", "write it again")
    Path("log.json").unlink()
    pending = [name for name in files("k") if name.startswith("log-")]
    assert invoke("keys", "rotate", "log", "--request", "log.json").code == 0
    assert [name for name in files("k") if name.startswith("log-")] == pending
    assert invoke("keys", "sign", "log.json", "--keys", "safe").code == 0
    assert invoke("keys", "submit", "log.json").code == 0


def test_a_key_made_elsewhere_is_enrolled_once_it_shows_that_it_is_held(apart: Desk) -> None:
    public = made("exporter", "press")
    enrol = ("keys", "enrol", "exporter", "--public-key", public)
    assert invoke(*enrol, "--request", "r.json").code == 0
    done = invoke("keys", "sign", "r.json", "--keys", "safe")
    refused_after_showing(done, "wanted next: possession by exporter")
    assert invoke("keys", "sign", "r.json", "--keys", "press").code == 0
    assert invoke("keys", "sign", "r.json", "--keys", "safe").code == 0
    assert invoke("keys", "submit", "r.json").code == 0
    assert files("k") == ["engine.pem", "log.pem"]
    refused(invoke(*enrol, "--request", "s.json"), 64, "is enrolled already")


def refused_after_showing(done: Done, word: str) -> None:
    assert done.code == 77
    assert word in done.err


# ── a successor ──────────────────────────────────────────────────────────────────────────────────────


def test_a_successor_goes_on_from_the_last_checkpoint(desk: Desk) -> None:
    assert invoke("seal").code == 0
    note = invoke("checkpoint").out
    Path("last.txt").write_text(note)
    new = ("--ledger", "sqlite:///next.db", "--continues", "last.txt")
    refused(
        invoke("init", *new, "--keys", "n", "--origin", "a.example/t"),
        64, "expected a checkpoint of another origin",
    )  # fmt: skip
    refused(
        invoke("init", *new, "--keys", "keys", "--origin", "a.example/u"),
        64, "expected another log key",
    )  # fmt: skip
    assert not Path("next.db").exists()
    done = invoke("init", *new, "--keys", "n", "--origin", "a.example/u")
    assert done.code == 0, done.err
    at = ("--ledger", "sqlite:///next.db")
    founded = json.loads(invoke("log", "ledger", *at, "--json").lines[0])
    assert founded["data"]["continues"] == note
    assert invoke("verify", *at, "--no-pin").code == 20


@pytest.mark.parametrize("content", ["", "a.example/b\n4\n", "\x1b[2J\n4\nAAAA\n\n— a AAAAAAAA\n"])
def test_what_is_no_checkpoint_is_continued_by_nobody(content: str, desk: Desk) -> None:
    Path("last.txt").write_text(content)
    new = ("--ledger", "sqlite:///next.db", "--keys", "n", "--continues", "last.txt")
    refused(invoke("init", *new), 65, "last.txt: ")
    refused(invoke("init", *new[:-1], "gone"), 66, "gone: expected a file with a checkpoint")
    assert not Path("next.db").exists()
    assert not Path("n").exists()


# ── wrong use ────────────────────────────────────────────────────────────────────────────────────────

RETIRE = ("keys", "retire", "engine", "--reason", "old", "--trusted-until")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("keys", "enrol", "root"), 64, ("a ledger has one root", "--continues")),
        (("keys", "enrol", "judge"), 64, ("expected one of engine, authority, log",)),
        (("keys", "enrol", "\x1b[2J"), 64, ("role: expected",)),
        (("keys", "enrol", "witness", "--name", "two words"), 64, ("the name of a note key",)),
        (("keys", "enrol", "exporter", "--name", " "), 64, ("--name: expected",)),
        (("keys", "enrol", "engine", "--uri", "file2:x"), 64, ("--public-key FILE",)),
        (("keys", "enrol", "engine", "--public-key", "gone"), 66, ("gone",)),
        (("keys", "enrol", "engine", "--public-key", "work/a.txt"), 65, ("public key in PEM",)),
        (("keys", "enrol", "engine", "--public-key", "keys/log.pem"), 65, ("a private one",)),
        (("keys", "enrol", "engine", "--public-key", "log.pub"), 64, ("enrolled already",)),
        (("keys", "enrol", "engine", "--public-key", "new.pub"), 64, ("not here", "--request")),
        (("keys", "enrol", "engine", "--request", "protocol.toml"), 73, ("protocol.toml",)),
        (("keys", "rotate", "root"), 64, ("a ledger has one root",)),
        (("keys", "rotate", "witness"), 66, ("expected a role, or the id",)),
        (("keys", "rotate", "0" * 64), 66, ("expected a role, or the id",)),
        ((*RETIRE, "3"), 66, ("the newest is of 4",)),
        ((*RETIRE, "gone"), 66, ("gone: expected a file with a checkpoint",)),
        ((*RETIRE, "work/a.txt"), 65, ("work/a.txt: note",)),
        ((*RETIRE, "9" * 40), 66, ("expected a file with a checkpoint",)),
        (("keys", "retire", "root", "--reason", "x", "--trusted-until", "4"), 64, ("one root",)),
        (("keys", "retire", "engine", "--reason", "", "--trusted-until", "4"), 64, ("--reason",)),
        (("keys", "export", "nobody"), 66, ("expected a role, or the id",)),
        (("keys", "make", "judge", "--keys", "x"), 64, ("role: expected one of root",)),
        (("keys", "make", "log", "--keys", "keys"), 73, ("a log key is here already",)),
        (("keys", "sign", "gone"), 66, ("gone: expected a file with a signing request",)),
        (("keys", "sign", "protocol.toml"), 65, ("request: expected JSON",)),
        (("keys", "submit", "protocol.toml"), 65, ("request: expected JSON",)),
        (("init", "--signed", "gone", "--ledger", "sqlite:///x.db"), 66, ("gone",)),
        (("init", "--signed", "f", "--origin", "a.example/x"), 64, ("--signed",)),
        (("init", "--signed", "f", "--encrypt"), 64, ("--signed",)),
        (("init", "--root-pub", "new.pub"), 64, ("all three or none",)),
        (("init", "--request", "x.json"), 64, ("all three or none",)),
        (
            ("init", "--root-pub", "new.pub", "--authority-pub", "new.pub", "--request", "x.json",
             "--keys", "n"),
            64, ("four keys for four roles",),
        ),
    ],
)  # fmt: skip
def test_wrong_use_is_one_line_and_changes_nothing(
    arguments: Sequence[str], code: int, words: tuple[str, ...], desk: Desk
) -> None:
    assert desk.protocol(PASS)
    assert invoke("seal").code == 0
    Path("log.pub").write_text(invoke("keys", "export", "log").out)
    made("exporter", "far")
    Path("exporter.pub").rename("new.pub")
    rows, before = invoke("log").out, files()
    refused(invoke(*arguments), code, *words)
    assert (invoke("log").out, files()) == (rows, before)


def test_a_folder_of_another_user_is_refused(desk: Desk) -> None:
    """Whoever owns the folder could put other keys in the place of ours."""
    if os.geteuid() == 0:
        Path("theirs").mkdir()
        os.chown("theirs", 65_534, 65_534)
        folder = "theirs"
    else:
        folder = "/usr"
    done = invoke("init", "--ledger", "sqlite:///x.db", "--keys", folder)
    refused(done, 77, "expected a folder of this user")
    assert not Path("x.db").exists()
    refused(invoke("keys", "make", "root", "--keys", folder), 77, "expected a folder of this user")
    assert invoke("init", "--ledger", "sqlite:///x.db", "--keys", "mine").code == 0


def test_a_request_says_nothing_to_a_terminal(apart: Desk) -> None:
    """Who signs reads what somebody else wrote."""
    assert invoke("keys", "rotate", "log", "--name", "x\x1b[2Jy", "--request", "r.json").code == 0
    done = invoke("keys", "sign", "r.json", "--show")
    assert "name        x\\x1b[2Jy" in done.out
    assert all(line.isprintable() for line in done.lines)


@pytest.mark.parametrize("name", commands_keys.KEYS)
def test_help_is_whole_and_within_the_width(name: str) -> None:
    page = invoke("keys", name, "--help")
    assert (page.code, page.out.isascii()) == (0, True)
    assert all(len(line) <= 80 for line in page.lines)
    (line,) = [x for x in invoke("keys", "--help").lines if x.startswith(f"  {name} ")]
    assert "..." not in line
