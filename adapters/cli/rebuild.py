"""`causebook rebuild`: the projections and the tree, made anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...domain.encoding import base64_text
from ...projections.catalogue import PROJECTIONS
from ..findings import DIFFERS, INTACT, counted
from ..projector import Difference, Progress, digest_of
from ..projector import rebuild as rebuild_store
from ..sealing.tree_writing import rebuild as rebuild_tree
from ..store.port import TREE
from ..store.url import display, open_store
from ..verification.audit import together
from .findings import FINDINGS_SHOWN_MAX, said
from .terminal import err, json_page, out, short


def rebuild(url: str, lock_timeout: float, *, as_json: bool) -> int:
    """Make the projections anew; 0, or 23 where the old ones differed from the events."""
    store = open_store(url, lock_timeout_seconds=lock_timeout)
    try:
        names = [*(projection.name for projection in PROJECTIONS), TREE]
        had = any(store.position(name) is not None for name in names)
        with _bar() as progress:
            differences = rebuild_store(store, progress=progress)
        tree = rebuild_tree(store)
        differences += tree.differences
        digests = {p.name: digest_of(store.projected(p.name)) for p in PROJECTIONS}
        rows = {p.name: sum(1 for _ in store.projected(p.name)) for p in PROJECTIONS}
    finally:
        store.close()
    code = DIFFERS if differences else INTACT
    page = out()
    if as_json:
        document = {
            "ledger": display(url),
            "code": code,
            "projections": [
                {
                    "projection": p.name,
                    "version": p.version,
                    "rows": rows[p.name],
                    "digest": digests[p.name],
                }
                for p in PROJECTIONS
            ],
            "tree": {
                "size": tree.size,
                "root": None if tree.root is None else base64_text(tree.root),
            },
            "differences": [_document(difference) for difference in differences],
        }
        page.raw(json_page(document))
        return code
    if differences:
        page.line((f"rebuilt; {_differed(differences)} differed from the events", "bad"))
    else:
        page.line(
            ("rebuilt, equal to what was there" if had else "made; there was none yet", "good")
        )
    page.blank()
    widest = max(len(name) for name in rows)
    for name, number in rows.items():
        page.line(f"  {name:<{widest}}  {counted(number, 'row'):>14}")
    shown_root = "" if tree.root is None else f"  root {short(tree.root.hex())}"
    page.line(f"  {TREE:<{widest}}  {counted(tree.size, 'record'):>14}{shown_root}")
    shown = together(differences)
    for difference in shown[:FINDINGS_SHOWN_MAX]:
        page.blank()
        page.line("  ", (f"{difference.projection} {difference.key}".rstrip(), "strong"))
        page.paragraph(said(difference.expected, difference.found), indent=4)
    if len(shown) > FINDINGS_SHOWN_MAX:
        page.blank()
        page.line(f"  and {len(shown) - FINDINGS_SHOWN_MAX:,} more: --json lists them")
    return code


def _differed(differences: Sequence[Difference]) -> str:
    viewed = [difference for difference in differences if difference.projection != TREE]
    rows_named = sum(1 for difference in viewed if difference.key)
    # As of a record that is not there any more, no row can be compared.
    whole = counted(len(viewed), "projection")
    said = [counted(rows_named, "row") if rows_named else whole] if viewed else []
    return " and ".join([*said, *(["the tree"] if len(viewed) < len(differences) else [])])


def _document(difference: Difference) -> dict[str, str]:
    return {
        "projection": difference.projection,
        "key": difference.key,
        "expected": difference.expected,
        "found": difference.found,
    }


@contextmanager
def _bar() -> Iterator[Progress | None]:
    """A progress bar on stderr, where that is a terminal."""
    if not err().is_terminal:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("rebuilding"), BarColumn(), MofNCompleteColumn(), TextColumn("tasks"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        row = bar.add_task("rebuilding", total=None)
        yield lambda done, total: bar.update(row, completed=done, total=total)
