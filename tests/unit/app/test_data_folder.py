"""What is found without the store's libraries must be where the store is, and is one process's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from triage.adapters.store.file import StoreFile
from triage.app.data_folder import DataFolder, data_folder
from triage.app.settings import Settings
from triage.errors import ConfigError


@pytest.mark.parametrize(
    "url", ["sqlite:///data/triage.db", "sqlite:////var/lib/triage/t.db", "sqlite:///t.db"]
)
def test_the_data_folder_is_the_stores(tmp_path: Path, url: str) -> None:
    config = tmp_path / "triage.toml"
    config.write_text(f'[store]\nurl = "{url}"\n')
    settings = Settings.load(config, {})
    assert data_folder(settings).path == StoreFile.at(settings.store.url).path.parent


def test_a_folder_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    folder = DataFolder(path=tmp_path / "not" / "there")
    with folder.held():
        assert folder.path.stat().st_mode & 0o777 == 0o700
        with (
            pytest.raises(ConfigError, match=f"in use by process {os.getpid()}"),
            DataFolder(path=folder.path).held(),
        ):
            pytest.fail("both have it")
    with folder.held():
        assert folder.path.exists()


def test_a_folder_that_cannot_be_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigError, match=r"cannot be used: .*store\.data"),
        DataFolder(path=tmp_path / "file" / "data").held(),
    ):
        pytest.fail("a file is no folder")


def test_what_goes_wrong_inside_is_not_taken_for_a_lock(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), DataFolder(path=tmp_path).held():
        raise BlockingIOError
