"""Carriers of the loop that are out of use, of all it has."""

from datetime import datetime

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    call,
    compare,
    conclude,
    no_data,
)

LOST = -1
SUBJECT = "LS-1"


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    at = timestamp.strftime("%Y-%m-%dT%H:%M:%SZ")
    return [call("equipment", "carriers", site=warehouse, asset=SUBJECT, at=at)]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    answer = context.answer(queries(warehouse, timestamp, context)[0])
    age_s = (timestamp - datetime.fromisoformat(answer["as_of"])).total_seconds()
    if age_s > float(context.params["state_max_age_s"]):
        return no_data(f"the loop's controller was last heard {age_s:.0f} s ago", subject=SUBJECT)
    disabled, total = answer["disabled"], answer["total"]
    if disabled == LOST or total <= 0:
        return no_data("the loop's controller cannot tell its carriers", subject=SUBJECT)
    percent = 100 * disabled / total
    return conclude(
        [compare("carriers out", percent, ">=", float(context.params["carriers_pct"]), "percent")],
        f"{disabled} of {total} carriers are out of use, {percent:.1f} %",
        subject=SUBJECT,
    )
