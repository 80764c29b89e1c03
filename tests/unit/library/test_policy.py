from __future__ import annotations

from datetime import date, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.library.building import DYNAMIC, GOOD
from triage.library.policy import SOURCE_LIMIT, Checked, check_source
from triage.library.rules import CLOCK_ATTRIBUTES

STATIC = """\
import json
import dataclasses
from triage.tool_api import compare
TABLE = {{"a": [1]}}
{top}
def queries(warehouse, timestamp, context):
    return []
def evaluate(warehouse, timestamp, context):
    x = 1.0
    {body}
"""
CATCHING = """\
async def evaluate(warehouse, timestamp, context):
    try:
        return await context.ask(1)
    except Exception:
        pass
"""
TOP_LINE = 5
BODY_LINE = 10


def check(source: str | bytes, *, dynamic: bool = False) -> Checked:
    body = source if isinstance(source, bytes) else source.encode()
    return check_source(body, file="tools_lib/n/v1.py", node="n", dynamic=dynamic)


def in_body(body: str) -> Checked:
    return check(STATIC.format(top="", body=body.replace("\n", "\n    ")))


def at_top(top: str) -> Checked:
    return check(STATIC.format(top=top, body="return None"))


def test_good_tools_pass_without_a_word() -> None:
    for source, dynamic in ((GOOD, False), (DYNAMIC, True)):
        checked = check(source, dynamic=dynamic)
        assert checked.findings == ()
        assert checked.code is not None


def test_the_template_itself_passes() -> None:
    assert in_body("return None").findings == ()


@pytest.mark.parametrize(
    "body",
    [
        "return open('x')",
        "return eval('1')",
        "return exec('1')",
        "return compile('1', 'x', 'eval')",
        "return __import__('os')",
        "return globals()",
        "return locals()",
        "return vars()",
        "return dir()",
        "return input()",
        "return print(x)",
        "breakpoint()",
        "exit()",
        "quit()",
        "raise SystemExit",
        "raise KeyboardInterrupt",
        "raise BaseException",
        "return hash(x)",
        "return id(x)",
        "return sum([x])",
        "return map(sum, [[x]])",
        "return getattr(x, warehouse)",
        "return getattr(x, '__class__')",
        "setattr(x, warehouse, 1)",
        "delattr(x, warehouse)",
        "return x.__class__",
        "return x._hidden",
        "return __builtins__",
        "return (v for v in []).gi_frame",
        "return json.codecs",
        "return json._default_decoder",
        "return dataclasses.sys",
        "return dataclasses.make_dataclass('A', [])",
        "return timestamp.now()",
        "return timestamp.fromtimestamp(1)",
        "return warehouse.format(x)",
        "return '{0.__class__}'.format(x)",
        "return round(x) > 3",
        "return 3 > abs(round(x, 2))",
        "return compare('x', round(x), '>', 3)",
        "return compare('x', observed=round(x), op='>', threshold=3)",
        "global TABLE",
        "yield x",
        "yield from []",
        "TABLE['b'] = 1",
        "del TABLE['a']",
        "TABLE.update(b=1)",
        "evaluate.calls = 1",
        "json.loads = None",
        "import os",
        "from os import path",
        "return lambda v=[]: v",
        "async def inner(): pass",
    ],
)
def test_forbidden_in_a_function(body: str) -> None:
    checked = in_body(body)
    assert checked.code is None
    errors = [finding for finding in checked.findings if not finding.warning]
    assert [finding.line for finding in errors] == [BODY_LINE] * len(errors)
    assert errors
    assert all(f.file == "tools_lib/n/v1.py" and f.where == "n" and f.fix for f in errors)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("try:\n    x = 2\nexcept:\n    pass", BODY_LINE + 2),
        ("try:\n    x = 2\nexcept BaseException:\n    pass", BODY_LINE + 2),
        ("try:\n    x = 2\nfinally:\n    return x", BODY_LINE + 3),
        ("try:\n    x = 2\nexcept* ValueError:\n    pass", BODY_LINE),
        ("def inner():\n    nonlocal x\n    x = 2", BODY_LINE + 1),
        ("match x:\n    case float(__class__=c):\n        return c", BODY_LINE + 1),
    ],
)
def test_forbidden_over_several_lines(body: str, line: int) -> None:
    checked = in_body(body)
    assert checked.code is None
    assert line in [finding.line for finding in checked.findings]


@pytest.mark.parametrize(
    "top",
    [
        "import os",
        "import collections.abc",
        "import triage.tool_api",
        "import triage",
        "from triage import model",
        "from triage.tool_api import json",
        "from dataclasses import sys",
        "from math import *",
        "from . import other",
        "from functools import lru_cache",
        "from decimal import getcontext",
        "print('loaded')",
        "while True: pass",
        "for i in range(3): pass",
        "if TABLE: pass",
        "TABLE['x'] = 1",
        "class A(metaclass=type): pass",
        "def helper(x, seen={}): pass",
        "def helper(x, *, seen=[]): pass",
        "async def helper(): pass",
        "x = __name__",
    ],
)
def test_forbidden_at_the_top(top: str) -> None:
    checked = at_top(top)
    assert checked.code is None
    assert TOP_LINE in [finding.line for finding in checked.findings if not finding.warning]


@pytest.mark.parametrize(
    "top",
    [
        "import math, re, datetime, collections, itertools, functools, decimal, bisect, typing",
        "from __future__ import annotations",
        "from functools import reduce, partial",
        "LIMITS: dict[str, int] = {'a': 1}",
        "PATTERN = json.loads('[1]')",
        "class Pair:\n    left: int = 0\n    def both(self):\n        self._seen = 1",
        "def helper(values, limit=3, names=()):\n    return [v for v in values if v > limit]",
    ],
)
def test_allowed_at_the_top(top: str) -> None:
    source = STATIC.format(top="", body="return None")
    assert check(f"{top}\n{source}").findings == ()


@pytest.mark.parametrize(
    "body",
    [
        "return f'{round(x, 1)} items'",
        "local = dict(TABLE)\nlocal['b'] = 2\nreturn local",
        "try:\n    return json.loads('x')\nexcept ValueError:\n    return None",
        "while True:\n    x += 1\n    if x > 9:\n        break",
        "return getattr(x, 'real')",
        "return '{} items'.format(x)",
        "from datetime import datetime as dt\nreturn dt.fromtimestamp(1, timestamp.tzinfo)",
        "import datetime as dt\nreturn dt.date.fromisoformat(warehouse)",
        "from datetime import time\nreturn time.fromisoformat(warehouse)",
        "return any(v > 3 for v in [x])",
    ],
)
def test_allowed_in_a_function(body: str) -> None:
    assert in_body(body).findings == ()


MAKERS = sorted(
    {
        name
        for kind in (date, datetime, time, timedelta)
        for name, value in vars(kind).items()
        if type(value).__name__ == "classmethod_descriptor" and not name.startswith("_")
    }
    - CLOCK_ATTRIBUTES
)


@pytest.mark.parametrize(
    "owner",
    ["timestamp", "timestamp.date()", "context.answer(1)[0]['at']", "type(timestamp)"],
)
@pytest.mark.parametrize("name", MAKERS)
def test_a_moment_is_not_asked_for_another_moment(owner: str, name: str) -> None:
    checked = in_body(f"make = {owner}.{name}\nreturn make(1, 2)")
    assert checked.code is None
    (finding,) = checked.findings
    assert finding.line == BODY_LINE
    assert f"`.{name}`" in finding.problem
    assert "`datetime." in finding.fix or "`timedelta`" in finding.fix


@pytest.mark.parametrize(
    "top",
    [
        "class Slot:\n    def combine(self):\n        return 1",
        "class Slot:\n    combine: int = 1",
        "class Slot:\n    def __init__(self):\n        self.combine = 1",
        "def slot(combine):\n    return combine",
    ],
)
def test_a_name_that_the_tool_gives_is_its_own(top: str) -> None:
    source = STATIC.format(top=top, body="return x.combine")
    assert check(source).findings == ()


def test_an_endless_loop_is_a_warning() -> None:
    checked = in_body("while True:\n    x += 1")
    assert [(f.line, f.warning) for f in checked.findings] == [(BODY_LINE, True)]
    assert checked.code is not None


@pytest.mark.parametrize(
    ("source", "dynamic", "word"),
    [
        ("", False, "`queries`"),
        ("def queries(warehouse, timestamp, context): pass", False, "`evaluate`"),
        ("def queries(w, t, c): pass\ndef evaluate(w, t, c): pass", False, "does not take"),
        (STATIC.format(top="", body="pass").replace("context)", "context, more=1)"), False, "take"),
        (STATIC.format(top="", body="pass").replace("context)", "*context)"), False, "take"),
        (STATIC.format(top="", body="pass").replace("def ev", "async def ev"), False, "async"),
        (STATIC.format(top="", body="pass"), True, "not async"),
        (STATIC.format(top="", body="pass"), True, "`queries` in a dynamic"),
        (STATIC.format(top="", body="pass").replace("def ev", "@partial\ndef ev"), False, "decor"),
        (STATIC.format(top="def queries(a): pass", body="pass"), False, "twice"),
        (DYNAMIC.decode(), False, "`queries`"),
        (DYNAMIC.decode().replace("context.ask(", "other("), True, "awaits"),
        (
            CATCHING,
            True,
            "catches what",
        ),
    ],
)
def test_the_contract(source: str, dynamic: bool, word: str) -> None:
    checked = check(source, dynamic=dynamic)
    assert checked.code is None
    assert any(word in finding.problem for finding in checked.findings)


@pytest.mark.parametrize(
    "source",
    [
        b"def queries(:",
        b"\xff\xfe",
        b"x = 1\n\0",
        b"\xef\xbb\xbf" + GOOD.replace(b"return [", b"return [["),
        b"(" * 5_000,
        b"x = " + b"-" * 60_000 + b"1",
        b"x = " + b"1+" * 60_000 + b"1",
        b"x = " + b"a." * 60_000 + b"a",
        b"x = " + b"[" * 90 + b"]" * 90,
        b"x = " + b"9" * 10_000,
        b"return 1",
        b"\tif",
        b"x = 'a" + b"a" * SOURCE_LIMIT,
    ],
)
def test_sources_that_cannot_be_compiled_are_findings(source: bytes) -> None:
    checked = check(source)
    assert checked.code is None
    assert checked.findings


def test_the_line_of_a_bad_byte() -> None:
    assert check(b"x = 1\ny = 2\nz = '\xff'\n").findings[0].line == 3
    assert check(b"x = 1\ny = '\0'\n").findings[0].line == 2


TOKENS = (
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":",
    ",",
    ".",
    "=",
    "==",
    "lambda",
    "await",
    "async",
    "def",
    "class",
    "yield",
    "return",
    "try",
    "except",
    "finally",
    "match",
    "case",
    "import",
    "from",
    "global",
    "nonlocal",
    "with",
    "for",
    "while",
    "in",
    "not",
    "if",
    "else",
    "pass",
)
FRAGMENTS = st.sampled_from(
    [
        *GOOD.decode().splitlines(keepends=True),
        *TOKENS,
        *("\n", "\n    ", "\t", " ", "x", "0", "'", '"""', "\\", "#", "é", "\0", "\x0c", "\r"),
    ]
)


@given(st.one_of(st.binary(), st.lists(FRAGMENTS).map(lambda parts: "".join(parts).encode())))
def test_arbitrary_sources_never_raise(source: bytes) -> None:
    for dynamic in (False, True):
        checked = check(source, dynamic=dynamic)
        assert (checked.code is None) == any(not f.warning for f in checked.findings)
