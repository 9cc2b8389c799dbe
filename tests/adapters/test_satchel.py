"""Evidence as a writer packs it: salted afresh each time, and packed so that every reader unpacks it."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from causebook.adapters import evidence
from causebook.adapters.evidence import COMPRESSED_BYTES_MIN, packed
from causebook.adapters.writer import Satchel
from causebook.domain.evidence import commit


def test_one_text_has_another_commitment_each_time() -> None:
    """So a short text, such as `pass`, cannot be guessed back once its salt is gone."""
    satchel = Satchel("T-1")
    commitments = {satchel.commit(b"pass") for _ in range(20)}
    assert len(commitments) == 20
    assert len({row.salt for row in satchel.rows}) == 20
    assert all(commit(row.salt, b"pass") == row.commitment for row in satchel.rows)


SOURCE = Path(__file__).read_bytes() * 50


@pytest.mark.parametrize("length", [0, 1, COMPRESSED_BYTES_MIN - 1, COMPRESSED_BYTES_MIN, 100_000])
@pytest.mark.parametrize("by", [evidence._by_zlib, evidence.compressed])
def test_what_is_packed_is_unpacked_by_zlib_alone_and_takes_no_more_than_it_is(
    by: Callable[[bytes], bytes], length: int
) -> None:
    """A ledger is read where the extra that wrote it is not; and what cannot be made smaller is left."""
    for body in (SOURCE[:length], random.Random(length).randbytes(length)):
        unpacking, stored = zlib.decompressobj(), packed(body, by)
        assert unpacking.decompress(stored) == body
        assert unpacking.eof
        assert not unpacking.unused_data
        assert len(stored) < len(body) + 12 + len(body) // 1_000
    if length >= COMPRESSED_BYTES_MIN:
        assert len(packed(SOURCE[:length], by)) < 0.9 * length


def test_the_extra_packs_by_a_library_of_its_own() -> None:
    """Otherwise the two above would be one."""
    assert evidence.compressed is not evidence._by_zlib
