"""The procedure and the sites as the annotator reads them: plain YAML, no check of anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bench.annotator.ids import Layout
from bench.world.canonical import SiteFacts

ROOT = Path(__file__).resolve().parents[2]
SOP = ROOT / "sop.yaml"
SITES = ROOT / "sites.yaml"

LEADS_ON = {"true": "on_true", "false": "on_false", "no_data": "on_no_data"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    rank: int
    yields: bool
    cancels: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`targets` maps each verdict to nodes and actions, in the file's order."""

    kind: str
    targets: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSettings:
    """What one site goes by. `parents` maps an asset to the one that contains it."""

    zone: str
    params: Mapping[str, Any]
    facts: Mapping[str, Any]
    parents: Mapping[str, str]
    layout: Layout

    def number(self, name: str) -> float:
        """A param as a number. Raises KeyError for a param that the SOP has not."""
        return float(self.params[name])

    def seconds(self, name: str) -> int:
        return int(self.params[name])

    def within(self, asset: str, container: str) -> bool:
        """Whether `asset` is `container` or lies in it, at any depth."""
        chain = [asset]
        while (parent := self.parents.get(chain[-1])) is not None and parent not in chain:
            chain.append(parent)
        return container in chain


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`sites` maps names and aliases; a site that is not there has `default`."""

    alarms: Mapping[str, tuple[str, ...]]
    aliases: Mapping[str, str]
    nodes: Mapping[str, Node]
    actions: Mapping[str, Action]
    default: SiteSettings
    sites: Mapping[str, SiteSettings] = field(default_factory=dict)

    def site(self, facts: SiteFacts) -> SiteSettings:
        """Of the site the world calls so. Raises ValueError when the world stands otherwise than
        the sites file says."""
        found = self.sites.get(facts.name, self.default)
        stated = {
            "zone": (found.zone, facts.zone),
            "outbound_areas": (tuple(found.facts["outbound_areas"]), facts.outbound_areas),
            "donor_areas": (tuple(found.facts["donor_areas"]), facts.donor_areas),
            "spare_parts": (dict(found.facts["spare_parts"]), dict(facts.spare_parts)),
            **{
                f"layout.{name}": (found.facts["layout"].get(name), count)
                for name, count in facts.layout.items()
            },
        }
        for name, (of_file, of_world) in stated.items():
            if of_file != of_world:
                raise ValueError(
                    f"{facts.name}: `{name}` is {of_file!r} in the sites file and {of_world!r} in "
                    "the world; make them the same"
                )
        return found

    def entry(self, alarm: str) -> tuple[str, ...] | None:
        """Where an alarm enters, its alias followed; None for one that nobody routed."""
        return self.alarms.get(self.aliases.get(alarm, alarm))

    def reached_from(self, alarm: str) -> frozenset[str]:
        """Every node that some verdicts lead to from an alarm."""
        found: set[str] = set()
        waiting = list(self.entry(alarm) or ())
        while waiting:
            node = waiting.pop()
            if node in found:
                continue
            found.add(node)
            for targets in self.nodes[node].targets.values():
                waiting += [target for target in targets if target in self.nodes]
        return frozenset(found)


def load_settings(sop: Path = SOP, sites: Path = SITES) -> Settings:
    """Raises OSError for a file that cannot be read, KeyError for one that lacks a section."""
    return settings_of(
        yaml.safe_load(sop.read_text("utf-8")), yaml.safe_load(sites.read_text("utf-8"))
    )


def settings_of(sop: Mapping[str, Any], sites: Mapping[str, Any]) -> Settings:
    """The same from what the files hold."""
    params = {name: param["value"] for name, param in sop["params"].items()}
    defaults = sites.get("defaults") or {}
    named: dict[str, SiteSettings] = {}
    for name, entry in (sites.get("sites") or {}).items():
        settings = _site(params, defaults, entry or {})
        named |= dict.fromkeys([name, *(entry or {}).get("aliases", ())], settings)
    return Settings(
        alarms={alarm: tuple(nodes) for alarm, nodes in sop["alarms"].items()},
        aliases=sop.get("aliases") or {},
        nodes={
            name: Node(
                kind=node["kind"],
                targets={word: tuple(node.get(key) or ()) for word, key in LEADS_ON.items()},
            )
            for name, node in sop["nodes"].items()
        },
        actions={
            name: Action(
                rank=action["rank"],
                yields=action.get("yields", False),
                cancels=frozenset(action.get("cancels") or ()),
            )
            for name, action in sop["actions"].items()
        },
        default=_site(params, defaults, {}),
        sites=named,
    )


def _site(
    params: Mapping[str, Any], defaults: Mapping[str, Any], entry: Mapping[str, Any]
) -> SiteSettings:
    facts = {**(defaults.get("facts") or {}), **(entry.get("facts") or {})}
    assets = {**(defaults.get("assets") or {}), **(entry.get("assets") or {})}
    return SiteSettings(
        zone=entry.get("zone") or defaults.get("zone") or "UTC",
        params={**params, **(defaults.get("params") or {}), **(entry.get("params") or {})},
        facts=facts,
        parents={
            asset: content["parent"]
            for asset, content in assets.items()
            if content and content.get("parent")
        },
        layout=Layout(counts=facts["layout"], words=facts["id_words"], widths=facts["id_width"]),
    )
