from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.examples.host_world import HOST


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("host_top_process", HOST / "top_process.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_lists_the_busiest_first(script: ModuleType) -> None:
    before = {(1, "init"): 9.0, (7, "yes"): 1.0, (8, "sh"): 2.0}
    after = {(1, "init"): 9.0, (7, "yes"): 11.0, (8, "sh"): 7.0}
    text = script.page(before, after, 10.0, cores=2, count=2)
    assert text.splitlines()[2:] == [
        'host_top_process_cpu_ratio{pid="7",comm="yes"} 0.500000',
        'host_top_process_cpu_ratio{pid="8",comm="sh"} 0.250000',
    ]


def test_page_counts_a_new_process_from_its_second_reading(script: ModuleType) -> None:
    text = script.page({}, {(7, "old under a new pid"): 500.0}, 10.0, cores=1, count=5)
    assert text.splitlines()[-1].endswith(" 0.000000")


def test_page_escapes_the_command(script: ModuleType) -> None:
    text = script.page({}, {(7, 'a"b\\c\nd'): 1.0}, 1.0, cores=1, count=1)
    assert 'comm="a\\"b\\\\c\\nd"' in text.splitlines()[-1]


def test_spent_sees_this_process(script: ModuleType) -> None:
    comm = Path("/proc/self/comm").read_text(encoding="utf-8").strip()
    pid = int(Path("/proc/self").readlink().name)
    assert script.spent()[pid, comm] >= 0


def test_write_leaves_one_file(script: ModuleType, tmp_path: Path) -> None:
    script.write(tmp_path, "one\n")
    script.write(tmp_path, "two\n")
    assert [path.name for path in tmp_path.iterdir()] == ["host_top_process.prom"]
    assert (tmp_path / "host_top_process.prom").read_text(encoding="utf-8") == "two\n"
