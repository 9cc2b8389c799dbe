"""Keys that a library reaches: a KMS, an HSM or a file, by the signer URIs of securesystemslib.

    DIR/engine.uri       line 1   the URI: `gcpkms:…`, `awskms:…`, `hsm:…`, `file2:/path/to/key.pem`
                         rest     the public key, PEM SubjectPublicKeyInfo, Ed25519

Mode 0600, as a key has: whoever can write it says what signs. It takes the place of `engine.pem`, under any
name that a key's file can have. The public key is what the ledger enrolled, so that what comes back is
checked before it goes anywhere: a signature by another key is refused here, not found by an auditor.

Records are signed as a batch is put together, before the store is asked for anything: however long a service
takes, no lock of the store is held meanwhile. A checkpoint is signed while its sealer has the turn to seal,
since what it extends must not change: others who seal the ledger wait for the service, and nobody who writes
records does. Needs the extra `kms`, and whatever the scheme needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..domain.errors import Denied, Misuse, StoreUnavailable
from ..domain.keyring import keyid_of, raw_key, spki_of
from ..domain.streams import shorten
from .key_files import public_of_pem, public_pem, read_secret
from .signatures import verify

_URI: Final = re.compile(r"[a-z][a-z0-9+.-]{0,31}:[\x21-\x7e]{1,2000}")


@dataclass(frozen=True)
class UriSigner:
    """A signer whose private key is somewhere else. `where`: the file that says where."""

    keyid: str
    public_key: str
    where: Path
    _signer: Any = field(repr=False)

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature, 64 bytes. Raises `StoreUnavailable`, `Denied` where what came is none."""
        try:
            signature = bytes.fromhex(self._signer.sign(message).signature)
        except Exception as error:  # noqa: BLE001 - each service has errors of its own, and names none
            raise StoreUnavailable(
                f"{self.where}: the key does not sign: {_said(error)}",
                hint="look at the service, and at who may use the key",
            ) from None
        if not verify(raw_key(self.public_key), signature, message):
            raise Denied(
                f"{self.where}: expected a signature by {self.keyid[:8]}…, found another",
                hint="the public key in the file is not that of the URI; nothing was stored",
            )
        return signature


def read_uri_signer(path: Path, role: str) -> UriSigner:
    """The signer that a `.uri` file leads to. Raises `Denied`, `Misuse` where the extra is not installed."""
    line, _, pem = read_secret(path, role).partition(b"\n")
    uri = require_uri(line.decode("ascii", "replace"), str(path))
    return uri_signer(uri, public_of_pem(pem, str(path)), path)


def uri_signer(uri: str, public_key: str, where: Path) -> UriSigner:
    """The signer of a URI and a public key (base64 of its SubjectPublicKeyInfo)."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from securesystemslib.signer import Signer, SSlibKey
    except ImportError:
        raise Misuse(
            f"{where}: a key behind a URI needs the extra 'kms'",
            hint="install causebook with its extra 'kms' (README, Install)",
        ) from None
    public = raw_key(public_key)
    try:
        key = SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(public))
        signer = Signer.from_priv_key_uri(uri, key)
    except Exception as error:  # noqa: BLE001 - as above
        raise Denied(
            f"{where}: the key cannot be reached: {_said(error)}",
            hint="the first line is a signer URI of securesystemslib, its scheme's library installed",
        ) from None
    return UriSigner(keyid_of(spki_of(public)), public_key, where, signer)


def uri_file(uri: str, public_key: str) -> bytes:
    """What a `.uri` file holds."""
    return uri.encode("ascii") + b"\n" + public_pem(public_key)


def require_uri(text: str, where: str) -> str:
    """`text`, if it can be a signer's URI. Raises `Misuse`."""
    if _URI.fullmatch(text) is None:
        raise Misuse(
            f"{where}: expected a signer URI such as file2:/path/key.pem, found {shorten(text)}",
            hint="the schemes are those of securesystemslib: gcpkms, awskms, azurekms, hsm, file2",
        )
    return text


def _said(error: Exception) -> str:
    return shorten(f"{type(error).__name__}: {error}", 200)
