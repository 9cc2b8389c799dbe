"""`causebook export`: a task as a bundle, the whole log as tiles, a decision as an attestation."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from ...domain.encoding import decimal
from ...domain.errors import CannotCreate, Misuse
from ...domain.events import Role
from ...domain.streams import require_id, shorten
from ..bundle.write import FindKey, Written, sealed_task, write_bundle
from ..checking.known import shown
from ..findings import counted
from ..handover.attestation import Attested, attest
from ..handover.new_file import refuse_existing, write_bytes_new, write_new
from ..handover.sealed_log import sealed_log
from ..handover.tiles import Mirrored, write_tiles
from ..keys import KeyFolder
from .passphrase import passphrase_from
from .reading import at_ledger, read
from .requests import read_checkpoint
from .terminal import Terminal, json_page, out

_WHAT: Final = "--bundle FILE, --attestation FILE or --tiles DIR"


@dataclass(frozen=True)
class Asked:
    """The options of `export`, each as it was typed."""

    task: str | None
    bundle: str | None
    attestation: str | None
    tiles: str | None
    evidence: bool
    since: str | None
    size: str | None
    attempt: int | None
    phase: str | None

    def check(self) -> None:
        """Raise `Misuse` for what does not go together."""
        targets = (self.bundle, self.attestation, self.tiles)
        if sum(target is not None for target in targets) != 1:
            raise Misuse(f"export: expected one of {_WHAT}", hint="causebook export --help")
        if (self.task is None) != (self.tiles is not None):
            told = "a task" if self.task is None else "no task: tiles hold the whole log"
            raise Misuse(f"export: expected {told}", hint="causebook tasks lists them")
        for option, given, needs in (
            ("--evidence", self.evidence, self.bundle),
            ("--since", self.since is not None, self.bundle),
            ("--attempt", self.attempt is not None, self.attestation),
            ("--phase", self.phase is not None, self.attestation),
        ):
            if given and needs is None:
                goes = "--bundle" if option in ("--evidence", "--since") else "--attestation"
                raise Misuse(f"{option}: goes with {goes}", hint="causebook export --help")
        if self.phase not in (None, "pre_execute", "post_execute"):
            raise Misuse(
                f"--phase: expected pre_execute or post_execute, found {shorten(self.phase or '')}",
                hint="by default the newest decision",
            )


def export(asked: Asked, url: str, keys: str, passphrase_file: str | None, *, as_json: bool) -> int:
    """Write what was asked for to where nothing is yet."""
    asked.check()
    size = None if asked.size is None else _size(asked.size)
    folder = KeyFolder(Path(keys), passphrase_from(passphrase_file))
    page = out()
    if asked.tiles is not None:
        mirrored = _tiles(asked.tiles, url, size)
        if as_json:
            page.raw(json_page({**vars(mirrored)}))
        else:
            _show_tiles(page, asked.tiles, mirrored)
        return 0
    task = require_id(asked.task or "", "task")
    if asked.bundle is not None:
        written = _bundle(asked, task, url, size, _finder(folder, "log"))
        if as_json:
            page.raw(json_page(_bundle_facts(written)))
        else:
            _show_bundle(page, asked.bundle, written, url, keys)
    elif asked.attestation is not None:
        attested = _attestation(asked, task, url, size, _finder(folder, "exporter"))
        if as_json:
            page.raw(json_page(_attested_facts(attested)))
        else:
            _show_attested(page, asked.attestation, task, attested)
    return 0


def _finder(folder: KeyFolder, role: Role) -> FindKey:
    return lambda keyid: folder.find(role, keyid)


def _bundle(asked: Asked, task: str, url: str, size: int | None, find: FindKey) -> Written:
    target = Path(asked.bundle or "")
    refuse_existing(target)
    since = None if asked.since is None else read_checkpoint(asked.since)

    def write(file: BinaryIO) -> Written:
        return read(
            url,
            lambda snapshot: write_bundle(
                snapshot,
                task,
                file,
                size=size,
                since=since,
                evidence=asked.evidence,
                find_log_key=find,
            ),
        )

    return write_new(target, write)


def _tiles(target: str, url: str, size: int | None) -> Mirrored:
    folder = Path(target)
    if folder.exists() and not folder.is_dir():
        raise CannotCreate(f"{target}: expected a folder, found a file", hint="name another")
    return read(url, lambda snapshot: write_tiles(sealed_log(snapshot, size), folder))


def _attestation(asked: Asked, task: str, url: str, size: int | None, find: FindKey) -> Attested:
    target = Path(asked.attestation or "")
    refuse_existing(target)
    attested = read(
        url,
        lambda snapshot: attest(
            sealed_task(snapshot, task, size), find, attempt=asked.attempt, phase=asked.phase
        ),
    )
    write_bytes_new(target, attested.envelope.raw)
    return attested


def _size(text: str) -> int:
    try:
        size = decimal(text)
    except ValueError:
        size = 0
    if size < 1:
        raise Misuse(
            f"--size: expected a whole number from 1, found {shorten(text)}",
            hint="the newest checkpoint is the default",
        )
    return size


# ── what is said of it ───────────────────────────────────────────────────────────────────────────────


def _bundle_facts(written: Written) -> dict[str, Any]:
    heads = None if written.heads is None else written.heads.vkey
    return {**vars(written), "heads": heads}


def _attested_facts(attested: Attested) -> dict[str, Any]:
    facts = {**vars(attested)}
    envelope = facts.pop("envelope")
    return {**facts, "key": envelope.signatures[0].keyid}


def _show_bundle(page: Terminal, file: str, written: Written, url: str, keys: str) -> None:
    page.heading(f"{written.task} is in {file}", "strong", f", as of size {written.size:,}")
    page.blank()
    page.line(
        f"  records      {written.records:,}, each with its proof, in {written.files:,} files"
    )
    if written.heads is None:
        page.line(
            "  heads        ", ("not stated", "warn"), f": no log key of this ledger in {keys}"
        )
    else:
        page.line(f"  heads        stated by {shown(written.heads)}")
    if written.evidence:
        page.line(f"  evidence     {counted(written.evidence, 'item')}")
    else:
        page.line("  evidence     left out: --evidence")
    if written.since is not None:
        page.line(f"  consistency  from size {written.since:,}")
    if written.later:
        past = counted(written.later, "record")
        page.command(
            f"  left out     {past} past the checkpoint: ", f"causebook seal{at_ledger(url)}"
        )
    page.command("  next         ", f"causebook check {shlex.quote(file)} --trust FILE")


def _show_tiles(page: Terminal, folder: str, mirrored: Mirrored) -> None:
    page.heading(f"{mirrored.ledger} is in {folder}", "strong", f", {mirrored.size:,} records")
    page.blank()
    if mirrored.before:
        page.line(f"  before     {mirrored.before:,} records, which it grew out of")
    page.line(f"  written    {counted(mirrored.files, 'file')}")
    page.command("  next       ", f"causebook check {shlex.quote(folder)} --trust FILE")


def _show_attested(page: Terminal, file: str, task: str, attested: Attested) -> None:
    page.heading(
        f"{task}, attempt {attested.attempt}, {attested.phase}: {attested.action}",
        "strong",
        f", attested in {file}",
    )
    page.blank()
    page.paragraph(f"  subject    {attested.subject}", indent=2, hang=13)
    page.line(f"  decided    index {attested.index:,}")
    page.line(f"  signed     by exporter key {attested.envelope.signatures[0].keyid[:8]}…")
    page.command("  next       ", f"causebook check {shlex.quote(file)} BUNDLE --trust FILE")
