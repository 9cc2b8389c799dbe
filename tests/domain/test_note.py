"""Signed notes, checkpoints, proofs, envelopes: one spelling each, and nothing half believed."""

from __future__ import annotations

import base64
import contextlib
import dataclasses

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from causebook.adapters.signatures import verify
from causebook.domain.checkpoint import (
    Checkpoint,
    SignedCheckpoint,
    cosign,
    cosignature_by,
    cosigned_bytes,
)
from causebook.domain.dsse import EnvelopeError, parse_envelope, seal_envelope
from causebook.domain.encoding import base64_bytes, base64_text, decimal
from causebook.domain.note import (
    COSIGNATURE,
    NoteError,
    NoteKey,
    NoteSignature,
    is_signed_by,
    parse_note,
    sign_note,
    signer_among,
)
from causebook.domain.proof import ConsistencyProof, InclusionProof, ProofError, SplitView

ORIGIN = "audit.example.com/team"


def _key(seed: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)


def _public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


LOG, OTHER, WITNESS = _key(1), _key(2), _key(3)
LOG_KEY = NoteKey(ORIGIN, _public(LOG))
OTHER_KEY = NoteKey(ORIGIN, _public(OTHER))
WITNESS_KEY = NoteKey("witness.example/w1", _public(WITNESS), COSIGNATURE)
CHECKPOINT = Checkpoint(ORIGIN, 1204, bytes(range(32)))
NOTE = sign_note(CHECKPOINT.text, LOG_KEY, LOG.sign)


def _cosigned(time: int = 1_764_500_000) -> bytes:
    line = cosign(CHECKPOINT.text, WITNESS_KEY, time, WITNESS.sign)
    return dataclasses.replace(NOTE, signatures=(*NOTE.signatures, line)).raw


def test_a_checkpoint_reads_back_as_it_was_written_and_its_key_vouches_for_it() -> None:
    signed = SignedCheckpoint.parse(NOTE.raw)
    assert signed.checkpoint == CHECKPOINT
    assert signed.note == NOTE
    assert is_signed_by(signed.note, LOG_KEY, verify)
    assert not is_signed_by(signed.note, OTHER_KEY, verify)
    assert signer_among(signed.note, [OTHER_KEY, LOG_KEY], verify) == LOG_KEY


def test_a_key_reads_back_from_its_vkey() -> None:
    for key in (LOG_KEY, WITNESS_KEY):
        assert NoteKey.parse(key.vkey) == key


@pytest.mark.parametrize(
    "change",
    [
        lambda vkey: vkey.replace("+", " ", 1),
        lambda vkey: vkey.replace(ORIGIN, "another.example"),
        lambda vkey: f"{vkey[:-4]}AAA=",
        lambda vkey: vkey[:-1],
        lambda vkey: f"{vkey}\n",
        lambda vkey: vkey.upper(),
        lambda vkey: f"{ORIGIN}+00000000+{base64_text(bytes([1]) + bytes([1] + [0] * 31))}",
        lambda vkey: f"{ORIGIN}+00000000+{base64_text(bytes([2]) + _public(LOG))}",
    ],
)
def test_a_vkey_that_is_none_is_refused(change: object) -> None:
    with pytest.raises(NoteError):
        NoteKey.parse(change(LOG_KEY.vkey))  # type: ignore[operator]


def test_a_known_key_whose_signature_fails_rejects_the_note_whoever_else_signed() -> None:
    forged = NoteSignature(OTHER_KEY.name, OTHER_KEY.keyid, LOG.sign(b"something else"))
    note = dataclasses.replace(NOTE, signatures=(*NOTE.signatures, forged))
    assert is_signed_by(note, LOG_KEY, verify)
    with pytest.raises(NoteError, match="found one that does not"):
        signer_among(note, [LOG_KEY, OTHER_KEY], verify)


def test_an_unknown_key_is_passed_over() -> None:
    unknown = NoteSignature("somebody.example", b"\x00\x01\x02\x03", b"anything at all")
    note = parse_note(dataclasses.replace(NOTE, signatures=(unknown, *NOTE.signatures)).raw)
    assert is_signed_by(note, LOG_KEY, verify)


def test_a_signature_moved_to_another_text_holds_nothing() -> None:
    other = dataclasses.replace(CHECKPOINT, size=1205)
    moved = dataclasses.replace(NOTE, text=other.text)
    with pytest.raises(NoteError):
        is_signed_by(moved, LOG_KEY, verify)


def _with(old: bytes, new: bytes) -> bytes:
    raw = NOTE.raw
    assert raw.count(old) >= 1
    return raw.replace(old, new, 1)


MALFORMED = {
    "leading zero": _with(b"\n1204\n", b"\n01204\n"),
    "plus sign": _with(b"\n1204\n", b"\n+1204\n"),
    "blank before the size": _with(b"\n1204\n", b"\n 1204\n"),
    "blank after the size": _with(b"\n1204\n", b"\n1204 \n"),
    "other digits": _with(b"\n1204\n", "\n١٢٠٤\n".encode()),
    "size zero": _with(b"\n1204\n", b"\n0\n"),
    "size past 2^53": _with(b"\n1204\n", b"\n9007199254740992\n"),
    "no size": _with(b"\n1204\n", b"\n"),
    "extension line": _with(b"\n\n", b"\nextension\n\n"),
    "blank in the origin": _with(b"audit.example.com/team\n1204", b"audit.example.com/a team\n1204"),
    "carriage return": _with(b"\n1204\n", b"\r\n1204\r\n"),
    "tab": _with(b"\n1204\n", b"\n1204\t\n"),
    "null byte": _with(b"\n1204\n", b"\n1204\x00\n"),
    "not UTF-8": _with(b"\n1204\n", b"\n1204\xff\n"),
    "root of 31 bytes": _with(base64_text(bytes(range(32))).encode(), base64_text(bytes(31)).encode()),
    "root unpadded": _with(base64_text(bytes(range(32))).encode(), base64_text(bytes(32))[:-1].encode()),
    "root with loose bits": _with(b"Hh8=", b"Hh9="),
    "hyphen for the em dash": _with("— ".encode(), b"- "),
    "two blanks": _with("— ".encode(), "—  ".encode()),
    "no last end of line": NOTE.raw[:-1],
    "nothing signed": NOTE.text.encode() + b"\n",
    "no empty line": NOTE.text.encode(),
    "nothing": b"",
    "65 signatures": NOTE.text.encode() + b"\n" + NOTE.signatures[0].line.encode() * 65,
    "65,537 bytes": b"a" * 65_000 + NOTE.raw + b" " * 400,
}  # fmt: skip


@pytest.mark.parametrize("defect", MALFORMED)
def test_a_checkpoint_with_a_defect_is_refused_in_one_line(defect: str) -> None:
    with pytest.raises(NoteError) as caught:
        SignedCheckpoint.parse(MALFORMED[defect])
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("unseen", ["\ufeff", "\u202e", "\u200b", "\u2069"])
def test_a_name_holds_nothing_that_is_not_seen(unseen: str) -> None:
    """Names are compared by eye: one turned around, or with a mark in it, would pass for another."""
    with pytest.raises(NoteError):
        SignedCheckpoint.parse(unseen.encode() + NOTE.raw)
    with pytest.raises(NoteError):
        NoteKey.parse(NoteKey(f"{ORIGIN}{unseen}", _public(LOG)).vkey)


def test_a_cosignature_says_when_and_is_bound_to_its_checkpoint() -> None:
    note = parse_note(_cosigned(1_764_500_000))
    found = cosignature_by(note, WITNESS_KEY, verify)
    assert found is not None
    assert found.time_seconds == 1_764_500_000
    assert cosignature_by(NOTE, WITNESS_KEY, verify) is None
    other = dataclasses.replace(note, text=dataclasses.replace(CHECKPOINT, size=1205).text)
    with pytest.raises(NoteError):
        cosignature_by(other, WITNESS_KEY, verify)


def test_a_cosignature_of_another_time_is_another_statement() -> None:
    note = parse_note(_cosigned(1_764_500_000))
    line = note.signatures[-1]
    later = dataclasses.replace(
        line, signature=(1_764_500_001).to_bytes(8, "big") + line.signature[8:]
    )
    with pytest.raises(NoteError):
        cosignature_by(dataclasses.replace(note, signatures=(later,)), WITNESS_KEY, verify)


def test_the_cosigned_message_is_that_of_the_specification() -> None:
    assert cosigned_bytes(1679315147, "example.com/behind-the-sofa\n20852163\nCsUY=\n") == (
        b"cosignature/v1\ntime 1679315147\nexample.com/behind-the-sofa\n20852163\nCsUY=\n"
    )


@pytest.mark.parametrize("time", [-1, 2**63])
def test_no_time_that_is_none_is_cosigned(time: int) -> None:
    with pytest.raises(ValueError, match="time"):
        cosign(CHECKPOINT.text, WITNESS_KEY, time, WITNESS.sign)


# ── proofs as files ──────────────────────────────────────────────────────────────────────────────────

SIGNED = SignedCheckpoint.parse(_cosigned())
INCLUSION = InclusionProof(17, (bytes(32), bytes([7]) * 32), SIGNED)
CONSISTENCY = ConsistencyProof(1100, (bytes([9]) * 32,), SIGNED)


def test_a_proof_reads_back_as_it_was_written() -> None:
    assert InclusionProof.parse(INCLUSION.raw) == INCLUSION
    with_extra = dataclasses.replace(INCLUSION, extra=b"context")
    assert InclusionProof.parse(with_extra.raw) == with_extra
    assert InclusionProof.parse(InclusionProof(0, (), SIGNED).raw).path == ()
    assert ConsistencyProof.parse(CONSISTENCY.raw) == CONSISTENCY
    split = SplitView(SIGNED, SIGNED, (bytes(32),))
    assert SplitView.parse(split.raw) == split


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"index 17\n", b"index 017\n"),
        (b"index 17\n", b"index  17\n"),
        (b"index 17\n", b"index -1\n"),
        (b"index 17\n", b"index 17 \n"),
        (b"index 17\n", b"Index 17\n"),
        (b"index 17\n", b""),
        (b"index 17\n", b"extra \nindex 17\n"),
        (b"index 17\n", b"extra QQ\nindex 17\n"),
        (b"@v1", b"@v2"),
        (b"AAA=\n", b"AAB=\n"),
        (b"AAA=\n", b"AAA\n"),
        (b"AAA=\n", b"AAA= \n"),
        (b"AAA=\n\n", b"AAA=\n"),
        (b"c2sp", b"\nc2sp"),
        (b"c2sp", b" c2sp"),
    ],
)
def test_an_inclusion_proof_has_one_spelling(old: bytes, new: bytes) -> None:
    raw = dataclasses.replace(INCLUSION, path=(bytes(32),)).raw
    assert InclusionProof.parse(raw)
    assert old in raw
    with pytest.raises(ProofError):
        InclusionProof.parse(raw.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"old 1100", b"old 01100"), (b"old ", b"old"), (b"old", b"new"), (b"1100", b"1e3")],
)
def test_a_consistency_proof_has_one_spelling(old: bytes, new: bytes) -> None:
    with pytest.raises(ProofError):
        ConsistencyProof.parse(CONSISTENCY.raw.replace(old, new, 1))


def test_a_proof_has_at_most_63_hashes() -> None:
    longest = ConsistencyProof(1, (bytes(32),) * 63, SIGNED)
    assert ConsistencyProof.parse(longest.raw) == longest
    with pytest.raises(ProofError, match="at most 63"):
        ConsistencyProof.parse(dataclasses.replace(longest, path=(bytes(32),) * 64).raw)


def test_a_split_view_is_one_canonical_line() -> None:
    raw = SplitView(SIGNED, SIGNED, ()).raw
    for damaged in (raw[:-1], raw + b"\n", raw.replace(b":", b": ", 1), raw.replace(b"/1", b"/2")):
        with pytest.raises(ProofError):
            SplitView.parse(damaged)


# ── envelopes, base64, numbers ───────────────────────────────────────────────────────────────────────


def test_an_envelope_reads_back_and_its_signature_covers_its_type() -> None:
    envelope = seal_envelope(b"{}", "application/example", "ab" * 32, LOG.sign)
    assert parse_envelope(envelope.raw) == envelope
    (signature,) = envelope.signatures_by("ab" * 32)
    assert verify(_public(LOG), signature.signature, envelope.signed_bytes)
    other = dataclasses.replace(envelope, payload_type="application/other")
    assert not verify(_public(LOG), signature.signature, other.signed_bytes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"payload"', b'"Payload"'),
        (b'"sig":"', b'"sig":" '),
        (b'"keyid":"ab', b'"keyid":"AB'),
        (b'"signatures":[{', b'"signatures":[],"x":[{'),
        (b'{"payload":', b'{"payload":"","payload":'),
        (b'"payload":"', b'"payload":1,"y":"'),
    ],
)
def test_an_envelope_has_one_spelling(old: bytes, new: bytes) -> None:
    raw = seal_envelope(b"{}", "application/example", "ab" * 32, LOG.sign).raw
    assert old in raw
    with pytest.raises(EnvelopeError):
        parse_envelope(raw.replace(old, new, 1))


@given(st.binary(max_size=80))
def test_base64_has_one_spelling(raw: bytes) -> None:
    text = base64_text(raw)
    assert base64_bytes(text) == raw
    assert text == base64.b64encode(raw).decode()
    for other in (
        f"{text}=",
        f" {text}",
        f"{text}\n",
        text.rstrip("=") if "=" in text else f"{text}A",
    ):
        with pytest.raises(ValueError, match="canonical base64"):
            base64_bytes(other)


@pytest.mark.parametrize(
    "text", ["", "007", "-0", "+1", " 1", "1 ", "1_0", "1e0", "٣", "9007199254740992"]
)
def test_a_number_has_one_spelling(text: str) -> None:
    with pytest.raises(ValueError, match="leading zeros"):
        decimal(text)


@given(st.binary(max_size=300))
def test_only_named_errors_come_out_of_any_bytes(raw: bytes) -> None:
    for parse, error in (
        (parse_note, NoteError),
        (SignedCheckpoint.parse, NoteError),
        (InclusionProof.parse, ProofError),
        (ConsistencyProof.parse, ProofError),
        (SplitView.parse, ProofError),
        (parse_envelope, EnvelopeError),
    ):
        with contextlib.suppress(error):
            parse(raw)


@given(st.integers(0, 4000), st.integers(0, 255))
def test_a_byte_changed_is_refused_or_says_so(at: int, byte: int) -> None:
    raw = bytearray(INCLUSION.raw)
    at %= len(raw)
    raw[at] = byte
    try:
        found = InclusionProof.parse(bytes(raw))
    except ProofError:
        return
    assert found.raw == bytes(raw)
