"""What the keys on disk promise: made once, readable by their owner alone, and refused where they are not."""

from __future__ import annotations

import base64
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from causebook.adapters.durable import write_new
from causebook.adapters.keys import ROLES, KeyFolder, KeySigner, read_signer
from causebook.domain.errors import CannotCreate, Denied, IOFailure
from causebook.domain.keyring import keyid_of, raw_key
from tests.tools import tool

PASSPHRASE = b"correct horse battery staple"


@pytest.fixture
def folder(tmp_path: Path) -> KeyFolder:
    """A folder with a key for each role."""
    made = KeyFolder(tmp_path / "keys")
    assert made.make()
    return made


def secrets_of(folder: KeyFolder) -> dict[str, bytes]:
    return {role: folder.file_of(role).read_bytes() for role in ROLES}


def put(folder: KeyFolder, content: bytes) -> None:
    """In place of the engine's key."""
    path = folder.file_of("engine")
    path.write_bytes(content)
    path.chmod(0o600)


def test_a_key_for_each_role_in_files_of_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = KeyFolder(tmp_path / "not" / "yet" / "there")
        assert folder.make()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    found = sorted(path.name for path in folder.path.iterdir())
    assert found == sorted([".gitignore", *(f"{role}.pem" for role in ROLES)])
    for role in ROLES:
        status = folder.file_of(role).lstat()
        assert stat.S_ISREG(status.st_mode)
        assert stat.S_IMODE(status.st_mode) == 0o600


def test_one_key_has_one_role(folder: KeyFolder) -> None:
    assert len({folder.signer(role).keyid for role in ROLES}) == len(ROLES)


def test_a_key_is_pkcs8_and_signs_under_the_id_of_its_public_half(folder: KeyFolder) -> None:
    pem = folder.file_of("engine").read_bytes()
    assert pem.startswith(b"-----BEGIN PRIVATE KEY-----\n")
    signer = folder.signer("engine")
    assert signer.keyid == keyid_of(base64.b64decode(signer.public_key))
    public = Ed25519PublicKey.from_public_bytes(raw_key(signer.public_key))
    public.verify(signer.sign(b"what happened"), b"what happened")


def test_with_a_passphrase_every_key_is_encrypted(tmp_path: Path) -> None:
    asked: list[Path] = []

    def passphrase(path: Path) -> bytes:
        asked.append(path)
        return PASSPHRASE

    folder = KeyFolder(tmp_path / "keys", passphrase)
    folder.make(PASSPHRASE)
    for pem in secrets_of(folder).values():
        assert pem.startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    assert isinstance(folder.signer("log"), KeySigner)
    assert asked == [folder.file_of("log")]


def test_nobody_is_asked_for_the_passphrase_of_a_plain_key(tmp_path: Path) -> None:
    def passphrase(path: Path) -> bytes:
        raise AssertionError(path)

    folder = KeyFolder(tmp_path / "keys", passphrase)
    folder.make()
    folder.signer("root")


@pytest.mark.parametrize("given", [b"another", b"", b"\xff" * 200])
def test_another_passphrase_is_refused(tmp_path: Path, given: bytes) -> None:
    folder = KeyFolder(tmp_path / "keys", lambda _: given)
    folder.make(PASSPHRASE)
    with pytest.raises(Denied, match=r"engine\.pem: the passphrase does not open this key"):
        folder.signer("engine")


def test_an_encrypted_key_without_a_passphrase_is_refused(tmp_path: Path) -> None:
    KeyFolder(tmp_path / "keys").make(PASSPHRASE)
    with pytest.raises(Denied, match=r"engine\.pem: the key is encrypted") as refused:
        KeyFolder(tmp_path / "keys").signer("engine")
    assert "--passphrase-file" in refused.value.hint


def test_a_full_folder_is_left_as_it_is(folder: KeyFolder) -> None:
    before = secrets_of(folder)
    assert not folder.make(PASSPHRASE)
    assert secrets_of(folder) == before


@pytest.mark.parametrize("kept", ["root", "engine", "log"])
def test_a_folder_with_some_of_the_keys_is_refused_and_left_as_it_is(
    folder: KeyFolder, kept: str
) -> None:
    for role in ROLES:
        if role != kept:
            folder.file_of(role).unlink()
    before = (folder.path / f"{kept}.pem").read_bytes()
    with pytest.raises(CannotCreate, match=f"(?m)found {kept}$"):
        folder.make()
    assert {path.name for path in folder.path.iterdir()} == {".gitignore", f"{kept}.pem"}
    assert (folder.path / f"{kept}.pem").read_bytes() == before


def tracked(root: Path) -> list[str]:
    """What `git add -A` would have committed."""
    for arguments in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)
    done = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.split()


def test_git_add_all_commits_no_key(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert KeyFolder(tmp_path / "kz").make()
    assert (tmp_path / "kz" / ".gitignore").read_text() == "*\n"
    assert tracked(tmp_path) == ["a"]


def test_a_folder_that_holds_more_than_keys_is_not_ignored_whole(tmp_path: Path) -> None:
    """`init --keys .` in a repository must not make all of it vanish from git, and from the judges."""
    (tmp_path / "a").touch()
    assert KeyFolder(tmp_path).make()
    assert tracked(tmp_path) == [".gitignore", "a"]


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_gitignore_that_is_there_is_left_as_it_is(tmp_path: Path, kind: str) -> None:
    folder = KeyFolder(tmp_path / "keys")
    folder.path.mkdir()
    ignore = folder.path / ".gitignore"
    ignore.symlink_to(tmp_path / "elsewhere") if kind == "link" else ignore.write_text("mine\n")
    assert folder.make()
    assert ignore.is_symlink() if kind == "link" else ignore.read_text() == "mine\n"
    assert not (tmp_path / "elsewhere").exists()


def test_a_key_added_to_a_shared_folder_is_not_committed_either(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    folder = KeyFolder(tmp_path)
    assert folder.make()
    for role in ("engine", "engine", "exporter"):
        folder.add(role, None, beside=False)
    folder.add_uri("log", "0" * 64, b"file2:x\n", beside=True)
    assert len(list(tmp_path.glob("*.pem"))) == 7
    assert tracked(tmp_path) == [".gitignore", "a"]


def test_a_new_key_is_there_whole_or_not_at_all(folder: KeyFolder) -> None:
    before = secrets_of(folder)
    signer, path = folder.add("engine", None, beside=False)
    assert path == folder.file_beside("engine", signer.keyid)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_signer(path, "engine").keyid == signer.keyid
    assert secrets_of(folder) == before
    with pytest.raises(FileExistsError):
        write_new(path, lambda file: file.write(b"another"))
    assert read_signer(path, "engine").keyid == signer.keyid
    assert not list(folder.path.glob(".*.part"))


@pytest.mark.parametrize("mode", [0o644, 0o640])
@pytest.mark.parametrize("suffix", [".pem", ".uri"])
def test_a_key_beside_that_others_can_read_is_refused(
    folder: KeyFolder, mode: int, suffix: str
) -> None:
    signer, path = folder.add("engine", None, beside=True)
    if suffix == ".uri":
        path.unlink()
        path = folder.add_uri("engine", signer.keyid, b"file2:x\n", beside=True)
    path.chmod(mode)
    with pytest.raises(Denied, match=f"expected mode 0600, found {mode:04o}"):
        folder.find("engine", signer.keyid)


def test_a_key_is_known_by_its_whole_id_and_not_by_the_name_of_its_file(folder: KeyFolder) -> None:
    signer, path = folder.add("engine", None, beside=True)
    wanted = signer.keyid[:8] + "0" * 56
    assert folder.find("engine", wanted) is None
    path.rename(folder.file_beside("engine", "1" * 64))
    assert folder.find("engine", signer.keyid) is None
    own = folder.signer("engine").keyid
    assert folder.locate("engine", own) == folder.file_of("engine")


def test_a_key_is_not_lost_to_another_whose_id_begins_alike(folder: KeyFolder) -> None:
    """Eight digits name a file, and two keys can share them."""
    old = folder.signer("engine").keyid
    beside = folder.file_beside("engine", old)
    shutil.copy(folder.file_of("log"), beside)
    before = beside.read_bytes()
    new, _ = folder.add("engine", None, beside=True)
    with pytest.raises(IOFailure, match=f"another file is called {beside.name}"):
        folder.settle("engine", old, new.keyid)
    assert folder.signer("engine").keyid == old
    assert folder.find("engine", new.keyid) is not None
    assert beside.read_bytes() == before
    beside.unlink()
    folder.settle("engine", old, new.keyid)
    assert folder.signer("engine").keyid == new.keyid
    assert folder.find("engine", old) is not None


@pytest.mark.parametrize("link", [False, True], ids=["a file", "a link that leads nowhere"])
def test_a_key_of_a_library_takes_the_place_of_no_other(folder: KeyFolder, link: bool) -> None:
    """`engine.pem` is the old key; `engine.uri` is there too, and of another."""
    old, new = folder.signer("engine").keyid, folder.signer("log").keyid
    fresh = folder.file_beside("engine", new, ".uri")
    there = folder.path / "engine.uri"
    if link:
        there.symlink_to("nowhere")
    else:
        there.write_bytes(b"another")
    # As if a library held it: what is in the file of a URI is asked of that library alone.
    fresh.write_bytes(b"")

    class Kept(KeyFolder):
        def locate(self, role: str, keyid: str | None) -> Path | None:
            return {old: self.path / "engine.pem", new: fresh}[str(keyid)]

    with pytest.raises(IOFailure, match=r"another file is called engine\.uri"):
        Kept(folder.path).settle("engine", old, new)
    assert folder.signer("engine").keyid == old
    assert fresh.exists()
    there.unlink()
    Kept(folder.path).settle("engine", old, new)
    assert folder.file_of("engine") == there
    assert not fresh.exists()
    assert folder.find("engine", old) is not None


def test_the_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    path = Path("/usr")
    if os.geteuid() == 0:
        path = tmp_path / "theirs"
        path.mkdir()
        os.chown(path, 65_534, 65_534)
    folder = KeyFolder(path)
    for act in (folder.check, lambda: folder.add("log", None, beside=False)):
        with pytest.raises(Denied, match="expected a folder of this user, found one of user"):
            act()
    assert not list(path.glob("*.pem"))


def test_no_link_is_followed_to_write_a_key(tmp_path: Path) -> None:
    folder = KeyFolder(tmp_path / "keys")
    folder.path.mkdir()
    elsewhere = tmp_path / "elsewhere"
    folder.file_of("root").symlink_to(elsewhere)
    with pytest.raises(CannotCreate, match="cannot make keys here"):
        folder.make()
    assert not elsewhere.exists()


def test_a_file_where_the_folder_belongs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("notes")
    with pytest.raises(CannotCreate, match="cannot make keys here"):
        KeyFolder(tmp_path / "keys").make()
    assert (tmp_path / "keys").read_text() == "notes"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o610, 0o601, 0o777])
def test_a_key_that_others_can_reach_is_refused(folder: KeyFolder, mode: int) -> None:
    path = folder.file_of("engine")
    path.chmod(mode)
    with pytest.raises(Denied, match=f"expected mode 0600, found {mode:04o}") as refused:
        folder.signer("engine")
    assert f"chmod 600 {path}" in refused.value.hint


def test_a_key_that_its_owner_may_only_read_is_taken(folder: KeyFolder) -> None:
    folder.file_of("engine").chmod(0o400)
    folder.signer("engine")


def test_a_missing_key_is_refused_by_name(folder: KeyFolder) -> None:
    folder.file_of("engine").unlink()
    with pytest.raises(Denied, match=r"engine\.pem: the engine key is not here"):
        folder.signer("engine")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Denied, match="the root key is not here"):
        KeyFolder(tmp_path / "nowhere").signer("root")


def rsa_key() -> bytes:
    key = rsa.generate_private_key(65_537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def traditional_rsa_key() -> bytes:
    key = rsa.generate_private_key(65_537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def elliptic_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def ed448_key() -> bytes:
    key = ed448.Ed448PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize("other", [rsa_key, traditional_rsa_key, elliptic_key, ed448_key])
def test_another_kind_of_key_is_refused(folder: KeyFolder, other: Callable[[], bytes]) -> None:
    put(folder, other())
    with pytest.raises(Denied, match=r"engine\.pem: expected an Ed25519 key, found \w+"):
        folder.signer("engine")


def openssh_key() -> bytes:
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def public_half() -> bytes:
    public = Ed25519PrivateKey.generate().public_key()
    from cryptography.hazmat.primitives.serialization import PublicFormat

    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def cut_short() -> bytes:
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    return pem[: len(pem) // 2]


@pytest.mark.parametrize(
    "other",
    [
        lambda: b"",
        lambda: b"\0" * 100,
        lambda: b"ledger.db",
        lambda: b"\xff" * 200_000,
        openssh_key,
        public_half,
        cut_short,
    ],
    ids=["empty", "zeros", "text", "large", "openssh", "public", "cut"],
)
def test_what_is_no_private_key_is_refused(folder: KeyFolder, other: Callable[[], bytes]) -> None:
    put(folder, other())
    with pytest.raises(Denied, match=r"engine\.pem: expected a private key in PKCS#8 PEM"):
        folder.signer("engine")


def test_a_folder_or_a_pipe_where_a_key_belongs_is_refused_without_waiting(
    folder: KeyFolder,
) -> None:
    folder.file_of("engine").unlink()
    folder.file_of("engine").mkdir()
    with pytest.raises(Denied, match="expected a file"):
        folder.signer("engine")
    folder.file_of("log").unlink()
    os.mkfifo(folder.file_of("log"), 0o600)
    with pytest.raises(Denied, match="expected a file"):
        folder.signer("log")


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_key_made_by_openssl_is_taken(folder: KeyFolder, encrypted: bool) -> None:
    openssl = tool("openssl")
    command = [openssl, "genpkey", "-algorithm", "ed25519"]
    if encrypted:
        command += ["-aes-256-cbc", "-pass", f"pass:{PASSPHRASE.decode()}"]
    put(folder, subprocess.run(command, capture_output=True, check=True).stdout)
    given = KeyFolder(folder.path, lambda _: PASSPHRASE)
    signer = given.signer("engine")
    public = Ed25519PublicKey.from_public_bytes(raw_key(signer.public_key))
    public.verify(signer.sign(b"x"), b"x")


def test_openssl_reads_a_key_that_was_made(folder: KeyFolder) -> None:
    openssl = tool("openssl")
    command = [openssl, "pkey", "-in", str(folder.file_of("engine")), "-pubout", "-outform", "DER"]
    spki = subprocess.run(command, capture_output=True, check=True).stdout
    assert keyid_of(spki) == folder.signer("engine").keyid


def test_nothing_that_prints_a_signer_or_a_refusal_shows_a_secret(folder: KeyFolder) -> None:
    pem = folder.file_of("engine").read_bytes()
    key = load_pem_private_key(pem, None)
    assert isinstance(key, Ed25519PrivateKey)
    raw = key.private_bytes_raw()
    body = pem.splitlines()[1].decode()
    signer = folder.signer("engine")
    for shown in (repr(signer), str(signer), f"{signer}", repr(folder)):
        assert raw.hex() not in shown
        assert body not in shown
        assert "PrivateKey" not in shown
    put(folder, pem.replace(b"PRIVATE", b"PRIVATE RSA"))
    with pytest.raises(Denied) as refused:
        folder.signer("engine")
    for shown in (repr(refused.value), refused.value.message, refused.value.hint):
        assert body not in shown
