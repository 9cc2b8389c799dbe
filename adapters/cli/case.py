"""What `causebook judge` is asked: read and checked before the ledger is opened, so that nothing changes."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast, get_args

from ...domain.canonical import escaped_bytes
from ...domain.errors import BadData, CausebookError, IOFailure, Misuse
from ...domain.events import Phase, WorkspaceFacts
from ...domain.ports import Model
from ...domain.streams import require_id, shorten
from ..files import read_file
from ..models.choose import SCRIPT_PREFIX, model_for
from ..protocol import Protocol, load_protocol
from ..store.location import SQLiteLocation, locate
from ..store.locks import folder_of
from ..workspace import GitWorkspace
from .terminal import warn

SPEC_BYTES_MAX: Final = 256 * 1024


@dataclass(frozen=True)
class Call:
    """What a person asked for."""

    task: str
    protocol: str
    workspace: str
    spec: str | None
    attempt: int | None
    phase: str | None
    base: str | None
    models: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """What a person asked for, read and found sound."""

    task: str
    protocol: Protocol
    phase: Phase
    workspace: GitWorkspace
    facts: WorkspaceFacts
    base: str | None
    change: str | None
    spec: str | None
    models: Mapping[str, Model]


def read_case(call: Call, url: str, keys: str, passphrase_file: str | None) -> Case:
    """Read all that was asked for. Raises what is wrong with it; the ledger is not touched.

    Of the ledger, the keys and the file of their passphrase it is told where they are, to keep them from the
    judges.
    """
    task = require_id(call.task, "task")
    protocol = load_protocol(call.protocol).with_models(_overrides(call.models))
    phase = _phase(call, protocol)
    spec = _spec(call.spec)
    unlocks = [] if passphrase_file is None else [Path(passphrase_file)]
    workspace = _workspace(call.workspace, url, Path(keys), unlocks)
    base = _base(workspace, phase, call.base)
    models = {
        judge: _model(judge, name, protocol.timeout_seconds)
        for judge, name in protocol.paths.items()
    }
    _require_litellm(protocol)
    state = workspace.describe()
    change = None
    if base is None and phase == "post_execute":
        warn(f"{call.workspace}: no git working tree: judged without a change")
        change = "[no git working tree: there is no change to show, only the files as they are]"
    if base is not None:
        diff = workspace.diff(base)
        if diff.error:
            raise IOFailure(
                f"{call.workspace}: the change since {base} cannot be read: {diff.text}",
                hint="--base REF names another commit to compare with",
            )
        change = diff.text
        if state.commit is None:
            change = f"[there is no commit yet: every file is new]\n{change}"
    return Case(
        task=task,
        protocol=protocol,
        phase=phase,
        workspace=workspace,
        facts=WorkspaceFacts(commit=state.commit, tree=state.tree, dirty=state.dirty),
        base=base,
        change=change,
        spec=spec,
        models=models,
    )


def _overrides(given: tuple[str, ...]) -> dict[str, str]:
    names: dict[str, str] = {}
    for text in given:
        judge, equals, name = text.partition("=")
        if not equals or not judge or not name:
            raise Misuse(
                f"--model: expected JUDGE=NAME, found {shorten(text)}",
                hint="for example --model security=openai/gpt-4o, or security=script:answers.jsonl",
            )
        if judge in names:
            raise Misuse(
                f"--model: expected each judge once, found {shorten(judge)} twice",
                hint="a judge asks one model",
            )
        names[judge] = name
    return names


def _phase(call: Call, protocol: Protocol) -> Phase:
    phases = get_args(Phase)
    if call.phase is not None:
        if call.phase not in phases:
            raise Misuse(
                f"--phase: expected {' or '.join(phases)}, found {shorten(call.phase)}",
                hint="a proposal is judged at pre_execute, finished work at post_execute",
            )
        return cast(Phase, call.phase)
    if protocol.phase is None:
        raise BadData(
            f"{call.protocol}, phase: expected {' or '.join(phases)}, found nothing",
            hint='for example phase = "post_execute", or --phase post_execute',
        )
    return protocol.phase


def _spec(given: str | None) -> str | None:
    if given is None or not given.startswith("@"):
        if given is not None and escaped_bytes(given) is None:
            raise Misuse(
                "--spec: expected Unicode text, found bytes that are none",
                hint="--spec @FILE reads what the task asks for from a file in UTF-8",
            )
        if given is not None and _is_file(given):
            warn(f"--spec: taken as text, and a file is called so: --spec @{given} reads it")
        return given
    name = given[1:]
    hint = "--spec @FILE reads what the task asks for from a file"
    content = read_file(name, SPEC_BYTES_MAX, "the spec", hint=hint, is_waited_for=True)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise BadData(
            f"{name}: expected UTF-8, found byte 0x{content[error.start]:02x} at {error.start}",
            hint=hint,
        ) from None


def _is_file(name: str) -> bool:
    try:
        return os.path.isfile(name)
    except ValueError:  # a null byte
        return False


def _workspace(directory: str, url: str, keys: Path, unlocks: list[Path]) -> GitWorkspace:
    """The tree to judge. Neither ledger nor keys, nor what `unlocks` them, are read: judges' reads go out."""
    private = [keys, *unlocks, *_ledger_files(url)]
    workspace = GitWorkspace(Path(directory), private=private)
    if ".git" in workspace.root.parts:
        raise Misuse(
            f"--workspace: {directory} lies in git's own folder, which no judge may read",
            hint="name the folder of the work",
        )
    if workspace.root.is_relative_to(os.path.realpath(keys)):
        raise Misuse(
            f"--workspace: {directory} lies in the folder of the keys, which no judge may read",
            hint="--keys DIR names another folder",
        )
    return workspace


def _ledger_files(url: str) -> list[Path]:
    """What a ledger in a file consists of: the file, what SQLite writes beside it, its locks."""
    where = locate(url)
    if not isinstance(where, SQLiteLocation):
        return []
    beside = (where.path.with_name(where.path.name + end) for end in ("-wal", "-shm", "-journal"))
    return [where.path, *beside, folder_of(where.path)]


def _base(workspace: GitWorkspace, phase: Phase, given: str | None) -> str | None:
    """The commit to show the change from: at post_execute alone, and where there is a git history.

    Raises `NoInput` and `BadData` where there is one that cannot be read: a change is not passed over.
    """
    if given is not None:
        if phase != "post_execute":
            raise Misuse(
                "--base: expected only at post_execute, where there is a change to show",
                hint="leave it out, or --phase post_execute",
            )
        return workspace.resolve_ref(given)
    if phase != "post_execute":
        return None
    try:
        return workspace.default_base()
    except Misuse:
        return None  # no git repository: the judges read the files as they are


def _model(judge: str, name: str, timeout_seconds: float) -> Model:
    try:
        return model_for(name, timeout_seconds=timeout_seconds)
    except CausebookError as error:
        hint = error.hint or "a script holds one line of JSON for each call of the model"
        raise type(error)(f"judge {judge}: {error.message}", hint=hint) from None


def _require_litellm(protocol: Protocol) -> None:
    """Say so before anything is recorded where a live model could not be asked."""
    live = [n for n in protocol.paths.values() if not n.startswith(SCRIPT_PREFIX)]
    if live and not _installed("litellm"):
        raise Misuse(
            f"model {shorten(live[0])}: a live model needs litellm, which is not installed",
            hint="install causebook with its extra 'judge' (README, Install); "
            "--model JUDGE=script:FILE answers from a file",
        )


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ImportError:
        return False
