"""Valid input that is small, or that others wrote: texts, keys, timestamps, what is said over HTTP."""

from __future__ import annotations

import base64
import hashlib
import zlib
from datetime import UTC, datetime
from functools import cache
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from causebook.domain.evidence import response_bytes
from tests.adapters.forge import prose, reads
from tests.adapters.logs import ORIGIN, private_key, witness_key

from . import seeds
from .seeds import VECTORS, WITNESS

PROTOCOL: Final = b"""\
policy = "quorum"
phase = "post_execute"
timeout_seconds = 120.5

[[judge]]
id = "security"
model = "openai/gpt-4o"
criteria = ["Input is checked before it is used.", '''Errors
are named.''']
tools = ["read_file"]
max_tool_turns = 20

[[judge]]
id = "testing"
model = "script:answers.jsonl"
criteria = ["\\u00e9 has a test."]
"""

SCRIPT: Final = b"""\
{"role": "assistant", "content": "I look."}
{"tool_calls": [{"id": "c0", "function": {"name": "read_file", "arguments": "{\\"path\\": \\"a.py\\"}"}}]}

{"error": {"status": 429, "type": "rate_limit", "message": "slow", "retry_after": 1.5}}
{"content": [{"type": "text", "text": "a"}], "tool_calls": [{"function": {"arguments": {"a": [1, 2.5]}}}]}
"""


def vector_files(*parts: str, suffix: str) -> tuple[bytes, ...]:
    """Files that others wrote, where they are at hand."""
    found = sorted(VECTORS.joinpath(*parts).rglob(f"*{suffix}"))
    return tuple(path.read_bytes() for path in found)


def packed_evidence() -> tuple[bytes, ...]:
    bodies = (b"", b"what was read", bytes(100_000))
    return tuple(zlib.compress(body) for body in bodies)


def answers() -> tuple[bytes, ...]:
    return tuple(response_bytes(each) for each in (prose("Well …"), reads("a.py", "b.py")))


def vkeys() -> tuple[bytes, ...]:
    return (seeds.log().key.vkey.encode(), witness_key(WITNESS).vkey.encode())


def streams() -> tuple[bytes, ...]:
    return (b"ledger", b"task/T-1", b"evaluation/T-1/1/post_execute/security")


def spellings() -> tuple[bytes, ...]:
    return (b"#0", b"#9007199254740991", b"", b"AA==", b"AAA=", base64.b64encode(bytes(range(32))))


def public_keys() -> tuple[bytes, ...]:
    return tuple(key.text.encode() for key in seeds.forge().keys.values())


def pems() -> tuple[bytes, ...]:
    made = (
        b"-----BEGIN PUBLIC KEY-----\n%b\n-----END PUBLIC KEY-----\n" % k for k in public_keys()
    )
    return (*made, *chains())


def stores() -> tuple[bytes, ...]:
    return (
        b"sqlite:///ledger.db",
        b"sqlite:////var/lib/a b?.db",
        b"postgresql://ada:p%40ss@db.example:5432/causebook?sslmode=require",
        b"postgres://[::1]:5432/c?password=x&connect_timeout=3",
        b"postgresql://%2Frun%2Fpg/causebook",
    )


def manifests() -> tuple[bytes, ...]:
    return (dict(seeds.bundle_files())["manifest.json"],)


def protocols() -> tuple[bytes, ...]:
    return (PROTOCOL, PROTOCOL.replace(b"120.5", b"120"))


def scripts() -> tuple[bytes, ...]:
    return (SCRIPT,)


def replies() -> tuple[bytes, ...]:
    return vector_files("rfc3161-client", suffix=".tsr")


@cache
def certificate() -> bytes:
    """A root in DER, issued by itself."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "root")])
    key = private_key("authority")
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2036, 1, 1, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, None)
    )
    return made.public_bytes(Encoding.DER)


def chains() -> tuple[bytes, ...]:
    pem = x509.load_der_x509_certificate(certificate()).public_bytes(Encoding.PEM)
    return (certificate(), pem, *vector_files("rfc3161-client", suffix=".pem"))


def handed_over() -> tuple[bytes, ...]:
    """One of each kind that `check` tells apart."""
    return (
        *(
            seeds.bundles()[1],
            seeds.inclusion_proofs()[1],
            seeds.consistency_proofs()[3],
            seeds.split_views()[0],
        ),
        *(*seeds.envelopes(), seeds.records()[0], seeds.forge().sealed[-1].note),
    )


def http_requests() -> tuple[bytes, ...]:
    """Submissions, a question for the newest, and two requests on one connection."""
    head = b"POST /add-checkpoint HTTP/1.1\r\nHost: w\r\nContent-Length: %d\r\n\r\n%b"
    sent = [head % (len(body), body) for body in seeds.consistency_proofs()]
    name = hashlib.sha256(ORIGIN.encode()).hexdigest().encode()
    asked = b"GET /%b/checkpoint HTTP/1.1\r\nHost: w\r\n\r\n" % name
    return (*sent, asked, sent[0] + asked)


def http_answers() -> tuple[bytes, ...]:
    """What a witness answers: a cosignature, a conflict, a checkpoint, a refusal; and one in chunks."""
    line = seeds.cosigned(7).signatures[1].line.encode()
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b"
    said = (
        (b"200 OK", b"text/plain", line),
        (b"200 OK", b"text/plain", seeds.cosigned(7).raw),
        (b"409 Conflict", b"text/x.tlog.size", b"12\n"),
        (b"403 Forbidden", b"text/plain", b"no signature of a log that is known\n"),
    )
    plain = tuple(head % (status, kind, len(body), body) for status, kind, body in said)
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
    return (*plain, chunks % (len(line), line))
