"""What is found without the daemon's libraries must be where the daemon puts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.app.daemon import data_folder
from triage.app.settings import Settings
from triage.cli.places import quarantine_file


@pytest.mark.parametrize(
    "url", ["sqlite:///data/triage.db", "sqlite:////var/lib/triage/t.db", "sqlite:///t.db"]
)
def test_the_quarantine_is_the_daemons(tmp_path: Path, url: str) -> None:
    config = tmp_path / "triage.toml"
    config.write_text(f'[store]\nurl = "{url}"\n')
    settings = Settings.load(config, {})
    assert quarantine_file(settings) == data_folder(settings).quarantine
