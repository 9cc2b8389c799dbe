"""The folder of the keys: a file a role, and those that it was rotated from beside it.

    DIR/root.pem  engine.pem  authority.pem  log.pem        mode 0600, DIR 0700
    DIR/engine-1f2e3d4c.pem                                 another engine key, by the start of its key id
    DIR/engine.uri                                          in place of engine.pem: where a library reaches
                                                            the key (adapters/kms.py)
    DIR/.gitignore                                          no key is committed by `git add -A`

`init` makes them; a `Signer` is what the ledger signs with. Which of several keys of a role signs is decided
by the ledger: the newest that it enrolled and did not retire. So a folder in which keys come and go can be
used at any moment, whatever its files are called. A folder need not hold every role: root and authority are
best kept elsewhere.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from ..domain.errors import CannotCreate, Denied, IOFailure
from ..domain.events import Role
from ..domain.keyring import EnrolledKey
from .durable import make_folder_durably, sync_folder, write_new
from .key_files import (
    KeySigner,
    Passphrase,
    Signer,
    make_signer,
    new_key,
    no_passphrase,
    read_signer,
)

ROLES: Final[tuple[Role, ...]] = ("root", "engine", "authority", "log")
"""The roles whose keys `init` makes."""

_SUFFIXES: Final = (".pem", ".uri")

__all__ = [
    "ROLES",
    "KeyFolder",
    "KeyNotHere",
    "KeySigner",
    "Passphrase",
    "Signer",
    "make_signer",
    "no_passphrase",
    "read_signer",
]


class KeyNotHere(Denied):
    """The folder holds no key of the role."""


@dataclass(frozen=True)
class KeyFolder:
    """The folder in which the keys lie."""

    path: Path
    passphrase: Passphrase = no_passphrase

    def file_of(self, role: Role) -> Path:
        """Where the key of a role lies, or would be made."""
        uri = self.path / f"{role}.uri"
        pem = self.path / f"{role}.pem"
        return uri if uri.exists() and not pem.exists() else pem

    def file_beside(self, role: Role, keyid: str, suffix: str = ".pem") -> Path:
        """Where another key of that role lies."""
        return self.path / f"{role}-{keyid[:8]}{suffix}"

    # ── founding ─────────────────────────────────────────────────────────────────────────────────────

    def check(self, roles: Sequence[Role] = ROLES) -> None:
        """Raise what `make` or a first signature would, so far as that can be known before anything is done.

        Keys that are there are opened; where none is, the folder has to be one that can be made.
        """
        self._require_own()
        present = self._present(roles)
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

    def make(self, passphrase: bytes | None = None, roles: Sequence[Role] = ROLES) -> bool:
        """Make a key for each role, encrypted where a passphrase is given; True where they were made.

        First a `.gitignore` is written that keeps them out of git, unless there is one: of `*`, or of the
        keys' files alone where the folder holds something else as well, which may belong in git.
        A folder that has all of them already is left as it is: a founding that was cut short goes on with
        them. Raises `CannotCreate` where only some are there, so that none is ever replaced.
        """
        if self._present(roles):
            return False
        self._prepare()
        for role in roles:
            self._write(self.path / f"{role}.pem", new_key(passphrase)[1])
        return True

    def _present(self, roles: Sequence[Role]) -> list[Role]:
        """All roles or none. Raises `CannotCreate` where only some have their key."""
        present = [role for role in roles if self.file_of(role).exists()]
        if present and len(present) != len(roles):
            raise CannotCreate(
                f"{self.path}: expected all of {', '.join(roles)} or none, found {', '.join(present)}",
                hint="name another folder with --keys; no key is ever replaced",
            )
        return present

    # ── signing ──────────────────────────────────────────────────────────────────────────────────────

    def signer(self, role: Role) -> Signer:
        """The signer in the file of a role. Raises `Denied`, saying which file and what is wrong with it."""
        return self._open(self.file_of(role), role)

    def find(self, role: Role, keyid: str | None) -> Signer | None:
        """The signer with this key id, or for None the one in the role's own file; None where it is not here.

        Raises `Denied` where the file that may hold it cannot be used.
        """
        path = self.locate(role, keyid)
        return None if path is None else self._open(path, role)

    def locate(self, role: Role, keyid: str | None) -> Path | None:
        """The file that `find` finds it in."""
        own = self.file_of(role)
        if keyid is not None:
            for suffix in _SUFFIXES:
                beside = self.file_beside(role, keyid, suffix)
                if beside.exists() and self._open(beside, role).keyid == keyid:
                    return beside
        if own.exists() and (keyid is None or self._open(own, role).keyid == keyid):
            return own
        return None

    def choose(self, role: Role, keys: Sequence[EnrolledKey]) -> Signer:
        """The signer of the first of `keys` that is here.

        Where none is, the one in the role's own file: whoever checks its signature says why it does not
        count. Raises `KeyNotHere` where there is none either, naming the key that is needed; `Denied` where a
        file cannot be used.
        """
        own = self.signer(role) if self.file_of(role).exists() else None
        for key in keys:
            if own is not None and own.keyid == key.keyid:
                return own
            for suffix in _SUFFIXES:
                beside = self.file_beside(role, key.keyid, suffix)
                if beside.exists() and (signer := self._open(beside, role)).keyid == key.keyid:
                    return signer
        if own is not None:
            return own
        wanted = f", expected {keys[0].keyid[:8]}…" if keys else ""
        elsewhere = "; --request FILE asks one elsewhere" if role in ("root", "authority") else ""
        raise KeyNotHere(
            f"{self.file_of(role)}: the {role} key is not here{wanted}",
            hint=f"--keys DIR, or CAUSEBOOK_KEYS, names its folder{elsewhere}",
        )

    def _open(self, path: Path, role: Role) -> Signer:
        if path.suffix == ".uri":
            from .kms import read_uri_signer

            return read_uri_signer(path, role)
        return read_signer(path, role, self.passphrase)

    # ── keys that come and go ────────────────────────────────────────────────────────────────────────

    def add(self, role: Role, passphrase: bytes | None, *, beside: bool) -> tuple[KeySigner, Path]:
        """A new key for a role, and its file: the role's own where that is free and not `beside` is said.

        It is durable on return. Raises `CannotCreate`.
        """
        self._require_own()
        signer, pem = new_key(passphrase)
        path = self._place(role, signer.keyid, ".pem", beside=beside)
        self._prepare()
        self._write(path, pem)
        return signer, path

    def spare(self, role: Role, known: Collection[str]) -> tuple[Signer, Path] | None:
        """A key of a role whose id is none of `known`, and its file: made by a change that was cut short.

        A file whose name shows it to be of a known key is not opened, so that nobody is asked for its
        passphrase.
        """
        starts = {keyid[:8] for keyid in known}
        paths = [self.file_of(role)]
        for suffix in _SUFFIXES:
            paths += sorted(self.path.glob(f"{role}-{'[0-9a-f]' * 8}{suffix}"))
        for path in paths:
            if path.exists() and path.stem.rpartition("-")[2] not in starts:
                signer = self._open(path, role)
                if signer.keyid not in known:
                    return signer, path
        return None

    def add_uri(self, role: Role, keyid: str, content: bytes, *, beside: bool) -> Path:
        """The same for a key that a library reaches: the file says how."""
        self._require_own()
        path = self._place(role, keyid, ".uri", beside=beside)
        self._prepare()
        self._write(path, content)
        return path

    def settle(self, role: Role, old: str, new: str) -> None:
        """Give a key that is enrolled the file of its role, and the one it replaces a file beside it.

        The role's file is never missing meanwhile, and what a crash leaves is finished by the next call.
        Nothing is done where either key is not here, or the old one does not have the role's own file.
        Raises `IOFailure`, also where another file has a name that is needed; no key is lost, and they can be
        used as they lie.
        """
        own, fresh = self.locate(role, old), self.locate(role, new)
        current = self.file_of(role)
        if fresh is None or fresh == current:
            return
        # After a crash between the two steps the old key has both names.
        if own != current and not (own is not None and current.exists() and own.samefile(current)):
            return
        try:
            _link(current, self.file_beside(role, old, current.suffix))
            sync_folder(self.path)
            if fresh.suffix == current.suffix:
                os.replace(fresh, current)
            else:
                _link(fresh, self.path / f"{role}{fresh.suffix}")
                sync_folder(self.path)
                os.unlink(current)
                os.unlink(fresh)
            sync_folder(self.path)
        except OSError as error:
            raise IOFailure(
                f"{current}: {error.strerror}",
                hint=f"the new key is enrolled and is used from {fresh} as it is",
            ) from None

    def _place(self, role: Role, keyid: str, suffix: str, *, beside: bool) -> Path:
        taken = any((self.path / f"{role}{known}").exists() for known in _SUFFIXES)
        return (
            self.file_beside(role, keyid, suffix)
            if beside or taken
            else self.path / f"{role}{suffix}"
        )

    # ── the folder itself ────────────────────────────────────────────────────────────────────────────

    def _require_own(self) -> None:
        try:
            owner = self.path.stat().st_uid
        except OSError:
            return  # what is not there is made, and belongs to whoever makes it
        if owner != os.geteuid():
            raise Denied(
                f"{self.path}: expected a folder of this user, found one of user {owner}",
                hint="whoever owns it could put other keys there: name another with --keys",
            )

    def _prepare(self) -> None:
        try:
            make_folder_durably(self.path)
            alone = next(self.path.iterdir(), None) is None
            with suppress(FileExistsError):
                ignored = _ignored(everything=alone)
                write_new(self.path / ".gitignore", lambda file: file.write(ignored), mode=0o644)
        except OSError as error:
            raise self._cannot(error) from None

    def _write(self, path: Path, content: bytes) -> None:
        try:
            write_new(path, lambda file: file.write(content))
        except OSError as error:
            raise self._cannot(error) from None

    def _cannot(self, error: OSError) -> CannotCreate:
        return CannotCreate(
            f"{self.path}: cannot make keys here: {error.strerror}",
            hint="name another folder with --keys",
        )


def _link(path: Path, name: Path) -> None:
    """Give a file a second name. Raises `OSError` where another file has it: its place is never taken."""
    try:
        os.link(path, name)
    except FileExistsError:
        if not (name.exists() and name.samefile(path)):
            raise OSError(errno.EEXIST, f"another file is called {name.name}") from None


def _ignored(*, everything: bool) -> bytes:
    lines = ["*"]
    if not everything:
        lines = [
            f"/{role}{end}{s}" for role in get_args(Role) for end in ("", "-*") for s in _SUFFIXES
        ]
        lines += ["/.*.part", "/log-*.sealed"]
    return "".join(f"{line}\n" for line in lines).encode()
