"""The commands as a person types them: arguments, options, help.

Nothing is done here. Each command imports what does it when it is called, so that `causebook --version` costs
no more than reading its own options, and no command loads what another needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import typer

from . import defaults
from .options import (
    Json,
    Keys,
    Ledger,
    LockTimeout,
    PassphraseFile,
    TaskId,
    help_where_alone,
    number,
    seconds,
)


def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, help="Print the version and leave.")
    ] = False,
) -> int:
    """The signed record of decisions made by LLM judges."""
    if version:
        from causebook import __version__

        print(f"causebook {__version__}")
        raise typer.Exit
    return help_where_alone(context)


def init(
    ledger: Ledger = defaults.LEDGER,
    keys: Keys = defaults.KEYS,
    origin: Annotated[
        str | None,
        typer.Option(
            "--origin",
            metavar="NAME",
            help="The ledger's name, best under a domain you own: audit.example.com/team. "
            "Made up where it is left out.",
        ),
    ] = None,
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt the new keys with a passphrase.")
    ] = False,
    root_pub: Annotated[
        str | None,
        typer.Option(
            "--root-pub",
            metavar="FILE",
            help="Root's public key (PEM), where root lives elsewhere; with --request.",
        ),
    ] = None,
    authority_pub: Annotated[
        str | None,
        typer.Option(
            "--authority-pub", metavar="FILE", help="Likewise the authority's; the two go together."
        ),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(
            "--request", metavar="FILE", help="Where to write what they are to sign: keys sign."
        ),
    ] = None,
    signed: Annotated[
        str | None,
        typer.Option(
            "--signed", metavar="FILE", help="Found the ledger that this signed request asks for."
        ),
    ] = None,
    continues: Annotated[
        str | None,
        typer.Option(
            "--continues",
            metavar="FILE",
            help="Go on from a ledger that lost sealed records: from its last checkpoint.",
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
    json: Json = False,
) -> int:
    """Found a ledger, and make the keys that sign in it.

    Root and authority are best kept elsewhere: --root-pub, --authority-pub and --request write what they
    are to sign there, and --signed founds the ledger once they have.
    """
    from .founding import Founding
    from .founding import init as do

    said = Founding(origin, encrypt, root_pub, authority_pub, request, signed, continues)
    return do(ledger, keys, said, passphrase_file, as_json=json)


def judge(
    task: TaskId,
    protocol: Annotated[
        str,
        typer.Option(
            "--protocol", metavar="FILE", help="The protocol: policy, phase and judges, in TOML."
        ),
    ],
    workspace: Annotated[
        str,
        typer.Option("--workspace", metavar="DIR", help="The working tree that the judges read."),
    ],
    spec: Annotated[
        str | None,
        typer.Option("--spec", metavar="TEXT", help="What the task asks for; @FILE reads it."),
    ] = None,
    attempt: Annotated[
        str | None,
        typer.Option(
            "--attempt",
            metavar="N",
            help="The attempt to judge: by default the open one that waits for this phase, else the next.",
        ),
    ] = None,
    phase: Annotated[
        str | None,
        typer.Option(
            "--phase",
            metavar="PHASE",
            help="pre_execute or post_execute; by default as the protocol says.",
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            metavar="REF",
            help="At post_execute, the commit to show the change from: by default the parent of HEAD.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="JUDGE=NAME",
            help="Ask another model for one judge; script:FILE answers from a file. Can be repeated.",
        ),
    ] = None,
    ledger: Ledger = defaults.LEDGER,
    keys: Keys = defaults.KEYS,
    passphrase_file: PassphraseFile = None,
    lock_timeout: LockTimeout = "30",
    json: Json = False,
) -> int:
    """Put a task before a panel of judges.

    Exits 0 where the task may go on, 10 on a blocker, 11 on an escalation, 12 on a validator error.
    """
    from .case import Call
    from .judge import judge as do

    call = Call(task, protocol, workspace, spec, number(attempt), phase, base, tuple(model or ()))
    return do(call, ledger, keys, passphrase_file, seconds(lock_timeout), as_json=json)


def resolve(
    task: TaskId,
    decision: Annotated[
        str, typer.Option("--decision", metavar="DECISION", help="proceed, halt or reject.")
    ],
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The printed name of who decides.")
    ],
    meaning: Annotated[
        str,
        typer.Option(
            "--meaning", metavar="TEXT", help="What the signature means, such as 'risk accepted'."
        ),
    ],
    comment: Annotated[
        str, typer.Option("--comment", metavar="TEXT", help="Anything to be kept with it.")
    ] = "",
    request: Annotated[
        str | None,
        typer.Option(
            "--request",
            metavar="FILE",
            help="Store nothing: write what an authority elsewhere is to sign into FILE.",
        ),
    ] = None,
    ledger: Ledger = defaults.LEDGER,
    keys: Keys = defaults.KEYS,
    passphrase_file: PassphraseFile = None,
    lock_timeout: LockTimeout = "30",
    json: Json = False,
) -> int:
    """Record a person's signed decision on an escalation.

    It is signed with the authority key. A blocker or an error is overridden by nobody.
    """
    from .resolve import resolve as do

    said = (decision, name, meaning, comment)
    return do(
        task, said, ledger, keys, passphrase_file, seconds(lock_timeout), request, as_json=json
    )


def why(
    task: TaskId,
    attempt: Annotated[
        str | None,
        typer.Option(
            "--attempt",
            metavar="N",
            help="As it stood at the end of attempt N; by default the newest.",
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            metavar="JUDGE",
            help="Whose turns to show, and all of them; by default the judge that decided it.",
        ),
    ] = None,
    ledger: Ledger = defaults.LEDGER,
    json: Json = False,
) -> int:
    """Say why a task halted or passed, and whether the record holds.

    Exits 0 where signatures, chains, law and evidence hold, else as verify does: --json says only what
    stands there, and the exit code whether it holds.
    """
    from .why import why as do

    return do(task, number(attempt), judge, ledger, as_json=json)


def log(
    which: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK|STREAM", help="A task's id, or a stream's name; by default all."
        ),
    ] = None,
    ledger: Ledger = defaults.LEDGER,
    json: Annotated[
        bool, typer.Option("--json", help="Print each record as a line of JSON on stdout.")
    ] = False,
) -> int:
    """Print records in the order they were committed.

    As they are stored: verify says whether they hold.
    """
    from .log import log as do

    return do(which, ledger, as_json=json)


def evidence(
    task: TaskId,
    item: Annotated[
        str | None,
        typer.Argument(
            metavar="COMMITMENT",
            help="The item to print, by its commitment or the first digits of it; by default all are listed.",
        ),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print the item's very bytes, for a file or a pipe.")
    ] = False,
    ledger: Ledger = defaults.LEDGER,
    json: Json = False,
) -> int:
    """Show what the judges of a task were told, read and answered.

    An item is held against its commitment before it is printed. Exits 66 where it was erased or is not
    there, 28 where it is not what was committed to.
    """
    from .evidence import evidence as do

    return do(task, item, ledger, raw=raw, as_json=json)


def tasks(ledger: Ledger = defaults.LEDGER, json: Json = False) -> int:
    """List every task and how it stands.

    As it is stored: verify says whether it holds.
    """
    from .tasks import tasks as do

    return do(ledger, as_json=json)


def verify(
    ledger: Ledger = defaults.LEDGER,
    live: Annotated[
        bool, typer.Option("--live", help="Read a ledger in use in its place, without a copy.")
    ] = False,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoint",
            metavar="FILE",
            help="Hold it against a signed checkpoint that you kept. Can be repeated.",
        ),
    ] = None,
    trust: Annotated[
        str | None,
        typer.Option(
            "--trust",
            metavar="FILE",
            help="Hold it against the founding, root key and head that keys export --trust wrote.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="Which logs and witnesses you believe (tlog-policy), and how many together.",
        ),
    ] = None,
    max_age: Annotated[
        str | None,
        typer.Option(
            "--max-age",
            metavar="SPAN",
            help="How old the quorum of the policy may be: 36h, 7d.",
        ),
    ] = None,
    witness: Annotated[
        list[str] | None,
        typer.Option(
            "--witness",
            metavar="URL",
            help="Ask a witness for its newest checkpoint. Can be repeated.",
        ),
    ] = None,
    tsa_ca: Annotated[
        list[str] | None,
        typer.Option(
            "--tsa-ca",
            metavar="FILE",
            help="Certificates of timestamp authorities that you believe. Can be repeated.",
        ),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            "--require",
            metavar="CHECK",
            help="Fail where this check is not run, such as witnesses. Can be repeated.",
        ),
    ] = None,
    require_pin: Annotated[
        bool, typer.Option("--require-pin", help="Fail at a first look: without a pin.")
    ] = False,
    no_pin: Annotated[
        bool, typer.Option("--no-pin", help="Neither read nor move this user's pins.")
    ] = False,
    from_pin: Annotated[
        bool,
        typer.Option(
            "--from-pin", help="Only hash what this user verified before; check what came since."
        ),
    ] = False,
    split_view: Annotated[
        str | None,
        typer.Option(
            "--split-view",
            metavar="FILE",
            help="Where two signed checkpoints contradict each other, write them to FILE.",
        ),
    ] = None,
    json: Json = False,
    brief: Annotated[
        bool,
        typer.Option("--brief", help="Print one line: how far it holds, or where it does not."),
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of what --json prints.")
    ] = False,
) -> int:
    """Check the whole ledger, and change nothing near it.

    What is verified is pinned in your state folder, and the next look is held against it. Exits 0 intact,
    20 intact but its founder is self-asserted, 22 unverifiable or a required check not run, 23 derived
    state differs, 24 unlawful, 26 truncated, 27 forked, 28 tampered. 25 is kept for a file that is torn.
    """
    from .check import schema as print_schema
    from .check import verify as do
    from .verify_options import Asked

    if schema:
        return print_schema()
    asked = Asked(
        checkpoints=checkpoint or (),
        trust=trust,
        policy=policy,
        max_age=max_age,
        witnesses=witness or (),
        tsa_ca=tsa_ca or (),
        required=require or (),
        require_pin=require_pin,
        no_pin=no_pin,
        from_pin=from_pin,
        split_view=split_view,
    )
    return do(ledger, asked, live=live, as_json=json, brief=brief)


def replay(
    task: TaskId,
    ledger: Ledger = defaults.LEDGER,
    json: Json = False,
) -> int:
    """Decide a task again from its recorded answers.

    No model is called. Exits 0 where every event comes out equal, 23 where evidence is missing that nobody
    erased by name, 24 where an event comes out otherwise, 28 where the records do not hold.
    """
    from .check import replay as do

    return do(task, ledger, as_json=json)


def rebuild(
    ledger: Ledger = defaults.LEDGER,
    lock_timeout: LockTimeout = "30",
    json: Json = False,
) -> int:
    """Make the projections anew from the events.

    Exits 23 where the old ones differed from the events, and names the rows.
    """
    from .rebuild import rebuild as do

    return do(ledger, seconds(lock_timeout), as_json=json)


def demo(
    context: typer.Context,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            metavar="DIR",
            help="Keep the repository, the ledger and the keys in DIR, which is made or is empty.",
        ),
    ] = None,
) -> int:
    """Judge a small repository on recorded answers.

    Needs no key and no network. Exits 0 where the panel ends as it was recorded.
    """
    from .demo import demo as do

    return do(keep, context.obj)


COMMANDS: Final[dict[str, Callable[..., int]]] = {
    "init": init,
    "judge": judge,
    "resolve": resolve,
    "why": why,
    "evidence": evidence,
    "log": log,
    "verify": verify,
    "replay": replay,
    "rebuild": rebuild,
    "tasks": tasks,
    "demo": demo,
}
"""In the order of the help. `keys` is a group of its own."""
