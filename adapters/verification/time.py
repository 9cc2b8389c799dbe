"""The check `time`: a timestamp authority saw a checkpoint (RFC 3161), by certificates that are given.

The newest checkpoint with a timestamp counts. One of its timestamps has to hold; others may be of authorities
whose certificates are not at hand.
"""

from __future__ import annotations

from ...domain.errors import BadData
from ..findings import UNVERIFIABLE, Check, counted
from .held import Against, Facts


def check_time(check: Check, facts: Facts, against: Against) -> None:
    """Check the timestamps on the newest checkpoint that has one; without certificates, say so."""
    stamped = next((each for each in reversed(facts.sealed) if each.row.timestamps), None)
    if stamped is None:
        check.skip("no timestamp on a checkpoint")
        return
    size, replies = stamped.size, stamped.row.timestamps
    if against.check_time is None:
        check.skip(f"{counted(len(replies), 'timestamp')} on size {size:,}: --tsa-ca FILE")
        return
    times, faults = [], []
    for reply in replies:
        try:
            times.append(against.check_time(reply, stamped.signed.note.text.encode()))
        except BadData as error:
            faults.append(error.message)
    if not times:
        expected = "a timestamp by an authority that is trusted"
        check.find(f"checkpoint {size}", expected, faults[0], UNVERIFIABLE)
        return
    check.note = f"size {size:,} was there by {min(times):%Y-%m-%d %H:%M:%S} UTC"
    if faults:
        check.note += f"; {counted(len(faults), 'timestamp')} not by these authorities"
