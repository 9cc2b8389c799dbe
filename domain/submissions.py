"""What one tool call asks for: a verdict, a read, or nothing that can be taken (rules 3 and 5).

Argument text is a model's: it is read strictly, and text that is broken or empty never becomes `{}`. Every
answer depends on the recorded call alone, in fixed words, so that a later reader comes to the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from .canonical import DuplicateKey, decode_foreign, escaped_bytes
from .events import Call, RefusalReason, RejectionReason, Severity, Withheld
from .limits import JUSTIFICATION_BYTES_MAX
from .reads import Read, ReadMemory
from .tools import READ_TOOLS, SEVERITIES

Broken = Literal["arguments_not_json", "arguments_not_object", "arguments_duplicate_keys"]


_BLANKS: Final = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A valid `submit_verdict`. Two are the same where both fields are."""

    severity: Severity
    justification: str


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a `submit_verdict` is none."""

    reason: RejectionReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is not run."""

    reason: RefusalReason
    detail: str = ""


def read_verdict(call: Call) -> Verdict | Rejection:
    """Rule 3: the verdict that a `submit_verdict` gives, if it is valid."""
    withheld = _withheld(call)
    if withheld is not None:
        return Rejection(withheld)
    arguments, broken = _object(cast(str, call.arguments))
    if broken is not None:
        return Rejection(broken)
    severity = arguments.get("severity")
    if not isinstance(severity, str):
        return Rejection("severity", "expected pass, warn or blocker")
    # ASCII only: str.lower would make a Kelvin sign a k.
    severity = severity.strip(_BLANKS)
    if severity.isascii():
        severity = severity.lower()
    if severity not in SEVERITIES:
        return Rejection("severity", "expected pass, warn or blocker")
    justification = arguments.get("justification")
    if not isinstance(justification, str):
        return Rejection("justification", "expected a string")
    length = escaped_bytes(justification)
    if length is None:
        return Rejection("justification", "expected Unicode text without lone surrogates")
    if length > JUSTIFICATION_BYTES_MAX:
        return Rejection("justification", f"expected at most {JUSTIFICATION_BYTES_MAX} bytes")
    # The blanks of the law, named, as Unicode's grow with its versions.
    if not justification.strip(_BLANKS):
        return Rejection("justification", "expected words, found blanks")
    return Verdict(cast(Severity, severity), justification)


def read_call(
    call: Call, active: Sequence[str], withdrawn: bool, memory: ReadMemory
) -> Read | Refusal:
    """Rule 5: the read that a call asks for, or why it is refused."""
    withheld = _withheld(call, arguments=False)
    if withheld is not None:
        return Refusal(withheld)
    name = cast(str, call.name)
    if name not in active:
        return Refusal("not_offered")
    if withdrawn:
        return Refusal("withdrawn")
    withheld = _withheld(call)
    if withheld is not None:
        return Refusal(withheld)
    arguments, broken = _object(cast(str, call.arguments))
    if broken is not None:
        return Refusal(broken)
    misfit = READ_TOOLS[name].misfit(arguments)
    if misfit is not None:
        return Refusal("arguments_unfit", misfit)
    try:
        return memory.read(name, arguments)
    except ValueError:
        return Refusal("not_unicode")


def _withheld(call: Call, *, arguments: bool = True) -> Literal["over_limit", "not_unicode"] | None:
    texts = (call.name, call.id, call.arguments) if arguments else (call.name, call.id)
    for text in texts:
        if type(text) is Withheld:
            return text.why
    return None


def _object(text: str) -> tuple[dict[str, Any], Broken | None]:
    try:
        document = decode_foreign(text)
    except DuplicateKey:
        return {}, "arguments_duplicate_keys"
    except ValueError:
        return {}, "arguments_not_json"
    if not isinstance(document, dict):
        return {}, "arguments_not_object"
    return document, None
