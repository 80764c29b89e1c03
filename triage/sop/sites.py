"""The sites file, from bytes to what one SOP sees of each site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from triage.errors import Finding, InvalidFiles
from triage.model.canonical import sha256_hex
from triage.model.site import ParamValue, Site
from triage.sop.graph import cycles
from triage.sop.located import Located, YamlPath, plain
from triage.sop.nearest import Nearest
from triage.sop.procedure import SiteProfile, Sop
from triage.sop.reading import locate, read_file
from triage.sop.references import value_problem
from triage.sop.shape import ANY, Entries, shape
from triage.sop.sites_file import SITES_SECTIONS, AssetEntry, DefaultsEntry, SiteEntry, SitesFile

DEFAULT_ZONE = "UTC"

_ENTRIES: Entries = {
    (): SitesFile,
    ("defaults",): DefaultsEntry,
    ("defaults", "assets", ANY): AssetEntry,
    ("sites", ANY): SiteEntry,
    ("sites", ANY, "assets", ANY): AssetEntry,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sites:
    """Every site of a file, as one SOP sees it.

    `profiles` maps names and aliases. `sha256` is of the file, empty when there is none.
    """

    sha256: str
    file: str
    profiles: Mapping[str, SiteProfile]
    default: SiteProfile

    def profile(self, name: str) -> SiteProfile:
        """The site that bears this name or alias; the defaults under this name for any other."""
        found = self.profiles.get(name)
        if found is not None:
            return found
        return replace(self.default, site=replace(self.default.site, name=name))


def no_sites(sop: Sop) -> Sites:
    """What holds without a sites file: every site is unknown and has the SOP's own params."""
    return _sites(SitesFile(), "", "", sop)


def load_sites(path: Path | None, sop: Sop) -> Sites:
    """The sites in a file, what holds without one when `path` is None. Raises InvalidFiles, also
    for a file that cannot be read."""
    if path is None:
        return no_sites(sop)
    body, unreadable = read_file(path)
    if unreadable is not None:
        raise InvalidFiles([unreadable])
    return parse_sites(body, str(path), sop)


def parse_sites(body: bytes, file: str, sop: Sop) -> Sites:
    """The sites in `body`; `file` is what findings call it. Raises InvalidFiles with every fault
    found, warnings included, when one of them is more than a warning."""
    sites, findings = check_sites(body, file, sop)
    if sites is None:
        raise InvalidFiles(findings)
    return sites


def check_sites(body: bytes, file: str, sop: Sop) -> tuple[Sites | None, list[Finding]]:
    """The sites, None when the file has a fault that is more than a warning; and every finding,
    in the order of their lines."""
    located, findings = locate(body, file, SITES_SECTIONS)
    if located is None:
        return None, findings
    shaped = shape(located, SitesFile, _ENTRIES)
    findings += shaped.findings
    findings += _check(shaped.file, located, sop)
    findings.sort(key=lambda finding: finding.line)
    if any(not finding.warning for finding in findings):
        return None, findings
    return _sites(shaped.file, file, sha256_hex(body), sop), findings


# --- checks -----------------------------------------------------------------------------------


def _check(file: SitesFile, located: Located, sop: Sop) -> Iterator[Finding]:
    nearest = Nearest()
    common = _parent_map(file.defaults)
    yield from _settings(("defaults",), file.defaults, located, sop, nearest)
    yield from _loops(("defaults",), common, {}, located)
    for name, entry in file.sites.items():
        yield from _settings(("sites", name), entry, located, sop, nearest)
        if own := _parent_map(entry):
            yield from _loops(("sites", name), own, common, located)
    yield from _aliases(file, located)


def _settings(
    path: YamlPath, entry: DefaultsEntry, located: Located, sop: Sop, nearest: Nearest
) -> Iterator[Finding]:
    if entry.zone is not None and not _is_zone(entry.zone):
        yield located.finding(
            (*path, "zone"),
            f"`{plain(entry.zone)}` is not a time zone",
            nearest(entry.zone, available_timezones())
            or "use an IANA name, such as Europe/Berlin or UTC",
        )
    for name, value in entry.params.items():
        param = sop.params.get(name)
        if param is None:
            yield located.finding(
                (*path, "params", name),
                f"the SOP has no param `{name}`",
                nearest(name, sop.params) or "add it to the SOP's `params`, or remove it here",
            )
        elif problem := value_problem(param, value):
            yield located.finding(
                (*path, "params", name), f"`{name}`: {problem}", f"see `params` in {sop.file}"
            )


def _is_zone(name: str) -> bool:
    # Some hosts keep these beside the IANA zones; they differ from host to host.
    if name == "localtime" or name.startswith(("posix/", "right/")):
        return False
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _loops(
    path: YamlPath, own: Mapping[str, str], common: Mapping[str, str], located: Located
) -> Iterator[Finding]:
    """Loops that one of `own` closes; those of `common` alone are found where they stand."""
    parents = {**common, **own}
    graph: dict[str, list[str]] = {
        asset: [parent] if parent in parents else [] for asset, parent in parents.items()
    }
    for loop in cycles(graph):
        first = next((asset for asset in loop if asset in own), None)
        if first is not None:
            yield located.finding(
                (*path, "assets", first, "parent"),
                f"the asset lies in itself: {' in '.join(map(plain, loop))}",
                "correct one of these parents",
            )


def _aliases(file: SitesFile, located: Located) -> Iterator[Finding]:
    taken = {name: located.line(("sites", name)) for name in file.sites}
    for name, entry in file.sites.items():
        for index, alias in enumerate(entry.aliases):
            path: YamlPath = ("sites", name, "aliases", index)
            if alias in taken:
                yield located.finding(
                    path,
                    f"the alias `{plain(alias)}` is a site's name or alias already, on line "
                    f"{taken[alias]}",
                    "remove one of them",
                )
            else:
                taken[alias] = located.line(path)


# --- what comes of it -------------------------------------------------------------------------


def _sites(file: SitesFile, name: str, sha256: str, sop: Sop) -> Sites:
    profiles: dict[str, SiteProfile] = {}
    for site, entry in file.sites.items():
        profile = _profile(site, file.defaults, entry, sop, known=True)
        profiles.update(dict.fromkeys([site, *entry.aliases], profile))
    return Sites(
        sha256=sha256,
        file=name,
        profiles=profiles,
        default=_profile("", file.defaults, SiteEntry(), sop, known=False),
    )


def _profile(
    name: str, defaults: DefaultsEntry, entry: SiteEntry, sop: Sop, *, known: bool
) -> SiteProfile:
    stated: dict[str, ParamValue] = {**defaults.params, **entry.params}
    facts: dict[str, Any] = {**defaults.facts, **entry.facts}
    return SiteProfile(
        site=Site(
            name=name,
            zone=entry.zone or defaults.zone or DEFAULT_ZONE,
            units={**defaults.units, **entry.units},
            facts=facts,
        ),
        params={key: stated.get(key, param.value) for key, param in sop.params.items()},
        parents={**_parent_map(defaults), **_parent_map(entry)},
        known=known,
    )


def _parent_map(entry: DefaultsEntry) -> dict[str, str]:
    return {
        asset: content.parent
        for asset, content in entry.assets.items()
        if content.parent is not None
    }
