"""One record, crafted: how it is spelled, whose it is, how it is signed. Each is named and placed.

Some need a key of the ledger, some only the store; each stands beside its untouched twin, which passes.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from causebook.adapters.findings import TAMPERED, Report
from causebook.adapters.signatures import Library
from causebook.adapters.store.port import Row
from causebook.adapters.verification.verify import verify
from causebook.domain.canonical import encode
from causebook.domain.ed25519 import L
from causebook.domain.events import KeyEnrolled
from causebook.domain.keyring import spki_of
from causebook.domain.record import assemble, pae
from tests.adapters.forge import Forge, Key, document, reads, signed_line, small_ledger, verdict
from tests.attacks.intruder import Intruder, failed, looked_at, only, places, stored

SECURITY = "evaluation/T-1/1/post_execute/security"
CONVENTIONS = "evaluation/T-1/1/post_execute/conventions"
COMPOSED = "Ünicode née Å"


Look = Callable[[Forge], Report]


def in_memory(forge: Forge, library: Library = "auto") -> Report:
    return verify(forge.source(), processes=0, library=library)


@pytest.fixture
def crafted() -> Forge:
    """A ledger that is found intact, to be crafted at."""
    forge = small_ledger("T-1")
    forge.open_task("T-2")
    forge.panel("T-2", {"security": [reads("a.py"), verdict("pass", COMPOSED)]})
    assert (in_memory(forge).code, failed(in_memory(forge))) == (20, set())
    return forge


@pytest.fixture
def look(store_url: str) -> Look:
    """Puts what was crafted into a store, as an intruder can, and verifies that."""

    def stored_and_verified(forge: Forge) -> Report:
        stored(forge, store_url)
        return looked_at(store_url)

    return stored_and_verified


def respell(forge: Forge, change: Callable[[bytes], bytes], version: int = 5) -> None:
    """Spell line 1 of a record otherwise and sign it so, as the engine's own key can."""
    n = forge.at(SECURITY, version)
    row = forge.rows[n]
    before = encode(document(row))
    after = change(before)
    assert after != before
    forge.rows[n] = signed_line(after, row, forge.keys["engine"])


NOT_CANONICAL = "line 1: not canonical JSON (RFC 8785)"
TOO_LARGE = f"{NOT_CANONICAL}: Integer exceeds 53-bit range"
NO_INTEGER = "line 1: expected ASCII keys, and numbers that are integers within 2^53-1"
SPELLINGS: dict[str, tuple[bytes, bytes, str]] = {
    "a duplicate key": (b'"turn":', b'"turn":9,"turn":', NOT_CANONICAL),
    "2^53": (b'"turn":1', b'"turn":9007199254740992', TOO_LARGE),
    "2^53 + 1": (b'"turn":1', b'"turn":9007199254740993', TOO_LARGE),
    "-0": (b'"turn":1', b'"turn":-0', NOT_CANONICAL),
    "1e0": (b'"turn":1', b'"turn":1e0', NOT_CANONICAL),
    "1.0": (b'"turn":1', b'"turn":1.0', NO_INTEGER),
    "a lone surrogate": (
        b'"stream":"',
        b'"stream":"\\ud800',
        "line 1: not JSON: no low surrogate in string",
    ),
    "a needless escape": (b'"data"', b'"d\\u0061ta"', NOT_CANONICAL),
    "a blank": (b'"data":{', b'"data": {', NOT_CANONICAL),
}
"""What stood, what stands in its place, and what is found."""


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_second_spelling_though_the_engine_signed_it(
    spelling: str, crafted: Forge, look: Look
) -> None:
    stood, stands, expected = SPELLINGS[spelling]
    respell(crafted, lambda line: line.replace(stood, stands, 1))
    report = look(crafted)
    assert report.code == TAMPERED
    finding = only(report, "records")
    assert (finding.place, finding.found) == (f"{SECURITY} v5", expected)


def test_the_greatest_integer_is_data_and_the_next_is_not(crafted: Forge, look: Look) -> None:
    """The twin of 2^53: 2^53 - 1 is read, and refused for what it says, not for how it is spelled."""
    respell(crafted, lambda line: line.replace(b'"turn":1', b'"turn":9007199254740991', 1))
    assert places(look(crafted), "records") == []


def test_a_text_decomposed_is_another_text(crafted: Forge, look: Look) -> None:
    """NFC against NFD: they look alike on a page, and nothing here takes one for the other."""
    stream = "evaluation/T-2/1/post_execute/security"
    version = crafted.last(stream, "VerdictGiven")
    n = crafted.at(stream, version)
    row = crafted.rows[n]
    decomposed = unicodedata.normalize("NFD", COMPOSED)
    changed = row.record.replace(COMPOSED.encode(), decomposed.encode())
    assert unicodedata.normalize("NFC", decomposed) == COMPOSED
    assert changed != row.record
    crafted.rows[n] = row._replace(record=changed)
    report = look(crafted)
    assert report.code == TAMPERED
    assert only(report, "signatures").place == f"{stream} v{version}"


def test_the_twin_that_said_it_decomposed_from_the_start(look: Look) -> None:
    """What the engine signed stays as it said it, to the byte."""
    decomposed = unicodedata.normalize("NFD", COMPOSED)
    forge = small_ledger("T-1")
    forge.open_task("T-2")
    forge.panel("T-2", {"security": [reads("a.py"), verdict("pass", decomposed)]})
    stream = "evaluation/T-2/1/post_execute/security"
    given = forge.rows[forge.at(stream, forge.last(stream, "VerdictGiven"))]
    assert look(forge).code == 20
    assert decomposed.encode() in given.record
    assert COMPOSED.encode() not in given.record


# ── signatures ───────────────────────────────────────────────────────────────────────────────────────


def _sign(forge: Forge, sign: Callable[[Key, bytes], bytes]) -> None:
    n = forge.at(SECURITY, 5)
    row, key = forge.rows[n], forge.keys["engine"]
    line = encode(document(row))
    forge.rows[n] = row._replace(record=assemble(line, key.keyid, sign(key, pae(line))))


def _secret_scalar(key: Key) -> int:
    seed = key._private.private_bytes_raw()
    low = bytearray(hashlib.sha512(seed).digest()[:32])
    low[0] &= 248
    low[31] = low[31] & 63 | 64
    return int.from_bytes(low, "little")


def _with_r_the_identity(key: Key, message: bytes) -> bytes:
    """S·B = R + k·A holds for R the identity and S = k·a: some libraries let it pass."""
    r = (1).to_bytes(32, "little")
    k = int.from_bytes(hashlib.sha512(r + key.public + message).digest(), "little")
    return r + (k * _secret_scalar(key) % L).to_bytes(32, "little")


def _with_s_plus_l(key: Key, message: bytes) -> bytes:
    signature = key.sign(message)
    return signature[:32] + (int.from_bytes(signature[32:], "little") + L).to_bytes(32, "little")


@pytest.mark.parametrize(
    "sign",
    [_with_r_the_identity, _with_s_plus_l, lambda key, message: bytes(64)],
    ids=["R the identity", "S + L", "all zeros"],
)
def test_a_signature_at_the_edge(
    sign: Callable[[Key, bytes], bytes], crafted: Forge, look: Look
) -> None:
    """Whichever library is asked: left to themselves, they do not agree on the first."""
    _sign(crafted, sign)
    for report in (look(crafted), in_memory(crafted, "openssl"), in_memory(crafted, "libsodium")):
        assert report.code == TAMPERED
        assert only(report, "signatures").place == f"{SECURITY} v5"


def test_the_twin_signed_as_ever(crafted: Forge, look: Look) -> None:
    _sign(crafted, lambda key, message: key.sign(message))
    assert look(crafted).code == 20


@pytest.mark.parametrize(
    "point",
    [1, 0, 2**255 - 20, 2**255 - 18, (1 << 255) | 1],
    ids=["the identity", "order 4", "order 2", "the identity unreduced", "the identity negated"],
)
def test_a_key_of_small_order_is_never_enrolled(point: int, crafted: Forge, look: Look) -> None:
    """Under the identity as a key, one signature holds for every message."""
    spki = base64.b64encode(spki_of(point.to_bytes(32, "little"))).decode()
    _enrol(crafted, spki)
    report = look(crafted)
    assert report.code == TAMPERED
    assert only(report, "roles").found.startswith("public key: ")


@pytest.mark.parametrize("algorithm", ["RSA", "P-256"])
def test_a_key_of_another_algorithm_is_never_enrolled(
    algorithm: str, crafted: Forge, look: Look
) -> None:
    private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    if algorithm == "RSA":
        private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    else:
        private = ec.generate_private_key(ec.SECP256R1())
    der = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    _enrol(crafted, base64.b64encode(der).decode())
    report = look(crafted)
    assert report.code == TAMPERED
    found = only(report, "roles").found
    assert found == "public key: expected a DER SubjectPublicKeyInfo for Ed25519"


def _enrol(forge: Forge, public_key: str) -> None:
    enrolment = KeyEnrolled(
        role="engine",
        name="engine",
        public_key=public_key,
        possession=base64.b64encode(bytes(64)).decode(),
        rotates=None,
        handover=None,
    )
    forge.write("ledger", enrolment)


def test_a_key_id_swapped_for_that_of_another_role(crafted: Forge, look: Look) -> None:
    n = crafted.at(SECURITY, 5)
    row = crafted.rows[n]
    authority = crafted.keys["authority"].keyid.encode()
    swapped = row.record.replace(crafted.keys["engine"].keyid.encode(), authority)
    crafted.rows[n] = row._replace(record=swapped)
    report = look(crafted)
    assert report.code == TAMPERED
    assert only(report, "signatures").place == f"{SECURITY} v5"
    assert (
        only(report, "roles").found == "TurnCharged is signed by engine, found a key for authority"
    )


# ── in the store, on each kind ───────────────────────────────────────────────────────────────────────


def test_a_signature_stripped(forge: Forge, intruder: Intruder, store_url: str) -> None:
    row = forge.rows[forge.at(SECURITY, 5)]
    line, _, signed = row.record.partition(b"\n")
    for stripped in (line + b"\n", line, line + b"\n" + signed[:65] + b"\n"):
        intruder.overwrite(SECURITY, 5, stripped)
        report = looked_at(store_url)
        assert report.code == TAMPERED
        finding = only(report, "records")
        assert finding.place == f"{SECURITY} v5"
        assert finding.found.startswith("lines: expected a line of JSON, and a line of key id")
    intruder.overwrite(SECURITY, 5, row.record)
    assert looked_at(store_url).code == 20


def test_an_edited_record_relabelled_with_a_key_that_nobody_enrolled(
    forge: Forge, intruder: Intruder, store_url: str
) -> None:
    """Signed well, by somebody: a reader that skips keys it does not know would let it pass."""
    row = forge.rows[forge.at(SECURITY, 22)]
    edited = document(row)
    edited["data"]["severity"] = "pass"
    line = encode(edited)
    nobody = Key("nobody")
    intruder.overwrite(SECURITY, 22, assemble(line, nobody.keyid, nobody.sign(pae(line))))
    report = looked_at(store_url)
    assert report.code == TAMPERED
    finding = only(report, "signatures")
    assert (finding.place, finding.expected) == (
        f"{SECURITY} v22",
        "a key that the ledger enrolled",
    )


def test_a_record_put_in_by_replace(forge: Forge, intruder: Intruder, store_url: str) -> None:
    """`INSERT OR REPLACE`, or what PostgreSQL has for it: past the triggers it is an edit like any other."""
    other = forge.rows[forge.at(SECURITY, 6)]
    values = (SECURITY, 5, other.type, other.record)
    if store_url.startswith("sqlite"):
        intruder.sql(
            "INSERT OR REPLACE INTO stored_events (originator_id, originator_version, topic, state)"
            " VALUES (?, ?, ?, ?)",
            *values,
        )
    else:
        intruder.sql(
            "INSERT INTO stored_events (originator_id, originator_version, topic, state)"
            " VALUES (?, ?, ?, ?) ON CONFLICT (originator_id, originator_version)"
            " DO UPDATE SET topic = EXCLUDED.topic, state = EXCLUDED.state",
            *values,
        )
    report = looked_at(store_url)
    assert report.code == TAMPERED
    assert f"{SECURITY} v5" in [*places(report, "records"), *places(report, "chains")]


def test_a_record_inserted_in_the_middle(forge: Forge, intruder: Intruder, store_url: str) -> None:
    """By whoever has no key: the versions after it move up, and nothing of that holds."""
    rows = [row for row in forge.rows if row.stream == SECURITY and row.version >= 6]
    for row in reversed(rows):
        intruder.sql(
            "UPDATE stored_events SET originator_version = ?"
            " WHERE originator_id = ? AND originator_version = ?",
            row.version + 1,
            SECURITY,
            row.version,
        )
    intruder.insert(forge.rows[forge.at(SECURITY, 5)]._replace(version=6))
    report = looked_at(store_url)
    assert report.code == TAMPERED
    assert places(report, "records")[0] == f"{SECURITY} v7"


def test_an_event_replayed(forge: Forge, intruder: Intruder, store_url: str) -> None:
    """The last of a stream once more, as the next: its own version gives it away."""
    last = max(row.version for row in forge.rows if row.stream == CONVENTIONS)
    again = forge.rows[forge.at(CONVENTIONS, last)]._replace(version=last + 1)
    intruder.insert(again)
    report = looked_at(store_url)
    assert (report.code, failed(report)) == (TAMPERED, {"records"})
    finding = only(report, "records")
    assert (finding.place, finding.found) == (
        f"{CONVENTIONS} v{last + 1}",
        f"{CONVENTIONS} v{last}",
    )


def test_one_stream_and_version_twice(forge: Forge, intruder: Intruder, store_url: str) -> None:
    """Past the constraint that forbids it."""
    row = forge.rows[forge.at(SECURITY, 5)]
    if store_url.startswith("sqlite"):
        intruder.close()
        _insert_twice(store_url, row)
    else:
        intruder.run("ALTER TABLE stored_events DROP CONSTRAINT stored_events_pkey")
        intruder.insert(row)
    report = looked_at(store_url)
    assert report.code == TAMPERED
    last = max(row.version for row in forge.rows if row.stream == SECURITY)
    finding = only(report, "chains")
    assert (finding.place, finding.found) == (f"{SECURITY} v{last + 1}", f"v5 after v{last}")


def _insert_twice(url: str, row: Row) -> None:
    """Take the constraint and its index out of the schema, insert, and put both back."""
    index = "SELECT * FROM sqlite_master WHERE name = 'sqlite_autoindex_stored_events_1'"
    table = "UPDATE sqlite_master SET sql = ? WHERE name = 'stored_events'"
    with Intruder(url) as intruder:
        intruder.run("PRAGMA writable_schema = ON")
        (kept,) = intruder.sql(index)
        ((sql,),) = intruder.sql("SELECT sql FROM sqlite_master WHERE name = 'stored_events'")
        intruder.sql(table, re.sub(r",\s*UNIQUE \([^)]*\)", "", sql))
        intruder.sql("DELETE FROM sqlite_master WHERE name = 'sqlite_autoindex_stored_events_1'")
    with Intruder(url) as intruder:
        intruder.insert(row)
        intruder.run("PRAGMA writable_schema = ON")
        intruder.sql(table, sql)
        intruder.sql("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", *kept)


def test_an_evaluation_spliced_into_another_task(
    forge: Forge, intruder: Intruder, store_url: str
) -> None:
    """The last records of one task's judge, put at the end of another's."""
    to = "evaluation/T-2/1/post_execute/security"
    last = max(row.version for row in forge.rows if row.stream == to)
    for n, row in enumerate([row for row in forge.rows if row.stream == SECURITY][-2:], 1):
        intruder.insert(row._replace(stream=to, version=last + n))
    report = looked_at(store_url)
    assert (report.code, failed(report)) == (TAMPERED, {"records"})
    assert places(report, "records") == [f"{to} v{last + 1}", f"{to} v{last + 2}"]


def test_a_stream_transplanted_from_a_ledger_of_the_same_name(
    forge: Forge, intruder: Intruder, store_url: str
) -> None:
    """A clone with the same keys and another founding: what hangs on that founding hangs on nothing here."""
    clone = Forge(seed="clone").found()
    clone.keys |= forge.keys  # the operator has both, and one engine key signs in both
    clone.open_task("T-3")
    for row in clone.rows[-2:]:
        intruder.insert(row)
    report = looked_at(store_url)
    # The evidence was left behind; with it there, the chain alone tells.
    assert (report.code, failed(report)) == (TAMPERED, {"chains", "evidence"})
    assert only(report, "chains").place == "task/T-3 v1"
