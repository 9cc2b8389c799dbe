"""Attacks that witnesses are there for: a fork, a stale view, cosignatures that are not what they seem.

A ledger is sealed under the eyes of three real witnesses and a policy of two of them; each attack has its
untouched twin, which passes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from causebook import Ledger
from causebook.adapters import split_view
from causebook.adapters.sealing.memory import SealMemory
from causebook.adapters.signatures import verifier
from causebook.adapters.store.url import open_store
from causebook.adapters.witness.client import WitnessClient, WitnessConflict
from causebook.adapters.witness.server import WitnessServer
from causebook.adapters.witness.state import Cosigned, Refused, Witness, name_of
from causebook.domain.checkpoint import Checkpoint, SignedCheckpoint
from causebook.domain.note import COSIGNATURE, ED25519, Note, NoteKey, parse_signature
from causebook.domain.policy import Policy, PolicyError
from causebook.domain.proof import ConsistencyProof, SplitView
from tests.adapters.cli.conftest import Done, invoke
from tests.adapters.logs import SmallLog, witness_key
from tests.adapters.witnesses import make_witness, serving

ORIGIN = "audit.example.com/team"
NAMES = ("w1.example.com", "w2.example.com", "w3.example.com")


@dataclass
class Office:
    """A ledger, three witnesses that know its log, and the policy that names them; the witnesses' clock."""

    folder: Path
    url: str
    clock: Callable[[], float] = time.time
    servers: list[WitnessServer] = field(default_factory=list)

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    @property
    def log_key(self) -> NoteKey:
        private: Any = load_pem_private_key((self.keys / "log.pem").read_bytes(), None)
        return NoteKey(ORIGIN, private.public_key().public_bytes_raw(), ED25519)

    @property
    def policy(self) -> Path:
        return self.folder / "policy"

    def open(self, stack: ExitStack) -> None:
        """Found the ledger, start the witnesses, write the policy."""
        Ledger.found(self.url, keys=self.keys, origin=ORIGIN).close()
        lines = [f"log {self.log_key.vkey}"]
        for name in NAMES:
            witness = make_witness(self.folder / name, name, [self.log_key], lambda: self.clock())
            self.servers.append(stack.enter_context(serving(witness)))
            lines.append(f"witness {name[:2]} {witness_key(name).vkey} {self.servers[-1].url}")
        lines += ["group two 2 w1 w2 w3", "quorum two"]
        self.policy.write_text("".join(f"{line}\n" for line in lines))

    def work(self, task: str, url: str = "") -> None:
        """Append a few records."""
        with Ledger.open(url or self.url, keys=self.keys) as ledger:
            ledger.task(task, spec="Do it.").start_attempt()

    def seal(self, url: str = "") -> Done:
        """Seal, with every witness of the policy."""
        where = ("--ledger", url or self.url, "--keys", str(self.keys))
        return invoke("seal", *where, "--policy", str(self.policy))

    def verify(self, *options: str, url: str = "") -> Done:
        """Verify against the policy; no pin, which would find some of this by itself."""
        where = ("--ledger", url or self.url, "--policy", str(self.policy))
        return invoke("verify", *where, "--no-pin", "--json", *options)


@pytest.fixture
def office(tmp_path: Path, store_url: str) -> Iterator[Office]:
    """Sealed and cosigned by all three, and found intact."""
    office = Office(tmp_path, store_url)
    with ExitStack() as stack:
        office.open(stack)
        office.work("T-1")
        assert office.seal().code == 0
        done = office.verify("--max-age", "1h")
        assert (done.code, _check(done, "witnesses")["status"]) == (0, "PASS")
        yield office


def _check(done: Done, name: str) -> Any:
    (found,) = [each for each in done.json["checks"] if each["check"] == name]
    return found


def _findings(done: Done, name: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = _check(done, name)["findings"]
    return found


def test_one_witness_key_named_twice(office: Office) -> None:
    """Two of three, where two are one: its holder would be a quorum."""
    text = office.policy.read_text()
    key = witness_key(NAMES[0])
    twin = NoteKey("another.example/name", key.public, COSIGNATURE)
    office.policy.write_text(text.replace(witness_key(NAMES[1]).vkey, twin.vkey))
    done = office.verify()
    assert done.code == PolicyError.exit_code == 65
    assert "policy, line 3: this public key stands in line 2 already" in done.err
    office.policy.write_text(text)
    assert office.verify().code == 0


def test_a_stale_checkpoint_under_valid_cosignatures(tmp_path: Path, store_url: str) -> None:
    office = Office(tmp_path, store_url, clock=lambda: time.time() - 3 * 86_400)
    with ExitStack() as stack:
        office.open(stack)
        assert office.seal().code == 0
        assert office.verify().code == 0
        assert office.verify("--max-age", "4d").code == 0
        stale = office.verify("--max-age", "2d")
        assert stale.code == 22
        assert len(_findings(stale, "witnesses")) == 1
        # One witness that lends its clock makes it no younger: the second newest counts.
        office.servers[0].witness.submit(_again(office))
        assert office.verify("--max-age", "2d").code == 22
        office.clock = time.time
        office.work("T-1")
        assert office.seal().code == 0
        assert office.verify("--max-age", "2d").code == 0


def _again(office: Office) -> bytes:
    newest = office.servers[0].witness.newest(ORIGIN)
    assert newest is not None
    return ConsistencyProof(newest.checkpoint.size, (), newest).raw


def test_a_cosignature_moved_to_another_checkpoint(office: Office) -> None:
    with closing(open_store(office.url)) as store:
        first = store.checkpoint()
    assert first is not None
    office.work("T-2")
    # Sealed without the witnesses, so that none of theirs stands on it.
    assert invoke("seal", "--ledger", office.url, "--keys", str(office.keys)).code == 0
    untouched = office.verify()
    assert (untouched.code, _check(untouched, "witnesses")["status"]) == (0, "PASS")
    with closing(open_store(office.url)) as store:
        newest = store.checkpoint()
        assert newest is not None
        assert newest.size > first.size
        for line in first.cosignatures:
            store.add_to_checkpoint(newest.size, "cosignature", line)
    done = office.verify()
    assert done.code == 28
    (finding,) = _findings(done, "witnesses")
    assert finding["place"] == f"checkpoint {newest.size}"
    assert "that holds, found one that does not" in finding["found"]


def test_fewer_witnesses_than_the_policy_asks_for(office: Office) -> None:
    office.work("T-2")
    for server in office.servers[1:]:
        server.witness.folder.rename(server.witness.folder.with_suffix(".away"))
        server.witness.folder.write_text("not a folder")
    sealed = office.seal()
    assert sealed.code == 69
    # The older checkpoint still has its two: what lies after it is what the witnesses have not seen.
    assert office.verify().code == 0
    text = office.policy.read_text()
    office.policy.write_text(text.replace("group two 2", "group two 3"))
    assert office.verify().code == 0
    stranger = witness_key("w4.example.com").vkey
    office.policy.write_text(
        text.replace(witness_key(NAMES[1]).vkey, stranger).replace("two 2", "two 3")
    )
    done = office.verify()
    assert done.code == 22
    assert "without w2" in _findings(done, "witnesses")[0]["found"]


def _fork(office: Office) -> str:
    """Another ledger of the same name and the same keys, as large as the first, its sealer's memory gone."""
    url = f"sqlite:///{office.folder / 'fork.db'}"
    SealMemory.of(office.keys, ORIGIN).path.unlink()
    Ledger.found(url, keys=office.keys, origin=ORIGIN).close()
    office.work("T-1", url)
    return url


def test_a_fork_submitted_to_the_witness(office: Office) -> None:
    fork = _fork(office)
    # Asked first, a witness shows what it has seen, and nothing is signed.
    refused = office.seal(fork)
    assert refused.code == 27
    assert invoke("checkpoint", "--ledger", fork).code == 66
    # Sealed without witnesses and brought to one afterwards, it is refused and kept.
    assert invoke("seal", "--ledger", fork, "--keys", str(office.keys)).code == 0
    forked = SignedCheckpoint.parse(invoke("checkpoint", "--ledger", fork).out.encode())
    client = WitnessClient(office.servers[0].url, witness_key(NAMES[0]))
    with pytest.raises(WitnessConflict, match="another root of size"):
        client.add_checkpoint(forked.checkpoint.size, (), forked.note)
    (kept,) = (office.folder / NAMES[0] / name_of(ORIGIN)).iterdir()
    view = SplitView.parse(kept.read_bytes())
    assert split_view.check(view, [office.log_key], verifier()) == office.log_key
    # Whoever was shown the fork finds it by the policy, and by asking.
    done = office.verify(url=fork)
    assert done.code == 22
    asked = office.verify("--witness", office.servers[1].url, url=fork)
    assert asked.code == 27
    (finding, *_) = _findings(asked, "witnesses")
    assert finding["place"] == office.servers[1].url
    # And whoever was shown the first is told that it is the one.
    assert office.verify("--witness", office.servers[1].url).code == 0


def test_a_fork_is_written_out_as_a_proof_that_anybody_can_check(office: Office) -> None:
    fork = _fork(office)
    assert invoke("seal", "--ledger", fork, "--keys", str(office.keys)).code == 0
    elsewhere = office.folder / "auditor"
    elsewhere.mkdir()
    file = elsewhere / "split"
    asked = office.verify(
        *("--witness", office.servers[0].url, "--split-view", str(file)), url=fork
    )
    assert asked.code == 27
    view = SplitView.parse(file.read_bytes())
    assert split_view.check(view, [office.log_key], verifier()) == office.log_key


# ── what a witness is sent ───────────────────────────────────────────────────────────────────────────


@pytest.fixture
def log() -> SmallLog:
    log = SmallLog(ORIGIN)
    log.grow(20)
    return log


@pytest.fixture
def witness(log: SmallLog, tmp_path: Path) -> Witness:
    witness = make_witness(tmp_path / "state", NAMES[0], [log.key], time.time)
    assert isinstance(witness.submit(log.submission(0, 9)), Cosigned)
    return witness


def _body(old: int, log: SmallLog, checkpoint: Checkpoint, note: Note) -> bytes:
    path = log.consistency(old, checkpoint.size)
    return ConsistencyProof(old, path, SignedCheckpoint(checkpoint, note)).raw


def test_a_proof_against_an_unsigned_root(witness: Witness, log: SmallLog) -> None:
    """The proof holds; that the log said so does not."""
    signed = log.checkpoint(12)
    other = SmallLog("other.example/log")
    other.grow(12)
    for signatures in (other.checkpoint(12).note.signatures, log.checkpoint(11).note.signatures):
        note = Note(signed.note.text, signatures)
        answer = witness.submit(_body(9, log, signed.checkpoint, note))
        assert isinstance(answer, Refused)
        assert answer.status == 403
    assert isinstance(witness.submit(_body(9, log, signed.checkpoint, signed.note)), Cosigned)


def test_a_root_put_in_place_of_the_one_that_was_signed(witness: Witness, log: SmallLog) -> None:
    signed, fork = log.checkpoint(12), log.forked(9)
    put = Checkpoint(ORIGIN, 12, fork.root(12))
    answer = witness.submit(_body(9, fork, put, Note(put.text, signed.note.signatures)))
    assert isinstance(answer, Refused)
    assert answer.status == 403


def test_a_checkpoint_of_another_log_by_the_same_key(witness: Witness, log: SmallLog) -> None:
    other = SmallLog("other.example/log")
    other.grow(12)
    answer = witness.submit(other.submission(9, 12))
    assert isinstance(answer, Refused)
    assert answer.status == 404


def test_a_cosignature_passed_off_as_the_logs_signature(witness: Witness, log: SmallLog) -> None:
    newest = witness.newest(ORIGIN)
    assert newest is not None
    mine = tuple(s for s in newest.note.signatures if s.name == NAMES[0])
    answer = witness.submit(
        ConsistencyProof(
            9, (), SignedCheckpoint(newest.checkpoint, Note(newest.note.text, mine))
        ).raw
    )
    assert isinstance(answer, Refused)
    assert answer.status == 403


def test_an_older_checkpoint_is_not_cosigned_again(witness: Witness, log: SmallLog) -> None:
    assert isinstance(witness.submit(log.submission(9, 15)), Cosigned)
    for old, new in ((0, 9), (9, 9), (9, 15), (0, 15)):
        assert not isinstance(witness.submit(log.submission(old, new)), Cosigned)
    newest = witness.newest(ORIGIN)
    assert newest is not None
    assert newest.checkpoint.size == 15


def test_a_quorum_of_colluders_is_what_a_policy_says_it_is(tmp_path: Path, log: SmallLog) -> None:
    """As many witnesses as `survives` plus one, colluding, carry both histories; that many do not."""
    fork = log.forked(5)
    lines = [f"witness {n[:2]} {witness_key(n).vkey}\n" for n in NAMES]
    policy = Policy.parse("".join([*lines, "group q 2 w1 w2 w3\nquorum q\n"]).encode())
    assert policy.survives == 0

    def cosigned(histories: dict[str, list[SmallLog]]) -> list[bool]:
        holds = []
        for side in (log, fork):
            signed = side.checkpoint(12)
            signatures = list(signed.note.signatures)
            for name, shown in histories.items():
                if side in shown:
                    # A state of its own for each history: that is what a dishonest witness has.
                    folder = tmp_path / f"state {len(list(tmp_path.iterdir()))}"
                    witness = make_witness(folder, name, [log.key], time.time)
                    answer = witness.submit(ConsistencyProof(0, (), signed).raw)
                    assert isinstance(answer, Cosigned)
                    signatures.append(parse_signature(answer.line[:-1]))
            note = Note(signed.note.text, tuple(signatures))
            holds.append(policy.evaluate(note, verifier()).holds)
        return holds

    honest = {NAMES[0]: [log], NAMES[1]: [log], NAMES[2]: [fork]}
    assert cosigned(honest) == [True, False]
    assert cosigned({**honest, NAMES[0]: [log, fork]}) == [True, True]
