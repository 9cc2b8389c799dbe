"""Asking a witness: for a cosignature of a checkpoint, and for the newest one it cosigned.

    witness = WitnessClient("https://w1.example.com/prefix", key)
    lines = witness.add_checkpoint(old_size, path, signed.note)      # POST …/add-checkpoint
    seen = witness.newest("causebook.example/team")                  # GET  …/<sha256 of it>/checkpoint

**With or without the witness's key.** With `key` (from a policy file, which names keys and URLs together) an
answer counts only where it holds a cosignature by that key that holds; lines of other keys are dropped, as
C2SP tlog-witness asks. Without it nothing is checked here: every line that has the form of a cosignature is
handed over, and may claim a key that others know, and spoil the note for them. So a sealer keeps those alone
that hold by a key it knows from elsewhere (adapters/sealing/cosigning.py). A key is never learnt from the
answer.

**Whom it tells what.** `WitnessConflict` says which size the witness cosigned last: a log that is ahead sends
the proof from there; one that is behind, or finds its own size with another root, was rolled back or forked,
and must not sign on. `WitnessRefused` is every other refusal. `Unreachable` is no answer, or none that the
protocol knows; nothing follows from it about the log.

Time and size of an answer are bounded, redirects are not followed (adapters/http_client.py).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ...domain.canonical import INTEGER_MAX
from ...domain.checkpoint import SignedCheckpoint, cosignature_by
from ...domain.errors import Denied
from ...domain.note import (
    NOTE_BYTES_MAX,
    SIGNATURES_MAX,
    Note,
    NoteError,
    NoteKey,
    NoteSignature,
    parse_signature,
)
from ...domain.proof import ConsistencyProof
from ...domain.streams import shorten
from ..http_client import SECONDS, Address, Response, Unreachable, address_of, request
from ..signatures import verifier

_COSIGNATURE_BYTES: Final = 8 + 64
_SIZE = re.compile(rb"(0|[1-9][0-9]{0,15})\n")


class WitnessRefused(Denied):
    """The witness does not cosign this checkpoint; the message says why, as far as the witness did."""


class WitnessConflict(WitnessRefused):
    """The witness cosigned another checkpoint last. `size`: of that one, 0 for none."""

    def __init__(self, message: str, size: int, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.size = size


@dataclass(frozen=True)
class WitnessClient:
    """A witness at `url`, its submission prefix. Raises `Misuse` for a URL that is not http or https.

    `key`: the witness's note key, of type 0x04; None where only its URL is known. `seconds`: for an answer.
    """

    url: str
    key: NoteKey | None = None
    seconds: float = SECONDS
    _address: Address = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_address", address_of(self.url, what="witness"))

    def add_checkpoint(
        self, old_size: int, path: Sequence[bytes], note: Note
    ) -> list[NoteSignature]:
        """The cosignatures of a checkpoint, as signature lines to be kept beside its note.

        `note`: the checkpoint, signed by its log. `path`: the consistency proof from `old_size`, the size
        that the witness cosigned last, 0 for none. Checked where `key` is known, else not at all.
        Raises `WitnessConflict`, `WitnessRefused`, `Unreachable`.
        """
        signed = SignedCheckpoint.parse(note.raw)
        body = ConsistencyProof(old_size, tuple(path), signed).raw
        response = self._ask("POST", "add-checkpoint", body)
        if response.status == 200:
            return self._cosignatures(response.body, signed)
        if response.status == 409:
            raise self._conflict(response, old_size)
        if response.status in (400, 403, 404, 422):
            raise WitnessRefused(
                f"{self._named}: {_REFUSALS[response.status]}: {_told(response.body)}",
                hint="the checkpoint stands without this witness's cosignature",
            )
        raise self._unexpected(response)

    def newest(self, origin: str) -> SignedCheckpoint | None:
        """The newest checkpoint of an origin that the witness cosigned; None where it has none to show.

        With `key` known the witness's cosignature on it holds. The log's own signature is for the caller to
        check. Raises `Unreachable`.
        """
        name = hashlib.sha256(origin.encode()).hexdigest()
        response = self._ask("GET", f"{name}/checkpoint", None)
        if response.status == 404:
            return None
        if response.status != 200:
            raise self._unexpected(response)
        try:
            found = SignedCheckpoint.parse(response.body)
            if found.checkpoint.origin != origin:
                raise NoteError("a checkpoint of another origin")
            if self.key is not None and cosignature_by(found.note, self.key, verifier()) is None:
                raise NoteError("a checkpoint that this witness did not cosign")
        except NoteError as error:
            raise self._wrong(error.message) from None
        return found

    def _cosignatures(self, body: bytes, signed: SignedCheckpoint) -> list[NoteSignature]:
        try:
            lines = body.decode().split("\n")
            if lines.pop() or not 1 <= len(lines) <= SIGNATURES_MAX:
                raise NoteError(f"expected 1 to {SIGNATURES_MAX} lines")
            found = [parse_signature(line) for line in lines]
            if self.key is not None:
                found = [each for each in found if each.is_by(self.key)]
                if (
                    cosignature_by(Note(signed.note.text, tuple(found)), self.key, verifier())
                    is None
                ):
                    raise NoteError(f"no cosignature by {self.key.name!a}")
            elif any(len(each.signature) != _COSIGNATURE_BYTES for each in found):
                raise NoteError("a signature that has not the form of a cosignature")
        except UnicodeDecodeError:
            raise self._wrong("signature lines that are not UTF-8") from None
        except NoteError as error:
            raise self._wrong(error.message) from None
        return found

    def _conflict(self, response: Response, old_size: int) -> WitnessRefused | Unreachable:
        found = _SIZE.fullmatch(response.body)
        if found is None or response.content_type != "text/x.tlog.size":
            return self._wrong("a conflict without its size")
        size = int(found[1])
        if size > INTEGER_MAX:
            return self._wrong("a size beyond 2^53-1")
        if size == old_size:
            return WitnessConflict(
                f"{self._named}: cosigned another root of size {size} before",
                size,
                hint="the log was forked, or restored from an older copy and sealed again",
            )
        return WitnessConflict(f"{self._named}: expected a proof from size {size}", size)

    def _ask(self, method: str, path: str, body: bytes | None) -> Response:
        address = self._address._replace(path=f"{self._address.path.rstrip('/')}/{path}")
        return request(
            method,
            address,
            what="witness",
            body=body,
            headers=None if body is None else {"Content-Type": "application/octet-stream"},
            bytes_max=NOTE_BYTES_MAX,
            seconds=self.seconds,
        )

    @property
    def _named(self) -> str:
        return f"witness {self.url}"

    def _unexpected(self, response: Response) -> Unreachable:
        return self._wrong(f"status {response.status}: {_told(response.body)}")

    def _wrong(self, found: str) -> Unreachable:
        return Unreachable(f"{self._named}: not an answer of a witness: {found}")


_REFUSALS: Final = {
    400: "takes this for no request",
    403: "finds no signature of a log it knows",
    404: "does not know this log",
    422: "finds that the proof does not hold",
}


def _told(body: bytes) -> str:
    """What the other side said of it, on one line."""
    return shorten(body.partition(b"\n")[0].decode("utf-8", "replace"))
