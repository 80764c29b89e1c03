"""Emergency stops, gates and light curtains of the asset and of its zone, as they are now."""

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
    return [call("equipment", "safety_inputs", site=warehouse, asset=entity, at=at)]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    answer = context.answer(queries(warehouse, timestamp, context)[0])
    age_s = (timestamp - datetime.fromisoformat(answer["as_of"])).total_seconds()
    if age_s > float(context.params["state_max_age_s"]):
        return no_data(f"the safety inputs were last heard {age_s:.0f} s ago", subject=entity)
    inputs = answer["inputs"]
    open_ones = [one["name"] for one in inputs if one["ok"] is False]
    lost = [one["name"] for one in inputs if one["ok"] == LOST]
    clause = compare("inputs not ok", len(open_ones), ">=", 1, "inputs")
    if lost and not open_ones:
        return no_data(f"no link to {lost[0]}", subject=entity, clauses=[clause])
    return conclude(
        [clause],
        f"{', '.join(open_ones)} not ok" if open_ones else f"all {len(inputs)} inputs are ok",
        subject=entity,
    )


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
