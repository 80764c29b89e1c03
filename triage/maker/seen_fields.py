"""What the values of one field looked like: their types, their range, and a few of them.

All of it is data from outside. Examples are masked, spelled as JSON on one line, and cut.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite, isnan

from triage.fallback.masking import MASKED, Mask
from triage.maker.model import SeenField

MOST_EXAMPLES = 12
"""Of a field's distinct values; beyond them a last example says how many more there are."""
MOST_NUMBERS = 8
"""Of them numbers, where there are more than MOST_EXAMPLES: a range needs no more to be seen."""
MAX_EXAMPLE = 48  # characters of a text
MAX_NAME = 64
MORE = "…"
"""Begins what tells of something left out. No JSON and no name of a field begins so."""
EDGE = ".edge"
"""Behind a field's name: a number that repeats at the end of its range, apart from the others."""

NULL, TRUTH, INTEGER, NUMBER, TEXT = "null", "truth", "integer", "number", "text"
TIMESTAMP, LOCAL = "timestamp", "local timestamp"

Scalar = str | int | float | bool | None

SENTINELS = frozenset((-1, -99, -127, -128, -999, -9999, 255, 999, 9999, 99999, 99999999)) | {
    *(-32768, 127, 32767, 65535, -2147483648, 2147483647, 4294967295)
}
"""What devices and exporters say when they know nothing, or can count no further."""
_FEW = 3  # distinct values beside one at the edge, before a distance says anything
_PLAIN_DIGITS = 12
_LARGE = 1e6
_WHOLE = 1e15  # a float that large need not be told from its neighbours

_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?\s?(Z|[+-]\d\d(?::?\d\d)?)?"
)
_DIGITS, _LETTERS = re.compile(r"\d+"), re.compile(r"[^\W\d_]+")


def fields_of(
    name: str, values: Sequence[Scalar], *, mask: Mask, missing: int = 0, whole: bool = False
) -> Iterator[SeenField]:
    """The field, and its edge where it has one. `missing` of them were not there at all. With
    `whole`, floats that are whole are spelled without a point: those of series, which are all
    floats. NaN counts as null; what is not finite is in no range."""
    numbers: Counter[float] = Counter()
    texts: Counter[str] = Counter()
    kinds: set[str] = set()
    others: set[Scalar] = set()
    nulls = missing
    for value in values:
        if value is None or (type(value) is float and isnan(value)):
            nulls += 1
        elif isinstance(value, bool):
            kinds.add(TRUTH)
            others.add(value)
        elif isinstance(value, str):
            texts[value] += 1
        else:
            kinds.add(INTEGER if type(value) is int else NUMBER)
            if isfinite(value):
                numbers[value] += 1
            else:
                others.add(value)
    if NUMBER in kinds:
        kinds.discard(INTEGER)
    kinds.update(map(kind_of_text, texts))
    if nulls and not kinds:
        kinds.add(NULL)
    shown = shown_name(name, mask)
    yield SeenField(
        name=shown,
        types=tuple(kind for kind in _ORDER if kind in kinds),
        count=len(values) + missing,
        nulls=nulls,
        low=min(numbers, default=None),
        high=max(numbers, default=None),
        examples=_examples(name, numbers, texts, others, mask, whole=whole),
    )
    for value, count in edges(numbers):
        yield SeenField(
            name=shown + EDGE,
            types=(NUMBER,),
            count=count,
            low=value,
            high=value,
            examples=(spelled(value, whole=whole),),
        )


def kind_of_text(text: str) -> str:
    """Of an ISO 8601 time, by whether it has an offset; `text` for any other."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return TEXT
    return TIMESTAMP if found[1] else LOCAL


def edges(numbers: Counter[float]) -> Iterator[tuple[float, int]]:
    """The lowest and the highest that repeat, or are a known sentinel, far from all others."""
    ordered = sorted(numbers)
    if len(ordered) < 2:  # noqa: PLR2004 - one value has no edge
        return
    for value, rest in ((ordered[0], ordered[1:]), (ordered[-1], ordered[:-1])):
        count = numbers[value]
        spread = rest[-1] - rest[0]
        apart = min(abs(value - rest[0]), abs(value - rest[-1])) > spread
        known = value in SENTINELS and (value < 0 or len(rest) >= _FEW)
        if (known and (count > 1 or apart)) or (apart and count > 1 and len(rest) >= _FEW):
            yield value, count


def spelled(value: Scalar, *, whole: bool = False) -> str:
    """A number or truth value as JSON, in few digits; what is not finite as answers spell it."""
    if isinstance(value, float):
        if not isfinite(value):
            return '"NaN"' if isnan(value) else '"+Inf"' if value > 0 else '"-Inf"'
        if whole and value.is_integer() and abs(value) < _WHOLE:
            return str(int(value))
        exact = repr(value)
        if len(exact) <= _PLAIN_DIGITS:
            return exact
        return repr(round(value, 3)) if _LARGE <= abs(value) < _WHOLE else f"{value:.7g}"
    return json.dumps(value)


def spelled_text(text: str, limit: int = MAX_EXAMPLE) -> str:
    """As a JSON text, cut to `limit` characters of it. Nothing in it can end a line, or be a
    character that is not seen."""
    cut = text if len(text) <= limit else f"{text[: limit - 1]}{MORE}"
    quoted = json.dumps(cut, ensure_ascii=False)
    return "".join(one if one.isprintable() else _escaped(one) for one in quoted)


def shown_name(name: str, mask: Mask) -> str:
    """A field's name on one line, without what would end a table's cell."""
    cleaned = mask.clean(name)
    printable = "".join(c if c.isprintable() and c != "|" else "?" for c in cleaned)
    if printable.startswith(MORE):
        printable = f"?{printable[1:]}"
    return printable if len(printable) <= MAX_NAME else f"{printable[: MAX_NAME - 1]}{MORE}"


def masked_value(name: str, text: str, mask: Mask) -> str:
    """A secret may be one by its name only: a column `api_key`."""
    cleaned = mask.clean(text)
    pair = mask.clean(f"{name}={cleaned}")
    return pair[len(name) + 1 :] if pair.startswith(f"{name}=") else MASKED


def _examples(
    name: str,
    numbers: Counter[float],
    texts: Counter[str],
    others: Iterable[Scalar],
    mask: Mask,
    *,
    whole: bool,
) -> tuple[str, ...]:
    """Distinct after masking and cutting, and how many more there were before it."""
    rest = sorted(others, key=str)
    room = max(0, MOST_EXAMPLES - len(rest))
    wanted_numbers = _telling(numbers, MOST_NUMBERS if len(numbers) > room else room)
    wanted_texts = _different(texts, max(0, room - len(wanted_numbers)))
    shown = [
        *(spelled(value, whole=whole) for value in wanted_numbers),
        *(spelled_text(masked_value(name, text, mask)) for text in wanted_texts),
        *(spelled(value) for value in rest),
    ]
    distinct = tuple(dict.fromkeys(shown))
    more = len(numbers) - len(wanted_numbers) + len(texts) - len(wanted_texts)
    return (*distinct, f"{MORE} {more} more") if more else distinct


def _telling(numbers: Counter[float], most: int) -> list[float]:
    """The ends, the two most frequent, and others in even distances of rank; ascending."""
    ordered = sorted(numbers)
    if len(ordered) <= most:
        return ordered
    if most <= 0:
        return []
    frequent = sorted(
        (value for value, count in numbers.items() if count > 1),
        key=lambda value: (-numbers[value], value),
    )
    chosen = dict.fromkeys([ordered[0], ordered[-1], *frequent[:2]][:most])
    last = len(ordered) - 1
    for step in range(1, most):
        if len(chosen) >= most:
            break
        chosen[ordered[round(step * last / most)]] = None
    return sorted(chosen)


def _different(texts: Counter[str], most: int) -> list[str]:
    """One of each form first, so that a second spelling of the same thing is seen; the earliest
    and the latest of times; then in the order they came."""
    if most <= 0:
        return []
    moments = sorted(text for text in texts if kind_of_text(text) != TEXT)
    forms: dict[str, str] = {}
    for text in texts:
        forms.setdefault(_form(text), text)
    chosen = dict.fromkeys([*moments[:1], *moments[-1:], *forms.values(), *texts])
    return list(chosen)[:most]


def _form(text: str) -> str:
    return _LETTERS.sub(lambda word: _case(word[0]), _DIGITS.sub("9", text[:MAX_NAME]))


def _case(word: str) -> str:
    return "A" if word.isupper() else "a" if word.islower() else "Aa"


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    pairs = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(f"\\u{unit:04x}" for unit in pairs)


_ORDER = (INTEGER, NUMBER, TIMESTAMP, LOCAL, TEXT, TRUTH, "list", "object", NULL)
"""Of types in a field. `list` and `object` are what lies too deep to be looked into."""
