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

_NEVER_UNKNOWN = (
    "a chute's state is repeated every three hours and carried for four, and no silence of this"
    " world is long enough to make it unknown"
)
_OF_UNKNOWN_CHUTES = (
    *(
        (node, operator, before)
        for node in (
            "con_alt_chute_free",
            "obs_chutes_clustered",
            "obs_chutes_full",
            "rc_trailer_absent",
        )
        for operator, before in (
            ("min_coverage a tenth less", ""),
            ("min_coverage a tenth more", ""),
            ("strictness", "known >= float(context.params['min_coverage'])"),
        )
    ),
    ("con_alt_chute_free", "check dropped", "not chute"),
    ("con_alt_chute_free", "false for no_data", "no chute has reported"),
    ("con_alt_chute_free", "kind of entity ignored", "entity.startswith('CH-')"),
    ("obs_chutes_clustered", "check dropped", "not shares"),
    ("obs_chutes_clustered", "false for no_data", "no chute has reported"),
    ("rc_trailer_absent", "check dropped", "not lane"),
    ("rc_trailer_absent", "false for no_data", "no chute has reported"),
)

EQUIVALENTS: tuple[Equivalent, ...] = (
    *(Equivalent(*one, _NEVER_UNKNOWN) for one in _OF_UNKNOWN_CHUTES),
    *(
        Equivalent(node, "id not normalised", before, "the warehouse spells lanes as the rules do")
        for node, before in (
            ("obs_departure_short", "['lane']"),
            ("obs_staging_crowded", "row['lane']"),
            ("rc_trailer_absent", "row['lane']"),
        )
    ),
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
    *(
        Equivalent(node, "duplicates kept", f"SELECT DISTINCT {columns}", why)
        for node, columns, why in (
            ("rc_upstream_stop", "slot_utc", "the plan is kept by its slot"),
            ("rc_upstream_stop", "start_local", "one break that holds is enough"),
            ("rc_volume_over_plan", "slot_utc", "the plan is kept by its slot"),
        )
    ),
    *(
        Equivalent(node, operator, condition, "the tool looks up the slots it means")
        for node in ("rc_upstream_stop", "rc_volume_over_plan")
        for operator, condition in (
            ("condition dropped in SQL", "slot_utc >= :first"),
            ("condition dropped in SQL", "slot_utc <= :last"),
        )
    ),
    Equivalent(
        "rc_photo_eye_dirty",
        "any_of flipped",
        "conclude(known[0][1]",
        "no clause holds there, so neither one nor all do",
    ),
    *(
        Equivalent(
            node, "share for percent", "100 * full", "the share is only compared with other shares"
        )
        for node in ("rc_photo_eye_dirty", "rc_trailer_absent")
    ),
    Equivalent(
        "rc_photo_eye_dirty",
        "any for all",
        "neighbour in grown",
        "an infeed's counters fall silent together, so one is known when the other is",
    ),
    Equivalent(
        "obs_jam_real",
        "id not normalised",
        "f'PE-{infeed}{place",
        "an eye's number has no leading zeros, so the id is made in its one spelling",
    ),
    Equivalent(
        "obs_jam_real",
        "invalid kept",
        "valid([value]",
        "parcels_total and motor_on are served without sentinels and NaN",
    ),
    Equivalent(
        "rc_drive_overload",
        "width ignored",
        "asset_id(",
        "only a drive is told of and looked up, and its number has no leading zeros",
    ),
    Equivalent(
        "obs_staging_crowded",
        "condition dropped",
        "row['positions'] > row['closed']",
        "no lane of the world is wholly closed",
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
    *(
        Equivalent(
            "con_alt_chute_free",
            "id not normalised",
            f"_normalised({named}",
            "the controllers spell ids as the rules do",
        )
        for named in ("route['chute']", "named")
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
