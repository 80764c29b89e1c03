"""Every node's exact answer, from what truly was."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from bench.annotator import constraints, observations, root_causes, root_causes_warehouse
from bench.annotator.instant import Instant
from bench.annotator.judged import Judged
from bench.annotator.root_causes_warehouse import Rule
from bench.annotator.settings import Settings
from bench.annotator.tables import SiteTables
from bench.world.canonical import Canonical

KEPT = 64  # instants; an alert needs one, a bisection a dozen

RULES: Mapping[str, Rule] = {
    "obs_sorter_slow": observations.sorter_slow,
    "obs_recirc_elevated": observations.recirc_elevated,
    "obs_no_read_elevated": observations.no_read_elevated,
    "obs_induct_starved": observations.induct_starved,
    "obs_induct_blocked": observations.induct_blocked,
    "obs_pick_fail_elevated": observations.pick_fail_elevated,
    "obs_pick_fail_single_cell": observations.pick_fail_single_cell,
    "obs_chutes_full": observations.chutes_full,
    "obs_chutes_clustered": observations.chutes_clustered,
    "obs_divert_fail_elevated": observations.divert_fail_elevated,
    "obs_jam_real": observations.jam_real,
    "obs_staging_crowded": observations.staging_crowded,
    "obs_departure_short": observations.departure_short,
    "rc_safety_stop": root_causes.safety_stop,
    "rc_drive_fault": root_causes.drive_fault,
    "rc_drive_overload": root_causes.drive_overload,
    "rc_air_pressure_low": root_causes.air_pressure_low,
    "rc_photo_eye_dirty": root_causes.photo_eye_dirty,
    "rc_scan_lens_dirty": root_causes.scan_lens_dirty,
    "rc_label_print_poor": root_causes_warehouse.label_print_poor,
    "rc_gap_loss": root_causes.gap_loss,
    "rc_no_destination": root_causes_warehouse.no_destination,
    "rc_divert_worn": root_causes.divert_worn,
    "rc_cup_worn": root_causes.cup_worn,
    "rc_vacuum_filter_clogged": root_causes.vacuum_filter_clogged,
    "rc_vision_degraded": root_causes.vision_degraded,
    "rc_item_mix_hard": root_causes_warehouse.item_mix_hard,
    "rc_container_short": root_causes_warehouse.container_short,
    "rc_trailer_absent": root_causes_warehouse.trailer_absent,
    "rc_door_fault": root_causes.door_fault,
    "rc_labor_short": root_causes_warehouse.labor_short,
    "rc_volume_over_plan": root_causes_warehouse.volume_over_plan,
    "rc_upstream_stop": root_causes_warehouse.upstream_stop,
    "rc_carriers_out": root_causes.carriers_out,
    "rc_tracking_slip": root_causes.tracking_slip,
    "con_ticket_open": constraints.ticket_open,
    "con_tech_free": constraints.tech_free,
    "con_cpt_slack": constraints.cpt_slack,
    "con_reset_allowed": constraints.reset_allowed,
    "con_alt_chute_free": constraints.alt_chute_free,
    "con_induct_headroom": constraints.induct_headroom,
    "con_spare_on_hand": constraints.spare_on_hand,
    "con_labor_movable": constraints.labor_movable,
    "con_yard_trailer": constraints.yard_trailer,
}


class Judge:
    """Answers for one world. Keeps the figures of the last instants asked about."""

    def __init__(self, canonical: Canonical, settings: Settings) -> None:
        self.settings = settings
        self._canonical = canonical
        self._sites = [settings.site(facts) for facts in canonical.sites]
        self._tables = [
            SiteTables(canonical, index, site.layout) for index, site in enumerate(self._sites)
        ]
        self._instants: OrderedDict[tuple[int, int], Instant] = OrderedDict()

    def judge(self, site: int, t: int, entity: str, node: str) -> Judged:
        """`entity` however it is spelled. Raises KeyError for a node that is none of RULES."""
        asset = self._sites[site].layout.normalise(entity)
        return RULES[node](self._instant(site, t), asset)

    def normalise(self, site: int, entity: str) -> str:
        return self._sites[site].layout.normalise(entity)

    def within(self, site: int, asset: str, container: str) -> bool:
        return self._sites[site].within(asset, container)

    def _instant(self, site: int, t: int) -> Instant:
        found = self._instants.get((site, t))
        if found is None:
            found = Instant(self._canonical, self._sites[site], self._tables[site], site, t)
            self._instants[site, t] = found
            if len(self._instants) > KEPT:
                self._instants.popitem(last=False)
        else:
            self._instants.move_to_end((site, t))
        return found


def judge(
    canonical: Canonical, settings: Settings, site: int, t: int, entity: str, node: str
) -> Judged:
    """One answer, nothing kept. For many of one world use a Judge."""
    return Judge(canonical, settings).judge(site, t, entity, node)
