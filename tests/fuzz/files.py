"""Parsers that take a file, a folder or a connection, each made into a function of bytes.

Nothing here is a stand-in: files are files, requests come over a socket into the witness's own handler, and
answers come from a server on the loopback.
"""

from __future__ import annotations

import io
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from causebook.adapters import split_view, timestamps
from causebook.adapters.bundle.archive import MANIFEST, Archive, order, write_archive
from causebook.adapters.bundle.manifest import Manifest, read_file, read_manifest
from causebook.adapters.checking.check import check_files
from causebook.adapters.key_files import public_of_pem
from causebook.adapters.models.script import SCRIPT_BYTES_MAX, ScriptedModel
from causebook.adapters.protocol import load_protocol
from causebook.adapters.sealing.memory import SealMemory
from causebook.adapters.signatures import verifier
from causebook.adapters.witness.client import WitnessClient
from causebook.adapters.witness.server import WitnessServer
from causebook.domain.policy import Policy
from causebook.domain.proof import SplitView
from causebook.domain.trust import Trust
from tests.adapters.bundles import log_key_of, packed
from tests.adapters.logs import ORIGIN, witness_key
from tests.adapters.witnesses import make_witness

from . import inputs, seeds

MEGABYTES: Final = 1024 * 1024
verify: Final = verifier()


def convict(view: SplitView) -> None:
    """Ask whether a split view convicts the holder of the log's key. Raises `ProofError`, `NoteError`."""
    split_view.check(view, [seeds.log().key], verify)


def _file(name: str, data: bytes) -> Path:
    path = seeds.folder() / name
    path.write_bytes(data)
    return path


# ── bundles ──────────────────────────────────────────────────────────────────────────────────────────


def bundle(data: bytes) -> bytes:
    """The zip and its manifest; every entry is read, and all of it written again."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        archive = Archive(file)
        content = {name: archive.read(name) for name in archive.entries}
        written = io.BytesIO()
        write_archive(written, ((name, content[name]) for name in sorted(content, key=order)))
        if written.getvalue() != data:
            raise AssertionError("a zip with two spellings")
        manifest = read_manifest(archive)
        for name in manifest.files:
            read_file(archive, manifest, name)
    return data


def bundled_file(data: bytes) -> None:
    """One file of a bundle replaced, the manifest made to fit: the first byte says which, the rest is it."""
    files = dict(seeds.bundle_files())
    name = list(files)[(data[0] if data else 0) % len(files)]
    files[name] = data[1:]
    manifest = Manifest.parse(dict(seeds.bundle_files())[MANIFEST])
    path = seeds.folder() / "bundled.zip"
    if name == MANIFEST:
        with path.open("wb") as file:
            write_archive(file, ((each, files[each]) for each in sorted(files, key=order)))
    else:
        del files[MANIFEST]
        packed(path, files, manifest)
    _check(path)


def checked_file(data: bytes) -> None:
    """A file that was handed over, told by its content, against all that an auditor can have."""
    _check(_file("handed-over", data))


def checked_tiles(data: bytes) -> None:
    """One file of a log as tiles replaced: the first byte says which, the rest is it."""
    names = [name for name, _ in seeds.tile_files()]
    place = seeds.folder() / "hostile-tiles"
    if not place.exists():
        shutil.copytree(seeds.folder() / "tiles", place)
    path = place / names[(data[0] if data else 0) % len(names)]
    honest = path.read_bytes()
    path.write_bytes(data[1:])
    try:
        _check(place)
    finally:
        path.write_bytes(honest)


@cache
def _against() -> tuple[Trust, Policy]:
    return Trust.parse(seeds.trusts()[0]), Policy.parse(seeds.policies()[0])


def _check(path: Path) -> None:
    trust, policy = _against()
    keys = [log_key_of(seeds.forge()), seeds.log().key]
    for report in check_files([str(path)], trust=trust, policy=policy, log_keys=keys):
        for answer in report.answers:
            if any("\n" in str(fault) for fault in answer.faults):
                raise AssertionError(f"a finding of more than one line: {answer.faults!r}")


# ── what a user hands over ───────────────────────────────────────────────────────────────────────────


def protocol(data: bytes) -> None:
    load_protocol(_file("protocol.toml", data))


def script(data: bytes) -> None:
    ScriptedModel(_file("script.jsonl", data))


def public_pem(data: bytes) -> None:
    public_of_pem(data, "key.pem")


def sealed_last(data: bytes) -> bytes | None:
    found = SealMemory(_file("log.sealed", data), ORIGIN).read()
    return None if found is None else found.note.raw


# ── timestamps ───────────────────────────────────────────────────────────────────────────────────────


def timestamp(data: bytes) -> None:
    """A reply to a checkpoint's text, against the authority of the vectors where they are at hand."""
    timestamps.verify(data, b"hello", _authority())


def certificates(data: bytes) -> None:
    timestamps.certificates([_file("authority.pem", data)])


@cache
def _authority() -> timestamps.Certificates:
    found = sorted((seeds.VECTORS / "rfc3161-client").rglob("test_tsa/ts_chain.pem"))
    return timestamps.certificates(found) if found else timestamps.Certificates(())


# ── witnesses ────────────────────────────────────────────────────────────────────────────────────────


@cache
def _server() -> WitnessServer:
    """A witness that is bound to a port and not serving: connections are handed to its handler here."""
    folder = seeds.folder() / "witness"
    witness = make_witness(folder, seeds.WITNESS, [seeds.log().key], lambda: 1_764_500_000.0)
    server = WitnessServer(witness, request_seconds=2.0)
    seeds.at_exit(server.server_close)
    return server


def submitted(data: bytes) -> None:
    """The body of an `add-checkpoint` request."""
    _server().witness.submit(data)


def request(data: bytes) -> None:
    """What a client sends on one connection. Answers come back, or none; the handler raises nothing."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        # By a thread: more than a socket's buffers hold waits until it is read, or nobody reads it.
        sender = threading.Thread(target=_send, args=(ours, data))
        sender.start()
        _server().finish_request(theirs, ("127.0.0.1", 0))
        theirs.shutdown(socket.SHUT_RDWR)
        sender.join()
        answer = b"".join(iter(lambda: ours.recv(65536), b""))
    # A request line without a version is of HTTP/0.9, which has answers without a head.
    is_old = len(data.lstrip(b"\r\n").partition(b"\n")[0].split()) < 3
    if answer and not answer.startswith(b"HTTP/1.1 ") and not is_old:
        raise AssertionError(f"an answer that is not one: {answer[:80]!r}")


def _send(sock: socket.socket, data: bytes) -> None:
    try:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other side has closed


class _Answering(threading.Thread):
    """A server on the loopback that reads a request and sends what `data` is, and no more."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.data = b""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        seeds.at_exit(self._listening.close)

    def run(self) -> None:
        while True:
            try:
                sock, _ = self._listening.accept()
            except OSError:
                return
            with sock:
                _receive_request(sock)
                _send(sock, self.data)
                # Closed with bytes unread, a socket is reset, and the answer may be lost.
                while _received(sock):
                    pass


def _receive_request(sock: socket.socket) -> None:
    got = b""
    while b"\r\n\r\n" not in got:
        more = _received(sock)
        if not more:
            return
        got += more


def _received(sock: socket.socket) -> bytes:
    try:
        return sock.recv(65536)
    except OSError:
        return b""


@cache
def _answering() -> _Answering:
    server = _Answering()
    server.start()
    return server


def answered(data: bytes) -> None:
    """What a witness, or whoever is at its URL, answers: to the log that submits."""
    server = _answering()
    server.data = data
    client = WitnessClient(server.url, witness_key(seeds.WITNESS), seconds=2.0)
    client.add_checkpoint(1, (), seeds.log().checkpoint(7).note)


def newest(data: bytes) -> None:
    """The same, asked for the newest checkpoint that it cosigned."""
    server = _answering()
    server.data = data
    WitnessClient(server.url, witness_key(seeds.WITNESS), seconds=2.0).newest(ORIGIN)


Parser = tuple[
    str, Callable[[bytes], bytes | None], Callable[[], tuple[bytes, ...]], bool, int, int
]
"""(name, function, valid inputs, whether it is slow, bytes that it may allocate beside its input's, how long
an input is that grows one thing only)."""

_PLENTY: Final = 100 * 1024
PARSERS: Final[tuple[Parser, ...]] = (
    ("bundle", bundle, seeds.bundles, False, 4 * MEGABYTES, _PLENTY),
    (
        *("file of a bundle", bundled_file, lambda: seeds.indexed(seeds.bundle_files)),
        *(True, 16 * MEGABYTES, _PLENTY),
    ),
    ("file to check", checked_file, inputs.handed_over, True, 16 * MEGABYTES, _PLENTY),
    (
        *("tile", checked_tiles, lambda: seeds.indexed(seeds.tile_files)),
        *(True, 24 * MEGABYTES, _PLENTY),
    ),
    ("protocol", protocol, inputs.protocols, False, 4 * MEGABYTES, 24 * 1024),
    (
        # It asks for as many bytes as a script may have, before it knows how many there are.
        *("script of a model", script, inputs.scripts, False),
        *(SCRIPT_BYTES_MAX + 4 * MEGABYTES, _PLENTY),
    ),
    ("public key in PEM", public_pem, inputs.pems, False, 4 * MEGABYTES, _PLENTY),
    ("sealer's memory", sealed_last, seeds.notes, False, 4 * MEGABYTES, _PLENTY),
    ("timestamp", timestamp, inputs.replies, False, 4 * MEGABYTES, _PLENTY),
    ("certificates", certificates, inputs.chains, False, 4 * MEGABYTES, _PLENTY),
    ("submission to a witness", submitted, seeds.consistency_proofs, False, 4 * MEGABYTES, _PLENTY),
    ("request to a witness", request, inputs.http_requests, True, 4 * MEGABYTES, _PLENTY),
    ("answer to a submission", answered, inputs.http_answers, False, 4 * MEGABYTES, _PLENTY),
    ("newest of a witness", newest, inputs.http_answers, False, 4 * MEGABYTES, _PLENTY),
)
