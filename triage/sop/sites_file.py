"""The sites file's shape."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from triage.sop.fields import FileModel, Id, Name, References, Scalar, Unit

SITES_SECTIONS = {"sites": "site"}


class AssetEntry(FileModel):
    """One thing at a site."""

    parent: Name | None = Field(default=None, description="The asset that contains this one.")


class DefaultsEntry(FileModel):
    """What holds at a site that does not say otherwise, and at a site that is not named here."""

    zone: str | None = Field(
        default=None, description="IANA time zone, such as Europe/Berlin. UTC by default."
    )
    units: dict[Name, Unit] = Field(
        default={}, description="For a metric, the unit it is reported in."
    )
    params: dict[Id, Scalar] = Field(default={}, description="Values for params of the SOP.")
    facts: dict[Name, Any] = Field(default={}, description="Anything else that tools may read.")
    assets: dict[Name, AssetEntry] = Field(
        default={}, description="Things at the site, and which contains which."
    )


class SiteEntry(DefaultsEntry):
    """One place that the procedure runs at."""

    aliases: References = Field(default=[], description="Other names that alerts give the site.")


class SitesFile(FileModel):
    """Facts about the places that a procedure runs at."""

    defaults: DefaultsEntry = Field(
        default_factory=DefaultsEntry, description="What holds where a site says nothing."
    )
    sites: dict[Name, SiteEntry] = Field(default={}, description="The sites by name.")
