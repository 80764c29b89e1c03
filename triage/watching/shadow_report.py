"""What can be said of a shadow from how often it agreed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, sqrt

from triage.ports import Compared

Z = 1.959963984540054  # the 97.5th percentile of the normal distribution: 95 % between both
BOUNDS = (0.95, 0.99, 0.995, 0.999)
"""Lower bounds of the agreement that a person may want to see before a promotion."""


def compared_of(counts: Mapping[Compared, int]) -> tuple[int, int]:
    """How many agree, of how many that were compared: what was not recorded, failed or was dropped
    says nothing of agreement."""
    agree = counts.get(Compared.AGREES, 0)
    return agree, agree + counts.get(Compared.DIFFERS, 0)


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share of which `hits` of `of` were seen; all from 0 to 1
    when nothing was.

    The score interval: the shares p for which |hits/of - p| <= z * sqrt(p * (1 - p) / of). E. B.
    Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the
    American Statistical Association 22 (1927), 209-212. It keeps inside 0 and 1 and says something
    at 100 % of a few, as the normal approximation does not.
    """
    if of <= 0:
        return 0.0, 1.0
    share, square = hits / of, Z * Z / of
    middle = (share + square / 2) / (1 + square)
    half = Z / (1 + square) * sqrt(share * (1 - share) / of + square / (4 * of))
    return (
        0.0 if hits == 0 else max(0.0, middle - half),
        1.0 if hits == of else min(1.0, middle + half),
    )


def needed(bound: float, share: float = 1.0) -> int | None:
    """How many comparisons of which the share `share` agrees put the lower end of `wilson` at
    `bound`, or above it; None when no number does. `bound` is in (0, 1).

    `wilson` solved for the number: z² * p * (1 - p) / (share - p)² at p = bound.
    """
    if share <= bound:
        return None
    return ceil(Z * Z * bound * (1 - bound) / (share - bound) ** 2)
