"""domain/policy.py: what a trust policy may say, whom it believes, and how much collusion it takes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import combinations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from causebook.adapters.signatures import verifier
from causebook.domain.checkpoint import Checkpoint, cosign
from causebook.domain.encoding import base64_text
from causebook.domain.note import COSIGNATURE, ED25519, Note, NoteError, NoteKey, sign_note
from causebook.domain.policy import (
    GROUPS_MAX,
    LINES_MAX,
    LOGS_MAX,
    POLICY_BYTES_MAX,
    WITNESSES_MAX,
    Policy,
    PolicyError,
)

ORIGIN = "audit.example.com/team"
TEXT = Checkpoint(ORIGIN, 12, hashlib.sha256(b"root").digest()).text


def _private(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def _key(name: str, kind: int = COSIGNATURE) -> NoteKey:
    return NoteKey(name, _private(name).public_key().public_bytes_raw(), kind)


def _witness_lines(*names: str) -> str:
    return "".join(f"witness {name} {_key(f'{name}.example/w').vkey}\n" for name in names)


def _note(**times: int) -> Note:
    """A note signed by its log, and at the given times by the witnesses named."""
    signed = sign_note(TEXT, _key(ORIGIN, ED25519), _private(ORIGIN).sign)
    lines = tuple(
        cosign(TEXT, _key(f"{name}.example/w"), time, _private(f"{name}.example/w").sign)
        for name, time in times.items()
    )
    return Note(TEXT, signed.signatures + lines)


TWO_LEVELS = (
    f"log {_key(ORIGIN, ED25519).vkey} https://log.example/\n\n"
    "# two organisations\n"
    + _witness_lines("X1", "X2", "X3")
    + "group X-witnesses 2 X1 X2 X3\n"
    + _witness_lines("Y1", "Y2", "Y3")
    + "\tgroup  Y-witnesses any\tY1 Y2 Y3 \n"
    "group X-and-Y all X-witnesses Y-witnesses\n"
    "quorum X-and-Y\n"
)


def test_the_example_of_the_text_is_read() -> None:
    policy = Policy.parse(TWO_LEVELS.encode())
    assert [(log.key, log.url) for log in policy.logs] == [
        (_key(ORIGIN, ED25519), "https://log.example/")
    ]
    assert list(policy.witnesses) == ["X1", "X2", "X3", "Y1", "Y2", "Y3"]
    assert [(g.threshold, g.members) for g in policy.groups.values()] == [
        (2, ("X1", "X2", "X3")),
        (1, ("Y1", "Y2", "Y3")),
        (2, ("X-witnesses", "Y-witnesses")),
    ]
    assert policy.logs_of(ORIGIN) == (_key(ORIGIN, ED25519),)
    assert policy.logs_of("other.example/log") == ()


def test_a_quorum_counts_by_group() -> None:
    policy = Policy.parse(TWO_LEVELS.encode())
    quorum = policy.evaluate(_note(X1=100, X3=300, Y2=200), verifier())
    assert quorum.holds
    assert [(c.witness.name, c.time_seconds) for c in quorum.cosigned] == [
        ("X3", 300),
        ("Y2", 200),
        ("X1", 100),
    ]
    assert quorum.missing == ("X2", "Y1", "Y3")
    assert quorum.kth_newest_time == 100  # without X1 there is one X alone
    short = policy.evaluate(_note(X1=1, X2=2, X3=3), verifier())
    assert not short.holds
    assert short.kth_newest_time is None


def test_the_time_is_that_of_the_kth_newest() -> None:
    raw = _witness_lines("A", "B", "C") + "group g 2 A B C\nquorum g\n"
    quorum = Policy.parse(raw.encode()).evaluate(_note(A=5, B=900, C=70), verifier())
    assert quorum.kth_newest_time == 70


def test_quorum_none_holds_without_witnesses() -> None:
    quorum = Policy.parse(b"quorum none\n").evaluate(_note(A=1), verifier())
    assert quorum.holds
    assert quorum.kth_newest_time is None
    assert (quorum.survives, quorum.has_disjoint_quorums) == (0, True)


def test_a_cosignature_of_an_unknown_key_counts_for_nothing() -> None:
    policy = Policy.parse((_witness_lines("A") + "quorum A\n").encode())
    assert not policy.evaluate(_note(B=1), verifier()).holds


def test_a_cosignature_of_a_known_key_that_does_not_hold_rejects_the_note() -> None:
    policy = Policy.parse((_witness_lines("A", "B") + "group g any A B\nquorum g\n").encode())
    good = _note(A=1)
    forged = cosign(TEXT, _key("B.example/w"), 2, _private("somebody else").sign)
    assert policy.evaluate(good, verifier()).holds
    with pytest.raises(NoteError, match=r"by 'B\.example/w' that holds"):
        policy.evaluate(Note(TEXT, (*good.signatures, forged)), verifier())


@pytest.mark.parametrize(
    ("quorum", "colluders", "survives"),
    [
        ("group q 3 A B C D\nquorum q\n", 2, 1),
        ("group q 2 A B C D\nquorum q\n", 0, 0),
        ("group q all A B C D\nquorum q\n", 4, 3),
        ("group q any A B C D\nquorum q\n", 0, 0),
        ("quorum A\n", 1, 0),
        ("quorum none\n", 0, 0),
        # Any two quorums share A.
        ("group r any B C D\ngroup q all A r\nquorum q\n", 1, 0),
        # Two of three groups: one group is in both, the cheapest of them.
        ("group r all A B\ngroup q 2 r C D\nquorum q\n", 1, 0),
        ("group r all A B\ngroup s all C D\ngroup q all r s\nquorum q\n", 4, 3),
        # A group that the quorum does not rest on changes nothing.
        ("group r any B C D\nquorum A\n", 1, 0),
    ],
)
def test_how_many_colluders_a_quorum_survives(quorum: str, colluders: int, survives: int) -> None:
    policy = Policy.parse((_witness_lines("A", "B", "C", "D") + quorum).encode())
    assert policy.colluders_min == colluders
    assert policy.survives == survives
    assert policy.has_disjoint_quorums == (colluders == 0)


@st.composite
def _forests(draw: st.DrawFn) -> str:
    """A policy of up to 7 witnesses whose groups take what is not taken yet."""
    free = [f"w{i}" for i in range(draw(st.integers(1, 7)))]
    lines = [_witness_lines(*free)]
    names = list(free)
    for number in range(draw(st.integers(0, 4))):
        members = draw(st.lists(st.sampled_from(free), min_size=1, unique=True))
        threshold = draw(st.integers(1, len(members)))
        lines.append(f"group g{number} {threshold} {' '.join(members)}\n")
        free = [name for name in free if name not in members] + [f"g{number}"]
        names.append(f"g{number}")
    return "".join(lines) + f"quorum {draw(st.sampled_from(names))}\n"


def _witnessed(policy: Policy, name: str, who: frozenset[str]) -> bool:
    """The text's own definition, read as it stands."""
    if name in policy.witnesses:
        return name in who
    group = policy.groups[name]
    return sum(_witnessed(policy, member, who) for member in group.members) >= group.threshold


def _quorums(policy: Policy) -> Iterator[frozenset[str]]:
    names = list(policy.witnesses)
    for count in range(len(names) + 1):
        for who in combinations(names, count):
            if _witnessed(policy, policy.quorum, frozenset(who)):
                yield frozenset(who)


@settings(max_examples=150, deadline=None)
@given(_forests())
def test_the_fewest_colluders_are_those_that_enumeration_finds(text: str) -> None:
    policy = Policy.parse(text.encode())
    quorums = list(_quorums(policy))
    assert policy.colluders_min == min(len(a & b) for a in quorums for b in quorums)


@settings(max_examples=150, deadline=None)
@given(_forests(), st.dictionaries(st.sampled_from([f"w{i}" for i in range(7)]), st.integers(0, 5)))
def test_the_time_reached_is_the_newest_that_is_enough(text: str, times: dict[str, int]) -> None:
    policy = Policy.parse(text.encode())
    enough = [
        moment
        for moment in times.values()
        if _witnessed(
            policy, policy.quorum, frozenset(name for name, t in times.items() if t >= moment)
        )
    ]
    assert policy.reached_at(times) == max(enough, default=None)


LOG = _key(ORIGIN, ED25519).vkey
A = _key("A.example/w")
TWICE = NoteKey("another.example/name", A.public, COSIGNATURE).vkey
AS_LOG = NoteKey("another.example/name", A.public, ED25519).vkey
IDENTITY = NoteKey("i.example/w", (1).to_bytes(32, "little"), COSIGNATURE).vkey

DEFECTS = {
    "a witness key named twice, under two names": (
        f"witness a {A.vkey}\nwitness b {TWICE}\nquorum a\n",
        "line 2: this public key stands in line 1 already",
    ),
    "a log key named twice": (f"log {LOG}\n\nlog {LOG}\nquorum none\n", "line 3: this public key"),
    "a witness that is the log": (
        f"log {AS_LOG}\nwitness a {A.vkey}\nquorum a\n",
        "line 2: this public key stands in line 1",
    ),
    "a name defined twice": (
        _witness_lines("A") + f"witness A {_key('B.example/w').vkey}\nquorum A\n",
        "line 2: 'A' is defined already",
    ),
    "a group named as a witness": (
        _witness_lines("A", "B") + "group A any B\nquorum A\n",
        "line 3: 'A' is defined already",
    ),
    "a witness named none": (f"witness none {A.vkey}\nquorum none\n", "line 1: expected a name"),
    "a group named none": (_witness_lines("A") + "group none 1 A\nquorum A\n", "line 2: expected"),
    "none as a member": (
        _witness_lines("A") + "group g 1 A none\nquorum g\n",
        "line 2: expected a witness or group defined above, found 'none'",
    ),
    "a member nobody defined": (
        _witness_lines("A") + "group g 1 A B\nquorum g\n",
        "line 2: expected a witness or group defined above, found 'B'",
    ),
    "a member defined below": (
        _witness_lines("A") + "group g 1 A B\n" + _witness_lines("B") + "quorum g\n",
        "line 2: expected a witness or group defined above, found 'B'",
    ),
    "a group that is its own member": (
        _witness_lines("A") + "group g any A g\nquorum g\n",
        "line 2: expected a witness or group defined above, found 'g'",
    ),
    "a member twice in one group": (
        _witness_lines("A", "B") + "group g 2 A A B\nquorum g\n",
        "line 3: 'A' is a member already, since line 3",
    ),
    "a member of two groups": (
        _witness_lines("A", "B") + "group g 1 A B\ngroup h 1 A\nquorum g\n",
        "line 4: 'A' is a member already, since line 3",
    ),
    "a group without members": (
        _witness_lines("A") + "group g any\nquorum A\n",
        "line 2: expected",
    ),
    "k of nought": (
        _witness_lines("A") + "group g 0 A\nquorum g\n",
        "line 2: expected any, all or",
    ),
    "k above n": (_witness_lines("A") + "group g 2 A\nquorum g\n", "from 1 to 1, found '2'"),
    "k with a leading zero": (_witness_lines("A") + "group g 01 A\nquorum g\n", "found '01'"),
    "k with a sign": (_witness_lines("A") + "group g +1 A\nquorum g\n", "found '\\+1'"),
    "k in another alphabet": (_witness_lines("A") + "group g ١ A\nquorum g\n", "line 2: expected"),
    "k of a thousand digits": (
        _witness_lines("A") + f"group g {'9' * 1000} A\nquorum g\n",
        "line 2: expected any, all or",
    ),
    "no quorum": (_witness_lines("A"), "expected one quorum line, found none"),
    "an empty file": ("", "expected one quorum line, found none"),
    "two quorums": ("quorum none\nquorum none\n", "line 2: expected one quorum line"),
    "a quorum nobody defined": ("quorum A\n", "line 1: expected a witness or group defined above"),
    "a quorum above its definition": (
        "quorum A\n" + _witness_lines("A"),
        "line 1: expected a witness or group defined above",
    ),
    "a quorum of two": (_witness_lines("A", "B") + "quorum A B\n", "line 3: expected quorum NAME"),
    "an unknown word": ("Quorum none\n", "line 1: expected log, witness, group or quorum"),
    "a comment after a line": ("quorum none # for now\n", "line 1: expected quorum NAME"),
    "a log with a witness's key": (f"log {A.vkey}\nquorum none\n", "expected type 0x01, found"),
    "a witness with a log's key": (f"witness a {LOG}\nquorum a\n", "expected type 0x04, found"),
    "a log with three items": (
        f"log {LOG} https://x y\nquorum none\n",
        "line 1: expected log VKEY",
    ),
    "a vkey with another id": (
        f"witness a {A.vkey.replace('+' + A.keyid.hex(), '+00000000')}\nquorum a\n",
        "line 1: vkey: expected key id",
    ),
    "the identity point as a key": (f"witness a {IDENTITY}\nquorum a\n", "not of prime order"),
    "a carriage return": ("quorum none\r\n", "line 1: expected no control character .* 0x0d"),
    "a NUL in a comment": ("\n# \x00\nquorum none\n", "line 2: .* 0x00"),
    "a DEL": ("quorum none\x7f\n", "line 1: .* 0x7f"),
    "a last line without its end": ("# x\nquorum none", "line 2: expected LF at the end"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_refused_by_its_line(name: str) -> None:
    text, message = DEFECTS[name]
    with pytest.raises(PolicyError, match=message):
        Policy.parse(text.encode())


def test_what_is_allowed_and_odd_is_read() -> None:
    kelvin, k = "\u212a", "K"
    text = (
        f"\t# caf\u00e9\n \t\n \twitness  {kelvin} \t {_key('k1.example/w').vkey}\t\n"
        f"witness {k} {_key('k2.example/w').vkey} http://[::1]:8000/\n"
        f"group all all {kelvin} {k}\ngroup any any all\nquorum any\n#"
    )
    policy = Policy.parse(text.encode() + b" \xff\xfe\n")
    assert list(policy.witnesses) == [kelvin, k]
    assert policy.witnesses[k].url == "http://[::1]:8000/"
    assert policy.survives == 1


def test_names_are_octets() -> None:
    line = f"witness NAME {A.vkey}\nquorum NAME\n".encode()
    policy = Policy.parse(line.replace(b"NAME", b"\xff\x80"))
    assert [name.encode("utf-8", "surrogateescape") for name in policy.witnesses] == [b"\xff\x80"]
    with pytest.raises(PolicyError, match="defined above"):
        Policy.parse(line.replace(b"NAME", b"\xff\x80", 1).replace(b"NAME", b"\xff\x81"))


def test_a_vkey_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(PolicyError, match="line 1: expected a vkey in UTF-8"):
        Policy.parse(b"witness a \xff" + A.vkey.encode() + b"\nquorum a\n")


def _many(count: int, kind: str) -> str:
    if kind == "log":
        return (
            "".join(f"log {_key(f'l{i}', ED25519).vkey}\n" for i in range(count)) + "quorum none\n"
        )
    if kind == "witness":
        return _witness_lines(*(f"w{i}" for i in range(count))) + "quorum w0\n"
    chain = "".join(f"group g{i} 1 {f'g{i - 1}' if i else 'A'}\n" for i in range(count))
    return _witness_lines("A") + chain + f"quorum g{count - 1}\n"


@pytest.mark.parametrize(
    ("kind", "most", "what"),
    [
        ("log", LOGS_MAX, "logs"),
        ("witness", WITNESSES_MAX, "witnesses"),
        ("group", GROUPS_MAX, "groups"),
    ],
)
def test_each_kind_has_its_limit(kind: str, most: int, what: str) -> None:
    assert Policy.parse(_many(most, kind).encode()).survives == 0
    with pytest.raises(PolicyError, match=f"expected at most {most} {what}"):
        Policy.parse(_many(most + 1, kind).encode())


def test_a_file_has_its_limits() -> None:
    most = b"\n" * (LINES_MAX - 1) + b"quorum none\n"
    assert Policy.parse(most).quorum == "none"
    with pytest.raises(PolicyError, match=f"at most {LINES_MAX} lines, found {LINES_MAX + 1}"):
        Policy.parse(b"\n" + most)
    with pytest.raises(PolicyError, match=f"at most {POLICY_BYTES_MAX} bytes"):
        Policy.parse(b"#" * (POLICY_BYTES_MAX - 11) + b"\nquorum none\n")


def test_a_vkey_in_a_second_spelling_is_refused() -> None:
    name, keyid, _ = A.vkey.split("+", 2)
    # 33 bytes fill their base64 exactly: a second spelling has padding, or the other alphabet.
    spelled = base64_text(bytes([COSIGNATURE]) + A.public)
    for other in (spelled + "====", spelled[:-1], spelled + "="):
        with pytest.raises(PolicyError, match="line 1: vkey: expected canonical base64"):
            Policy.parse(f"witness a {name}+{keyid}+{other}\nquorum a\n".encode())


WORDS = [*b"log witness group quorum none any all 2 A # \xff".split(b" "), b"\t", b"\n"]


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=300),
        st.lists(
            st.sampled_from([*WORDS, A.vkey.encode(), LOG.encode()]),
            max_size=40,
        ).map(b" ".join),
    )
)
def test_any_bytes_are_a_policy_or_one_named_error(raw: bytes) -> None:
    policy = None
    try:
        policy = Policy.parse(raw)
    except PolicyError as error:
        message = error.message
    if policy is None:
        assert message.isprintable()
    else:
        assert policy.quorum in {"none", *policy.witnesses, *policy.groups}
