"""Keys on disk: Ed25519, one file a role, PKCS#8 PEM, readable by their owner alone.

    DIR/root.pem  engine.pem  authority.pem  log.pem        mode 0600, DIR 0700
    DIR/.gitignore                                          no key is committed by `git add -A`

`init` makes them; `Signer` is what the ledger signs with. A file that others can read, that holds another
kind of key, or that another passphrase encrypts is refused before anything is signed.
"""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from ..domain.errors import CannotCreate, Denied, IOFailure
from ..domain.events import Role
from ..domain.keyring import keyid_of, spki_of

ROLES: Final[tuple[Role, ...]] = ("root", "engine", "authority", "log")
"""The roles whose keys `init` makes."""

Passphrase = Callable[[Path], bytes]
"""Asked for the passphrase of one key file, and only where the file is encrypted."""


class Signer(Protocol):
    """Something that signs for one role."""

    @property
    def keyid(self) -> str: ...
    @property
    def public_key(self) -> str: ...

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature, 64 bytes."""
        ...


@dataclass(frozen=True)
class KeySigner:
    """A signer with its private key in memory. `public_key`: base64 of the SubjectPublicKeyInfo."""

    keyid: str
    public_key: str
    _key: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def of(cls, key: Ed25519PrivateKey) -> KeySigner:
        """The signer of a private key."""
        spki = spki_of(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
        return cls(keyid_of(spki), base64.b64encode(spki).decode(), key)

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature, 64 bytes."""
        return self._key.sign(message)


def no_passphrase(path: Path) -> bytes:
    """The answer of somebody who has no passphrase to give."""
    raise Denied(
        f"{path}: the key is encrypted, and no passphrase was given",
        hint="--passphrase-file FILE, or CAUSEBOOK_PASSPHRASE; asked for on a terminal",
    )


@dataclass(frozen=True)
class KeyFolder:
    """The folder in which the keys lie."""

    path: Path
    passphrase: Passphrase = no_passphrase

    def file_of(self, role: Role) -> Path:
        """Where the key of a role lies."""
        return self.path / f"{role}.pem"

    def check(self) -> None:
        """Raise what `make` or a first signature would, so far as that can be known before anything is done.

        Keys that are there are opened; where none is, the folder has to be one that can be made.
        """
        present = self._present()
        for role in present:
            self.signer(role)
        nearest = self.path
        while not nearest.exists() and nearest != nearest.parent:
            nearest = nearest.parent
        if not present and not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
            raise CannotCreate(
                f"{self.path}: cannot make keys here: {nearest} is no folder that can be written to",
                hint="name another folder with --keys",
            )

    def _present(self) -> list[Role]:
        """All roles or none. Raises `CannotCreate` where only some have their key."""
        present = [role for role in ROLES if self.file_of(role).exists()]
        if present and len(present) != len(ROLES):
            raise CannotCreate(
                f"{self.path}: expected all of {', '.join(ROLES)} or none, found {', '.join(present)}",
                hint="name another folder with --keys; no key is ever replaced",
            )
        return present

    def make(self, passphrase: bytes | None = None) -> bool:
        """Make a key for each role, encrypted where a passphrase is given; True where they were made.

        First a `.gitignore` is written that keeps them out of git, unless there is one: of `*`, or of the
        four files alone where the folder holds something else as well, which may belong in git.
        A folder that has all four already is left as it is: a founding that was cut short goes on with them.
        Raises `CannotCreate` where only some are there, so that none is ever replaced.
        """
        if self._present():
            return False
        encryption: KeySerializationEncryption = NoEncryption()
        if passphrase is not None:
            encryption = BestAvailableEncryption(passphrase)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._ignore()
            for role in ROLES:
                pem = Ed25519PrivateKey.generate().private_bytes(
                    Encoding.PEM, PrivateFormat.PKCS8, encryption
                )
                _write_new(self.file_of(role), pem, 0o600)
            _sync_folder(self.path)
        except OSError as error:
            raise CannotCreate(
                f"{self.path}: cannot make keys here: {error.strerror}",
                hint="name another folder with --keys",
            ) from None
        return True

    def _ignore(self) -> None:
        alone = next(self.path.iterdir(), None) is None
        lines = ["*"] if alone else [f"/{self.file_of(role).name}" for role in ROLES]
        with suppress(FileExistsError):
            _write_new(self.path / ".gitignore", "".join(f"{x}\n" for x in lines).encode(), 0o644)

    def signer(self, role: Role) -> KeySigner:
        """The signer of a role. Raises `Denied`, saying which file and what is wrong with it."""
        path = self.file_of(role)
        pem = _read_secret(path, role)
        try:
            key: object = load_pem_private_key(pem, None)
        except TypeError:
            key = _decrypted(path, pem, self.passphrase(path))
        except (ValueError, UnsupportedAlgorithm):
            raise Denied(
                f"{path}: expected a private key in PKCS#8 PEM, found something else",
                hint="causebook init makes keys; PEM begins with -----BEGIN PRIVATE KEY-----",
            ) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise Denied(
                f"{path}: expected an Ed25519 key, found {type(key).__name__.strip('_')}",
                hint="openssl genpkey -algorithm ed25519 makes one",
            )
        return KeySigner.of(key)


def _decrypted(path: Path, pem: bytes, passphrase: bytes) -> object:
    try:
        return load_pem_private_key(pem, passphrase)
    except (ValueError, TypeError):
        raise Denied(
            f"{path}: the passphrase does not open this key",
            hint="each key can have its own; nothing was changed",
        ) from None


def _read_secret(path: Path, role: Role) -> bytes:
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Denied(f"{path}: expected a file", hint="--keys names the folder of the keys")
            if status.st_mode & 0o077:
                mode = stat.S_IMODE(status.st_mode)
                raise Denied(
                    f"{path}: expected mode 0600, found {mode:04o}: others can read this key",
                    hint=f"chmod 600 {path}; if somebody may have read it, make another",
                )
            return file.read(65_536)
    except FileNotFoundError:
        raise Denied(
            f"{path}: the {role} key is not here",
            hint="--keys DIR, or CAUSEBOOK_KEYS; causebook init makes keys",
        ) from None
    except IsADirectoryError:
        raise Denied(f"{path}: expected a file, found a folder", hint="--keys DIR") from None
    except PermissionError:
        raise Denied(f"{path}: not readable by this user", hint=f"ls -l {path}") from None
    except OSError as error:
        raise IOFailure(f"{path}: {error.strerror}") from None


def _without_waiting(name: str, flags: int) -> int:
    # A pipe by this name would keep us until somebody writes to it.
    return os.open(name, flags | os.O_NONBLOCK)


def _write_new(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
