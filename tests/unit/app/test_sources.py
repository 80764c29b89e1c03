"""From a section to an adapter: sources of one's own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from triage.adapters.memory import MemorySource
from triage.app.sections import CustomSource
from triage.app.sources import make_source
from triage.errors import ConfigError

given: list[Mapping[str, Any]] = []


def factory(name: str, **settings: Any) -> MemorySource:
    given.append(settings)
    return MemorySource(name, {})


def no_source(name: str, **settings: Any) -> str:
    return name


def section(factory_name: str, **settings: Any) -> CustomSource:
    return CustomSource(type="custom", factory=f"{__name__}:{factory_name}", **settings)


def test_a_source_of_ones_own_is_made_with_its_settings() -> None:
    given.clear()
    made = make_source(
        "floor", section("factory", path=Path("world"), options={"seed": 7}, url="http://x")
    )
    assert made.name == "floor"
    assert given == [{"path": Path("world"), "options": {"seed": 7}, "address": "http://x"}]


def test_the_module_may_lie_in_a_folder_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "floor_of_ones_own.py").write_text(
        "from triage.adapters.memory import MemorySource\n"
        "def source(name, **settings):\n    return MemorySource(name, {})\n"
    )
    custom = CustomSource(type="custom", factory="floor_of_ones_own:source", python_path=tmp_path)
    assert make_source("floor", custom).name == "floor"
    assert make_source("again", custom).name == "again"
    assert sys.path.count(str(tmp_path)) == 1


@pytest.mark.parametrize(
    ("custom", "problem"),
    [
        (section("absent"), "has no function absent: correct `factory`"),
        (section("no_source"), "has no open, ask, close: it must be a triage.ports.Source"),
        (
            CustomSource(type="custom", factory="no_such_package.x:y"),
            "cannot import no_such_package.x: No module named 'no_such_package'. Install it",
        ),
    ],
)
def test_what_is_no_source_is_said(custom: CustomSource, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        make_source("floor", custom)
    assert str(raised.value).startswith("source floor: ")
    assert problem in str(raised.value)


@pytest.mark.parametrize("settings", [{"factory": "no colon"}, {"url": "a", "url_env": "B"}])
def test_sections_that_contradict_themselves(settings: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"factory|set one of"):
        CustomSource(**{"type": "custom", "factory": "a:b", **settings})  # type: ignore[arg-type] # as a file would give them
