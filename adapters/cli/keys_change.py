"""`causebook keys enrol`, `rotate`, `retire` and `submit`: a change of keys, here or by a request."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...domain.checkpoint import SignedCheckpoint
from ...domain.errors import CausebookError, Misuse
from ...domain.events import KeyEnrolled, KeyRetired, Role
from ...domain.keyring import Keyring, keyid_of, raw_key, spki_of
from ...domain.note import NOTE_BYTES_MAX, NoteError
from ...domain.signing_request import SigningRequest
from ..kept_checkpoints import checkpoint_of, require_kept
from ..key_files import read_public
from ..key_life import (
    ask_enrolment,
    ask_retirement,
    key_named,
    require_here,
    require_name,
    require_role,
    require_whole,
    settle,
    sign_here,
    signed_past,
    submit,
    submit_resolution,
    task_of,
)
from ..keys import KeyFolder
from ..ledger import Ledger
from ..writer import Written
from .passphrase import new_passphrase, passphrase_from
from .reading import at_keys, at_ledger
from .requests import read_file, read_request, require_free, say_asked, write_request
from .terminal import Terminal, err, json_page, out, short
from .writing import bring_up_to_date, open_ledger

_SIZE_DIGITS_MAX: Final = 16


@dataclass(frozen=True)
class At:
    """Where a change is made. `request`: the file that asks for what cannot be signed here."""

    url: str
    keys: str
    passphrase_file: str | None
    lock_timeout_seconds: float
    request: str | None
    as_json: bool

    @property
    def folder(self) -> KeyFolder:
        """The folder of the keys."""
        return KeyFolder(Path(self.keys), passphrase_from(self.passphrase_file))

    @property
    def options(self) -> str:
        """The options that name both in a command to be typed next."""
        return at_ledger(self.url) + at_keys(self.keys)

    def open(self) -> Ledger:
        """The ledger, to be written to. Raises `CannotCreate` where the request could not be written."""
        require_free(self.request)
        return open_ledger(self.url, self.keys, self.passphrase_file, self.lock_timeout_seconds)


@dataclass(frozen=True)
class NewKey:
    """The key that is to come: made here, encrypted or not; else its public half, and a URI that signs."""

    public: str | None = None
    uri: str | None = None
    encrypt: bool = False


def enrol(role_name: str, name: str | None, new: NewKey, at: At) -> int:
    """Enrol a key for a role."""
    role = require_role(role_name)
    named = role if name is None else name
    require_name(role, named)
    with at.open() as ledger:
        change = Change(ledger, at.folder, at)
        if at.request is None:
            require_here(change.folder, ledger.writer.keyring.active("root")[0])
        public_key = change.key(role, new, beside=False)
        return change.finish(ask_enrolment(ledger.writer, role, named, public_key))


def rotate(which: str, name: str | None, new: NewKey, at: At) -> int:
    """Enrol a key in place of another, which hands over to it."""
    with at.open() as ledger:
        keyring = ledger.writer.keyring
        old = key_named(keyring, which)
        role = require_role(old.role)
        if old.retired is not None:
            raise Misuse(
                f"{role} {short(old.keyid)} is retired, and hands nothing over",
                hint=f"causebook keys enrol {role} enrols another",
            )
        named = old.name if name is None else name
        require_name(role, named)
        change = Change(ledger, at.folder, at)
        if at.request is None:
            require_here(change.folder, keyring.active("root")[0])
            require_here(change.folder, old)
        public_key = change.key(role, new, beside=True)
        return change.finish(ask_enrolment(ledger.writer, role, named, public_key, rotates=old))


def retire(which: str, until: str, reason: str, at: At, *, compromised: bool) -> int:
    """End a key, trusted as far as a checkpoint."""
    with at.open() as ledger:
        writer = ledger.writer
        key = key_named(writer.keyring, which)
        sealed = _checkpoint(ledger, until)
        asked = ask_retirement(writer, key, sealed, compromised=compromised, reason=reason)
        past = signed_past(ledger.store, key.keyid, sealed.checkpoint.size)
        if past:
            _warn(
                f"{past:,} records that {key.role} {short(key.keyid)} signed past size "
                f"{sealed.checkpoint.size:,} are unverifiable once it is retired"
            )
        if len(writer.keyring.active(key.role)) == 1:
            _warn(
                f"no other {key.role} key is enrolled: causebook keys enrol {key.role} enrols one"
            )
        return Change(ledger, at.folder, at).finish(asked)


def submit_file(file: str, at: At) -> int:
    """Store what a signed request asks for."""
    asked = read_request(file)
    task = task_of(asked)
    with at.open() as ledger:
        if task is None:
            return Change(ledger, at.folder, at).store(asked)
        log = ledger.task(task).log
        event = submit_resolution(log, asked)
        stage = log.state.stage
        bring_up_to_date(ledger)
    if at.as_json:
        out().raw(json_page({"task": task, "decision": event.decision, "stage": stage}))
        return 0
    page = out()
    page.paragraph((f"{task} resolved: {event.decision},", "strong"), f"by {event.name}")
    page.command("  next  ", f"causebook why {task}{at_ledger(at.url)}")
    return 0


@dataclass
class Change:
    """One change of keys under way. `made`: the file of the key that it made, or found unused."""

    ledger: Ledger
    folder: KeyFolder
    at: At
    made: Path | None = None

    @property
    def _keyring(self) -> Keyring:
        return self.ledger.writer.keyring

    def key(self, role: Role, new: NewKey, *, beside: bool) -> str:
        """The public half of the key to be enrolled, made now where it has to be."""
        if new.public is None:
            if new.uri is not None:
                raise Misuse(
                    "--uri: expected --public-key FILE with it",
                    hint="the service shows the public half, which is what the ledger enrols",
                )
            return self._made_here(role, new, beside=beside)
        public_key = read_public(Path(new.public))
        keyid = keyid_of(spki_of(raw_key(public_key)))
        if keyid in self._keyring.keys:
            raise Misuse(
                f"{new.public}: key {short(keyid)} is enrolled already: one key, one role",
                hint="causebook keys list shows the keys that there are",
            )
        if new.uri is not None:
            from ..kms import require_uri, uri_file, uri_signer

            uri = require_uri(new.uri, "--uri")
            uri_signer(uri, public_key, Path(new.public)).sign(b"causebook")  # it can be reached
            content = uri_file(uri, public_key)
            self.made = self.folder.add_uri(role, keyid, content, beside=beside)
        elif self.at.request is None and self.folder.locate(role, keyid) is None:
            raise Misuse(
                f"--public-key: the key of {new.public} is not here, and has to show that it is held",
                hint="--request FILE asks it to sign where it is",
            )
        return public_key

    def _made_here(self, role: Role, new: NewKey, *, beside: bool) -> str:
        spare = self.folder.spare(role, self._keyring.keys)
        if spare is not None:
            signer, self.made = spare
            return signer.public_key
        phrase = new_passphrase(self.at.passphrase_file, wanted=new.encrypt)
        fresh, self.made = self.folder.add(role, phrase, beside=beside)
        return fresh.public_key

    def finish(self, asked: SigningRequest) -> int:
        """Sign what can be signed here; then store it, or write what is still wanted into a request."""
        try:
            signed, _ = sign_here(asked, self.folder)
            if self.at.request is None:
                require_whole(signed, self.folder)
                return self.store(signed)
            write_request(self.at.request, signed)
        except CausebookError:
            if self.made is not None:
                _warn(f"{self.made} holds a key that is not enrolled; the same command enrols it")
            raise
        self._say_asked(self.at.request, signed)
        return 0

    def store(self, asked: SigningRequest) -> int:
        """Store a request that is signed whole."""
        records = submit(self.ledger.writer, asked)
        settle(self.folder, records, self._keyring)
        bring_up_to_date(self.ledger)
        if self.at.as_json:
            done = [
                {"version": r.version, "type": r.event.kind(), "digest": r.digest} | r.event.data()
                for r in records
            ]
            out().raw(json_page({"origin": self.ledger.origin, "records": done}))
            return 0
        page = out()
        for record in records:
            self._say_stored(page, record)
        return 0

    def _say_asked(self, request: str, signed: SigningRequest) -> None:
        made = None if self.made is None else str(self.made)
        if self.at.as_json:
            wants = [{"what": w.what, "role": w.role, "keyid": w.keyid} for w in signed.wants()]
            out().raw(json_page({"request": request, "wants": wants, "key_file": made}))
            return
        page = out()
        page.line((f"{request} asks for what cannot be signed here", "strong"))
        say_asked(page, signed)
        if made is not None:
            page.line(f"  file   {made}")
        page.command("  there  ", f"causebook keys sign {shlex.quote(request)} --keys DIR")
        page.command("  then   ", f"causebook keys submit {shlex.quote(request)}{self.at.options}")

    def _say_stored(self, page: Terminal, record: Written) -> None:
        event, options = record.event, self.at.options
        if isinstance(event, KeyEnrolled):
            keyid = keyid_of(spki_of(raw_key(event.public_key)))
            page.line((f"{event.role} {short(keyid)} is enrolled", "strong"))
            page.line(f"  record  ledger v{record.version}")
            if self.made is not None:
                page.line(f"  file    {self.folder.locate(event.role, keyid) or self.made}")
            if event.rotates is None:
                page.command("  next    ", f"causebook keys list{at_ledger(self.at.url)}")
                return
            page.line(f"  before  {short(event.rotates)}, which counts until it is retired")
            page.command("  next    ", f"causebook seal{options}")
            command = (
                f"causebook keys retire {event.rotates[:8]} --trusted-until SIZE --reason TEXT"
            )
            page.command("          ", command + options)
        elif isinstance(event, KeyRetired):
            key = self._keyring.keys[event.keyid]
            page.line((f"{key.role} {short(key.keyid)} is retired", "strong"))
            page.line(f"  record   ledger v{record.version}")
            page.line(f"  trusted  until size {event.size:,}")
            path = self.folder.locate(key.role, key.keyid)
            if path is not None:
                page.line(f"  file     {path}: it signs nothing more, and can be destroyed")
            page.command("  next     ", f"causebook seal{options}")
            trust = f"causebook keys export --trust{at_ledger(self.at.url)} > FILE"
            page.command("  auditors ", trust)


def _checkpoint(ledger: Ledger, until: str) -> SignedCheckpoint:
    if until.isascii() and until.isdecimal() and len(until) <= _SIZE_DIGITS_MAX:
        return checkpoint_of(ledger.store, ledger.origin, int(until))
    raw = read_file(until, "a checkpoint, or the size of one that is kept", NOTE_BYTES_MAX)
    try:
        given = SignedCheckpoint.parse(raw)
    except NoteError as error:
        raise NoteError(
            f"{until}: {error.message}", hint="causebook checkpoint prints one"
        ) from None
    require_kept(ledger.store, ledger.origin, given)
    return given


def _warn(message: str) -> None:
    err().paragraph(("warning:", "warn"), message)
