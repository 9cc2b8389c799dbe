"""Files that a command is given, and signing requests: read, written, and shown to whoever is to sign."""

from __future__ import annotations

from pathlib import Path

from ...domain.checkpoint import SignedCheckpoint
from ...domain.errors import BadData, CannotCreate
from ...domain.events import Event, KeyEnrolled
from ...domain.keyring import keyid_of, raw_key, spki_of
from ...domain.note import NOTE_BYTES_MAX, NoteError
from ...domain.signing_request import REQUEST_BYTES_MAX, SigningRequest, named
from .. import files
from ..durable import replace_durably
from ..handover.new_file import refuse_existing, write_bytes_new
from .terminal import Terminal, short


def read_file(file: str, what: str, bytes_max: int) -> bytes:
    """The bytes of a file that was named, at most `bytes_max`. Raises as `files.read_file` does."""
    hint = "look at the name, at where it is looked for, and at who may read it"
    return files.read_file(file, bytes_max, what, hint=hint)


def read_checkpoint(file: str) -> SignedCheckpoint:
    """The checkpoint in a file. Raises as `read_file` does, and `BadData`."""
    try:
        return SignedCheckpoint.parse(read_file(file, "a checkpoint", NOTE_BYTES_MAX))
    except NoteError as error:
        raise BadData(f"{file}: {error.message}", hint="causebook checkpoint prints one") from None


def read_request(file: str) -> SigningRequest:
    """The request in a file. Raises as `read_file` does, and `BadData`."""
    return SigningRequest.parse(read_file(file, "a signing request", REQUEST_BYTES_MAX))


def require_free(file: str | None) -> None:
    """Raise `CannotCreate` where a request cannot be written because something is there."""
    if file is not None:
        refuse_existing(Path(file))


def write_request(file: str, request: SigningRequest) -> None:
    """Write a request to a file that is not there yet. Raises `CannotCreate`."""
    write_bytes_new(Path(file), request.raw)


def replace_request(file: str, request: SigningRequest) -> None:
    """Write a request over what it was. Raises `CannotCreate`."""
    try:
        replace_durably(Path(file), request.raw, mode=0o644)
    except OSError as error:
        raise CannotCreate(
            f"{file}: cannot be written: {error.strerror}",
            hint="sign a copy where it can be written",
        ) from None


def say_asked(page: Terminal, request: SigningRequest) -> None:
    """Show each fact that is to be signed, and whose signature is on it or wanted."""
    page.blank()
    page.line(f"  ledger   {request.ledger}")
    page.line(f"  nonce    {request.nonce}")
    page.line(f"  root     {request.root_key}")
    page.line(f"  stream   {request.stream}, from v{request.version}")
    page.line(f"  follows  {request.previous}")
    wanted = request.wants()
    for number, asked in enumerate(request.records):
        event = asked.event()
        page.blank()
        page.line((f"  v{request.version + number} {asked.type}", "strong"), f"  at {asked.at}")
        for name, value in _facts(event):
            page.line(f"    {name:<11} {value}")
        state = {want.what: f"wanted, by {named(want)}" for want in wanted if want.record == number}
        if isinstance(event, KeyEnrolled):
            page.line(f"    {'possession':<11} {state.get('possession', 'signed')}")
            if event.rotates is not None:
                page.line(f"    {'handover':<11} {state.get('handover', 'signed')}")
        by = f"signed, by {short(asked.keyid)}" if asked.keyid else "signed"
        page.line(f"    {'record':<11} {state.get('record', by)}")
    page.blank()


def _facts(event: Event) -> list[tuple[str, str]]:
    facts = [
        (name, _shown(value))
        for name, value in event.data().items()
        if name not in ("possession", "handover")
    ]
    for name in ("public_key", "root_key"):
        text = getattr(event, name, None)
        if text is not None:
            facts.append(("key id", keyid_of(spki_of(raw_key(text)))))
    return facts


def _shown(value: object) -> str:
    return "none" if value is None else str(value)
