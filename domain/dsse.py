"""DSSE envelopes: signed bytes with their type, as JSON (github.com/secure-systems-lab/dsse, v1.0.2).

    {"payload":"<base64>","payloadType":"<type>","signatures":[{"keyid":"<hex>","sig":"<base64>"}]}

The signature is Ed25519 over the pre-authentication encoding of payload and type (`record.pae`). The envelope
is written as canonical JSON and read as that alone; `keyid` is the SHA-256 of the key's SubjectPublicKeyInfo,
as in a record, and a hint as it is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from .canonical import decode, encode
from .encoding import base64_bytes, base64_text
from .errors import BadData, CannotCreate
from .record import pae

ENVELOPE_BYTES_MAX: Final = 4 * 1024 * 1024
SIGNATURES_MAX: Final = 16
_KEYID = re.compile(r"[0-9a-f]{64}")


class EnvelopeError(BadData):
    """Bytes that are not a DSSE envelope as causebook writes one."""


@dataclass(frozen=True)
class EnvelopeSignature:
    """One signature: who is said to have made it, and its 64 bytes."""

    keyid: str
    signature: bytes


@dataclass(frozen=True)
class Envelope:
    """Signed bytes and their type. Nothing about the signatures is known to hold."""

    payload_type: str
    payload: bytes
    signatures: tuple[EnvelopeSignature, ...]

    @property
    def raw(self) -> bytes:
        """The envelope as JSON, one line, ended by LF."""
        document = {
            "payload": base64_text(self.payload),
            "payloadType": self.payload_type,
            "signatures": [
                {"keyid": each.keyid, "sig": base64_text(each.signature)}
                for each in self.signatures
            ],
        }
        return encode(document) + b"\n"

    @property
    def signed_bytes(self) -> bytes:
        """What each signature is over."""
        return pae(self.payload, self.payload_type)

    def signatures_by(self, keyid: str) -> Sequence[EnvelopeSignature]:
        """The signatures that claim to be of that key."""
        return [each for each in self.signatures if each.keyid == keyid]


def seal_envelope(
    payload: bytes, payload_type: str, keyid: str, sign: Callable[[bytes], bytes]
) -> Envelope:
    """The envelope of `payload`, signed once. Raises `CannotCreate` where it would be too long to be read."""
    unsigned = Envelope(payload_type, payload, (EnvelopeSignature(keyid, bytes(64)),))
    if len(unsigned.raw) > ENVELOPE_BYTES_MAX:
        raise CannotCreate(
            f"envelope: expected at most {ENVELOPE_BYTES_MAX:,} bytes, found {len(unsigned.raw):,}",
            hint="hand the whole log over: causebook export --tiles DIR",
        )
    return replace(unsigned, signatures=(EnvelopeSignature(keyid, sign(unsigned.signed_bytes)),))


def parse_envelope(raw: bytes) -> Envelope:
    """The envelope that `raw` is. Raises `EnvelopeError` naming what is wrong."""
    if len(raw) > ENVELOPE_BYTES_MAX:
        raise EnvelopeError(f"envelope: expected at most {ENVELOPE_BYTES_MAX} bytes, found more")
    try:
        if not raw.endswith(b"\n"):
            raise ValueError("expected one line, its end included")
        document = decode(raw[:-1])
        if not isinstance(document, dict) or list(document) != [
            "payload", "payloadType", "signatures",
        ]:  # fmt: skip
            raise ValueError("expected exactly the keys payload, payloadType, signatures")
        payload, kind, signed = document.values()
        if not (isinstance(payload, str) and isinstance(kind, str) and isinstance(signed, list)):
            raise ValueError("expected two strings and a list")
        if not 1 <= len(signed) <= SIGNATURES_MAX:
            raise ValueError(f"expected 1 to {SIGNATURES_MAX} signatures, found {len(signed)}")
        signatures = tuple(_signature(each) for each in signed)
        return Envelope(kind, base64_bytes(payload), signatures)
    except ValueError as error:
        raise EnvelopeError(f"envelope: {error}") from None


def _signature(document: object) -> EnvelopeSignature:
    if not isinstance(document, dict) or list(document) != ["keyid", "sig"]:
        raise ValueError("signature: expected exactly the keys keyid, sig")
    keyid, signature = document.values()
    if not isinstance(keyid, str) or _KEYID.fullmatch(keyid) is None:
        raise ValueError("signature: expected a key id of 64 hex digits")
    if not isinstance(signature, str):
        raise ValueError("signature: expected base64")
    raw = base64_bytes(signature)
    if len(raw) != 64:
        raise ValueError(f"signature: expected 64 bytes, found {len(raw)}")
    return EnvelopeSignature(keyid, raw)
