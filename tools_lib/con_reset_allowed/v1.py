"""How often the fault was reset lately, and whether it is one that protects people."""

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
    return [call("equipment", "resets", site=warehouse, asset=entity, at=at)]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    answer = context.answer(queries(warehouse, timestamp, context)[0])
    age_s = (timestamp - datetime.fromisoformat(answer["as_of"])).total_seconds()
    if age_s > float(context.params["state_max_age_s"]):
        return no_data(f"the controller was last heard {age_s:.0f} s ago", subject=entity)
    code = _number(answer["code"])
    if code == LOST:
        return no_data("no link to its drive", subject=entity)
    window_s = float(context.params["reset_window_s"])
    ages_s = [
        (timestamp - datetime.fromisoformat(reset)).total_seconds() for reset in answer["resets"]
    ]
    resets = len([age for age in ages_s if 0 <= age < window_s])
    protective = answer["protective"] is True
    return conclude(
        [
            compare("protective", int(protective), "==", 0),
            compare("resets", resets, "<", float(context.params["max_resets"]), "resets"),
        ],
        f"fault {code} is one that protects people"
        if protective
        else f"fault {code} was reset {resets} times in the last {window_s / 60:.0f} min",
        subject=entity,
    )


def _number(code: int | str) -> int:
    """Controllers say 7 or F0007."""
    return int(code.upper().lstrip("F")) if isinstance(code, str) else code


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
