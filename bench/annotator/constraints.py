"""Is the costly action safe, or unavoidable? One function a node, by bench/RULES.md."""

from __future__ import annotations

from math import fsum

import numpy as np

from bench.annotator.figures import percent, quantile
from bench.annotator.ids import LOOP
from bench.annotator.instant import Instant
from bench.annotator.judged import (
    UNKNOWN,
    Clause,
    Judged,
    at_least,
    below,
    both,
    conclude,
    either,
    no_data,
)
from bench.annotator.root_causes import is_lost
from bench.annotator.root_causes_warehouse import SLOT_S, heard
from bench.annotator.tables import NULL

HOUR_S = 3600
MINUTE_S = 60
TECHNICIAN = "technician"
DRIVER = "yard_driver"
URGENT = ("P1", "P2")

# --- warehouse --------------------------------------------------------------------------------


@heard
def ticket_open(now: Instant, entity: str) -> Judged:
    names = {entity, now.layout.parent_of(entity)} - {None}
    max_age_s = now.number("ticket_max_age_h") * HOUR_S
    opened = now.tables.whole("ticket")["opened"]
    nearest = Clause(False)
    for row in now.tables.live_tickets(now.t2):
        if names.isdisjoint(now.tables.assets_of_ticket(int(row))):
            continue
        age_s = now.t - int(opened[row])
        young = Clause(age_s <= max_age_s, below(age_s, max_age_s).margin)
        nearest = either(nearest, young)
    return conclude(entity, nearest)


@heard
def tech_free(now: Instant, entity: str) -> Judged:
    roster, ticket = now.tables.whole("roster"), now.tables.whole("ticket")
    rows = now.on_shift(TECHNICIAN)
    skill = now.settings.params["tech_skill"]
    there = {str(roster["person_id"][row]) for row in rows if roster["skill"][row] == skill}
    busy = {
        str(ticket["assignee"][row])
        for row in now.tables.live_tickets(now.t2)
        if ticket["priority"][row] in URGENT
    }
    return conclude(entity, at_least(len(there - busy), now.number("tech_min")))


@heard
def cpt_slack(now: Instant, entity: str) -> Judged:
    due = now.tables.between("departure", now.t, now.t + now.seconds("slack_horizon_s"))
    for row in range(len(due["cpt"])):
        _, loaded = now.tables.loading_of(str(due["departure_id"][row]), now.t2)
        if len(loaded) == 0 or loaded[-1] < due["planned"][row]:
            left = int(due["cpt"][row]) - now.t
            return conclude(entity, at_least(left, MINUTE_S * now.number("cpt_slack_min")))
    return Judged("true", entity)


@heard
def spare_on_hand(now: Instant, entity: str) -> Judged:
    part = now.settings.facts["spare_parts"].get(now.layout.split(entity)[0])
    if part is None:
        return no_data(entity)
    stock = now.tables.whole("spare_stock")
    rows = np.flatnonzero((stock["at"] <= now.t2) & (stock["part"] == part))
    if len(rows) == 0:
        return Judged("false", entity)
    on_hand, reserved = int(stock["on_hand"][rows[-1]]), int(stock["reserved"][rows[-1]])
    free = on_hand - (0 if reserved == NULL else reserved)
    return conclude(entity, at_least(free, now.number("spare_min")))


@heard
def labor_movable(now: Instant, entity: str) -> Judged:
    slot = now.tables.at("labor_slot", now.t2 // SLOT_S * SLOT_S)
    left_s = MINUTE_S * now.number("shift_left_min")
    clauses = []
    for row in np.flatnonzero(np.isin(slot["area"], now.settings.facts["donor_areas"])):
        actual = int(slot["actual"][row])
        if actual == NULL:
            continue
        surplus = actual - now.number("donor_keep") * int(slot["planned"][row])
        heads = min(surplus, int(slot["trained_outbound"][row]))
        left = int(slot["shift_end"][row]) - now.t
        clauses.append(
            both(
                at_least(heads, now.number("movable_heads")),
                Clause(left > left_s, below(left, left_s).margin),
            )
        )
    return conclude(entity, either(*clauses))


@heard
def yard_trailer(now: Instant, entity: str) -> Judged:
    yard = now.tables.whole("yard_trailer")
    there = (yard["arrived"] <= now.t2) & ((yard["left"] == NULL) | (yard["left"] > now.t2))
    usable = (yard["kind"] == "carrier") & (yard["status"] == "empty") & (yard["inspected"] == 1)
    trailers = int(np.count_nonzero(there & usable))
    return conclude(entity, both(at_least(trailers, 1), at_least(len(now.on_shift(DRIVER)), 1)))


# --- equipment and metrics --------------------------------------------------------------------


def reset_allowed(now: Instant, entity: str) -> Judged:
    answer = now.call("resets", entity)
    if answer is None or is_lost(answer["code"]):
        return no_data(entity)
    since = now.t - now.seconds("reset_window_s")
    lately = sum(1 for reset in answer["resets"] if since < reset <= now.t)
    return conclude(
        entity,
        both(Clause(not answer["protective"]), below(lately, now.number("max_resets"))),
    )


def alt_chute_free(now: Instant, entity: str) -> Judged:
    one_chute = now.layout.split(entity)[0] == "CH"
    chute = entity if one_chute else now.fullest_chute(entity)
    if chute is None:
        return no_data(entity)
    answer = now.call("routes", LOOP)
    if answer is None:
        return no_data(chute)
    routes = {str(route["chute"]): route for route in answer["routes"]}
    own = routes.get(chute)
    other = routes.get(own["alternate"]) if own is not None and own["alternate"] else None
    if own is None or other is None or not other["enabled"] or other["cpt"] != own["cpt"]:
        return Judged("false", chute)
    share = now.full_share(str(own["alternate"]))
    return conclude(chute, below(share, now.number("alternate_full_pct")))


def induct_headroom(now: Instant, entity: str) -> Judged:
    cell = now.worst_cell(entity)
    harm = UNKNOWN if cell is None else _harms(now, cell)
    return conclude(cell or entity, either(harm, _others_carry(now)))


def _harms(now: Instant, cell: str) -> Clause:
    counted = now.picks(cell, now.seconds("headroom_window_s"))
    if counted is None or counted.picks < now.number("pick_min_attempts"):
        return UNKNOWN
    return at_least(percent(counted.fails, counted.picks), now.number("harm_fail_pct"))


def _others_carry(now: Instant) -> Clause:
    rate_s, window_s = now.seconds("headroom_window_s"), now.seconds("arrivals_window_s")
    enabled = [cell for cell in now.layout.cells() if _enabled(now, cell, rate_s, window_s)]
    arrivals = now.mean("arrivals_rate", LOOP, window_s)
    rates = [rate for cell in enabled for rate in now.valid("cell_rate", cell, rate_s).tolist()]
    usual = quantile(rates, 0.8)
    if usual is None or arrivals is None:
        return UNKNOWN
    manual = fsum(
        now.mean("manual_rate", station, window_s) or 0.0 for station in now.layout.stations()
    )
    capacity = (len(enabled) - 1) * usual + manual
    return at_least(capacity, now.number("headroom_ratio") * arrivals)


def _enabled(now: Instant, cell: str, rate_s: int, window_s: int) -> bool:
    if not now.covered(len(now.valid("cell_rate", cell, rate_s)), "cell_rate", rate_s):
        return False
    off_s = fsum(
        spent
        for state in ("maintenance", "off")
        for spent in now.valid(f"cell_state_seconds:{state}", cell, window_s).tolist()
    )
    return off_s < now.number("enabled_max_off_s")
