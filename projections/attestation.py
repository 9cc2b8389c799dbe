"""What a panel decided, as a statement that others' tools carry: in-toto Statement v1.

    {"_type":"https://in-toto.io/Statement/v1",
     "predicate":{"attempt":1,"blocker_validators":["security"],
                  "counts":{"blocker":1,"pass":2,"total":3,"warn":0},"decided":"<digest of PanelDecided>",
                  "founding":"<digest>","index":76,"later":"<that a later attempt may differ>",
                  "ledger":"<origin>","outcome":"halt","phase":"post_execute","policy":"unanimous",
                  "proof":"<the tlog-proof of that record, the record as its extra data>",
                  "required":3,"task":"T-104"},
     "predicateType":"urn:causebook:attestation:decision:1",
     "subject":[{"digest":{"gitCommit":"<40 or 64 hex>"},"name":"<task>: the commit judged"}]}

The subject is what the judges read: the git commit, or, where the tree was dirty or no repository, the
SHA-256 of its manifest of files (docs/format.md, `WorkspaceFacts.tree`), which its name says. The proof is of
`PanelDecided`, which does not name it: that is the exporter's word, until it is held against `PanelConvened`.
It is written as canonical JSON (RFC 8785), so that one decision has one statement.

Pure. Who signs it is not its affair.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..domain.canonical import decode, encode
from ..domain.errors import BadData
from ..domain.events import PanelDecided, WorkspaceFacts
from ..domain.proof import InclusionProof, ProofError
from ..domain.record import is_origin
from .facts import Entry

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:causebook:attestation:decision:1"
"""A name, and no address: in-toto asks for a URI, and nobody has to own a domain for this one."""

LATER: Final = (
    "This is one panel's decision on one attempt. A person's resolution, or a later attempt at the same "
    "task, may come to another; the ledger says which."
)
_DIGESTS: Final = {
    "gitCommit": re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}"),
    "sha256": re.compile(r"[0-9a-f]{64}"),
}
_KEYS: Final = ["_type", "predicate", "predicateType", "subject"]
_SAID: Final = {"outcome": "action"} | {
    name: name
    for name in ("attempt", "blocker_validators", "counts", "phase", "policy", "required")
}
"""What a statement repeats, by its own name, and the name that `PanelDecided` has for it."""
_PREDICATE_KEYS: Final = sorted(
    [*_SAID, "decided", "founding", "index", "later", "ledger", "proof", "task"]
)


class AttestationError(BadData):
    """Bytes that are not the statement of a panel's decision."""


@dataclass(frozen=True)
class Decision:
    """A statement, taken apart. `said`: what of it the record of `PanelDecided` has to say as well.

    `subject`: `name`, a text, and `digest`, of one item: `gitCommit` or `sha256`, in hex.
    """

    ledger: str
    founding: str
    task: str
    decided: str
    index: int
    proof: InclusionProof
    said: Mapping[str, Any]
    subject: Mapping[str, Any]


def subject_of(task: str, workspace: WorkspaceFacts | None) -> dict[str, Any] | None:
    """What the judges read, as a subject; None where the panel recorded no working tree."""
    if workspace is None:
        return None
    if workspace.tree is not None:
        name = f"{task}: the manifest of the files judged (docs/format.md, WorkspaceFacts.tree)"
        if workspace.dirty and workspace.commit is not None:
            name += f", not all of commit {workspace.commit}"
        return {"digest": {"sha256": workspace.tree}, "name": name}
    if workspace.commit is None:
        return None
    return {"digest": {"gitCommit": workspace.commit}, "name": f"{task}: the commit judged"}


def statement(
    ledger: str,
    founding: str,
    task: str,
    decided: Entry[PanelDecided],
    proof: InclusionProof,
    subject: Mapping[str, Any],
) -> bytes:
    """The statement of one panel's decision. `proof` has the record as its extra data."""
    predicate = {
        **said_of(decided.record.data),
        "decided": decided.record.digest,
        "founding": founding,
        "index": proof.index,
        "later": LATER,
        "ledger": ledger,
        "proof": proof.raw.decode(),
        "task": task,
    }
    return encode(
        {
            "_type": STATEMENT_TYPE,
            "predicate": predicate,
            "predicateType": PREDICATE_TYPE,
            "subject": [subject],
        }
    )


def said_of(decided: Mapping[str, Any]) -> dict[str, Any]:
    """What a statement repeats of the record's `data`, so that it can be read without the record."""
    return {name: decided[field] for name, field in _SAID.items()}


def read_statement(payload: bytes) -> Decision:
    """The decision that a payload states. Raises `AttestationError` naming what is wrong."""
    try:
        document = decode(payload)
        if not isinstance(document, dict) or list(document) != _KEYS:
            raise ValueError(f"expected exactly the keys {', '.join(_KEYS)}")
        kind, predicate, predicate_type, subjects = document.values()
        if (kind, predicate_type) != (STATEMENT_TYPE, PREDICATE_TYPE):
            raise ValueError(f"expected {STATEMENT_TYPE} of {PREDICATE_TYPE}")
        if not isinstance(predicate, dict) or list(predicate) != _PREDICATE_KEYS:
            raise ValueError(f"predicate: expected exactly the keys {', '.join(_PREDICATE_KEYS)}")
        if not (
            isinstance(subjects, list) and len(subjects) == 1 and isinstance(subjects[0], dict)
        ):
            raise ValueError("subject: expected exactly one")
        _require_subject(subjects[0])
        texts = {
            name: predicate[name] for name in ("decided", "founding", "ledger", "proof", "task")
        }
        if not all(isinstance(text, str) for text in texts.values()):
            raise ValueError("predicate: expected strings where the format has them")
        if type(predicate["index"]) is not int or predicate["later"] != LATER:
            raise ValueError(
                "predicate: expected an index, and the sentence that a later one may differ"
            )
        if not is_origin(texts["ledger"]):
            raise ValueError("ledger: expected an origin")
        proof = InclusionProof.parse(texts["proof"].encode())
    except ProofError as error:
        raise AttestationError(f"attestation, proof: {error.message}") from None
    except ValueError as error:
        raise AttestationError(f"attestation: {error}") from None
    said = {name: predicate[name] for name in _SAID}
    return Decision(
        texts["ledger"],
        texts["founding"],
        texts["task"],
        texts["decided"],
        predicate["index"],
        proof,
        said,
        subjects[0],
    )


def _require_subject(subject: Mapping[str, Any]) -> None:
    """Raise `ValueError` unless it is a subject as `subject_of` makes one, of whatever tree."""
    if list(subject) != ["digest", "name"]:
        raise ValueError("subject: expected exactly the keys digest, name")
    digest, name = subject.values()
    if not isinstance(name, str) or not name:
        raise ValueError("subject, name: expected a text")
    if not isinstance(digest, dict) or len(digest) != 1:
        raise ValueError("subject, digest: expected exactly one")
    ((kind, digits),) = digest.items()
    form = _DIGESTS.get(kind)
    if form is None or not isinstance(digits, str) or form.fullmatch(digits) is None:
        raise ValueError("subject, digest: expected gitCommit or sha256, in hex")
