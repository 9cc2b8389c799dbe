"""What the tests of bundles share: a sealed ledger, its bundle, and a bundle taken apart and put together.

`repacked` does what a sender can who has no key: every file is his to change, drop or add, and the manifest
is made to fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from causebook.adapters.bundle.archive import MANIFEST, Archive, order, write_archive
from causebook.adapters.bundle.manifest import FileFacts, Manifest
from causebook.adapters.bundle.write import FindKey, Written, no_key, write_bundle
from causebook.adapters.checking.check import check_files
from causebook.adapters.checking.report import FileReport
from causebook.adapters.handover.new_file import write_new
from causebook.domain.note import NoteKey
from causebook.domain.record import digest
from causebook.domain.trust import Trust
from tests.adapters.forge import Forge, Key, prose, reads, verdict

Files = dict[str, bytes]


def judged(forge: Forge, *tasks: str) -> Forge:
    """The ledger with these tasks judged as well, each by two judges, and halted."""
    for task in tasks:
        forge.open_task(task)
        forge.panel(
            task,
            {
                "security": [reads("src/app.py"), verdict("blocker", "It leaks.")],
                "testing": [reads("a.py"), prose("Well …"), verdict("pass")],
            },
        )
    return forge


def sealed_ledger(*tasks: str, seed: str = "forge") -> Forge:
    """A founded ledger with a log key, tasks T-1 and T-2 judged, and a checkpoint over all of it."""
    forge = Forge(seed=seed).found()
    forge.enrol("log")
    judged(forge, *(tasks or ("T-1", "T-2")))
    forge.seal()
    return forge


def finder(key: Key) -> FindKey:
    """Who has this key at hand, and no other."""
    return lambda keyid: _Signer(key) if keyid == key.keyid else None


class _Signer:
    """A forge's key, as a signer."""

    def __init__(self, key: Key) -> None:
        self.keyid, self.public_key, self.sign = key.keyid, key.text, key.sign


def bundle(
    forge: Forge, path: Path, task: str = "T-1", *, stated: bool = True, **options: Any
) -> Written:
    """Write the bundle of a task; with a statement of heads where `stated`."""
    find = finder(forge.keys["log"]) if stated else no_key
    options.setdefault("find_log_key", find)
    source = forge.source()
    return write_new(path, lambda file: write_bundle(source, task, file, **options))


def trust_of(forge: Forge, version: int | None = None) -> Trust:
    """The trust file of a ledger, as it stood when `ledger` had `version` records, by default now."""
    indices = [index for index, row in enumerate(forge.rows) if row.stream == "ledger"]
    version = len(indices) if version is None else version
    index = indices[version - 1]
    founding, last = digest(forge.rows[0].record), digest(forge.rows[index].record)
    return Trust(forge.origin, founding, forge.keys["root"].text, version, last, index)


def log_key_of(forge: Forge) -> NoteKey:
    """The log's key, as it is given by hand."""
    return NoteKey(forge.origin, forge.keys["log"].public)


def unpacked(path: Path) -> tuple[Files, Manifest]:
    """The files of a bundle, and its manifest."""
    with path.open("rb") as file:
        archive = Archive(file)
        files = {name: archive.read(name) for name in archive.entries}
    return files, Manifest.parse(files.pop(MANIFEST))


def packed(path: Path, files: Files, manifest: Manifest) -> None:
    """A bundle of these files, its manifest made to fit them."""
    named = {name: FileFacts.of(files[name]) for name in sorted(files, key=order)}
    content = {**files, MANIFEST: replace(manifest, files=named).raw}
    with path.open("wb") as file:
        write_archive(file, ((name, content[name]) for name in sorted(content, key=order)))


def repacked(path: Path, change: Callable[[Files], Any], **manifest: Any) -> Path:
    """Another bundle beside `path`: that one after `change`, the manifest fitting, and saying `manifest`."""
    files, said = unpacked(path)
    change(files)
    target = path.with_name(f"changed-{path.name}")
    packed(target, files, replace(said, **manifest))
    return target


def checked(*files: Path | str, **against: Any) -> list[FileReport]:
    """What checking files comes to."""
    return check_files([str(file) for file in files], **against)


def faults(reports: Sequence[FileReport]) -> list[tuple[str, int]]:
    """(question, code) of everything that does not hold."""
    return [
        (answer.name, fault.code)
        for report in reports
        for answer in report.answers
        for fault in answer.faults
    ]


def status(report: FileReport, question: str) -> str:
    """The answer to a question."""
    return next(answer.status for answer in report.answers if answer.name == question)
