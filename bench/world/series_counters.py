"""What each counter counted between two samples: the minute's integer, split over its samples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bench.world.series_block import Block, Made
from bench.world.series_hash import Hashes

FIELDS: Mapping[str, str] = {
    "parcels_total": "eye_count",
    "cell_picks_total": "picks",
    "cell_fails_total": "fails",
    "tunnel_scans_total": "scans",
    "tunnel_no_reads_total": "no_reads",
    "inducted_total": "inducted",
    "tracking_lost_total": "lost",
    "divert_attempts_total": "attempts",
    "divert_fails_total": "divert_fails",
    "divert_lane_full_total": "lane_full",
}
"""Series to field of the minutes."""

_PHASE = np.uint64(40)


def counted(block: Block, field: str, numbers: Hashes) -> Made:
    """As evenly as whole parcels go, beginning at another sample each minute; the parts of a
    minute add up to its count."""
    counts: NDArray[np.int64] = block.minute(field).astype(np.int64)
    if block.per_minute == 1:
        return Made(counts)
    # The number that the first sample's noise would come from: a counter has none.
    phase = (numbers[:, :, :1] >> _PHASE).astype(np.int64) % block.per_minute
    until = counts * np.arange(block.per_minute + 1) + phase
    until //= block.per_minute
    return Made(np.diff(until, axis=2))
