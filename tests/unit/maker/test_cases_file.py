"""`cases.jsonl` as a file: what is appended is read again as it was, and nothing is ever lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.maker.cases_world import NODE, labelled, library, line, shop, shop_sites
from triage.errors import ConfigError, InvalidFiles
from triage.library.files import Unreadable, locked
from triage.maker import cases_file
from triage.maker.cases_file import Appended, append_cases, case_line, cases_path, read_cases
from triage.maker.cases_reading import CasesRead
from triage.model.case import LabelledCase, RecordedAnswer
from triage.model.decision import NodeId
from triage.model.query import Aggregate, Call, Reading, Rows, Samples, Series, encode_answer
from triage.model.verdict import Clause, Truth, Verdict

SOP = shop()
SITES = shop_sites(SOP)
START = labelled(0).timestamp
SAMPLES = Samples("metrics", 'depth{site="north"}', START.replace(hour=1), START)


def read(root: Path) -> CasesRead:
    return read_cases(cases_path(root, NODE), SOP, SITES)


def append(root: Path, *cases: LabelledCase) -> Appended:
    return append_cases(root, NODE, cases, SOP, SITES)


# --- bad files --------------------------------------------------------------------------------


def test_no_file_is_no_cases_and_no_fault(tmp_path: Path) -> None:
    found = read(tmp_path / "absent")
    assert (found.cases, found.findings, found.complete) == ((), (), True)


def test_what_is_no_file_is_a_finding(tmp_path: Path) -> None:
    path = cases_path(tmp_path / "tools", NODE)
    path.mkdir(parents=True)
    assert [f.problem for f in read(tmp_path / "tools").errors] == ["is not a regular file"]
    path.rmdir()
    os.mkfifo(path)
    assert [f.problem for f in read(tmp_path / "tools").errors] == ["is not a regular file"]
    path.unlink()
    (tmp_path / "elsewhere.jsonl").write_bytes(line())
    path.symlink_to(tmp_path / "elsewhere.jsonl")
    found = read(tmp_path / "tools")
    assert "leads out of the library" in found.errors[0].problem
    assert not found.complete
    with pytest.raises(InvalidFiles, match="leads out of the library"):
        append(tmp_path / "tools", labelled(1))
    assert (tmp_path / "elsewhere.jsonl").read_bytes() == line()


def test_a_folder_that_leads_out_of_the_library(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tools" / NODE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unreadable, match="leads out of the library"):
        append(tmp_path / "tools", labelled(1))
    with pytest.raises(ConfigError, match="cannot be the name of a folder"):
        append_cases(tmp_path, NodeId("../x"), [labelled(1)], SOP, SITES)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_write_cut_off_anywhere_loses_nothing_that_was_there(tmp_path: Path, cut: int) -> None:
    append(tmp_path, labelled(1), labelled(2, "false"))
    path = cases_path(tmp_path, NODE)
    before = path.read_bytes()
    append(tmp_path, labelled(3))
    whole = path.read_bytes()
    assert whole.startswith(before)
    torn = whole[: len(before) + cut]
    path.write_bytes(torn)
    found = read(tmp_path)
    assert [case.entity for case in found.cases] == ["mail-1", "mail-2"]
    assert [(f.line, f.problem[:21]) for f in found.findings] == [(3, "the last line is torn")]
    assert "remove or complete it" in found.findings[0].fix
    with pytest.raises(InvalidFiles, match="jsonl:3: the last line is torn"):
        append(tmp_path, labelled(4))
    assert path.read_bytes() == torn
    path.write_bytes(before)
    assert append(tmp_path, labelled(3)).added == (labelled(3).case_id,)
    assert path.read_bytes() == whole


def test_a_write_without_its_very_end_is_whole(tmp_path: Path) -> None:
    append(tmp_path, labelled(1))
    path = cases_path(tmp_path, NODE)
    path.write_bytes(path.read_bytes().rstrip())
    append(tmp_path, labelled(2))
    found = read(tmp_path)
    assert found.findings == ()
    assert [case.entity for case in found.cases] == ["mail-1", "mail-2"]


def test_a_disk_that_is_full_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path, labelled(1))
    path = cases_path(tmp_path, NODE)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left on device — nothing was changed"):
        append(tmp_path, labelled(2))
    assert path.read_bytes() == before


def test_a_torn_end_is_looked_at_again_once_nobody_is_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path, labelled(1), labelled(2))
    path = cases_path(tmp_path, NODE)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])

    @contextmanager
    def once_it_is_written(folder: Path) -> Iterator[None]:
        assert folder == path.parent
        path.write_bytes(whole)
        with locked(folder):
            yield

    monkeypatch.setattr(cases_file, "locked", once_it_is_written)
    found = read(tmp_path)
    assert found.findings == ()
    assert len(found.cases) == 2


# --- appending --------------------------------------------------------------------------------


def test_all_or_none(tmp_path: Path) -> None:
    append(tmp_path, labelled(1))
    path = cases_path(tmp_path, NODE)
    before = path.read_bytes()
    with pytest.raises(InvalidFiles) as refused:
        append(tmp_path, labelled(2), labelled(1, "false"))
    assert str(refused.value) == (
        f"{path}:1: expected: is true; the new case, which asks the same, says false — correct this"
        " line, or leave the new case out"
    )
    named = labelled(3)._replace(case_id=labelled(1).case_id)
    with pytest.raises(InvalidFiles, match=r"\(new\):2: warehouse: `mars` is not in the sites"):
        append(tmp_path, labelled(2), labelled(4, site="mars"))
    with pytest.raises(InvalidFiles, match="says true"):
        append(tmp_path, labelled(5), labelled(5, "false"))
    with pytest.raises(InvalidFiles, match="`jam` is the case on line 1 already"):
        append(tmp_path, named._replace(case_id="jam"), labelled(6)._replace(case_id="jam"))
    append(tmp_path, labelled(7)._replace(case_id="jam"))
    with pytest.raises(InvalidFiles, match="2: case: the new case has the name of this one, `jam`"):
        append(tmp_path, labelled(8)._replace(case_id="jam"))
    assert path.read_bytes() == before + case_line(labelled(7)._replace(case_id="jam"))


def test_a_case_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    first, second = labelled(1, subject="w1"), labelled(2)
    assert append(tmp_path, first) == ((first.case_id,), ())
    again = append(tmp_path, labelled(1), second, second)
    assert again == ((second.case_id,), (first.case_id, second.case_id))
    assert len(read(tmp_path).cases) == 2
    before = cases_path(tmp_path, NODE).read_bytes()
    assert append(tmp_path, second).added == ()
    assert cases_path(tmp_path, NODE).read_bytes() == before


def test_faults_of_other_lines_do_not_keep_a_case_from_being_added(tmp_path: Path) -> None:
    library(tmp_path, line(expected="yes"), b"nonsense\n")
    assert len(append(tmp_path, labelled(1)).added) == 1
    found = read(tmp_path)
    assert ([f.line for f in found.errors], len(found.cases)) == ([1, 2], 1)


def test_an_answer_that_would_not_come_back_as_it_is(tmp_path: Path) -> None:
    query = {"kind": "call", "source": "equipment", "tool": "t", "arguments": {}}
    for body in (b'{"json": 1}', b'{"json":1.0e0}', b'{"b":1', b'{"json":"\n"}'):
        odd = labelled(1)._replace(answers=(RecordedAnswer(query, body),))
        with pytest.raises(ConfigError, match="a recorded answer is no"):
            append(tmp_path, odd)
    assert not cases_path(tmp_path, NODE).exists()


def test_a_file_that_would_grow_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path, labelled(1))
    before = cases_path(tmp_path, NODE).read_bytes()
    monkeypatch.setattr(cases_file, "MAX_FILE", len(before) + 10)
    with pytest.raises(ConfigError, match="would be larger than"):
        append(tmp_path, labelled(2))
    assert cases_path(tmp_path, NODE).read_bytes() == before


def test_the_file_is_read_and_written_under_one_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts: list[str] = []

    def noted(name: str) -> Callable[..., Any]:
        real = getattr(cases_file, name)

        def call(*args: Any) -> Any:
            acts.append(name)
            return real(*args)

        return call

    @contextmanager
    def watched(path: Path) -> Iterator[None]:
        with locked(path):
            acts.append(f"locked {path.name}")
            yield
            acts.append("freed")

    monkeypatch.setattr(cases_file, "locked", watched)
    for name in ("_read", "_append"):
        monkeypatch.setattr(cases_file, name, noted(name))
    append(tmp_path, labelled(1))
    assert acts == [f"locked {NODE}", "_read", "_append", "freed"]


def test_several_at_once_lose_none(tmp_path: Path) -> None:
    threads = [
        Thread(target=lambda part=part: append(tmp_path, *map(labelled, range(part, 40, 4))))
        for part in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read(tmp_path)
    assert found.findings == ()
    assert {case.entity for case in found.cases} == {f"mail-{number}" for number in range(40)}


# --- the same again ---------------------------------------------------------------------------

TEXT = st.text(max_size=20).filter(lambda text: text.isprintable())
FINITE = st.floats(allow_nan=False, allow_infinity=False)
INTS = st.integers(-(1 << 63), (1 << 63) - 1)
LABELS = st.dictionaries(TEXT, TEXT, max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | FINITE | INTS | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def series(draw: st.DrawFn) -> Series:
    times = tuple(sorted(draw(st.lists(FINITE, max_size=5, unique=True))))
    values = draw(st.lists(st.floats(), min_size=len(times), max_size=len(times)))
    return Series(draw(LABELS), times, tuple(values))


ANSWERS = st.one_of(
    st.tuples(st.just(SAMPLES), st.lists(series(), max_size=3).map(tuple)),
    st.tuples(
        st.just(Aggregate("metrics", "x", START.replace(hour=1), START, "quantile", 0.95)),
        st.lists(st.builds(Reading, LABELS, st.floats()), max_size=3).map(tuple),
    ),
    st.tuples(
        st.builds(Rows, st.just("tables"), TEXT, st.just((("name", "a\nb"),))),
        st.lists(st.dictionaries(TEXT, JSON, max_size=3), max_size=3).map(tuple),
    ),
    st.tuples(st.builds(Call, st.just("equipment"), TEXT, st.just('{"a":[1,{"b":2.0}]}')), JSON),
)
OBSERVED = FINITE | INTS | TEXT | st.booleans() | st.none()
CLAUSES = st.builds(Clause, TEXT, OBSERVED, TEXT, OBSERVED, TEXT, st.none() | st.booleans())
VERDICTS = st.builds(
    Verdict, st.sampled_from(Truth), st.lists(CLAUSES, max_size=2).map(tuple), TEXT, TEXT
)


@settings(deadline=None)
@given(
    answers=st.lists(ANSWERS, max_size=4, unique_by=lambda pair: pair[0]),
    labels=LABELS,
    parents=st.dictionaries(st.sampled_from(["obs_deep", "obs_slow"]), VERDICTS),
    subject=st.none() | TEXT,
    texts=st.tuples(TEXT, TEXT, st.sampled_from(["", "train", "heldout"])),
    depth=st.integers(1, 100) | st.floats(1, 100),
)
def test_a_case_comes_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory,
    answers: list[tuple[Samples, object]],
    labels: dict[str, str],
    parents: dict[NodeId, Verdict],
    subject: str | None,
    texts: tuple[str, str, str],
    depth: float,
) -> None:
    root = tmp_path_factory.mktemp("library")
    by, note, split = texts
    case = labelled(
        1,
        answers=tuple(answers),
        labels=labels,
        parents=parents,
        subject=subject,
        by=by,
        note=note,
        split=split,
        params={"depth": depth},
    )
    append(root, case)
    (again,) = read(root).cases
    assert again == case
    assert [one.body for one in again.answers] == [encode_answer(answer) for _, answer in answers]
    assert case_line(again) == cases_path(root, NODE).read_bytes()
