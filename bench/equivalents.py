"""Mutants that are no mistakes: what they do differently, no case of this world can show, and why.

Nothing else is left out. A mutant that a case could tell from the tool, and none does, is a
survivor.
"""

from __future__ import annotations

from typing import NamedTuple


class Equivalent(NamedTuple):
    """`before` is part of the code before the change; "" stands for any, and so does a `node`
    of ""."""

    node: str
    operator: str
    before: str
    why: str

    def covers(self, node: str, operator: str, before: str) -> bool:
        return self.node in ("", node) and self.operator == operator and self.before in before


_NEVER_WRAPS = (
    "of the served counters only parcels_total and tracking_lost_total wrap (WRAPS in"
    " served_counters), and the tool reads neither"
)
_NO_WRAP = (
    "con_induct_headroom",
    "obs_divert_fail_elevated",
    "obs_no_read_elevated",
    "obs_pick_fail_elevated",
    "obs_pick_fail_single_cell",
    "obs_recirc_elevated",
    "rc_cup_worn",
    "rc_divert_worn",
    "rc_scan_lens_dirty",
    "rc_vacuum_filter_clogged",
    "rc_vision_degraded",
)
_NO_SENTINEL = {
    "obs_induct_blocked": "cell_state_seconds",
    "obs_induct_starved": "cell_state_seconds",
    "obs_sorter_slow": "sorter_speed and sorter_setpoint",
    "rc_air_pressure_low": "air_pressure",
    "rc_tracking_slip": "encoder_speed and sorter_speed",
    "con_induct_headroom": "cell_rate, manual_rate, arrivals_rate and cell_state_seconds",
    "rc_vision_degraded": "cell_no_grasp",
}
_ONLY_NARROWS = (
    "the statement only narrows what is sent, by an hour more on either side; the tool itself"
    " picks by the instant"
)
_NARROWED = {
    "con_tech_free": ("on_local <= :last", "off_local >= :first"),
    "con_yard_trailer": (
        "on_local <= :last",
        "off_local >= :first",
        "arrived_local <= :last",
        "left_local >= :first",
    ),
    "rc_item_mix_hard": ("at_local >= :first", "at_local <= :last"),
    "rc_label_print_poor": ("at_local >= :first", "at_local <= :last"),
    "rc_no_destination": ("at_local >= :first", "at_local <= :last"),
    "rc_upstream_stop": (
        "at_local >= :first",
        "at_local <= :last",
        "start_local <= :last",
        "end_local >= :first",
    ),
    "rc_volume_over_plan": ("at_local >= :first", "at_local <= :last"),
}
_DOUBLES_DO_NOT_COUNT = {
    "con_cpt_slack": "the earliest of the departures is looked for",
    "con_labor_movable": "one area is enough",
    "con_tech_free": "the tool counts the people of a set",
    "con_ticket_open": "one ticket is enough",
    "con_yard_trailer": "one trailer and one driver are enough",
    "obs_departure_short": "rows are put in order of time for each departure, and a double says"
    " what its twin says",
    "obs_staging_crowded": "the latest row of each lane is kept",
    "rc_container_short": "the latest row of each zone is kept",
    "rc_labor_short": "the least of the areas is looked for",
    "rc_trailer_absent": "the first departure is looked for",
}

EQUIVALENTS: tuple[Equivalent, ...] = (
    *(Equivalent(node, "wrap taken for a restart", "increase(", _NEVER_WRAPS) for node in _NO_WRAP),
    Equivalent(
        "obs_jam_real",
        "wrap taken for a restart",
        "increase(",
        "only whether nothing passed counts, and a wrap is something by either reading, but for"
        " one that lands on 0 exactly",
    ),
    *(
        Equivalent(node, operator, "valid(", f"{series} is served without sentinels and NaN")
        for node, series in _NO_SENTINEL.items()
        for operator in ("sentinels kept", "invalid kept")
    ),
    Equivalent(
        "obs_recirc_elevated",
        "sentinels kept",
        "valid(",
        "recirc_pct has NaN for nothing, and neither -1 nor 9999",
    ),
    *(
        Equivalent("obs_jam_real", operator, "motor", "motor_on is served without sentinels")
        for operator in ("sentinels kept", "invalid kept")
    ),
    Equivalent(
        "",
        "MIN for MAX in SQL",
        "SELECT max(at_utc) AS latest FROM feed_heartbeat",
        "only whether there is a heartbeat counts, not which",
    ),
    *(
        Equivalent(node, "duplicates kept", "SELECT", f"doubles do not count: {why}")
        for node, why in _DOUBLES_DO_NOT_COUNT.items()
    ),
    *(
        Equivalent(
            "con_yard_trailer",
            "duplicates kept",
            f"row['{column}'] for row in",
            "one is enough, so one that comes twice is no more",
        )
        for column in ("trailer_id", "person_id")
    ),
    Equivalent(
        "con_cpt_slack",
        "strictness in SQL",
        "d.cpt_utc <= :horizon",
        "a pull twelve hours away leaves the slack, as no pull does",
    ),
    Equivalent(
        "obs_departure_short",
        "MIN for MAX in SQL",
        "max(e.at_utc) FROM loading",
        "asks for older rows as well, and the tool takes the latest of them",
    ),
    *(
        Equivalent(
            "",
            "scope ignored",
            f" in {counter}",
            "an asset's counters fall silent together, so one is known when the other is",
        )
        for counter in ("fails", "lane_full", "no_reads")
    ),
    *(
        Equivalent(node, operator, condition, _ONLY_NARROWS)
        for node, conditions in _NARROWED.items()
        for condition in conditions
        for operator in ("strictness in SQL", "condition dropped in SQL")
    ),
    Equivalent(
        "con_cpt_slack",
        "slack_horizon_s half as long",
        "",
        "a pull six to twelve hours away leaves the slack, as no pull does",
    ),
    Equivalent(
        "con_cpt_slack",
        "slack_horizon_s twice as long",
        "",
        "a pull beyond twelve hours leaves the slack, as no pull does",
    ),
    Equivalent(
        "rc_labor_short",
        "max for min",
        "min(since_s)",
        "all areas of a slot are of one shift",
    ),
    *(
        Equivalent(
            node,
            "check dropped",
            f"not {empty}",
            "nothing is fewer than the minimum, which the same check asks for",
        )
        for node, empty in (
            ("rc_label_print_poor", "unread"),
            ("rc_no_destination", "reads"),
            ("rc_volume_over_plan", "planned"),
            ("rc_upstream_stop", "planned"),
        )
    ),
    *(
        Equivalent("rc_carriers_out", operator, "total <= 0", "a loop has carriers: 480 of them")
        for operator in ("strictness", "check dropped")
    ),
    Equivalent(
        "con_alt_chute_free",
        "id not normalised",
        "route['chute']",
        "the controllers spell ids as the rules do",
    ),
    Equivalent(
        "obs_chutes_clustered",
        "id not normalised",
        "f'ZN-{first}'",
        "a zone's number has one digit, so the id is made in its one spelling",
    ),
    Equivalent(
        "con_ticket_open",
        "strictness",
        "number >= 10",
        "DRV-10 is of RC-00, and an infeed 10 there is not; nor are tickets about one",
    ),
    Equivalent(
        "con_tech_free",
        "condition dropped in SQL",
        "role = 'technician'",
        "only technicians have the skill mechatronics",
    ),
)
