"""A look from a pin: what the same user verified in full before is hashed, and the rest is verified.

    below the pin's size   every record is a leaf of the tree, whose root has to be the pin's: so each byte is
                           what it was; and the columns beside it have to say what it says itself. The stream
                           `ledger`, and every task that has a record after the pin, is folded in, since what
                           came later builds on it; nothing of it is verified again.
    from there on          everything is checked as in any look

Where anything below the pin is not what it was, or a key was retired since for what it signed there, there is
no such look: a full one says what is wrong.

What such a look does not see again: whether evidence of the records below is still there, whether projections
still follow from them, and evaluations still open in tasks that have no record since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ...domain.events import EvidenceErased, KeyRetired
from ...domain.record import LINE_2_BYTES
from ...domain.streams import LEDGER, evaluations_prefix, task_stream
from ..reading import Source, Unreadable, read
from ..store.port import Row
from .pin import Pin
from .records import ROWS_AT_ONCE, Walk
from .tree import LogTree

_HASHED_AT_ONCE = 512


@dataclass
class Hashed:
    """One pass that hashed every row. `below`: the rows of `ledger` below the pin, by ordinal.

    `row_id`: of the last row below it; `tasks`: that have a record since, or whose evidence was erased since;
    `begun`: those of them that were opened since. `streams`: how many there are. `retired_size`: the least to
    which a key retired since is trusted; None where none was.
    """

    size: int
    row_id: int = 0
    below: list[tuple[int, Row]] = field(default_factory=list)
    since: list[Row] = field(default_factory=list)
    tasks: set[str] = field(default_factory=set)
    begun: set[str] = field(default_factory=set)
    streams: int = 0
    retired_size: int | None = None

    @property
    def distrusts(self) -> bool:
        """Whether a retirement since the pin takes the trust from a key at a size below it."""
        return self.retired_size is not None and self.retired_size < self.size

    @property
    def ledger(self) -> list[Row]:
        """The stream `ledger`, as the pass came by it."""
        return [*(row for _, row in self.below), *self.since]


def hashed(source: Source, tree: LogTree, pin: Pin) -> Hashed | None:
    """Hash all rows into `tree`; None, at once, where those below the pin are not what they were."""
    found, names = Hashed(pin.seen.size), set[str]()
    rows = source.rows()
    while tree.size < found.size:
        chunk = list(islice(rows, min(_HASHED_AT_ONCE, found.size - tree.size)))
        if not chunk:
            return None
        if not all(_is_labelled(row) for _, row in chunk):
            return None
        first = tree.size
        tree.take(chunk)
        found.row_id = chunk[-1][0]
        streams = [row.stream for _, row in chunk]
        if LEDGER in streams:
            numbered = enumerate(chunk, first)
            found.below += [(n, row) for n, (_, row) in numbered if row.stream == LEDGER]
        names.update(streams)
    if tree.roots[found.size] != pin.seen.root:
        return None
    while chunk := list(islice(rows, _HASHED_AT_ONCE)):
        tree.take(chunk)
        names.update(row.stream for _, row in chunk)
        for _, row in chunk:
            found_in(found, row)
    found.streams = len(names)
    return found


def _is_labelled(row: Row) -> bool:
    """Whether the columns beside a record say what it says itself.

    Its line 1 is known to be canonical, so that it ends with these three; none of the names in a stream or a
    type needs an escape, and without one no other line ends like this.
    """
    stream, kind = row.stream, row.type
    if '"' in stream or "\\" in stream or '"' in kind or "\\" in kind:
        return False
    end = f'"stream":"{stream}","type":"{kind}","version":{row.version}}}\n'
    return row.record.endswith(end.encode(), 0, -LINE_2_BYTES)


def found_in(found: Hashed, row: Row) -> None:
    """Note which task a row since the pin is of, and how far a key is trusted that it retires."""
    if row.stream == LEDGER:
        found.since.append(row)
        try:
            _, event = read(row)
        except Unreadable:
            return
        if isinstance(event, EvidenceErased):
            found.tasks.add(event.task)
        if isinstance(event, KeyRetired):
            known = event.size if found.retired_size is None else found.retired_size
            found.retired_size = min(known, event.size)
        return
    task = row.stream.split("/")[1] if "/" in row.stream else row.stream
    found.tasks.add(task)
    if row.stream == task_stream(task) and row.version == 1:
        found.begun.add(task)


def walk_from(source: Source, found: Hashed, walk: Walk) -> None:
    """Fold in what the rows since the pin build on, and check those."""
    walk.kept_tasks = found.tasks
    for some in _chunks(_known(source, found)):
        walk.take([row for _, row in some], ordinals=[n for n, _ in some], known=True)
    since = ((n, row) for n, (_, row) in enumerate(source.rows(found.row_id), found.size))
    for some in _chunks(since):
        walk.take([row for _, row in some], ordinals=[n for n, _ in some])


def _known(source: Source, found: Hashed) -> Iterator[tuple[int, Row]]:
    """The rows below the pin that later ones build on, by ordinal."""
    older = found.tasks - found.begun
    if not older:
        return iter(found.below)
    own = {LEDGER, *(task_stream(task) for task in older)}
    prefixes = tuple(evaluations_prefix(task) for task in older)
    below = enumerate(islice(source.rows(), found.size))
    return (
        (n, row) for n, (_, row) in below if row.stream in own or row.stream.startswith(prefixes)
    )


def _chunks(rows: Iterator[tuple[int, Row]]) -> Iterator[Sequence[tuple[int, Row]]]:
    while some := list(islice(rows, ROWS_AT_ONCE)):
        yield some
