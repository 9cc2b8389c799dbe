"""Evidence as a writer packs it: salted afresh each time, and packed so that every reader unpacks it."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable

import pytest

from causebook.adapters.evidence import COMPRESSED_BYTES_MIN, packed, zlib_packed
from causebook.adapters.writer import Satchel
from causebook.domain.evidence import commit


def test_one_text_has_another_commitment_each_time() -> None:
    """So a short text, such as `pass`, cannot be guessed back once its salt is gone."""
    satchel = Satchel("T-1")
    commitments = {satchel.commit(b"pass") for _ in range(20)}
    assert len(commitments) == 20
    assert len({row.salt for row in satchel.rows}) == 20
    assert all(commit(row.salt, b"pass") == row.commitment for row in satchel.rows)


@pytest.mark.parametrize("length", [0, 1, COMPRESSED_BYTES_MIN - 1, COMPRESSED_BYTES_MIN, 100_000])
@pytest.mark.parametrize("by", [zlib_packed, packed])
def test_what_is_packed_is_unpacked_by_zlib_alone(
    by: Callable[[bytes], bytes], length: int
) -> None:
    """A ledger is read where the extra that wrote it is not."""
    for body in (b"a" * length, random.Random(length).randbytes(length)):
        unpacking = zlib.decompressobj()
        assert unpacking.decompress(by(body)) == body
        assert unpacking.eof
        assert not unpacking.unused_data
    assert (len(by(b"a" * length)) < length) or length < COMPRESSED_BYTES_MIN


def test_the_extra_packs_by_a_library_of_its_own() -> None:
    """Otherwise the two above would be one."""
    assert packed is not zlib_packed
