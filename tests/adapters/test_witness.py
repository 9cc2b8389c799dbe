"""adapters/witness/: what a witness answers and keeps, over HTTP on the loopback and across processes."""

from __future__ import annotations

import http.client
import os
import random
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from causebook.adapters import split_view
from causebook.adapters.http_client import Unreachable
from causebook.adapters.signatures import verifier
from causebook.adapters.witness import server as server_module
from causebook.adapters.witness import state
from causebook.adapters.witness.client import WitnessClient, WitnessConflict, WitnessRefused
from causebook.adapters.witness.server import WitnessServer
from causebook.adapters.witness.state import (
    EVIDENCE_FILES_MAX,
    Conflict,
    Cosigned,
    Refused,
    Witness,
    known_logs,
    name_of,
)
from causebook.domain.checkpoint import SignedCheckpoint, cosignature_by
from causebook.domain.errors import Busy, CannotCreate, Denied, IOFailure
from causebook.domain.note import Note, NoteError, parse_signature
from causebook.domain.proof import PROOF_BYTES_MAX, ConsistencyProof, SplitView

from .logs import ORIGIN, SmallLog, private_key, witness_key
from .test_durable import break_folders
from .witnesses import make_witness, serving

NAME = "w1.example.com"
KEY = witness_key(NAME)
STRANGER = "stranger.example/log"


def _witness(folder: Path, *logs: SmallLog, now: float = 1_800_000_000) -> Witness:
    return make_witness(folder, NAME, [log.key for log in logs], lambda: now)


@pytest.fixture
def log() -> SmallLog:
    log = SmallLog()
    log.grow(40)
    return log


@pytest.fixture
def witness(log: SmallLog, tmp_path: Path) -> Witness:
    return _witness(tmp_path / "state", log)


@pytest.fixture
def server(witness: Witness) -> Iterator[WitnessServer]:
    with serving(witness) as server:
        yield server


def _connect(server: WitnessServer) -> http.client.HTTPConnection:
    host, port = server.server_address[:2]
    return http.client.HTTPConnection(str(host), int(port), timeout=30)


def _ask(
    server: WitnessServer, method: str, path: str, body: bytes | None = None
) -> tuple[int, str, bytes]:
    connection = _connect(server)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type", ""), response.read()
    finally:
        connection.close()


def _post(server: WitnessServer, body: bytes) -> tuple[int, str, bytes]:
    return _ask(server, "POST", "/add-checkpoint", body)


def _raw(server: WitnessServer, request: bytes) -> bytes:
    """Everything that is answered to bytes as they stand, until the witness hangs up."""
    with socket.create_connection(server.server_address[:2], timeout=30) as sock:
        sock.sendall(request)
        sock.shutdown(socket.SHUT_WR)
        answered = b""
        while chunk := sock.recv(65_536):
            answered += chunk
        return answered


# ── what the text has it answer ──────────────────────────────────────────────────────────────────────


def test_a_first_checkpoint_is_cosigned(server: WitnessServer, log: SmallLog) -> None:
    status, _, body = _post(server, log.submission(0, 7))
    assert status == 200
    line = body.decode()
    assert line.endswith("\n")
    note = Note(log.checkpoint(7).note.text, (parse_signature(line[:-1]),))
    found = cosignature_by(note, KEY, verifier())
    assert found is not None
    assert found.time_seconds == 1_800_000_000


def test_a_log_that_grows_is_followed(server: WitnessServer, log: SmallLog) -> None:
    sizes = [0, 1, 2, 3, 4, 7, 8, 9, 16, 31, 32, 33, 40]
    for old, new in pairwise(sizes):
        assert _post(server, log.submission(old, new))[0] == 200


def test_the_same_checkpoint_is_cosigned_again_at_a_later_time(
    log: SmallLog, tmp_path: Path
) -> None:
    for now in (100, 200):
        answer = _witness(tmp_path / "state", log, now=now).submit(log.submission(0, 7))
        if now == 100:
            assert isinstance(answer, Cosigned)
    assert answer == Conflict(7, "expected old size 7, found 0")
    later = _witness(tmp_path / "state", log, now=300)
    assert isinstance(later.submit(log.submission(7, 7)), Cosigned)
    newest = later.newest(ORIGIN)
    assert newest is not None
    found = cosignature_by(newest.note, KEY, verifier())
    assert found is not None
    assert found.time_seconds == 300


def test_another_old_size_is_told_the_size(server: WitnessServer, log: SmallLog) -> None:
    assert _post(server, log.submission(3, 7)) == (409, "text/x.tlog.size", b"0\n")
    assert _post(server, log.submission(0, 7))[0] == 200
    for old, new in ((0, 9), (3, 9), (6, 7), (8, 9)):
        assert _post(server, log.submission(old, new)) == (409, "text/x.tlog.size", b"7\n")


def test_another_root_of_the_same_size_is_a_conflict(server: WitnessServer, log: SmallLog) -> None:
    assert _post(server, log.submission(0, 7))[0] == 200
    fork = log.forked(5)
    assert _post(server, fork.submission(7, 7)) == (409, "text/x.tlog.size", b"7\n")
    assert _post(server, log.submission(7, 8))[0] == 200


def test_an_old_size_beyond_the_new_one_is_no_request(server: WitnessServer, log: SmallLog) -> None:
    body = ConsistencyProof(8, (), log.checkpoint(7)).raw
    assert _post(server, body)[0] == 400


def test_a_request_is_looked_at_in_the_order_of_the_text(
    server: WitnessServer, log: SmallLog
) -> None:
    """Of several defects the first in docs/format.md is answered."""
    stranger = SmallLog(STRANGER)
    stranger.grow(7)
    unknown, good = stranger.checkpoint(7), log.checkpoint(7)
    unsigned = SignedCheckpoint(good.checkpoint, Note(good.note.text, unknown.note.signatures))
    assert _post(server, log.submission(0, 7))[0] == 200
    beyond = ConsistencyProof(8, (), unknown).raw
    assert _post(server, beyond.replace(b"old 8", b"old 08"))[0] == 400
    assert _post(server, beyond)[0] == 404
    assert _post(server, ConsistencyProof(8, (), unsigned).raw)[0] == 403
    assert _post(server, ConsistencyProof(8, (), good).raw)[0] == 400
    # Not the size cosigned last, and a path that does not hold.
    assert _post(server, ConsistencyProof(6, (), log.checkpoint(9)).raw)[0] == 409


def test_an_unknown_origin_is_not_found(server: WitnessServer) -> None:
    stranger = SmallLog(STRANGER)
    stranger.grow(3)
    assert _post(server, stranger.submission(0, 3))[0] == 404


def test_a_checkpoint_that_no_known_key_signed_is_forbidden(
    server: WitnessServer, log: SmallLog
) -> None:
    checkpoint = log.checkpoint(7)
    (signature,) = checkpoint.note.signatures
    stranger = SmallLog(STRANGER)
    stranger.grow(7)
    (other,) = stranger.checkpoint(7).note.signatures
    broken = parse_signature(signature.line[:-1])
    broken = type(broken)(
        broken.name, broken.keyid, bytes([broken.signature[0] ^ 1]) + broken.signature[1:]
    )
    for signatures in ((other,), (broken,), (signature, broken)):
        note = Note(checkpoint.note.text, signatures)
        body = ConsistencyProof(0, (), SignedCheckpoint(checkpoint.checkpoint, note)).raw
        assert _post(server, body)[0] == 403
    note = Note(checkpoint.note.text, (other, signature))
    body = ConsistencyProof(0, (), SignedCheckpoint(checkpoint.checkpoint, note)).raw
    assert _post(server, body)[0] == 200


@pytest.mark.parametrize("defect", ["a hash more", "a hash less", "another hash", "none", "turned"])
@pytest.mark.parametrize("old", [4, 6])
def test_a_proof_that_does_not_hold_is_unprocessable(
    server: WitnessServer, log: SmallLog, defect: str, old: int
) -> None:
    assert _post(server, log.submission(0, old))[0] == 200
    path = log.consistency(old, 13)
    wrong = {
        "a hash more": (*path, bytes(32)),
        "a hash less": path[:-1],
        "another hash": (*path[:-1], bytes(32)),
        "none": (),
        "turned": path[::-1],
    }[defect]
    body = ConsistencyProof(old, wrong, log.checkpoint(13)).raw
    assert _post(server, body)[0] == 422
    assert _post(server, log.submission(old, 13))[0] == 200


def test_a_path_where_none_belongs_is_unprocessable(server: WitnessServer, log: SmallLog) -> None:
    first = ConsistencyProof(0, (bytes(32),), log.checkpoint(7)).raw
    assert _post(server, first)[0] == 422
    assert _post(server, log.submission(0, 7))[0] == 200
    again = ConsistencyProof(7, (bytes(32),), log.checkpoint(7)).raw
    assert _post(server, again)[0] == 422


def _defects(log: SmallLog) -> dict[str, bytes]:
    good = log.submission(0, 7)
    text = log.checkpoint(7).note.text
    return {
        "nothing": b"",
        "no old line": good.partition(b"\n")[2],
        "a leading zero": good.replace(b"old 0\n", b"old 00\n"),
        "a sign": good.replace(b"old 0\n", b"old +0\n"),
        "two blanks": good.replace(b"old 0\n", b"old  0\n"),
        "a carriage return": good.replace(b"\n", b"\r\n"),
        "a size beyond 2^53": good.replace(b"old 0\n", b"old 9007199254740992\n"),
        "64 hashes": good.replace(b"old 0\n", b"old 0\n" + b"A" * 43 + b"=\n" * 1, 1).replace(
            b"A" * 43 + b"=\n", (b"A" * 43 + b"=\n") * 64
        ),
        "a short hash": good.replace(b"old 0\n", b"old 0\nAAAA\n"),
        "a hash in another base64": good.replace(b"old 0\n", b"old 0\n" + b"A" * 42 + b"B=\n"),
        "no checkpoint": b"old 0\n\n",
        "a checkpoint without a signature": b"old 0\n\n" + text.encode() + b"\n",
        "size 0": good.replace(b"\n7\n", b"\n0\n"),
        "an extension line": good.replace(text.encode(), text.encode() + b"more\n"),
        "a control character": good.replace(ORIGIN.encode(), ORIGIN.encode() + b"\x1b"),
        "no end": good[:-1],
    }


@pytest.mark.parametrize("defect", list(_defects(SmallLog(leaves=(bytes(32),) * 7))))
def test_what_is_no_request_is_a_bad_one(server: WitnessServer, log: SmallLog, defect: str) -> None:
    status, _, body = _post(server, _defects(log)[defect])
    assert status == 400
    assert body.count(b"\n") == 1
    assert _post(server, log.submission(0, 7))[0] == 200


def test_the_newest_checkpoint_is_handed_out(server: WitnessServer, log: SmallLog) -> None:
    where = f"/{name_of(ORIGIN)}/checkpoint"
    assert _ask(server, "GET", where)[0] == 404
    _post(server, log.submission(0, 7))
    _post(server, log.submission(7, 9))
    status, kind, body = _ask(server, "GET", where)
    assert (status, kind) == (200, "text/plain; charset=utf-8")
    newest = SignedCheckpoint.parse(body)
    assert newest.checkpoint == log.checkpoint(9).checkpoint
    assert newest.note.by(log.key)
    assert cosignature_by(newest.note, KEY, verifier()) is not None
    assert _ask(server, "GET", f"/{name_of(STRANGER)}/checkpoint")[0] == 404
    assert _ask(server, "GET", f"/{name_of(ORIGIN)}")[0] == 404
    assert _ask(server, "GET", "/")[0] == 404


def test_what_others_put_on_a_note_is_not_kept(witness: Witness, log: SmallLog) -> None:
    checkpoint = log.checkpoint(7)
    noise = [parse_signature(f"— n{i}.example {'A' * 96}") for i in range(63)]
    note = Note(checkpoint.note.text, (*noise, *checkpoint.note.signatures))
    body = ConsistencyProof(0, (), SignedCheckpoint(checkpoint.checkpoint, note)).raw
    assert isinstance(witness.submit(body), Cosigned)
    newest = witness.newest(ORIGIN)
    assert newest is not None
    assert [s.name for s in newest.note.signatures] == [ORIGIN, NAME]


# ── evidence ─────────────────────────────────────────────────────────────────────────────────────────


def _kept(witness: Witness, kind: str) -> list[Path]:
    return sorted((witness.folder / name_of(ORIGIN)).glob(f"*.{kind}"))


@pytest.mark.parametrize("old", [0, 7])
def test_two_roots_of_one_size_are_kept_as_a_split_view(
    witness: Witness, log: SmallLog, old: int
) -> None:
    witness.submit(log.submission(0, 7))
    fork = log.forked(5)
    for _ in range(2):
        answer = witness.submit(ConsistencyProof(old, (), fork.checkpoint(7)).raw)
        assert isinstance(answer, Conflict)
    (file,) = _kept(witness, "split-view")
    view = SplitView.parse(file.read_bytes())
    assert split_view.check(view, [log.key], verifier()) == log.key
    assert view.newer.checkpoint == fork.checkpoint(7).checkpoint


def test_a_fork_with_its_own_proof_is_kept_as_a_split_view(witness: Witness, log: SmallLog) -> None:
    witness.submit(log.submission(0, 7))
    fork = log.forked(5)
    assert isinstance(witness.submit(fork.submission(7, 12)), Refused)
    (file,) = _kept(witness, "split-view")
    view = SplitView.parse(file.read_bytes())
    assert split_view.check(view, [log.key], verifier()) == log.key
    assert _kept(witness, "inconsistent") == []


def test_a_good_checkpoint_with_a_bad_path_is_no_proof(witness: Witness, log: SmallLog) -> None:
    witness.submit(log.submission(0, 7))
    body = ConsistencyProof(7, (bytes(32),), log.checkpoint(12)).raw
    assert isinstance(witness.submit(body), Refused)
    assert _kept(witness, "split-view") == []
    (file,) = _kept(witness, "inconsistent")
    assert ConsistencyProof.parse(file.read_bytes()).checkpoint.checkpoint.size == 12


def test_evidence_cannot_fill_the_disk(log: SmallLog, tmp_path: Path) -> None:
    log.grow(EVIDENCE_FILES_MAX + 40)
    witness = _witness(tmp_path / "state", log)
    witness.submit(log.submission(0, 3))
    for size in range(4, EVIDENCE_FILES_MAX + 20):
        witness.submit(ConsistencyProof(3, (), log.checkpoint(size)).raw)
    assert len(_kept(witness, "inconsistent")) == EVIDENCE_FILES_MAX
    # A proof still finds its place.
    witness.submit(log.forked(1).submission(3, 3))
    assert len(_kept(witness, "split-view")) == 1


# ── what it keeps ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "content",
    [b"", b"old 7\n", b"\xff" * 100, b"x" * 70_000],
    ids=["empty", "other", "noise", "long"],
)
def test_a_state_that_cannot_be_read_is_not_an_empty_one(
    log: SmallLog, tmp_path: Path, content: bytes
) -> None:
    witness = _witness(tmp_path / "state", log)
    witness.submit(log.submission(0, 7))
    file = witness.folder / f"{name_of(ORIGIN)}.checkpoint"
    file.write_bytes(content)
    with serving(witness) as server:
        for body in (log.submission(0, 7), log.submission(7, 9)):
            assert _post(server, body)[0] == 500
        assert _ask(server, "GET", f"/{name_of(ORIGIN)}/checkpoint")[0] == 500
    assert file.read_bytes() == content
    with pytest.raises(IOFailure, match="expected the newest checkpoint cosigned"):
        _witness(tmp_path / "state", log)


def test_the_state_of_another_log_is_not_taken_for_this_one(log: SmallLog, tmp_path: Path) -> None:
    stranger = SmallLog(STRANGER)
    stranger.grow(3)
    witness = _witness(tmp_path / "state", log, stranger)
    witness.submit(stranger.submission(0, 3))
    states = witness.folder
    (states / f"{name_of(STRANGER)}.checkpoint").rename(states / f"{name_of(ORIGIN)}.checkpoint")
    with pytest.raises(IOFailure, match="of another origin"):
        witness.submit(log.submission(0, 7))


def test_logs_do_not_mix(log: SmallLog, tmp_path: Path) -> None:
    stranger = SmallLog(STRANGER)
    stranger.grow(30)
    witness = _witness(tmp_path / "state", log, stranger)
    assert isinstance(witness.submit(log.submission(0, 7)), Cosigned)
    assert isinstance(witness.submit(stranger.submission(0, 30)), Cosigned)
    assert isinstance(witness.submit(log.submission(7, 9)), Cosigned)


def test_a_folder_that_others_can_write_to_is_refused(log: SmallLog, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(Denied, match="only its owner can write to, found mode 0777"):
        _witness(folder, log)


def test_a_folder_that_cannot_be_made_is_named(log: SmallLog, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotCreate, match="cannot keep state here"):
        _witness(tmp_path / "file" / "state", log)


def test_what_cannot_be_written_is_not_cosigned(log: SmallLog, tmp_path: Path) -> None:
    witness = _witness(tmp_path / "state", log)
    assert isinstance(witness.submit(log.submission(0, 7)), Cosigned)
    # The name is taken by a folder, so that no file can be given it.
    file = witness.folder / f"{name_of(ORIGIN)}.checkpoint"
    kept = file.read_bytes()
    file.unlink()
    file.mkdir()
    (file / "in the way").write_text("")
    with serving(witness) as server:
        assert _post(server, log.submission(7, 9))[0] == 500
    (file / "in the way").unlink()
    file.rmdir()
    file.write_bytes(kept)
    assert isinstance(witness.submit(log.submission(7, 9)), Cosigned)
    assert [each.name for each in witness.folder.iterdir() if each.name.startswith(".")] == []


def test_no_cosignature_is_handed_out_that_may_be_gone_after_a_power_loss(
    witness: Witness, log: SmallLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/{name_of(ORIGIN)}/checkpoint"
    with serving(witness) as server:
        assert _post(server, log.submission(0, 7))[0] == 200
        with monkeypatch.context() as broken:
            break_folders(broken)
            assert _post(server, log.submission(7, 9))[0] == 500
            assert _ask(server, "GET", path)[0] == 500
        # The new one may be there, whole. It is put on the disk before it is handed out.
        status, _, raw = _ask(server, "GET", path)
        assert status == 200
        assert SignedCheckpoint.parse(raw).checkpoint == log.checkpoint(9).checkpoint
        assert _post(server, log.submission(9, 9))[0] == 200


def test_who_asks_waits_for_who_writes(
    witness: Witness, log: SmallLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a checkpoint is put on the disk, nobody is shown it."""
    fsync, writing, go_on = os.fsync, threading.Event(), threading.Event()

    def stop(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            writing.set()
            assert go_on.wait(60)
        fsync(descriptor)

    path = f"/{name_of(ORIGIN)}/checkpoint"
    with serving(witness) as server, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(os, "fsync", stop)
        posted = pool.submit(_post, server, log.submission(0, 7))
        try:
            assert writing.wait(60)
            monkeypatch.setattr(state, "LOCK_SECONDS", 0.05)
            assert _ask(server, "GET", path)[0] == 503
        finally:
            go_on.set()
        assert posted.result()[0] == 200
        monkeypatch.undo()
        assert _ask(server, "GET", path)[0] == 200


def test_many_submitters_to_two_servers_never_roll_it_back(log: SmallLog, tmp_path: Path) -> None:
    log.grow(200)
    taken: list[tuple[int, int]] = []
    backwards: list[bool] = []

    def submit(client: WitnessClient, number: int) -> None:
        choose, old = random.Random(number), 0
        for _ in range(12):
            new = min(200, old + choose.randint(1, 25))
            try:
                client.add_checkpoint(
                    old, log.consistency(old, new) if old else (), log.checkpoint(new).note
                )
                taken.append((old, new))
                old = new
            except WitnessConflict as conflict:
                backwards.append(conflict.size < old)
                old = conflict.size
            newest = client.newest(ORIGIN)
            assert newest is not None
            assert newest.checkpoint.size >= old

    with (
        serving(_witness(tmp_path / "state", log)) as one,
        serving(_witness(tmp_path / "state", log)) as other,
        ThreadPoolExecutor(8) as pool,
    ):
        clients = [WitnessClient(server.url, KEY) for server in (one, other)]
        for done in [pool.submit(submit, clients[n % 2], n) for n in range(8)]:
            done.result()
        newest = clients[0].newest(ORIGIN)
    # Each size was left behind once, and the steps make one chain: two from one size would be a roll back.
    steps = dict(sorted(step for step in taken if step[0] != step[1]))
    grown = [step for step in taken if step[0] != step[1]]
    assert len(steps) == len(grown)
    assert not any(backwards)
    at = 0
    for _ in steps:
        at = steps[at]
    assert newest is not None
    assert at == newest.checkpoint.size == max(new for _, new in grown)


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────────────


def test_one_connection_serves_many_requests(server: WitnessServer, log: SmallLog) -> None:
    connection = _connect(server)
    connection.connect()
    sock = connection.sock
    for body, status in (
        (log.submission(0, 7), 200),
        (log.submission(0, 9), 409),
        (b"old", 400),
        (log.submission(7, 9), 200),
    ):
        connection.request("POST", "/add-checkpoint", body)
        response = connection.getresponse()
        response.read()
        assert response.status == status
        assert connection.sock is sock
    connection.close()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /add-checkpoint HTTP/1.1\r\nHost: w\r\n\r\n", 411),
        (b"POST /add-checkpoint HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (
            b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
            411,
        ),
        (b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 0x3\r\n\r\nabc", 400),
        (b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (
            b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (PROOF_BYTES_MAX + 1),
            413,
        ),
        (b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
        (b"GET /add-checkpoint HTTP/1.1\r\n\r\n", 405),
        (b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 404),
        (b"BREW /add-checkpoint HTTP/1.1\r\n\r\n", 501),
        (b"GET / HTTP/3.0\r\n\r\n", 505),
        (b"\x1b[31mGET\x07 /\r\n\r\n", 400),
        (b"GET /" + b"a" * (65_537 - 5), 414),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", 431),
    ],
)
def test_what_http_itself_refuses(server: WitnessServer, request_bytes: bytes, status: int) -> None:
    answered = _raw(server, request_bytes)
    head, _, body = answered.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == str(status).encode()
    assert b"Connection: close" in head
    assert body.endswith(b"\n")
    assert body.isascii()
    assert b"\x1b" not in answered


def test_the_codes_of_http_itself_are_told_of() -> None:
    format_text = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
    (in_format,) = re.findall(r"Beside these stand HTTP's own (.*?)\. A request", format_text, re.S)
    (in_module,) = re.findall(r"those of HTTP itself: (.*?)\.\n", str(server_module.__doc__), re.S)
    for told in (in_format, in_module):
        codes = [int(code) for code in re.findall(r"\b[45]\d\d\b", told)]
        assert codes == [405, 411, 413, 414, 431, 500, 501, 503, 505]


def test_a_body_that_stops_short_is_not_answered(server: WitnessServer, log: SmallLog) -> None:
    body = log.submission(0, 7)
    head = b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (len(body) + 1)
    assert _raw(server, head + body) == b""
    assert _post(server, log.submission(0, 7))[0] == 200


def test_a_head_without_end_is_cut_off(server: WitnessServer, log: SmallLog) -> None:
    with socket.create_connection(server.server_address[:2], timeout=30) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n")
        cut_off = False
        while not cut_off:
            try:
                sock.sendall(b"a: " + b"b" * 60_000 + b"\r\n")
            except ConnectionError:
                cut_off = True
    assert _post(server, log.submission(0, 7))[0] == 200


@pytest.mark.parametrize(
    "said", [b"", b"POST /add", b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 9\r\n\r\nold"]
)
def test_a_slow_client_is_hung_up_on(witness: Witness, log: SmallLog, said: bytes) -> None:
    with (
        serving(witness, request_seconds=0.1) as server,
        socket.create_connection(server.server_address[:2], timeout=30) as sock,
    ):
        # Who was too slow already finds it hung up on.
        with suppress(ConnectionError):
            sock.sendall(said)
        assert _hung_up(sock)


def _hung_up(sock: socket.socket) -> bool:
    try:
        return sock.recv(100) == b""
    except ConnectionError:
        return True


def test_a_client_that_drips_is_slow_too(witness: Witness) -> None:
    with (
        serving(witness, request_seconds=0.3) as server,
        socket.create_connection(server.server_address[:2], timeout=30) as sock,
    ):
        with suppress(ConnectionError):
            sock.sendall(b"GET / HTTP/1.1\r\n")
        dripping = threading.Event()

        def drip() -> None:
            # Each byte would begin a socket's own timeout anew.
            while not dripping.wait(0.02):
                try:
                    sock.sendall(b"a")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            assert _hung_up(sock)
        finally:
            dripping.set()
            thread.join()


def test_only_so_many_are_served_at_a_time(witness: Witness, log: SmallLog) -> None:
    with serving(witness, connections_max=2) as server:
        held = [_connect(server) for _ in range(2)]
        for connection in held:
            connection.request("GET", "/")
            connection.getresponse().read()
            connection.request("POST", "/add-checkpoint", b"old")
            connection.getresponse().read()
        assert _raw(server, b"").startswith(b"HTTP/1.1 503 ")
        for connection in held:
            connection.close()
        # A place is free as soon as its thread has noticed.
        while _ask(server, "GET", "/")[0] == 503:
            pass
        assert _post(server, log.submission(0, 7))[0] == 200


# ── its own client ───────────────────────────────────────────────────────────────────────────────────


def test_the_client_collects_and_asks(server: WitnessServer, log: SmallLog) -> None:
    for client in (WitnessClient(server.url, KEY), WitnessClient(f"{server.url}/")):
        seen = client.newest(ORIGIN)
        old = 0 if seen is None else seen.checkpoint.size
        new = old + 7
        path = log.consistency(old, new) if old else ()
        (line,) = client.add_checkpoint(old, path, log.checkpoint(new).note)
        assert line.is_by(KEY)
        newest = client.newest(ORIGIN)
        assert newest is not None
        assert newest.checkpoint.size == new
    with pytest.raises(WitnessConflict) as conflict:
        client.add_checkpoint(3, log.consistency(3, 20), log.checkpoint(20).note)
    assert conflict.value.size == 14
    with pytest.raises(WitnessConflict, match="another root of size 14") as forked:
        client.add_checkpoint(14, (), log.forked(5).checkpoint(14).note)
    assert forked.value.size == 14
    with pytest.raises(WitnessRefused, match="the proof does not hold"):
        client.add_checkpoint(14, (), log.checkpoint(20).note)
    assert client.newest(STRANGER) is None


# ── as a process ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "witness.pem"


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "causebook", "witness", *arguments]


def _serve(key: Path, log: SmallLog, folder: Path, listen: str = "127.0.0.1:0") -> list[str]:
    return _command(
        *("serve", "--key", str(key), "--name", NAME, "--log", log.key.vkey),
        *("--state", str(folder), "--listen", listen),
    )


@contextmanager
def _process(
    key: Path, log: SmallLog, folder: Path
) -> Iterator[tuple[subprocess.Popen[str], WitnessClient]]:
    """A witness in a process of its own, and a client that knows no key of it."""
    process = subprocess.Popen(
        _serve(key, log, folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith(f"{NAME} listens at http://127.0.0.1:")
        yield process, WitnessClient(said.split()[-1])
    finally:
        process.kill()
        process.communicate()


def _make_key(file: Path) -> str:
    made = subprocess.run(
        _command("key", "--name", NAME, str(file)), capture_output=True, text=True, check=True
    )
    return made.stdout.strip()


def test_a_key_is_made_for_its_owner_alone(key_file: Path) -> None:
    vkey = _make_key(key_file)
    assert vkey.startswith(f"{NAME}+")
    assert key_file.stat().st_mode & 0o777 == 0o600
    again = subprocess.run(
        _command("key", "--name", NAME, str(key_file)), capture_output=True, text=True
    )
    assert again.returncode == 73
    assert again.stderr.startswith("error: ")
    assert again.stderr.count("\n") == 2
    named = subprocess.run(
        _command("key", "--name", "w 1", str(key_file.with_name("other.pem"))),
        capture_output=True,
        text=True,
    )
    assert named.returncode == 64
    assert not key_file.with_name("other.pem").exists()


def test_a_cosignature_that_left_is_on_the_disk(
    key_file: Path, log: SmallLog, tmp_path: Path
) -> None:
    log.grow(3_000)
    _make_key(key_file)
    folder, size, rng = tmp_path / "state", 0, random.Random(4)
    for _ in range(5):
        with _process(key_file, log, folder) as (process, client):
            newest = client.newest(ORIGIN)
            found = 0 if newest is None else newest.checkpoint.size
            # One more may have been kept than was answered, and never one less.
            assert found >= size
            size = found
            enough, goal = threading.Event(), size + rng.randint(3, 60)

            def kill(
                process: subprocess.Popen[str] = process, when: threading.Event = enough
            ) -> None:
                when.wait()
                process.kill()

            killer = threading.Thread(target=kill)
            killer.start()
            while True:
                new = size + rng.randint(1, 3)
                path = log.consistency(size, new) if size else ()
                try:
                    client.add_checkpoint(size, path, log.checkpoint(new).note)
                except Unreachable:
                    break  # killed, somewhere in the middle of it
                size = new
                if size >= goal:
                    enough.set()
            killer.join()
    with _process(key_file, log, folder) as (_, client):
        newest = client.newest(ORIGIN)
        assert newest is not None
        assert newest.checkpoint.size >= size > 0
        assert newest.checkpoint == log.checkpoint(newest.checkpoint.size).checkpoint


def test_ctrl_c_ends_it_in_one_line(key_file: Path, log: SmallLog, tmp_path: Path) -> None:
    _make_key(key_file)
    with _process(key_file, log, tmp_path / "state") as (process, client):
        client.add_checkpoint(0, (), log.checkpoint(7).note)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert told.splitlines()[0] == "cosigned size 7"
    assert told.splitlines()[1] == "error: interrupted"
    assert len(told.splitlines()) == 3


def test_a_port_in_use_is_one_line(key_file: Path, log: SmallLog, tmp_path: Path) -> None:
    _make_key(key_file)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        run = subprocess.run(
            _serve(key_file, log, tmp_path / "state", where), capture_output=True, text=True
        )
    assert run.returncode == Busy.exit_code
    assert run.stderr.splitlines()[0] == f"error: {where}: something listens here already"
    assert len(run.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        ({"--listen": "7433"}, 64, "--listen: expected HOST:PORT"),
        ({"--listen": "127.0.0.1:70000"}, 64, "--listen: expected a port"),
        ({"--listen": "192.0.2.1:7433"}, 64, "192.0.2.1:7433: cannot listen here"),
        ({"--log": "audit.example.com/team"}, 65, "vkey: expected NAME+"),
        ({"--log": KEY.vkey}, 65, "expected type 0x01, a log's, found 0x04"),
        ({"--key": "nothing.pem"}, 66, "nothing.pem: the witness's key is not here"),
        ({"--name": "w+1"}, 64, "--name: expected a name"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(
    key_file: Path, log: SmallLog, tmp_path: Path, change: dict[str, str], code: int, told: str
) -> None:
    _make_key(key_file)
    arguments = _serve(key_file, log, tmp_path / "state")
    for option, value in change.items():
        arguments[arguments.index(option) + 1] = value
    run = subprocess.run(arguments, capture_output=True, text=True)
    assert run.returncode == code
    assert told in run.stderr.splitlines()[0]
    assert len(run.stderr.splitlines()) <= 2


def test_the_log_itself_is_no_witness(key_file: Path, tmp_path: Path) -> None:
    _make_key(key_file)
    key_file.write_bytes(
        private_key(ORIGIN).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    run = subprocess.run(
        _serve(key_file, SmallLog(), tmp_path / "state"), capture_output=True, text=True
    )
    assert run.returncode == 64
    assert "the key of a log that it would cosign for" in run.stderr


def test_a_log_is_named_once(log: SmallLog) -> None:
    with pytest.raises(NoteError, match="was given before"):
        known_logs([log.key.vkey, log.key.vkey])
    assert known_logs([log.key.vkey]) == (log.key,)
    for vkey in ("\udcff" + log.key.vkey[1:], "", log.key.vkey + "\n"):
        with pytest.raises(NoteError, match=r"expected NAME\+"):
            known_logs([vkey])


def test_what_a_killed_process_left_is_taken_away(log: SmallLog, tmp_path: Path) -> None:
    witness = _witness(tmp_path / "state", log)
    left = witness.folder / f".{name_of(ORIGIN)}.checkpoint.0123"
    left.write_bytes(b"half")
    _witness(tmp_path / "state", log)
    assert not left.exists()
    assert os.listdir(witness.folder) == []
