"""Shadows are taken up with the snapshot: at the start, and by a reload or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon import AT, good_tool
from tests.unit.app.test_current import A, B, Bench
from triage.errors import ConfigError
from triage.library.lifecycle import add_version, shadow_start, shadow_stop
from triage.library.manifest import source_path
from triage.sop.load import load_sop


class Shadowed(Bench):
    """With what a person does to a shadow of node `a`."""

    def start(self, source: str) -> int:
        root, sop = self.project.folder / "tools_lib", load_sop(self.project.sop)
        number = add_version(root, sop, A, source.encode(), maker="test", at=AT)
        shadow_start(root, sop, A, number, by="test", at=AT)
        return number

    def stop(self) -> None:
        root, sop = self.project.folder / "tools_lib", load_sop(self.project.sop)
        shadow_stop(root, sop, A, by="test", at=AT)

    def shown(self, node: str = A) -> bool:
        """Whether its comparisons are on the metrics page, from zero."""
        labels = {"node": node, "result": "differs"}
        value = self.metrics.registry.get_sample_value("triage_shadow_comparisons_total", labels)
        assert value in (None, 0.0)
        return value is not None


@pytest.fixture
def bench(tmp_path: Path) -> Shadowed:
    return Shadowed(tmp_path, [])


async def test_a_shadow_is_there_from_the_start(bench: Shadowed) -> None:
    number = bench.start(good_tool("other"))
    await bench.current.start()
    shadow = bench.current.shadows[A]
    assert (shadow.version, shadow.text) == (number, good_tool("other"))
    assert bench.current.snapshots.current.library.tools[A].version == 1
    assert bench.shown()
    assert not bench.shown(B)
    await bench.current.close()


async def test_a_reload_takes_up_what_was_begun_and_ended(bench: Shadowed) -> None:
    await bench.current.start()
    assert bench.current.shadows == {}
    assert not bench.shown()
    number = bench.start(good_tool("other"))
    assert bench.current.shadows == {}
    await bench.current.reload()
    assert bench.current.shadows[A].version == number
    assert bench.shown()
    bench.stop()
    await bench.current.reload()
    assert bench.current.shadows == {}
    assert not bench.shown()
    await bench.current.close()


async def test_a_reload_that_is_refused_leaves_the_shadow(bench: Shadowed) -> None:
    number = bench.start(good_tool("other"))
    await bench.current.start()
    bench.stop()
    bench.project.config.write_text("rubbish")
    with pytest.raises(ConfigError):
        await bench.current.reload()
    assert bench.current.shadows[A].version == number
    await bench.current.close()


async def test_a_shadow_that_cannot_be_used_refuses_nothing(bench: Shadowed) -> None:
    number = bench.start(good_tool("other"))
    source_path(bench.project.folder / "tools_lib", A, number).write_text("changed")
    await bench.current.start()
    assert bench.current.shadows == {}
    await bench.current.close()
