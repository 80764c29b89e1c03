"""What a making takes from a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import SOP, TOML, TOOL
from tests.unit.library import building
from triage.app.make import cases_of
from triage.app.make_parts import Workbench, active_version, kind_of, workbench
from triage.app.sections import CustomSource, McpSource, PrometheusSource, SqlSource
from triage.app.settings import Settings
from triage.errors import ConfigError
from triage.library.lifecycle import add_version
from triage.maker.task import SourceKind
from triage.model.decision import NodeId

NODE = NodeId("obs_deep")
MODEL = 'llm_url = "http://127.0.0.1:1/v1"\nmodel = "small"\n'
KEY = {"KEY": "key-of-the-account"}


def bench(folder: Path, more: str) -> Workbench:
    (folder / "triage.toml").write_text(f"{TOML}{more}")
    (folder / "sop.yaml").write_text(SOP)
    return workbench(Settings.load(folder / "triage.toml", KEY))


def test_without_an_endpoint_there_is_nothing_to_make_with(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[make\]"):
        bench(tmp_path, "")


def test_the_makers_own_endpoint_goes_before_the_fallbacks(tmp_path: Path) -> None:
    both = f"[make]\n{MODEL}[fallback]\n{MODEL.replace('small', 'large')}"
    made = bench(tmp_path, both)
    assert (made.model, made.section.model) == ("small", "large")
    assert bench(tmp_path, f"[fallback]\n{MODEL}").model == "small"


def test_the_collecting_agent_takes_the_makers_endpoint_where_there_is_no_other(
    tmp_path: Path,
) -> None:
    made = bench(tmp_path, f'[make]\n{MODEL}api_key_env = "KEY"\n')
    assert made.section.is_on
    assert (made.section.model, made.section.secret("api_key")) == ("small", KEY["KEY"])
    assert KEY["KEY"] not in repr(made)


def test_what_a_prompt_may_say_of_a_source() -> None:
    url = "http://127.0.0.1:1"
    assert kind_of(PrometheusSource(type="prometheus", url=url)) is SourceKind.SERIES
    assert kind_of(SqlSource(type="sql", url="sqlite:///x.db")) is SourceKind.TABLES
    assert kind_of(McpSource(type="mcp", url=url)) is SourceKind.TOOLS
    assert kind_of(CustomSource(type="custom", factory="a:b")) is SourceKind.ANY


# --- the active version ---------------------------------------------------------------------------


def test_without_an_active_version_there_is_none(tmp_path: Path) -> None:
    made = bench(tmp_path, f"[make]\n{MODEL}")
    assert active_version(made, NODE) is None
    add_version(
        made.settings.sop.library, made.sop, NODE, TOOL.encode(), maker="ann", at=building.AT
    )
    assert active_version(made, NODE) is None


def test_an_active_version_is_known_with_what_it_may_ask(tmp_path: Path) -> None:
    made = bench(tmp_path, f"[make]\n{MODEL}")
    building.add_active(made.settings.sop.library, made.sop, NODE, TOOL.encode())
    active = active_version(made, NODE)
    assert active is not None
    assert (active.version, active.candidate.text) == (1, TOOL)
    assert active.candidate.sources == ("tables",)


@pytest.mark.parametrize("name", ["v1.py", "tool.toml"])
def test_one_that_was_changed_is_told_and_not_compared_with(tmp_path: Path, name: str) -> None:
    made = bench(tmp_path, f"[make]\n{MODEL}")
    building.add_active(made.settings.sop.library, made.sop, NODE, TOOL.encode())
    with (made.settings.sop.library / NODE / name).open("ab") as file:
        file.write(b"\nx = 1\n")
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        active_version(made, NODE)


# --- cases ----------------------------------------------------------------------------------------


def test_cases_of_one_verdict_are_too_few(tmp_path: Path) -> None:
    made = bench(tmp_path, f"[make]\n{MODEL}")
    home = made.settings.sop.library / NODE
    home.mkdir(parents=True)
    lines = [
        f'{{"warehouse": "home", "timestamp": "2026-06-0{day}T06:00:00Z", "expected": "{word}"}}\n'
        for day, word in ((1, "true"), (2, "true"), (3, "true"), (4, "false"))
    ]
    (home / "cases.jsonl").write_text("".join(lines))
    with pytest.raises(ConfigError, match="all 2 training cases expect true"):
        cases_of(made, NODE)
    (home / "cases.jsonl").write_text("".join([lines[3].replace("-04", "-01"), *lines[1:3]]))
    with pytest.raises(ConfigError, match="all 1 training cases expect false"):
        cases_of(made, NODE)
