"""What is found without the store's libraries must be where the store is."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.adapters.store.file import StoreFile
from triage.app.data_folder import data_folder
from triage.app.settings import Settings


@pytest.mark.parametrize(
    "url", ["sqlite:///data/triage.db", "sqlite:////var/lib/triage/t.db", "sqlite:///t.db"]
)
def test_the_data_folder_is_the_stores(tmp_path: Path, url: str) -> None:
    config = tmp_path / "triage.toml"
    config.write_text(f'[store]\nurl = "{url}"\n')
    settings = Settings.load(config, {})
    assert data_folder(settings).path == StoreFile.at(settings.store.url).path.parent
