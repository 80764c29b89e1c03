"""Ids and how the dock lies: which lane, zone, drive or infeed belongs to which asset."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

PAIR = re.compile(r"([A-Za-z]+)[ _-]?([0-9]+)")

LOOP = "LS-1"
SINGULATOR = "SG-1"
AIR = "AIR-1"
FIRST_ROBOT_DRIVE = 10  # DRV-10 is RC-00's


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """`counts`, `words` and `widths` are the facts `layout`, `id_words` and `id_width`."""

    counts: Mapping[str, int]
    words: Mapping[str, str]
    widths: Mapping[str, int]

    # --- ids ----------------------------------------------------------------------------------

    def name(self, prefix: str, number: int) -> str:
        return f"{prefix}-{number:0{self.widths.get(prefix, 1)}d}"

    def normalise(self, text: str) -> str:
        """The first id in a text, normalised; the text itself when it holds none."""
        return next(self.ids(text), text)

    def ids(self, text: str) -> Iterator[str]:
        """Every letters-digits pair of a text, normalised."""
        for found in PAIR.finditer(text):
            letters = found[1].upper()
            yield self.name(self.words.get(letters, letters), int(found[2]))

    def split(self, asset: str) -> tuple[str, int]:
        """Prefix and number of a normalised id; ("", -1) for anything else."""
        found = PAIR.fullmatch(asset)
        return ("", -1) if found is None else (found[1], int(found[2]))

    # --- what there is ------------------------------------------------------------------------

    def cells(self) -> list[str]:
        return [self.name("RC", number) for number in range(self.counts["cells"])]

    def stations(self) -> list[str]:
        return self._numbered("MS", "stations")

    def tunnels(self) -> list[str]:
        return self._numbered("ST", "tunnels")

    def chutes(self) -> list[str]:
        return self._numbered("CH", "chutes")

    def lanes(self) -> list[str]:
        return self._numbered("STG", "lanes")

    def zones(self) -> list[str]:
        return self._numbered("ZN", "zones")

    def eyes(self) -> list[str]:
        return [
            eye for infeed in range(1, self.counts["infeeds"] + 1) for eye in self._eyes_of(infeed)
        ]

    def _numbered(self, prefix: str, count: str) -> list[str]:
        return [self.name(prefix, number) for number in range(1, self.counts[count] + 1)]

    def _eyes_of(self, infeed: int) -> list[str]:
        eyes = self.counts["eyes_per_infeed"]
        return [self.name("PE", 10 * infeed + eye) for eye in range(1, eyes + 1)]

    # --- what belongs to what -----------------------------------------------------------------

    def lane_of(self, asset: str) -> str | None:
        """Of a chute, a door or a lane itself; None for anything else."""
        prefix, number = self.split(asset)
        match prefix:
            case "STG":
                return asset
            case "CH":
                return self.name("STG", _group(number, self.counts["chutes_per_lane"]))
            case "DD":
                return self.name("STG", _group(number, self.counts["doors_per_lane"]))
        return None

    def zone_of(self, asset: str) -> str | None:
        """Of a lane and what has a lane, or of a zone itself; None for anything else."""
        if self.split(asset)[0] == "ZN":
            return asset
        lane = self.lane_of(asset)
        if lane is None:
            return None
        return self.name("ZN", _group(self.split(lane)[1], self.counts["lanes_per_zone"]))

    def chutes_in_scope(self, asset: str) -> list[str]:
        prefix = self.split(asset)[0]
        match prefix:
            case "CH":
                return [asset]
            case "STG" | "DD":
                lane = self.lane_of(asset)
                return [chute for chute in self.chutes() if self.lane_of(chute) == lane]
            case "ZN":
                return [chute for chute in self.chutes() if self.zone_of(chute) == asset]
        return self.chutes()

    def lanes_in_scope(self, asset: str) -> list[str]:
        lane = self.lane_of(asset)
        return self.lanes() if lane is None else [lane]

    def zones_in_scope(self, asset: str) -> list[str]:
        zone = self.zone_of(asset)
        return self.zones() if zone is None else [zone]

    def tunnels_in_scope(self, asset: str) -> list[str]:
        return [asset] if self.split(asset)[0] == "ST" else self.tunnels()

    def cells_in_scope(self, asset: str) -> list[str]:
        return [asset] if self.split(asset)[0] == "RC" else self.cells()

    def eyes_in_scope(self, asset: str) -> list[str]:
        prefix, number = self.split(asset)
        match prefix:
            case "PE":
                return [asset]
            case "INF":
                return self._eyes_of(number)
        return self.eyes()

    def infeed_of_eye(self, eye: str) -> str:
        return self.name("INF", self.split(eye)[1] // 10)

    def neighbours(self, eye: str) -> tuple[str | None, str | None]:
        """The eyes before and behind on the same infeed, in flow order."""
        infeed, place = divmod(self.split(eye)[1], 10)
        last = self.counts["eyes_per_infeed"]
        before = self.name("PE", 10 * infeed + place - 1) if place > 1 else None
        behind = self.name("PE", 10 * infeed + place + 1) if place < last else None
        return before, behind

    def drive_of(self, asset: str) -> str:
        """The loop's for what has no drive of its own."""
        prefix, number = self.split(asset)
        match prefix:
            case "DRV":
                return asset
            case "INF":
                return self.name("DRV", number)
            case "PE":
                return self.name("DRV", number // 10)
            case "RC":
                return self.name("DRV", FIRST_ROBOT_DRIVE + number)
        return self.name("DRV", 0)

    def parent_of(self, asset: str) -> str | None:
        """Whose tickets are this asset's too."""
        prefix, number = self.split(asset)
        match prefix:
            case "PE":
                return self.infeed_of_eye(asset)
            case "DRV" if number >= FIRST_ROBOT_DRIVE:
                return self.name("RC", number - FIRST_ROBOT_DRIVE)
            case "DRV" if number >= 1:
                return self.name("INF", number)
            case "DRV" | "CH":
                return LOOP
            case "DD":
                return self.lane_of(asset)
        return None


def _group(number: int, size: int) -> int:
    """Of things numbered from 1, `size` to a group, the number of the group."""
    return (number - 1) // size + 1
