"""adapters/timestamps.py: stamps by a real authority (openssl), by others' (fixtures), and by none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from causebook.adapters.http_client import Unreachable
from causebook.adapters.timestamps import (
    REPLY_BYTES_MAX,
    Certificates,
    TimestampError,
    certificates,
    fetch,
    verify,
)
from causebook.domain.errors import BadData, Misuse, NoInput

from ..conformance.shared import shared
from .logs import SmallLog
from .models.openai_server import OpenAIServer, Reply
from .timestamp_authority import TimestampAuthority

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")


def _text(size: int) -> bytes:
    log = SmallLog()
    log.grow(size)
    return log.checkpoint(size).note.text.encode()


TEXT, OTHER = _text(7), _text(8)


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[TimestampAuthority]:
    with TimestampAuthority(tmp_path / "tsa") as authority:
        yield authority


def test_a_stamp_tells_the_time(authority: TimestampAuthority) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    reply = fetch(authority.url, TEXT)
    time = verify(reply, TEXT, certificates([authority.root]))
    assert time.tzinfo is UTC
    assert before <= time <= datetime.now(UTC)


def test_openssl_takes_what_is_kept(authority: TimestampAuthority, tmp_path: Path) -> None:
    (tmp_path / "reply").write_bytes(fetch(authority.url, TEXT))
    for text, holds in ((TEXT, True), (OTHER, False)):
        (tmp_path / "text").write_bytes(text)
        files = ["-in", tmp_path / "reply", "-data", tmp_path / "text", "-CAfile", authority.root]
        run = subprocess.run(["openssl", "ts", "-verify", *files], capture_output=True)
        assert (run.returncode == 0) == holds


def test_what_is_asked_names_the_text_alone(authority: TimestampAuthority, tmp_path: Path) -> None:
    fetch(authority.url, TEXT)
    fetch(authority.url, TEXT)
    first, second = authority.asked
    assert first != second  # a nonce each
    (tmp_path / "query").write_bytes(first)
    told = subprocess.run(
        ["openssl", "ts", "-query", "-in", tmp_path / "query", "-text"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "Hash Algorithm: sha256" in told
    assert "Certificate required: yes" in told


def test_a_stamp_of_another_checkpoint_says_nothing_of_this(authority: TimestampAuthority) -> None:
    reply = fetch(authority.url, OTHER)
    with pytest.raises(TimestampError, match="found one of another"):
        verify(reply, TEXT, certificates([authority.root]))
    authority.replies.append(reply)
    with pytest.raises(Unreachable, match="found one of another"):
        fetch(authority.url, TEXT)


def test_an_older_reply_is_not_taken_for_this_one(authority: TimestampAuthority) -> None:
    authority.replies.append(fetch(authority.url, TEXT))
    with pytest.raises(Unreachable, match="expected the reply to this request"):
        fetch(authority.url, TEXT)


def test_an_authority_that_nobody_trusts_tells_no_time(
    authority: TimestampAuthority, tmp_path: Path
) -> None:
    reply = fetch(authority.url, TEXT)
    other = TimestampAuthority(tmp_path / "other")
    with pytest.raises(TimestampError, match="Error while verifying certificates"):
        verify(reply, TEXT, certificates([other.root]))
    assert verify(reply, TEXT, certificates([other.root, authority.root]))


def test_a_certificate_that_was_not_valid_then_tells_no_time(tmp_path: Path) -> None:
    past = datetime(2020, 1, 1, tzinfo=UTC)
    with TimestampAuthority(tmp_path / "tsa", valid=(past, past + timedelta(days=9))) as authority:
        reply = fetch(authority.url, TEXT)
        with pytest.raises(TimestampError, match="Error while verifying certificates"):
            verify(reply, TEXT, certificates([authority.root]))


def test_a_refusal_is_no_stamp(tmp_path: Path) -> None:
    with (
        TimestampAuthority(tmp_path / "tsa", digests="sha512") as authority,
        pytest.raises(Unreachable, match=r"expected status 0 \(granted\), found 2"),
    ):
        fetch(authority.url, TEXT)


def test_a_certificate_that_may_not_stamp_tells_no_time(
    authority: TimestampAuthority, tmp_path: Path
) -> None:
    """Its root, trusted, signs: a root may sign certificates, and no stamps."""
    reply = fetch(authority.url, TEXT)
    signer = x509.load_pem_x509_certificate((authority.folder / "signer.pem").read_bytes())
    with pytest.raises(BadData, match="expected a root certificate"):
        certificates([authority.folder / "signer.pem"])
    # The same certificate, brought by the auditor, is one and the same.
    trusted = certificates([authority.root, authority.folder / "signer.pem"])
    assert trusted.intermediates == (signer,)
    assert verify(reply, TEXT, trusted)
    twin = bytearray(signer.public_bytes(Encoding.DER))
    twin[-1] ^= 1
    trusted = Certificates(trusted.roots, (x509.load_der_x509_certificate(bytes(twin)),))
    with pytest.raises(TimestampError, match="two certificates of one issuer and serial"):
        verify(reply, TEXT, trusted)


def test_whatever_bit_is_turned_it_tells_the_same_time_or_none(
    authority: TimestampAuthority,
) -> None:
    reply, trusted = fetch(authority.url, TEXT), certificates([authority.root])
    time = verify(reply, TEXT, trusted)
    refused = 0
    for place in range(len(reply)):
        turned = bytearray(reply)
        turned[place] ^= 1 << place % 8
        try:
            found = verify(bytes(turned), TEXT, trusted)
        except TimestampError as error:
            refused += error.message.isprintable()
        else:
            assert found == time
    # What is left are the version numbers and the like, which a CMS signature does not cover.
    assert refused > len(reply) * 0.95


FOLDER = ("vectors", "rfc3161-client", "test", "fixtures")
FIXTURES = [
    ("identrust/issue-104.tsr", "2025-03-11T08:52:08+00:00"),
    ("sigstage/response-sha256.tsr", "2025-05-09T11:58:55+00:00"),
    ("sigstage/response-sha384.tsr", "2025-05-09T11:58:55+00:00"),
    ("sigstage/response-sha512.tsr", "2025-05-09T11:58:56+00:00"),
    ("test_tsa/response.tsr", "2024-10-08T15:40:32+00:00"),
    # Certificates that do not belong to it stand beside its own.
    ("test_tsa/response-injected-certs.tsr", "2024-10-08T15:40:32+00:00"),
    ("sigstage/response-invalid-signature.tsr", "signature failure"),
    ("sigstage/response-no-embedded-cert.tsr", "Certificates neither found"),
    ("sigstore.mock/response-expired.tsr", "Certificates neither found"),
    # Of another authority than the certificates beside it.
    ("test_tsa/other_response.tsr", "certificate verify error"),
]


@pytest.mark.parametrize(("file", "told"), FIXTURES)
def test_the_stamps_of_others(file: str, told: str) -> None:
    path = shared(*FOLDER, *file.split("/"))
    payload = path.parent / "payload"
    text = payload.read_bytes() if payload.exists() else b"hello"
    trusted = certificates([path.parent / "ts_chain.pem"])
    try:
        said = verify(path.read_bytes(), text, trusted).isoformat()
    except TimestampError as error:
        said = error.message
    assert told in said
    with pytest.raises(TimestampError, match="found one of another"):
        verify(path.read_bytes(), b"hell", trusted)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (b"", "not a reply of RFC 3161"),
        (b"\x30\x80\x00\x00", "not a reply of RFC 3161"),
        (b"\x30\x03\x02\x01\x00", "not a reply of RFC 3161"),
        (b"\x30\x05\x30\x03\x02\x01\x00", "not a reply of RFC 3161"),
        (b"\x30\x05\x30\x03\x02\x01\x02", r"expected status 0 \(granted\), found 2"),
        (b"\x30" * 200, "not a reply of RFC 3161"),
        (b"\x00" * (REPLY_BYTES_MAX + 1), "expected at most"),
    ],
)
def test_what_is_no_reply_is_one_line(
    authority: TimestampAuthority, reply: bytes, told: str
) -> None:
    with pytest.raises(TimestampError, match=told):
        verify(reply, TEXT, certificates([authority.root]))


DER = {"Content-Type": "application/timestamp-reply"}


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(b"x", 500, DER), "found status 500"),
        (Reply(b"x", 302, {**DER, "Location": "http://127.0.0.1:1/"}), "found status 302"),
        (Reply(b"{}"), "'application/json'"),
        (Reply(b"\x30", headers=DER), "not a reply of RFC 3161"),
        (Reply(b"x" * (REPLY_BYTES_MAX + 1), headers=DER), "expected an answer of at most"),
        (Reply(b"x" * 10_000, headers=DER, misbehaviour="drip"), "no whole answer within"),
        (Reply(b"x" * 100, headers=DER, misbehaviour="drip_headers"), "no whole answer within"),
        (Reply(b"", headers=DER, misbehaviour="hang"), "no whole answer within"),
        (Reply(b"x" * 100, headers=DER, misbehaviour="cut"), "not an answer in HTTP"),
    ],
)
def test_an_authority_that_misbehaves_is_one_line(reply: Reply, told: str) -> None:
    with OpenAIServer() as server:
        server.script.append(reply)
        with pytest.raises(Unreachable, match=told) as raised:
            fetch(server.root, TEXT, seconds=0.3)
    assert raised.value.message.isprintable()
    assert len(server.received) == 1


def test_an_authority_that_is_not_there_is_one_line() -> None:
    with OpenAIServer() as server:
        url = server.root
    with pytest.raises(Unreachable, match=r"timestamp authority at 127\.0\.0\.1:\d+: Connection"):
        fetch(url, TEXT)


def test_files_without_certificates_are_named(tmp_path: Path) -> None:
    with pytest.raises(NoInput, match=r"none\.pem"):
        certificates([tmp_path / "none.pem"])
    with pytest.raises(NoInput):
        certificates([tmp_path])
    for content in (b"", b"-----BEGIN CERTIFICATE-----\n", b"\x00" * (1024 * 1024 + 1)):
        (tmp_path / "other.pem").write_bytes(content)
        with pytest.raises(BadData, match=r"expected (1 to 256 )?certificates"):
            certificates([tmp_path / "other.pem"])


def test_a_certificate_in_der_is_read_too(authority: TimestampAuthority, tmp_path: Path) -> None:
    (root,) = x509.load_pem_x509_certificates(authority.root.read_bytes())
    (tmp_path / "root.der").write_bytes(root.public_bytes(Encoding.DER))
    assert certificates([tmp_path / "root.der", authority.root]).roots == (root,)


def test_without_the_extra_it_is_said_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rfc3161_client", None)
    for call in (
        lambda: fetch("http://127.0.0.1:1/", TEXT),
        lambda: verify(b"", TEXT, Certificates(())),
    ):
        with pytest.raises(Misuse, match="rfc3161-client is not installed"):
            call()
