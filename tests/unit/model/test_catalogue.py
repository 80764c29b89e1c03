"""Finding names by words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from triage.model.catalogue import Column, Metric, metric_words, ranked, table_words

METRICS = {
    "air_pressure": Metric(labels=("asset", "site"), help="Supply at the main", unit="bar"),
    "air_flow": Metric(labels=("asset", "site")),
    "drive_pressure": Metric(labels=("asset", "site")),
    "picks_total": Metric(labels=("cell", "site"), help="Picks under Pressure of air"),
    "up": Metric(),
}
ENTRIES = {name: metric_words(metric) for name, metric in METRICS.items()}


def test_the_most_words_come_first_and_then_those_in_the_name() -> None:
    found = ranked(ENTRIES, ["pressure", "air"])
    assert found == ["air_pressure", "picks_total", "air_flow", "drive_pressure"]


def test_what_holds_no_word_is_left_out() -> None:
    assert ranked(ENTRIES, ["valve"]) == []
    assert ranked(ENTRIES, ["BAR"]) == ["air_pressure"]
    assert ranked(ENTRIES, ["cell"]) == ["picks_total"]


def test_without_a_word_there_is_everything() -> None:
    assert ranked(ENTRIES, []) == ranked(ENTRIES, [""]) == sorted(METRICS)


def test_a_word_that_all_hold_tells_less_than_a_rare_one() -> None:
    entries = {"a": "site", "b": "site shelf", "c": "site shelf", "d": "site door", "site_e": ""}
    assert ranked(entries, ["site", "door", "shelf"])[0] == "d"


def test_tables_are_found_by_their_columns() -> None:
    tables = {"t": (Column("id", "integer"), Column("lane", "text")), "u": (Column("id", "text"),)}
    entries = {name: table_words(columns) for name, columns in tables.items()}
    assert ranked(entries, ["lane"]) == ["t"]
    assert ranked(entries, ["text"]) == [], "a type is no word of the table"


WORDS = st.text(alphabet="abc", min_size=1, max_size=2)


@given(
    st.dictionaries(WORDS, st.lists(WORDS, max_size=3).map(" ".join), max_size=6),
    st.lists(WORDS, min_size=1, max_size=4),
)
def test_the_order_is_that_of_the_words_held(entries: dict[str, str], words: list[str]) -> None:
    def held(name: str) -> int:
        return sum(word in f"{name} {entries[name]}" for word in set(words))

    found = ranked(entries, words)
    counts = [held(name) for name in found]
    assert counts == sorted(counts, reverse=True)
    assert set(found) == {name for name in entries if held(name)}
    assert found == ranked(dict(reversed(entries.items())), [*reversed(words), *words])
