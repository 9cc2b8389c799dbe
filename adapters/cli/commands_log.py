"""The commands that make and check what others can hold: checkpoints, proofs, bundles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import typer

from . import defaults
from .options import Json, Keys, Ledger, LockTimeout, PassphraseFile, number, seconds


def seal(
    witness: Annotated[
        list[str] | None,
        typer.Option(
            "--witness",
            metavar="URL",
            help="Have the witness at URL cosign it; it is asked before anything is signed. Its key has to "
            "be in the policy, or enrolled as a witness's. Can be repeated.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="Have each witness in the policy that has a URL cosign it, by the key named there.",
        ),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp", metavar="URL", help="Have a timestamp authority (RFC 3161) stamp it."
        ),
    ] = None,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt",
            help="Where what was sealed last is not beside the log key, take up the ledger's newest "
            "checkpoint, whether or not an older copy of the ledger was put back.",
        ),
    ] = False,
    ledger: Ledger = defaults.LEDGER,
    keys: Keys = defaults.KEYS,
    passphrase_file: PassphraseFile = None,
    lock_timeout: LockTimeout = "30",
    json: Json = False,
) -> int:
    """Sign a checkpoint over all records.

    It extends the one signed before, or nothing is signed: exits 26 where the ledger holds fewer records than
    were sealed (an older copy was put back), 27 where it holds another history.
    """
    from .sealing import seal as do

    return do(
        ledger,
        keys,
        passphrase_file,
        seconds(lock_timeout),
        tuple(witness or ()),
        policy,
        timestamp,
        adopt=adopt,
        as_json=json,
    )


def checkpoint(
    size: Annotated[
        str | None,
        typer.Option(
            "--size", metavar="N", help="The checkpoint over N records; by default the newest."
        ),
    ] = None,
    ledger: Ledger = defaults.LEDGER,
    json: Json = False,
) -> int:
    """Print a checkpoint and its cosignatures, as they were signed."""
    from .sealing import checkpoint as do

    return do(ledger, size, as_json=json)


def prove(
    event: Annotated[
        str | None,
        typer.Argument(
            metavar="EVENT",
            help="The record: its digest or the first 8 digits, STREAM@VERSION, or its number in the log.",
        ),
    ] = None,
    consistency: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--consistency",
            metavar="OLD NEW",
            help="Prove that the log of NEW grew out of that of OLD: sizes, or checkpoint files.",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="SIZE",
            help="Prove it to the checkpoint of that size; by default the newest.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write to FILE, which is new; with --consistency a folder, for both checkpoints.",
        ),
    ] = None,
    ledger: Ledger = defaults.LEDGER,
) -> int:
    """Prove that a record is in the log, or that it only grew.

    Prints a C2SP tlog-proof with the record in it, so that causebook check needs nothing else. Exits 66 where
    the record is not sealed yet.
    """
    from .prove import prove as do

    return do(event, consistency, checkpoint, out, ledger)


def check(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Bundles, proofs, records, checkpoints, heads, attestations, split views; folders of tiles.",
        ),
    ],
    trust: Annotated[
        str | None,
        typer.Option(
            "--trust", metavar="FILE", help="The ledger as you were given it: keys export --trust."
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy", metavar="FILE", help="The logs you believe, and the witnesses you ask for."
        ),
    ] = None,
    log_key: Annotated[
        list[str] | None,
        typer.Option(
            "--log-key",
            metavar="VKEY",
            help="The log's key as you were given it, or a file with it. Can be repeated.",
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Check what was exported, with nothing but files and keys.

    Each by itself, and all against one another: no ledger is read, and no network.

    Exits 0 where they hold by keys that you named, 20 where only what came with them vouches for them, 22
    unverifiable, 23 evidence is missing, 24 unlawful, 25 torn, 26 truncated, 27 forked, 28 tampered.
    """
    from .check_files import check as do

    return do(files, trust, policy, tuple(log_key or ()), as_json=json)


def export(
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="The task's id; none with --tiles.")
    ] = None,
    bundle: Annotated[
        str | None,
        typer.Option(
            "--bundle", metavar="FILE", help="Write the task's records and proofs as one zip file."
        ),
    ] = None,
    attestation: Annotated[
        str | None,
        typer.Option(
            "--attestation",
            metavar="FILE",
            help="Write a panel's decision as an in-toto statement, signed by an exporter key.",
        ),
    ] = None,
    tiles: Annotated[
        str | None,
        typer.Option(
            "--tiles",
            metavar="DIR",
            help="Write the whole log as C2SP tlog-tiles, going on from an earlier export in DIR.",
        ),
    ] = None,
    evidence: Annotated[
        bool, typer.Option("--evidence", help="With --bundle: the evidence too.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="CHECKPOINT",
            help="With --bundle: prove that the log grew out of this older checkpoint, a file.",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            metavar="N",
            help="As of the checkpoint over N records; by default the newest.",
        ),
    ] = None,
    attempt: Annotated[
        str | None,
        typer.Option(
            "--attempt",
            metavar="N",
            help="With --attestation: the attempt; by default the newest decided.",
        ),
    ] = None,
    phase: Annotated[
        str | None,
        typer.Option(
            "--phase", metavar="PHASE", help="With --attestation: pre_execute or post_execute."
        ),
    ] = None,
    ledger: Ledger = defaults.LEDGER,
    keys: Keys = defaults.KEYS,
    passphrase_file: PassphraseFile = None,
    json: Json = False,
) -> int:
    """Hand a task, a decision or the whole log to others.

    They need nothing else: causebook check reads what is written. What is sealed is exported, and nothing is
    written over. The log's key, where it is with the other keys, states that a bundle leaves nothing out.
    """
    from .export import Asked
    from .export import export as do

    asked = Asked(task, bundle, attestation, tiles, evidence, since, size, number(attempt), phase)
    return do(asked, ledger, keys, passphrase_file, as_json=json)


COMMANDS: Final[dict[str, Callable[..., int]]] = {
    "seal": seal,
    "checkpoint": checkpoint,
    "prove": prove,
    "check": check,
    "export": export,
}
"""In the order of the help."""
