"""Levellers, restraints and conveyors of the doors in scope at which a trailer stands."""

import re
from datetime import datetime
from typing import Any

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    asset_id,
    call,
    compare,
    conclude,
    no_data,
)

LOST = -1


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    asset = _asked(_normalised(context.entity, context), context)
    at = timestamp.strftime("%Y-%m-%dT%H:%M:%SZ")
    return [call("equipment", "doors", site=warehouse, asset=asset, at=at)]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    answer = context.answer(queries(warehouse, timestamp, context)[0])
    age_s = (timestamp - datetime.fromisoformat(answer["as_of"])).total_seconds()
    if age_s > float(context.params["state_max_age_s"]):
        return no_data(f"the doors were last heard {age_s:.0f} s ago", subject=entity)
    docked = [door for door in answer["doors"] if door["docked"] is True]
    limit_s = float(context.params["door_fault_s"])
    stuck_s = {_normalised(door["door"], context): _stuck_s(door, timestamp) for door in docked}
    faulty = next((door for door, seconds in stuck_s.items() if seconds >= limit_s), "")
    lost = [door["door"] for door in docked if any(one["ready"] == LOST for one in door["devices"])]
    longest = max(stuck_s.values(), default=0.0)
    if lost and not faulty:
        return no_data(f"no link to the devices of {lost[0]}", subject=entity)
    return conclude(
        [compare("not ready", stuck_s.get(faulty, longest), ">=", limit_s, "s")],
        f"a device of {faulty} has not been ready for {stuck_s[faulty]:.0f} s"
        if faulty
        else f"no device at {len(docked)} docked doors was long unready",
        subject=faulty or entity,
    )


def _asked(entity: str, context: Context) -> str:
    """The door or lane to ask for, LS-1 for all doors."""
    if re.fullmatch(r"(DD|STG)-[0-9]+", entity):
        return entity
    chute = re.fullmatch(r"CH-([0-9]+)", entity)
    if chute is None:
        return "LS-1"
    per_lane = context.site.facts["layout"]["chutes_per_lane"]
    return _normalised(f"STG-{(int(chute[1]) - 1) // per_lane + 1}", context)


def _stuck_s(door: Any, timestamp: datetime) -> float:
    """For how long the door's longest unready device has been so, 0 when all are ready."""
    return max(
        (
            (timestamp - datetime.fromisoformat(one["since"])).total_seconds()
            for one in door["devices"]
            if one["ready"] is False
        ),
        default=0.0,
    )


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
