"""Attesting a panel's decision: what of a ledger goes into the statement, and whose key signs it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from ...domain.dsse import Envelope, seal_envelope
from ...domain.errors import Denied, NoInput
from ...domain.events import Event, PanelConvened, PanelDecided
from ...projections.attestation import PAYLOAD_TYPE, statement, subject_of
from ...projections.facts import Entry
from ..bundle.write import FindKey, SealedTask


@dataclass(frozen=True)
class Attested:
    """An envelope, and what it is about. `subject`: in words; `index`: of the record of `PanelDecided`."""

    envelope: Envelope
    attempt: int
    phase: str
    action: str
    index: int
    subject: str


def attest(
    sealed: SealedTask, find: FindKey, *, attempt: int | None = None, phase: str | None = None
) -> Attested:
    """The attestation of one panel's decision, by default the newest that is sealed.

    `find` is asked for an exporter key of the ledger. Raises `NoInput` where there is no such decision below
    the checkpoint, or nothing that it was about was recorded; `Denied` where no such key is at hand.
    """
    ledger = sealed.log.ledger
    held = (find(key.keyid) for key in ledger.keyring.active("exporter"))
    exporter = next((signer for signer in held if signer is not None), None)
    if exporter is None:
        raise Denied(
            f"exporter: expected a key that {ledger.origin} enrolled for it and did not end, found none here",
            hint="causebook keys enrol exporter; --keys DIR",
        )
    own = sealed.rows.facts().own
    decided = _decided(sealed.task, own, attempt, phase)
    event = decided.event
    subject = subject_of(sealed.task, _convened(own, event).workspace)
    if subject is None:
        raise NoInput(
            f"task {sealed.task}, attempt {event.attempt}, {event.phase}: its panel recorded no working tree",
            hint="an attestation is about what was judged; causebook judge --workspace records it",
        )
    index, row = next(
        (number, row)
        for number, row in sealed.numbered
        if (row.stream, row.version) == (decided.record.stream, decided.record.version)
    )
    proof = replace(sealed.proof(index, row), extra=row.record)
    payload = statement(ledger.origin, ledger.founding, sealed.task, decided, proof, subject)
    envelope = seal_envelope(payload, PAYLOAD_TYPE, exporter.keyid, exporter.sign)
    return Attested(envelope, event.attempt, event.phase, event.action, index, str(subject["name"]))


def _decided(
    task: str, own: tuple[Entry[Event], ...], attempt: int | None, phase: str | None
) -> Entry[PanelDecided]:
    for entry in reversed(own):
        event = entry.event
        if (
            isinstance(event, PanelDecided)
            and attempt in (None, event.attempt)
            and phase in (None, event.phase)
        ):
            return cast("Entry[PanelDecided]", entry)
    asked = "" if attempt is None else f", attempt {attempt}"
    asked += "" if phase is None else f", {phase}"
    raise NoInput(
        f"task {task}{asked}: no panel's decision is below the checkpoint",
        hint=f"causebook why {task} says how it stands; causebook seal seals what is recorded",
    )


def _convened(own: tuple[Entry[Event], ...], decided: PanelDecided) -> PanelConvened:
    """The panel that decided: its records were checked, so it is there."""
    for entry in reversed(own):
        event = entry.event
        if isinstance(event, PanelConvened) and (event.attempt, event.phase) == (
            decided.attempt,
            decided.phase,
        ):
            return event
    raise ValueError("a panel that decided was convened")
