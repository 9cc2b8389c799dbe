"""Evidence as a writer packs it: salted afresh each time, and packed so that every reader unpacks it."""

from __future__ import annotations

import zlib

import pytest

from causebook.adapters.writer import COMPRESSED_BYTES_MIN, Satchel
from causebook.domain.evidence import commit


def test_one_text_has_another_commitment_each_time() -> None:
    """So a short text, such as `pass`, cannot be guessed back once its salt is gone."""
    satchel = Satchel("T-1")
    commitments = {satchel.commit(b"pass") for _ in range(20)}
    assert len(commitments) == 20
    assert len({row.salt for row in satchel.rows}) == 20
    assert all(commit(row.salt, b"pass") == row.commitment for row in satchel.rows)


@pytest.mark.parametrize("length", [0, 1, COMPRESSED_BYTES_MIN - 1, COMPRESSED_BYTES_MIN, 100_000])
def test_what_is_packed_is_unpacked_whether_or_not_it_was_made_smaller(length: int) -> None:
    satchel = Satchel("T-1")
    satchel.commit(b"a" * length)
    (row,) = satchel.rows
    assert zlib.decompress(row.body) == b"a" * length
    assert (len(row.body) < length) == (length >= COMPRESSED_BYTES_MIN)
