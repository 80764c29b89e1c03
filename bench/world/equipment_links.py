"""How well a controller is heard: how old its state is, and whether its link is lost."""

from __future__ import annotations

from bench.world.chance import below, uniform

BLOCK_S = 1800  # in which a link is once disturbed, or not at all
SHORTEST_S, LONGEST_S = 120, 900
HEARD_WITHIN_S = 21  # ordinarily: states are 0 to 20 s old

_DRAWS = 6  # of a block: three for falling silent, three for losing what stands behind


def heard(key: int, at: int, *, disturbed: float) -> int:
    """When the controller was last heard, at or before `at`. `disturbed` is the share of blocks
    in which it falls silent for minutes."""
    last = at - below(HEARD_WITHIN_S, key, at)
    silent_since = _since(key, 0, at, disturbed)
    return last if silent_since is None else min(last, silent_since)


def lost(key: int, at: int, *, disturbed: float) -> bool:
    """Whether what stands behind the controller does not answer it."""
    return _since(key, _DRAWS // 2, at, disturbed) is not None


def _since(key: int, first: int, at: int, disturbed: float) -> int | None:
    """The begin of the disturbance that holds `at`."""
    block = at // BLOCK_S
    counter = _DRAWS * block + first
    if uniform(key, counter) >= disturbed:
        return None
    lasts = SHORTEST_S + below(LONGEST_S - SHORTEST_S, key, counter + 1)
    begin = block * BLOCK_S + below(BLOCK_S - lasts, key, counter + 2)
    return begin if begin <= at < begin + lasts else None
