"""adapters/witness/client.py and http_client.py: what comes from a witness that is wrong, slow, or none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from causebook.adapters.http_client import Unreachable, address_of
from causebook.adapters.witness.client import WitnessClient, WitnessConflict, WitnessRefused
from causebook.domain.checkpoint import cosign
from causebook.domain.errors import Misuse
from causebook.domain.note import NOTE_BYTES_MAX, Note, NoteSignature

from .logs import ORIGIN, SmallLog, private_key, witness_key
from .models.openai_server import OpenAIServer, Reply

NAME, OTHER = "w1.example.com", "w2.example.com"
KEY = witness_key(NAME)


def _log() -> SmallLog:
    log = SmallLog()
    log.grow(20)
    return log


LOG = _log()
NOTE = LOG.checkpoint(9).note


def _cosigned(name: str, note: Note = NOTE) -> NoteSignature:
    return cosign(note.text, witness_key(name), 1_800_000_000, private_key(name).sign)


GOOD, OF_OTHER = _cosigned(NAME), _cosigned(OTHER)
OF_ANOTHER_CHECKPOINT = _cosigned(NAME, LOG.checkpoint(8).note)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def _add(
    server: OpenAIServer, *, known: bool = True, path: str = "/w", seconds: float = 60
) -> list[NoteSignature]:
    client = WitnessClient(f"{server.root}{path}", KEY if known else None, seconds=seconds)
    return client.add_checkpoint(4, LOG.consistency(4, 9), NOTE)


def _answer(*lines: NoteSignature, more: bytes = b"") -> Reply:
    return Reply("".join(line.line for line in lines).encode() + more)


def test_what_is_sent_is_the_body_of_the_text(server: OpenAIServer) -> None:
    server.script.append(_answer(GOOD))
    assert _add(server) == [GOOD]
    (received,) = server.received
    assert (received.method, received.path) == ("POST", "/w/add-checkpoint")
    assert received.body == LOG.submission(4, 9)


def test_cosignatures_of_unknown_keys_are_dropped(server: OpenAIServer) -> None:
    server.script.append(_answer(OF_OTHER, GOOD))
    assert _add(server) == [GOOD]


def test_without_its_key_every_cosignature_is_handed_over_unchecked(server: OpenAIServer) -> None:
    server.script.append(_answer(OF_OTHER, OF_ANOTHER_CHECKPOINT))
    assert _add(server, known=False) == [OF_OTHER, OF_ANOTHER_CHECKPOINT]


SHORT = NoteSignature(NAME, KEY.keyid, b"\x00" * 64)

WRONG = {
    "nothing": (_answer(), "expected 1 to 64 lines"),
    "another witness's alone": (_answer(OF_OTHER), "no cosignature by 'w1.example.com'"),
    "of another checkpoint": (
        _answer(OF_ANOTHER_CHECKPOINT),
        "that holds, found one that does not",
    ),
    "without a time": (_answer(SHORT), "that holds, found one that does not"),
    "a good and a bad one": (_answer(GOOD, SHORT), "that holds, found one that does not"),
    "a line that is none": (_answer(GOOD, more=b"hello\n"), "expected a signature line"),
    "no end of line": (Reply(GOOD.line[:-1].encode()), "expected 1 to 64 lines"),
    "65 lines": (_answer(*[OF_OTHER] * 64, GOOD), "expected 1 to 64 lines"),
    "noise": (Reply(b"\xff\xfe\n"), "not UTF-8"),
    "too much": (Reply(b"x" * (NOTE_BYTES_MAX + 1)), "expected an answer of at most"),
    "a redirect": (Reply(b"", 307, {"Location": "http://127.0.0.1:1/"}), "status 307"),
    "another status": (Reply(b"\x1b[2Jhello", 201), r"status 201: '\\x1b\[2Jhello'"),
    "no content": (Reply(b"", 204), "status 204"),
    "a conflict without a size": (
        Reply(b"", 409, {"Content-Type": "text/x.tlog.size"}),
        "a conflict without its size",
    ),
    "a conflict of another type": (Reply(b"7\n", 409), "a conflict without its size"),
    "a size with a leading zero": (
        Reply(b"07\n", 409, {"Content-Type": "text/x.tlog.size"}),
        "a conflict without its size",
    ),
    "a size beyond 2^53": (
        Reply(b"9007199254740992\n", 409, {"Content-Type": "text/x.tlog.size"}),
        "a size beyond",
    ),
    "half an answer": (Reply(b"x" * 100, misbehaviour="cut"), "not an answer in HTTP"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_one_line(server: OpenAIServer, name: str) -> None:
    reply, told = WRONG[name]
    server.script.append(reply)
    with pytest.raises(Unreachable, match=told) as raised:
        _add(server)
    assert raised.value.message.isprintable()
    assert len(server.received) == 1


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"", misbehaviour="hang"),
        Reply(b"x" * 9_000, misbehaviour="drip"),
        Reply(b"x", misbehaviour="drip_headers"),
    ],
    ids=["silence", "a body that drips", "a head that drips"],
)
def test_an_answer_that_does_not_end_is_waited_for_no_longer(
    server: OpenAIServer, reply: Reply
) -> None:
    server.script.append(reply)
    with pytest.raises(Unreachable, match=r"no whole answer within 0\.3 seconds"):
        _add(server, seconds=0.3)


def test_without_its_key_a_line_still_has_the_form_of_a_cosignature(server: OpenAIServer) -> None:
    server.script.append(_answer(SHORT))
    with pytest.raises(Unreachable, match="not the form of a cosignature"):
        _add(server, known=False)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (400, "takes this for no request"),
        (403, "no signature of a log it knows"),
        (404, "does not know this log"),
        (422, "the proof does not hold"),
    ],
)
def test_a_refusal_says_why(server: OpenAIServer, status: int, told: str) -> None:
    server.script.append(Reply(b"because\x07\nmore\n", status))
    with pytest.raises(WitnessRefused, match=rf"{told}: 'because\\x07'"):
        _add(server)


def test_a_conflict_says_the_size(server: OpenAIServer) -> None:
    kind = {"Content-Type": "Text/X.tlog.size; charset=utf-8"}
    server.script += [Reply(b"7\n", 409, kind), Reply(b"4\n", 409, kind)]
    with pytest.raises(WitnessConflict, match="expected a proof from size 7") as conflict:
        _add(server)
    assert conflict.value.size == 7
    with pytest.raises(WitnessConflict, match="another root of size 4") as conflict:
        _add(server)
    assert conflict.value.size == 4


def test_the_newest_has_to_be_cosigned_and_of_the_log(server: OpenAIServer) -> None:
    client = WitnessClient(server.root, KEY)
    good = Note(NOTE.text, (*NOTE.signatures, GOOD))
    other = SmallLog("other.example/log")
    other.grow(3)
    for reply, told in (
        (Reply(NOTE.raw), "did not cosign"),
        (Reply(Note(NOTE.text, (*NOTE.signatures, SHORT)).raw), "that holds"),
        (Reply(other.checkpoint(3).note.raw), "of another origin"),
        (Reply(b"hello\n"), "expected a text"),
        (Reply(b"", 500), "status 500"),
    ):
        server.script.append(reply)
        with pytest.raises(Unreachable, match=told):
            client.newest(ORIGIN)
    server.script += [Reply(b"", 404), Reply(good.raw)]
    assert client.newest(ORIGIN) is None
    found = client.newest(ORIGIN)
    assert found is not None
    assert found.note == good


def test_a_proxy_of_the_environment_is_not_asked(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1/")
    server.script.append(_answer(GOOD))
    assert _add(server) == [GOOD]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "w1.example.com",
        "ftp://w1.example.com",
        "file:///etc/passwd",
        "http://",
        "http:///path",
        "http://user:secret@w1.example.com",
        "http://w1.example.com?a=b",
        "http://w1.example.com/#x",
        "http://w1.example.com:port",
        "http://w1.example.com:99999",
        "http://w1.example.com:0",
        "http://[::1",
        "http://w1.example.com/a b",
        "http://w1.example.com/\r\nHost: x",
        "http://w1.ex\u00e4mple.com",
        "http://" + "a" * 3_000,
    ],
)
def test_only_a_plain_url_is_asked(url: str) -> None:
    with pytest.raises(Misuse, match="witness: expected http://HOST"):
        WitnessClient(url)


def test_what_a_url_means() -> None:
    assert address_of("https://w.example", what="w") == (True, "w.example", 443, "/")
    assert address_of("http://[::1]:80/a/", what="w") == (False, "::1", 80, "/a/")


@pytest.mark.parametrize("host", ["nowhere.invalid", "a..b", "x" * 64 + ".example"])
def test_a_host_that_is_none_is_one_line(host: str) -> None:
    with pytest.raises(Unreachable, match="no host of this name is known"):
        WitnessClient(f"http://{host}").newest(ORIGIN)


def test_a_tls_server_that_nobody_vouches_for_is_not_asked(server: OpenAIServer) -> None:
    with pytest.raises(Unreachable, match="witness at 127"):
        WitnessClient(server.root.replace("http:", "https:"), seconds=2).newest(ORIGIN)
    assert server.received == []
