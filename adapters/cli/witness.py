"""`causebook witness key` and `causebook witness serve`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ...domain.encoding import is_key_name
from ...domain.errors import Interrupted, Misuse, NoInput
from ...domain.keyring import raw_key
from ...domain.note import COSIGNATURE, NoteKey
from ...domain.streams import shorten
from ..key_files import KeySigner, make_signer, read_signer
from ..signatures import verifier
from .passphrase import new_passphrase, passphrase_from
from .terminal import err, out

_LISTEN = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\[\]\s]+):(?P<port>[0-9]{1,5})", re.ASCII)


def make_key(file: str, name: str, *, encrypt: bool, passphrase_file: str | None) -> int:
    """Make a key at `file`; its vkey."""
    _require_name(name)
    signer = make_signer(Path(file), new_passphrase(passphrase_file, wanted=encrypt))
    out().line(_note_key(name, signer).vkey)
    return 0


def serve(
    key: str,
    name: str,
    logs: Sequence[str],
    state: str,
    listen: str,
    *,
    passphrase_file: str | None,
) -> int:
    """Serve until Ctrl-C, which is the error `Interrupted`: what was cosigned is on the disk."""
    from ..witness.server import WitnessServer
    from ..witness.state import Witness, known_logs

    _require_name(name)
    host, port = _address(listen)
    if not Path(key).exists():
        raise NoInput(
            f"{key}: the witness's key is not here",
            hint="causebook witness key --name NAME FILE makes one",
        )
    signer = read_signer(Path(key), "witness", passphrase_from(passphrase_file))
    own = _note_key(name, signer)
    known = known_logs(logs)
    if any(log.public == own.public for log in known):
        raise Misuse(
            f"{key}: this is the key of a log that it would cosign for",
            hint="a witness has a key of its own: causebook witness key --name NAME FILE",
        )
    told = err()

    def say(line: str) -> None:
        told.line(line)
        told.flush()

    witness = Witness(own, signer.sign, known, Path(state), verifier(), say=say)
    witness.prepare()
    server = WitnessServer(witness, host, port, say=say)
    page = out()
    page.line((f"{name} listens at {server.url}", "strong"))
    page.line(f"  vkey   {own.vkey}")
    for log in known:
        seen = witness.newest(log.name)
        page.line(
            f"  log    {log.name}: cosigned to {0 if seen is None else seen.checkpoint.size:,}"
        )
    page.flush()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted", hint=f"what was cosigned is in {state}; the command can be run again"
        ) from None
    finally:
        server.server_close()
    return 0


def _note_key(name: str, signer: KeySigner) -> NoteKey:
    return NoteKey(name, raw_key(signer.public_key), COSIGNATURE)


def _require_name(name: str) -> None:
    if not is_key_name(name) or "://" in name:
        raise Misuse(
            f"--name: expected a name without spaces, '+' or a scheme, found {shorten(name)}",
            hint="best under a domain of your own, as w1.example.com",
        )


def _address(listen: str) -> tuple[str, int]:
    found = _LISTEN.fullmatch(listen)
    if found is None:
        raise Misuse(
            f"--listen: expected HOST:PORT, found {shorten(listen)}",
            hint="127.0.0.1:7433 is the default; an IPv6 address stands in brackets",
        )
    return found["host"].strip("[]"), int(found["port"])
