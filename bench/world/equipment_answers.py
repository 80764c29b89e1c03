"""What the equipment's server answers: the controllers' state with the quirks of the sites."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from bench.world.equipment import LOST, Answer, Controllers
from bench.world.equipment_assets import UnknownAsset
from bench.world.equipment_facts import EquipmentFacts

CALLS: Mapping[str, str] = {
    "safety_inputs": "Emergency stops, gates and light curtains of an asset and of its zone.",
    "fault_code": "The fault code of an asset's drive or robot, 0 when it has none.",
    "resets": "Who reset the newest fault code when, in the last 24 hours.",
    "carriers": "How many carriers of the loop there are, and are out of use.",
    "doors": "Whether trailers are docked, and the devices of each door.",
    "eye_margin": "The excess gain that is left to photo-eyes, in percent.",
    "routes": "Each chute's pull and the chute that may take its parcels.",
}
"""By name, and what each is for. All but `routes` are of an asset."""

SPELLED_CODES = frozenset(("FC2", "FC4"))  # sites whose controllers say "F0007"
_INSTANTS = frozenset(("as_of", "latched_at", "since", "cpt"))


class BadCall(ValueError):
    """A call that nothing can answer; `str()` says what is wrong and what to give."""


class ServedEquipment:
    """The answers of every site in the files' facts."""

    def __init__(self, facts: Mapping[str, EquipmentFacts]) -> None:
        self._facts = facts
        self._sites: dict[str, Controllers] = {}

    def answer(self, call: str, site: str, at: str, asset: str = "") -> dict[str, Any]:
        """`call` is one of CALLS; `asset` is not read by `routes`. Raises BadCall."""
        controllers = self._controllers(site)
        seconds = _instant(at)
        try:
            told = (
                controllers.routes(seconds)
                if call == "routes"
                else _of_asset(controllers, call)(asset, seconds)
            )
        except UnknownAsset as error:
            raise BadCall(str(error)) from None
        return _served(told, spelled=site in SPELLED_CODES)

    def _controllers(self, site: str) -> Controllers:
        found = self._sites.get(site)
        if found is None:
            facts = self._facts.get(site)
            if facts is None:
                raise BadCall(f"there is no site {site!r}: give one of {', '.join(self._facts)}")
            found = self._sites[site] = Controllers(facts)
        return found


def _of_asset(controllers: Controllers, call: str) -> Callable[[str, int], Answer]:
    by_name: Mapping[str, Callable[[str, int], Answer]] = {
        "safety_inputs": controllers.safety_inputs,
        "fault_code": controllers.fault_code,
        "resets": controllers.resets,
        "carriers": controllers.carriers,
        "doors": controllers.doors,
        "eye_margin": controllers.eye_margin,
    }
    return by_name[call]


def _instant(at: str) -> int:
    """Seconds since the epoch. Raises BadCall."""
    try:
        moment = dt.datetime.fromisoformat(at)
    except ValueError:
        raise BadCall(f"at is no instant: {at!r}: give it as 2026-11-02T07:45:00Z") from None
    if moment.tzinfo is None:
        raise BadCall(f"at has no offset: {at!r}: give it as 2026-11-02T07:45:00Z")
    return int(moment.timestamp())


def _iso(at: int) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _served(told: Answer, *, spelled: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in told.items():
        if key in _INSTANTS:
            found[key] = None if value is None else _iso(value)
        elif key == "code":
            found[key] = f"F{value:04d}" if spelled and value not in {0, LOST} else value
        elif key == "resets":
            found[key] = [_iso(at) for at in value]
        elif isinstance(value, list):
            found[key] = [_served(one, spelled=spelled) for one in value]
        else:
            found[key] = value
    return found
