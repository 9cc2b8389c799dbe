"""One key in one file: Ed25519, PKCS#8 PEM, readable by its owner alone.

A file that others can read, that holds another kind of key, or that another passphrase encrypts is refused
before anything is signed. A new file is there whole or not at all, and takes no other's place.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from ..domain.encoding import base64_text
from ..domain.errors import BadData, CannotCreate, Denied, IOFailure
from ..domain.keyring import keyid_of, raw_key, spki_of
from .durable import write_new
from .files import read_file, without_waiting

Passphrase = Callable[[Path], bytes]
"""Asked for the passphrase of one key file, and only where the file is encrypted."""

_BYTES_MAX: Final = 65_536


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
        return cls(keyid_of(spki), base64_text(spki), key)

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature, 64 bytes."""
        return self._key.sign(message)


def no_passphrase(path: Path) -> bytes:
    """The answer of somebody who has no passphrase to give."""
    raise Denied(
        f"{path}: the key is encrypted, and no passphrase was given",
        hint="--passphrase-file FILE, or CAUSEBOOK_PASSPHRASE; asked for on a terminal",
    )


def read_signer(path: Path, role: str, passphrase: Passphrase = no_passphrase) -> KeySigner:
    """The signer whose private key lies in `path`. Raises `Denied`, saying what is wrong with it."""
    pem = read_secret(path, role)
    try:
        key: object = load_pem_private_key(pem, None)
    except TypeError:
        key = _decrypted(path, pem, passphrase(path))
    except (ValueError, UnsupportedAlgorithm):
        raise Denied(
            f"{path}: expected a private key in PKCS#8 PEM, found something else",
            hint="causebook init makes keys; PEM begins with -----BEGIN PRIVATE KEY-----",
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise Denied(
            f"{path}: expected an Ed25519 key, found {_kind(key)}",
            hint="openssl genpkey -algorithm ed25519 makes one",
        )
    return KeySigner.of(key)


def make_signer(path: Path, passphrase: bytes | None = None) -> KeySigner:
    """A new key at `path`, mode 0600, encrypted where a passphrase is given, and its signer.

    Raises `CannotCreate` where something is there already, or none can be made there.
    """
    signer, pem = new_key(passphrase)
    try:
        write_new(path, lambda file: file.write(pem))
    except OSError as error:
        raise CannotCreate(
            f"{path}: cannot make a key here: {error.strerror}",
            hint="name another file; no key is ever replaced",
        ) from None
    return signer


def new_key(passphrase: bytes | None) -> tuple[KeySigner, bytes]:
    """A key that nobody has yet, and the PEM that it is kept in."""
    encryption: KeySerializationEncryption = NoEncryption()
    if passphrase is not None:
        encryption = BestAvailableEncryption(passphrase)
    key = Ed25519PrivateKey.generate()
    return KeySigner.of(key), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def read_public(path: Path) -> str:
    """The public key in a PEM file, as events carry it: base64 of its SubjectPublicKeyInfo.

    Raises `NoInput` where the file is not there, `BadData` where it holds something else, a private key too.
    """
    hint = "causebook keys export and openssl pkey -pubout write one"
    pem = read_file(path, _BYTES_MAX, "a public key in PEM", hint=hint)
    return public_of_pem(pem, str(path))


def public_of_pem(pem: bytes, where: str) -> str:
    """The public key in PEM, likewise. `where` it was found, for the `BadData` that this raises."""
    if b"PRIVATE KEY" in pem:
        raise BadData(
            f"{where}: expected a public key, found a private one",
            hint="openssl pkey -in FILE -pubout writes the public half; the private one stays there",
        )
    try:
        key: object = load_pem_public_key(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadData(
            f"{where}: expected a public key in PEM, found something else",
            hint="PEM begins with -----BEGIN PUBLIC KEY-----",
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise BadData(f"{where}: expected an Ed25519 key, found {_kind(key)}")
    spki = spki_of(key.public_bytes(Encoding.Raw, PublicFormat.Raw))
    text = base64_text(spki)
    try:
        raw_key(text)
    except ValueError as error:
        raise BadData(f"{where}: {error}") from None
    return text


def public_pem(public_key: str) -> bytes:
    """The PEM of a public key (base64 of its SubjectPublicKeyInfo), as openssl reads it."""
    return b"-----BEGIN PUBLIC KEY-----\n" + public_key.encode() + b"\n-----END PUBLIC KEY-----\n"


def read_secret(path: Path, role: str) -> bytes:
    """What a file says that nobody else may read. Raises `Denied` where others can, or it is not there."""
    try:
        with open(path, "rb", opener=without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Denied(f"{path}: expected a file", hint="--keys names the folder of the keys")
            if status.st_mode & 0o077:
                mode = stat.S_IMODE(status.st_mode)
                raise Denied(
                    f"{path}: expected mode 0600, found {mode:04o}: others can read this key",
                    hint=f"chmod 600 {path}; if somebody may have read it, make another",
                )
            return file.read(_BYTES_MAX)
    except FileNotFoundError:
        raise Denied(
            f"{path}: the {role} key is not here",
            hint="--keys DIR, or CAUSEBOOK_KEYS, names the folder; where the key is kept elsewhere, "
            "--request FILE has it sign there",
        ) from None
    except IsADirectoryError:
        raise Denied(f"{path}: expected a file, found a folder", hint="--keys DIR") from None
    except PermissionError:
        raise Denied(f"{path}: not readable by this user", hint=f"ls -l {path}") from None
    except OSError as error:
        raise IOFailure(f"{path}: {error.strerror}") from None


def _decrypted(path: Path, pem: bytes, passphrase: bytes) -> object:
    try:
        return load_pem_private_key(pem, passphrase)
    except (ValueError, TypeError):
        raise Denied(
            f"{path}: the passphrase does not open this key",
            hint="each key can have its own; nothing was changed",
        ) from None


def _kind(key: object) -> str:
    return type(key).__name__.strip("_")
