"""Keys behind a URI: the same signatures, checked before they go anywhere. The scheme is that of a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from causebook.adapters.key_files import public_pem
from causebook.adapters.keys import KeyFolder
from causebook.adapters.kms import UriSigner, read_uri_signer, require_uri, uri_file, uri_signer
from causebook.adapters.signatures import verify
from causebook.domain.errors import BadData, CausebookError, Denied, Misuse, StoreUnavailable
from causebook.domain.keyring import raw_key
from tests.adapters.cli.conftest import invoke
from tests.adapters.ledgers import Home


class Vault:
    """A folder that stands for a service: it holds a private key that a URI names."""

    def __init__(self, path: Path) -> None:
        self.folder = KeyFolder(path)
        self.signer, self.pem = self.folder.add("engine", None, beside=False)
        self.uri = f"file2:{self.pem}"

    def file(self) -> bytes:
        return uri_file(self.uri, self.signer.public_key)


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "vault")


@pytest.fixture
def home(store_url: str, tmp_path: Path) -> Home:
    """A founded ledger."""
    return Home.found(store_url, tmp_path)


def put(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    path = folder / "engine.uri"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_a_signature_by_uri_is_that_of_the_key(vault: Vault, tmp_path: Path) -> None:
    signer = read_uri_signer(put(tmp_path, vault.file()), "engine")
    assert (signer.keyid, signer.public_key) == (vault.signer.keyid, vault.signer.public_key)
    signature = signer.sign(b"what happened")
    assert signature == vault.signer.sign(b"what happened")
    assert verify(raw_key(signer.public_key), signature, b"what happened")


def test_a_ledger_founded_and_rotated_with_a_key_behind_a_uri(
    home: Home, vault: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("engine.pub").write_bytes(public_pem(vault.signer.public_key))
    old = KeyFolder(home.keys).signer("engine").keyid
    at = ("--ledger", home.url, "--keys", str(home.keys))
    kept = ("--public-key", "engine.pub", "--uri", vault.uri)
    done = invoke("keys", "rotate", "engine", *kept, *at)
    assert done.code == 0, done.err
    assert f"  file    {home.keys}/engine.uri" in done.lines
    assert sorted(path.name for path in home.keys.glob("engine*")) == [
        f"engine-{old[:8]}.pem",
        "engine.uri",
    ]
    with home.open() as ledger:
        ledger.task("T-1").start_attempt()
        assert isinstance(ledger.writer.signer("engine"), UriSigner)
    home.require_intact()
    # And back to a key in a file.
    assert invoke("keys", "rotate", "engine", *at).code == 0
    assert sorted(path.name for path in home.keys.glob("engine*")) == sorted(
        [f"engine-{old[:8]}.pem", "engine.pem", f"engine-{vault.signer.keyid[:8]}.uri"]
    )
    with home.open() as ledger:
        ledger.task("T-2").start_attempt()
    home.require_intact()


@pytest.mark.parametrize("mode", [0o644, 0o660])
def test_a_file_that_others_can_reach_is_refused(vault: Vault, tmp_path: Path, mode: int) -> None:
    """Whoever can change it says what signs."""
    path = put(tmp_path, vault.file(), mode)
    with pytest.raises(Denied, match="others can read this key"):
        read_uri_signer(path, "engine")
    path.chmod(0o600)
    read_uri_signer(path, "engine")


def test_another_key_behind_the_uri_is_refused(vault: Vault, tmp_path: Path) -> None:
    other = Vault(tmp_path / "other")
    path = put(tmp_path, uri_file(other.uri, vault.signer.public_key))
    with pytest.raises(Denied, match="the key cannot be reached: 'KeyMismatchError"):
        read_uri_signer(path, "engine")


def test_a_service_that_is_away_or_answers_otherwise_is_named_and_signs_nothing(
    vault: Vault, tmp_path: Path
) -> None:
    class Away:
        def sign(self, payload: bytes) -> object:
            raise TimeoutError("no answer in 5 s\x1b[2J")

    class Other:
        def sign(self, payload: bytes) -> object:
            class Answer:
                signature = vault.signer.sign(payload + b"!").hex()

            return Answer()

    where = tmp_path / "engine.uri"
    keyid, public_key = vault.signer.keyid, vault.signer.public_key
    with pytest.raises(StoreUnavailable, match="the key does not sign: 'TimeoutError") as away:
        UriSigner(keyid, public_key, where, Away()).sign(b"x")
    assert away.value.message.isprintable()
    with pytest.raises(Denied, match=f"expected a signature by {keyid[:8]}…, found another"):
        UriSigner(keyid, public_key, where, Other()).sign(b"x")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", Misuse),
        (b"\n", Misuse),
        (b"no uri\n", Misuse),
        (b"file2:\xff\n", Misuse),
        (b"file2:\x1b[2J\n", Misuse),
        (b"file2:/nowhere\n", BadData),
        (b"file2:/nowhere\n-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", BadData),
    ],
)
def test_what_is_no_such_file_is_refused(
    content: bytes, error: type[CausebookError], tmp_path: Path
) -> None:
    with pytest.raises(error) as refused:
        read_uri_signer(put(tmp_path, content), "engine")
    assert refused.value.message.isprintable()


@pytest.mark.parametrize("uri", ["nothing:x", "file2:/nowhere/key.pem", "file:/etc/hostname"])
def test_a_uri_that_leads_nowhere_is_named(uri: str, vault: Vault, tmp_path: Path) -> None:
    require_uri(uri, "--uri")
    with pytest.raises(Denied, match="the key cannot be reached"):
        uri_signer(uri, vault.signer.public_key, tmp_path / "engine.uri")


def test_a_uri_that_cannot_be_reached_enrols_nothing(
    home: Home, vault: Vault, tmp_path: Path
) -> None:
    public = tmp_path / "engine.pub"
    public.write_bytes(public_pem(vault.signer.public_key))
    done = invoke(
        "keys", "enrol", "engine", "--public-key", str(public), "--uri", "file2:/nowhere",
        "--ledger", home.url, "--keys", str(home.keys),
    )  # fmt: skip
    assert (done.code, done.out) == (77, "")
    assert not list(home.keys.glob("*.uri"))
    assert len(home.kinds("ledger")) == 4


def test_nothing_that_prints_it_shows_what_signs(vault: Vault, tmp_path: Path) -> None:
    signer = read_uri_signer(put(tmp_path, vault.file()), "engine")
    assert "CryptoSigner" not in repr(signer)


def test_without_the_extra_it_is_said_what_to_install(vault: Vault, tmp_path: Path) -> None:
    path = put(tmp_path, vault.file())
    program = (
        "import sys; sys.modules['securesystemslib'] = None\n"
        "from pathlib import Path\n"
        "from causebook.adapters.kms import read_uri_signer\n"
        f"try: read_uri_signer(Path({str(path)!r}), 'engine')\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.startswith("Misuse")
    assert "needs the extra 'kms'" in done.stdout


def test_where_both_lie_there_the_key_in_the_file_signs(home: Home, vault: Vault) -> None:
    """What the other leads to is not asked, and need not be there."""
    path = put(home.keys, uri_file("file2:/nowhere", vault.signer.public_key))
    with home.open() as ledger:
        ledger.task("T-1").start_attempt()
    (home.keys / "engine.pem").rename(home.keys / "kept")
    with home.open() as ledger, pytest.raises(Denied, match=f"{path}: the key cannot be reached"):
        ledger.task("T-2").start_attempt()
    home.require_intact()
