"""A fresh export, checked by tools that are none of ours: OpenSSL, Go's sumdb packages, securesystemslib.

Each says of what holds that it holds, and refuses one that was changed. VERIFY.md's own commands are run as
they stand there.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from causebook.adapters.handover.sealed_log import sealed_log
from causebook.adapters.handover.tiles import write_tiles
from tests.adapters.bundles import judged, log_key_of, sealed_ledger
from tests.adapters.forge import prose, reads, verdict
from tests.adapters.ledgers import Home, hear_each, judges
from tests.tools import tool

GO_PATH = Path("/usr/share/gocode")
GO_PACKAGES = GO_PATH / "src" / "golang.org" / "x" / "mod" / "sumdb" / "tlog"
EVENT_TYPE = "application/vnd.causebook.event+json"


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which Go finds Debian's golang-golang-x-mod-dev."""
    tool("go")
    if not GO_PACKAGES.exists():
        pytest.skip(
            "golang-golang-x-mod-dev is not installed: what it says of an export is left out"
        )
    return {
        **os.environ,
        "GO111MODULE": "off",
        "GOPATH": str(GO_PATH),
        "GOCACHE": str(tmp_path_factory.mktemp("go-cache")),
        "GOFLAGS": "",
    }


@pytest.fixture(scope="module")
def verify_go(go: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`verify.go`, built."""
    binary = tmp_path_factory.mktemp("go") / "verify"
    source = Path(__file__).with_name("verify.go")
    subprocess.run(["go", "build", "-o", binary, source], env=go, check=True, cwd=binary.parent)
    return binary


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task judged in a ledger on disk, exported with all that a bundle can hold, and unpacked."""
    home = tmp_path_factory.mktemp("export")
    environment = {**os.environ, "CAUSEBOOK_STATE": str(home / "state"), "PWD": str(home)}

    def causebook(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "causebook", *arguments],
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    store = Home.found(f"sqlite:///{home / 'ledger.db'}", home)
    with store.open() as ledger:
        older = ledger.seal()
        attempt = ledger.task("T-1", spec="Fix the login").start_attempt()
        with attempt.convene("post_execute", "unanimous", judges("security", "testing")) as panel:
            leaks = verdict("blocker", "It leaks.")
            hear_each(
                panel,
                {
                    "security": [reads("src/app.py"), leaks],
                    "testing": [prose("Well …"), verdict("pass")],
                },
            )
        ledger.seal()
    (home / "older").write_bytes(older.checkpoint.note.raw)
    at = ("--ledger", store.url)
    keys = ("--keys", str(store.keys))
    causebook("export", "T-1", "--bundle", "T.zip", "--evidence", "--since", "older", *at, *keys)
    causebook("prove", "task/T-1@2", "--out", "event.tlog-proof", *at)
    with zipfile.ZipFile(home / "T.zip") as archive:
        assert archive.testzip() is None
        archive.extractall(home / "bundle")
    return home


@pytest.fixture
def bundle(exported: Path, tmp_path: Path) -> Path:
    """A copy of the unpacked bundle, to be changed."""
    return Path(shutil.copytree(exported / "bundle", tmp_path / "bundle"))


def log_vkey(bundle: Path) -> Path:
    """The log's key."""
    (found,) = (bundle / "keys").glob("*.vkey")
    return found


def flip(path: Path, before: bytes, after: bytes) -> None:
    """Change what stands in a file."""
    raw = path.read_bytes()
    assert before in raw
    path.write_bytes(raw.replace(before, after, 1))


def a_verdict(bundle: Path) -> Path:
    """A record that holds a blocker."""
    return next(
        path
        for path in sorted((bundle / "records").glob("*.record"))
        if b'"type":"VerdictGiven"' in path.read_bytes() and b'"blocker"' in path.read_bytes()
    )


# ── OpenSSL ──────────────────────────────────────────────────────────────────────────────────────────


def openssl_holds(record: Path, keys: Path, folder: Path) -> bool:
    """`openssl pkeyutl -verify -rawin` of one record."""
    line, signed, _ = record.read_bytes().split(b"\n")
    keyid, signature = signed.decode().split(" ")
    (folder / "signed").write_bytes(b"DSSEv1 36 %b %d %b" % (EVENT_TYPE.encode(), len(line), line))
    (folder / "signature").write_bytes(base64.b64decode(signature))
    command = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", keys / f"{keyid}.pem"]
    command += ["-in", folder / "signed", "-sigfile", folder / "signature"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_openssl_verifies_each_record_and_refuses_one_that_was_changed(
    bundle: Path, tmp_path: Path
) -> None:
    tool("openssl")
    records = sorted((bundle / "records").glob("*.record"))
    assert len(records) > 20
    assert all(openssl_holds(record, bundle / "keys", tmp_path) for record in records)
    flip(a_verdict(bundle), b'"blocker"', b'"pass"')
    held = [record for record in records if openssl_holds(record, bundle / "keys", tmp_path)]
    assert len(held) == len(records) - 1


# ── securesystemslib ─────────────────────────────────────────────────────────────────────────────────


def envelope_of(record: Path) -> tuple[Envelope, str]:
    """A record as a DSSE envelope, and the id of its key."""
    line, signed, _ = record.read_bytes().split(b"\n")
    keyid, signature = signed.decode().split(" ")
    document = {
        "payload": base64.b64encode(line).decode(),
        "payloadType": EVENT_TYPE,
        "signatures": [{"keyid": keyid, "sig": signature}],
    }
    return Envelope.from_dict(document), keyid


def key_of(bundle: Path, keyid: str) -> SSlibKey:
    public: Any = load_pem_public_key((bundle / "keys" / f"{keyid}.pem").read_bytes())
    return SSlibKey.from_crypto(public, keyid)


def test_securesystemslib_verifies_records_as_envelopes_and_refuses_one_that_was_changed(
    bundle: Path,
) -> None:
    for record in (bundle / "records").glob("*.record"):
        envelope, keyid = envelope_of(record)
        assert list(envelope.verify([key_of(bundle, keyid)], 1)) == [keyid]
    changed = a_verdict(bundle)
    flip(changed, b'"blocker"', b'"pass"')
    envelope, keyid = envelope_of(changed)
    with pytest.raises(VerificationError):
        envelope.verify([key_of(bundle, keyid)], 1)


def test_securesystemslib_verifies_the_heads_and_refuses_what_was_changed(bundle: Path) -> None:
    document = json.loads((bundle / "heads.json").read_text())
    keyid = document["signatures"][0]["keyid"]
    assert log_vkey(bundle).stem == keyid
    envelope = Envelope.from_dict(json.loads((bundle / "heads.json").read_text()))
    assert envelope.payload_type == "application/vnd.causebook.heads+json"
    assert list(envelope.verify([key_of(bundle, keyid)], 1)) == [keyid]
    stated = json.loads(envelope.payload)
    stated["heads"].pop()
    document["payload"] = base64.b64encode(json.dumps(stated).encode()).decode()
    with pytest.raises(VerificationError):
        Envelope.from_dict(document).verify([key_of(bundle, keyid)], 1)


# ── Go ───────────────────────────────────────────────────────────────────────────────────────────────


def went(binary: Path, *arguments: Path | str) -> tuple[int, str]:
    done = subprocess.run([binary, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_go_verifies_checkpoint_inclusion_and_consistency(
    verify_go: Path, exported: Path, bundle: Path
) -> None:
    key = log_vkey(bundle)
    assert went(verify_go, "checkpoint", key, bundle / "checkpoint")[0] == 0
    code, said = went(verify_go, "bundle", key, bundle)
    assert code == 0, said
    assert "records are in the log" in said
    assert "it grew out of" in said
    code, said = went(verify_go, "proof", key, exported / "event.tlog-proof")
    assert (code, said.startswith("index ")) == (0, True)


BASE64_LINE = re.compile(rb"^[A-Za-z0-9+/]{43}=$", re.MULTILINE)


def another_hash(raw: bytes) -> bytes:
    """The file with its first hash turned around."""
    found = BASE64_LINE.search(raw)
    assert found is not None
    value = base64.b64encode(base64.b64decode(found[0])[::-1])
    return raw[: found.start()] + value + raw[found.end() :]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("checkpoint", another_hash, "invalid signature"),
        ("records/0.record", lambda raw: raw.replace(b"Founded", b"Faunded"), "invalid"),
        ("records/0.tlog-proof", another_hash, "invalid"),
        ("consistency", another_hash, "invalid"),
        ("older-checkpoint", another_hash, "invalid signature"),
    ],
)
def test_go_refuses_what_was_changed(
    verify_go: Path, bundle: Path, name: str, change: Callable[[bytes], bytes], said: str
) -> None:
    path = bundle / name
    path.write_bytes(change(path.read_bytes()))
    code, told = went(verify_go, "bundle", log_vkey(bundle), bundle)
    assert code == 1
    assert said in told


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A log of more than one tile, exported twice: before it grew, and after. With its key."""
    home = tmp_path_factory.mktemp("tiles")
    forge = sealed_ledger(*(f"T-{n}" for n in range(6)))
    write_tiles(sealed_log(forge.source()), home / "log")
    judged(forge, *(f"T-{n}" for n in range(6, 20)))
    forge.seal()
    mirrored = write_tiles(sealed_log(forge.source()), home / "log")
    assert 0 < mirrored.before < 256 < mirrored.size
    (home / "vkey").write_text(log_key_of(forge).vkey)
    return home / "log", home / "vkey"


def test_go_verifies_every_entry_of_the_tiles(verify_go: Path, mirror: tuple[Path, Path]) -> None:
    log, key = mirror
    code, said = went(verify_go, "tiles", key, log)
    assert code == 0, said
    assert "entries are in the log" in said


@pytest.mark.parametrize("name", ["tile/entries/000", "tile/0/000", "tile/1/000.p/*"])
def test_go_refuses_a_tile_that_was_changed(
    verify_go: Path, mirror: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    log, key = mirror
    copy = Path(shutil.copytree(log, tmp_path / "log"))
    path = sorted(copy.glob(name))[-1]
    raw = bytearray(path.read_bytes())
    raw[20] ^= 1
    path.write_bytes(raw)
    assert went(verify_go, "tiles", key, copy)[0] == 1


# ── VERIFY.md ────────────────────────────────────────────────────────────────────────────────────────

BLOCK = re.compile(r"^## ([^\n]*)\n.*?^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGED: dict[str, tuple[str, bytes, bytes]] = {
    "Every file": ("VERIFY.md", b"OpenSSL", b"OpenSSH"),
    "Each record's signature": ("records/0.record", b"Founded", b"Faunded"),
    "The checkpoint": ("records/0.record", b"Founded", b"Faunded"),
    "That the log grew": ("older-checkpoint", b"\n4\n", b"\n3\n"),
    "Each record as": ("records/0.record", b"Founded", b"Faunded"),
    "What the log's key": ("heads.json", b'"payload":"ey', b'"payload":"fy'),
    "That the evidence": ("", b"", b""),
}
"""By the beginning of a heading: what is changed so that its commands have to refuse."""


def commands(bundle: Path) -> dict[str, str]:
    """The blocks of a bundle's own page, by heading."""
    page = (bundle / "VERIFY.md").read_text(encoding="utf-8")
    return {match[1]: match[2] for match in BLOCK.finditer(page)}


def run(block: str, bundle: Path, go: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {**go, "PATH": f"{Path(sys.executable).parent}:{go['PATH']}"}
    return subprocess.run(
        ["bash", "-c", block],
        cwd=bundle,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("begins", CHANGED)
def test_the_page_of_the_bundle_says_what_holds_and_what_does_not(
    bundle: Path, go: dict[str, str], begins: str
) -> None:
    tool("openssl")
    blocks = commands(bundle)
    assert len(blocks) == len(CHANGED)
    (block,) = (text for heading, text in blocks.items() if heading.startswith(begins))
    done = run(block, bundle, go)
    assert done.returncode == 0, done.stderr + done.stdout
    assert re.search(r"^\w+: ", done.stdout)
    name, before, after = CHANGED[begins]
    if name:
        flip(bundle / name, before, after)
    else:
        salt = next((bundle / "evidence").glob("*.salt"))
        salt.write_bytes(salt.read_bytes()[::-1])
    assert run(block, bundle, go).returncode != 0
