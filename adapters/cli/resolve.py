"""`causebook resolve`: a person's signed answer to an escalation."""

from __future__ import annotations

import shlex
import unicodedata
from typing import Final, Literal, cast

from ...domain.canonical import escaped_bytes
from ...domain.errors import Misuse, NoInput
from ...domain.signing_request import SigningRequest
from ...domain.streams import require_id, shorten
from ..key_life import ask_resolution
from ..task_log import resolve as record
from .reading import at_keys, at_ledger
from .requests import require_free, say_asked, write_request
from .terminal import json_page, out, short
from .writing import bring_up_to_date, open_ledger, payload_of

DECISIONS: Final = ("proceed", "halt", "reject")
NAME_CHARACTERS_MAX: Final = 512
COMMENT_BYTES_MAX: Final = 8 * 1024


def resolve(
    task: str,
    said: tuple[str, str, str, str],
    url: str,
    keys: str,
    passphrase_file: str | None,
    lock_timeout: float,
    request: str | None,
    *,
    as_json: bool,
) -> int:
    """Record (decision, name, meaning, comment); or write that into a request for an authority elsewhere."""
    decision, name, meaning, comment = said
    require_id(task, "task")
    if decision not in DECISIONS:
        raise Misuse(
            f"--decision: expected {', '.join(DECISIONS)}, found {shorten(decision)}",
            hint="proceed lets the task go on; halt and reject leave it blocked",
        )
    _require_text("--name", name)
    _require_text("--meaning", meaning)
    length = escaped_bytes(comment)
    if length is None or length > COMMENT_BYTES_MAX:
        raise Misuse(
            f"--comment: expected Unicode text of at most {COMMENT_BYTES_MAX} bytes",
            hint="put long material where it can be referred to",
        )
    require_free(request)
    with open_ledger(url, keys, passphrase_file, lock_timeout) as ledger:
        log = ledger.task(task).log
        if log.state.stage == "unopened":
            raise NoInput(
                f"task {task}: nothing is recorded of it", hint="causebook tasks lists what is"
            )
        known = cast(Literal["proceed", "halt", "reject"], decision)
        if request is not None:
            asked = ask_resolution(log, known, name=name, meaning=meaning, comment=comment)
            write_request(request, asked)
            return _say_asked(request, asked, at_ledger(url) + at_keys(keys), as_json=as_json)
        event = record(log, known, name=name, meaning=meaning, comment=comment)
        keyid = ledger.writer.signer("authority").keyid
        stage = log.state.stage
        bring_up_to_date(ledger)
    if as_json:
        out().raw(json_page(payload_of(url, task)))
        return 0
    after = {
        "completed": "the task is completed",
        "working": "the attempt goes on to post_execute",
    }.get(stage, "the attempt is closed and the task stays blocked")
    page = out()
    page.paragraph(
        (f"{task} resolved: {decision},", "strong"),
        f"by {name}, at attempt {event.attempt}, {event.phase}",
    )
    page.line(f"  {after}")
    page.line(f"  signed with the authority key {short(keyid)}")
    page.command("  next  ", f"causebook why {task}{at_ledger(url)}")
    return 0


def _say_asked(request: str, asked: SigningRequest, options: str, *, as_json: bool) -> int:
    if as_json:
        wants = [{"what": w.what, "role": w.role, "keyid": w.keyid} for w in asked.wants()]
        out().raw(json_page({"request": request, "wants": wants}))
        return 0
    page = out()
    page.line((f"{request} asks for an authority's signature", "strong"))
    say_asked(page, asked)
    page.command("  there  ", f"causebook keys sign {shlex.quote(request)} --keys DIR")
    page.command("  then   ", f"causebook keys submit {shlex.quote(request)}{options}")
    return 0


def _require_text(option: str, text: str) -> None:
    if escaped_bytes(text) is None:
        raise Misuse(
            f"{option}: expected Unicode text, found bytes that are none",
            hint="what is typed has to be in the encoding that the locale names: see LC_ALL, LANG",
        )
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise Misuse(
            f"{option}: expected one line of text, found a control character in it",
            hint="it is kept for ever, and signed",
        )
    if not text.strip() or len(text) > NAME_CHARACTERS_MAX:
        raise Misuse(
            f"{option}: expected Unicode text of 1 to {NAME_CHARACTERS_MAX} characters, not blank",
            hint="it is kept for ever, and signed",
        )
