"""adapters/split_view.py: two checkpoints that contradict each other convict who signed both."""

from __future__ import annotations

import pytest

from causebook.adapters import split_view
from causebook.adapters.signatures import verifier
from causebook.domain.checkpoint import SignedCheckpoint
from causebook.domain.note import Note, NoteError, NoteSignature
from causebook.domain.proof import ProofError, SplitView

from .logs import SmallLog, log_key

SIZES = [(older, newer) for newer in (2, 3, 7, 8, 9, 300) for older in (1, 2, 3, 5, 7, 8, 256, 300)]
PAIRS = [(older, newer) for older, newer in SIZES if older <= newer]


def _log() -> SmallLog:
    log = SmallLog()
    log.grow(300)
    return log


LOG = _log()
FORK = LOG.forked(0)


@pytest.mark.parametrize(("older", "newer"), PAIRS)
def test_a_fork_is_proved_and_the_file_says_it_again(older: int, newer: int) -> None:
    view = split_view.find(FORK.checkpoint(older), LOG.checkpoint(newer), LOG)
    assert view is not None
    read = SplitView.parse(view.raw)
    assert read == view
    assert split_view.check(read, [LOG.key], verifier()) == LOG.key


@pytest.mark.parametrize(("older", "newer"), PAIRS)
def test_one_history_is_no_split_view(older: int, newer: int) -> None:
    first, second = LOG.checkpoint(newer), LOG.checkpoint(older)
    assert split_view.find(first, second, LOG) is None
    path = () if older == newer else LOG.consistency(older, newer)
    if older & (older - 1) == 0 and older < newer:
        path = (LOG.root(older), *path)
    with pytest.raises(ProofError, match="the two checkpoints agree"):
        split_view.check(SplitView(second, first, path), [LOG.key], verifier())


def test_the_order_of_the_two_says_nothing() -> None:
    one = split_view.find(LOG.checkpoint(9), FORK.checkpoint(5), LOG)
    other = split_view.find(FORK.checkpoint(5), LOG.checkpoint(9), LOG)
    assert one == other
    assert one is not None
    assert one.older.checkpoint.size == 5


def test_two_roots_of_one_size_need_no_tree() -> None:
    view = split_view.find(LOG.checkpoint(9), FORK.checkpoint(9), None)
    assert view is not None
    assert view.path == ()
    assert split_view.check(view, [LOG.key], verifier()) == LOG.key


def test_without_the_newer_tree_there_is_no_telling() -> None:
    with pytest.raises(ProofError, match="not at hand"):
        split_view.find(LOG.checkpoint(5), FORK.checkpoint(9), None)
    with pytest.raises(ProofError, match="does not lead to the new root"):
        split_view.find(LOG.checkpoint(5), FORK.checkpoint(9), LOG)
    short = SmallLog()
    short.grow(8)
    with pytest.raises(ProofError, match="tile"):
        split_view.find(LOG.checkpoint(5), FORK.checkpoint(9), short)


def test_nobody_is_convicted_by_a_key_that_is_not_trusted() -> None:
    view = split_view.find(LOG.checkpoint(9), FORK.checkpoint(9), None)
    assert view is not None
    for keys in ([], [log_key("other.example/log")]):
        with pytest.raises(ProofError, match="one trusted log key under both"):
            split_view.check(view, keys, verifier())


def test_a_key_of_another_name_under_both_hides_no_signer() -> None:
    """A stranger's key, trusted as well and named first, signed both too; the log's key is convicted."""
    stranger = log_key("other.example/log")
    private = SmallLog("other.example/log")._private

    def signed_twice(signed: SignedCheckpoint) -> SignedCheckpoint:
        text = signed.note.text
        second = NoteSignature(stranger.name, stranger.keyid, private.sign(text.encode()))
        return SignedCheckpoint(signed.checkpoint, Note(text, (second, *signed.note.signatures)))

    older, newer = signed_twice(LOG.checkpoint(9)), signed_twice(FORK.checkpoint(9))
    view = SplitView(older, newer, ())
    assert split_view.check(view, [stranger, LOG.key], verifier()) == LOG.key
    with pytest.raises(ProofError, match="one trusted log key under both"):
        split_view.check(view, [stranger], verifier())


def test_two_keys_of_one_log_convict_neither() -> None:
    mine, other = LOG.checkpoint(9), SmallLog("other.example/log")
    text = FORK.checkpoint(9).note.text
    key = log_key("other.example/log")
    named = type(key)(LOG.key.name, key.public)
    signed = NoteSignature(named.name, named.keyid, other._private.sign(text.encode()))
    view = SplitView(mine, type(mine)(FORK.checkpoint(9).checkpoint, Note(text, (signed,))), ())
    with pytest.raises(ProofError, match="one trusted log key under both"):
        split_view.check(view, [LOG.key, named], verifier())


def test_a_checkpoint_that_was_altered_convicts_nobody() -> None:
    view = split_view.find(LOG.checkpoint(9), FORK.checkpoint(9), None)
    assert view is not None
    altered = LOG.checkpoint(9, root=b"\x07" * 32)
    forged = type(altered)(
        altered.checkpoint, Note(altered.note.text, LOG.checkpoint(9).note.signatures)
    )
    with pytest.raises(NoteError, match="that holds, found one that does not"):
        split_view.check(SplitView(LOG.checkpoint(9), forged, ()), [LOG.key], verifier())


def test_two_logs_are_no_split_view() -> None:
    other = SmallLog("other.example/log")
    other.grow(9)
    with pytest.raises(ProofError, match="one origin"):
        split_view.find(LOG.checkpoint(9), other.checkpoint(9), None)
    with pytest.raises(ProofError, match="one origin"):
        split_view.check(
            SplitView(LOG.checkpoint(9), other.checkpoint(9), ()), [LOG.key], verifier()
        )


@pytest.mark.parametrize("change", ["a hash more", "a hash less", "another hash", "turned round"])
def test_a_path_that_leads_elsewhere_shows_nothing(change: str) -> None:
    view = split_view.find(FORK.checkpoint(5), LOG.checkpoint(9), LOG)
    assert view is not None
    path, older, newer = view.path, view.older, view.newer
    if change == "a hash more":
        path = (*path, bytes(32))
    elif change == "a hash less":
        path = path[:-1]
    elif change == "another hash":
        path = (bytes(32), *path[1:])
    else:
        older, newer = newer, older
    with pytest.raises(ProofError, match=r"lead to the new root|hashes, found|smaller size first"):
        split_view.check(SplitView(older, newer, path), [LOG.key], verifier())
