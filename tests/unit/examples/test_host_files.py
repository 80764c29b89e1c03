"""The host example's files agree with each other."""

from __future__ import annotations

import hashlib
import re
import tomllib

import pytest
import yaml

from tests.unit.examples.host_world import HOST, sop
from triage.app.settings import Settings
from triage.library.check import check_parents
from triage.library.loader import load_library
from triage.sop.load import load_sop
from triage.sop.sites import load_sites

PROCEDURE = load_sop(HOST / "sop.yaml")
LIBRARY = load_library(HOST / "tools_lib", PROCEDURE)
NODES = sorted(sop()["nodes"])


@pytest.mark.parametrize("node", NODES)
def test_manifest_pins_the_tool_and_the_text_it_was_made_from(node: str) -> None:
    folder = HOST / "tools_lib" / node
    manifest = tomllib.loads((folder / "tool.toml").read_text(encoding="utf-8"))
    active = next(v for v in manifest["versions"] if v["version"] == manifest["active"])
    source = (folder / f"v{manifest['active']}.py").read_bytes()
    text = sop()["nodes"][node]["text"]
    assert manifest["node"] == node
    assert active["sha256"] == hashlib.sha256(source).hexdigest()
    assert active["sop_text_sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_library_loads_and_no_tool_reads_a_parent_that_may_not_have_answered() -> None:
    assert [str(failed) for failed in LIBRARY.broken.values()] == []
    assert [str(finding) for finding in LIBRARY.findings] == []
    assert [str(finding) for finding in check_parents(HOST / "tools_lib", PROCEDURE, LIBRARY)] == []
    assert sorted(LIBRARY.tools) == NODES


def test_every_tool_has_a_node() -> None:
    folders = sorted(path.name for path in (HOST / "tools_lib").iterdir() if path.is_dir())
    assert folders == NODES


def test_every_param_is_read_by_a_tool_and_every_read_param_exists() -> None:
    sources = [path.read_text(encoding="utf-8") for path in HOST.glob("tools_lib/*/v1.py")]
    read = {name for text in sources for name in re.findall(r'params\["(\w+)"\]', text)}
    assert read == set(sop()["params"])


def test_every_alarm_of_the_procedure_has_an_alert_rule() -> None:
    rules = yaml.safe_load((HOST / "host.rules.yml").read_text(encoding="utf-8"))
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert alerts == set(sop()["alarms"])


def test_sites_load_and_override_params() -> None:
    sites = load_sites(HOST / "sites.yaml", PROCEDURE)
    assert sites.profile("demo").params["window_s"] == 10
    assert sites.profile("ci").params == sites.profile("build-farm").params
    assert sites.profile("elsewhere").params["cpu_busy_pct"] == 85


def test_configuration_loads_and_names_files_that_are_there() -> None:
    settings = Settings.load(HOST / "triage.toml", {})
    assert settings.sop.file == HOST / "sop.yaml"
    assert settings.sop.sites == HOST / "sites.yaml"
    assert settings.sop.library == HOST / "tools_lib"
    asked = {source for node in PROCEDURE.nodes.values() for source in node.sources}
    assert asked == set(settings.sources)


def test_missing_figures_never_close_an_alert() -> None:
    closing = {"close_alert"}
    for node in PROCEDURE.nodes.values():
        assert closing.isdisjoint(node.targets["no_data"])
        if "obs_exporter_gone" in node.targets["no_data"]:  # which may close: a firmer one stays
            assert "check_monitoring" in node.targets["no_data"]
