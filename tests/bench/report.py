"""The measurements as a table, printed as it stands in docs/performance.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .append import Appended
from .measure import ROUNDS, Machine, Ratio
from .verification import Verified

DOCUMENT = Path(__file__).parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- measured: make bench -->", "<!-- /measured -->"


def lines(
    machine: Machine, ratios: Sequence[Ratio], appended: Sequence[Appended], verified: Verified
) -> list[str]:
    """The table, and what it was measured on."""
    return [
        "| what | floor | ratio | least | rounds | ours | floor |",
        "|---|---|---|---|---|---|---|",
        *(_row(ratio) for ratio in ratios),
        "",
        f"Ratios are floor time to our time, each the median of {ROUNDS} rounds; 1 is as fast as the floor.",
        f"A turn is 4 records of {appended[0].record_bytes:,} bytes in all and 2 items of evidence, "
        + " or ".join(f"{each.evidence_bytes:,}" for each in appended)
        + " bytes as stored.",
        f"The ledger verified has {verified.records:,} records.",
        "",
        f"Measured {machine}.",
    ]


def _row(ratio: Ratio) -> str:
    least = "" if ratio.promise is None else f"{ratio.promise:.2f}"
    rounds = ", ".join(f"{value:.2f}" for value in sorted(ratio.ratios))
    return (
        f"| {ratio.name} | {ratio.floor_name} | **{ratio.ratio:.2f}** | {least} | {rounds} | "
        f"{ratio.ours:,.0f} {ratio.unit} | {ratio.floor:,.0f} {ratio.unit} |"
    )


def written(document: str, text: Sequence[str]) -> str:
    """The document with `text` in the place that is kept for it. Raises `ValueError` where there is none."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"expected {BEGIN} and {END} in the document")
    return "\n".join([f"{before}{BEGIN}", *text, f"{END}{after}"])
