"""The fault code of the asset's drive or robot, or one that latched a short while ago."""

from datetime import datetime

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
    entity = _normalised(context.entity, context)
    at = timestamp.strftime("%Y-%m-%dT%H:%M:%SZ")
    return [call("equipment", "fault_code", site=warehouse, asset=entity, at=at)]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    answer = context.answer(queries(warehouse, timestamp, context)[0])
    age_s = (timestamp - datetime.fromisoformat(answer["as_of"])).total_seconds()
    if age_s > float(context.params["state_max_age_s"]):
        return no_data(f"the controller was last heard {age_s:.0f} s ago", subject=entity)
    code = _number(answer["code"])
    if code == LOST:
        return no_data("no link to its drive", subject=entity)
    clauses = [compare("fault code", code, "!=", 0)]
    said = f"fault {code} is on" if code else "no fault is on"
    if answer["latched_at"] is not None:
        latched = datetime.fromisoformat(answer["latched_at"])
        ago_s = (timestamp - latched).total_seconds()
        said += f", the newest latched {ago_s:.0f} s ago"
        clauses.append(
            compare("since it latched", ago_s, "<=", float(context.params["fault_latch_s"]), "s")
        )
    return conclude(clauses, said, subject=entity, any_of=True)


def _number(code: int | str) -> int:
    """Controllers say 7 or F0007."""
    return int(code.upper().lstrip("F")) if isinstance(code, str) else code


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
