"""A look from a pin: what the same user verified in full before is hashed, and the rest is verified.

    below the pin's size   every row is a leaf of the tree, whose root has to be the pin's: so each byte is
                           what it was. The stream `ledger`, and every task that has a record after the pin,
                           is folded in, since what came later builds on it; nothing of it is verified again.
    from there on          everything is checked as in any look

What such a look does not see again: whether evidence of the records below is still there, whether projections
still follow from them, and evaluations still open in tasks that have no record since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ...domain.events import EvidenceErased
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
    `begun`: those of them that were opened since. `streams`: how many there are.
    """

    size: int
    row_id: int = 0
    below: list[tuple[int, Row]] = field(default_factory=list)
    since: list[Row] = field(default_factory=list)
    tasks: set[str] = field(default_factory=set)
    begun: set[str] = field(default_factory=set)
    streams: int = 0

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


def found_in(found: Hashed, row: Row) -> None:
    """Note which task a row since the pin is of."""
    if row.stream == LEDGER:
        found.since.append(row)
        try:
            _, event = read(row)
        except Unreadable:
            return
        if isinstance(event, EvidenceErased):
            found.tasks.add(event.task)
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
