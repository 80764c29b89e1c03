"""Code that never ends, or takes all there is."""

from __future__ import annotations

from typing import NamedTuple


class Bomb(NamedTuple):
    """`kinds` are the errors it may end with; "" is none."""

    name: str
    code: str
    kinds: tuple[str, ...]


BOMBS = (
    Bomb("a loop", "while True:\n    pass", ("limit",)),
    Bomb(
        "a loop that catches everything",
        "while True:\n    try:\n        while True:\n            pass\n"
        "    except BaseException:\n        pass",
        ("limit",),
    ),
    Bomb(
        "a loop in a finally",
        "try:\n    while True:\n        pass\nfinally:\n    while True:\n        pass",
        ("limit",),
    ),
    Bomb(
        "catching KeyboardInterrupt around the memory limit",
        "try:\n    x = 'a' * 10**10\n"
        "except (KeyboardInterrupt, MemoryError):\n    print('kept on')",
        ("limit",),
    ),
    Bomb(
        "catching everything around the limit of calls",
        "while True:\n    try:\n        await ask()\n    except BaseException:\n        pass",
        ("limit",),
    ),
    Bomb("deep recursion", "def f(n: int) -> int:\n    return f(n + 1)\nf(0)", ("limit",)),
    Bomb(
        "recursion that catches its limit",
        "def f() -> None:\n    try:\n        f()\n    except RecursionError:\n        f()\nf()",
        ("limit",),
    ),
    Bomb(
        "recursion through sorted's key",
        "def f(x: int) -> int:\n    return sorted([x], key=f)[0]\nf(1)",
        ("limit", "type", "raised"),
    ),
    Bomb(
        "recursion through repr",
        "x: list[object] = []\nfor i in range(100_000):\n    x = [x]\nprint(len(repr(x)))",
        ("", "limit", "raised", "crash"),
    ),
    Bomb(
        "recursion through equality",
        "x: list[object] = []\ny: list[object] = []\n"
        "for i in range(100_000):\n    x = [x]\n    y = [y]\nprint(x == y)",
        ("", "limit", "raised", "crash"),
    ),
    Bomb("a growing list", "x = []\nwhile True:\n    x.append('a' * 1000)", ("limit",)),
    Bomb("a growing dict", "x = {}\nn = 0\nwhile True:\n    n += 1\n    x[n] = str(n)", ("limit",)),
    Bomb("a long text", "x = 'x' * 10**10", ("limit",)),
    Bomb("text doubled", "x = 'x'\nwhile True:\n    x += x", ("limit",)),
    Bomb("text replaced", "x = 'a' * 1_000_000\nx = x.replace('a', 'b' * 1_000_000)", ("limit",)),
    Bomb("text joined", "x = ('y' * 1_000_000).join(['z'] * 1_000_000)", ("limit",)),
    Bomb("text padded", "x = f'{1:>10000000000}'", ("limit", "raised", "type", "syntax")),
    Bomb("a list repeated", "x = [0] * 10**10", ("limit", "raised")),
    Bomb("a long range", "x = list(range(10**12))", ("limit", "raised")),
    Bomb("a great number", "x = 10**10**8", ("limit",)),
    Bomb("a great shift", "x = 1 << 10**12", ("limit", "raised")),
    Bomb("a great number squared", "x = 10**1000\nwhile True:\n    x = x * x", ("limit",)),
    Bomb("a great number as text", "x = str(7**5_000_000)", ("limit", "raised")),
    Bomb("a great factorial", "import math\nx = math.factorial(10**9)", ("limit", "raised")),
    Bomb(
        "a product of iterables",
        "import itertools\nx = list(itertools.product(range(1000), repeat=9))",
        ("limit", "raised", "type"),
    ),
    Bomb(
        "summing without end",
        "import itertools\nx = sum(itertools.count())",
        ("limit", "raised", "type"),
    ),
    Bomb("printing without end", "while True:\n    print('x' * 100)", ("limit",)),
    Bomb(
        "printing without end, caught",
        "while True:\n    try:\n        while True:\n            print('x' * 100)\n"
        "    except BaseException:\n        pass",
        ("limit",),
    ),
    Bomb("one giant print", "print('x' * 20_000_000)", ("limit",)),
    Bomb("many empty prints", "while True:\n    print(end='')", ("limit",)),
    Bomb(
        "printing to the error stream",
        "import sys\nwhile True:\n    print('x' * 100, file=sys.stderr)",
        ("limit", "raised", "type"),
    ),
    Bomb("sleeping", "import time\ntime.sleep(1e9)", ("", "raised", "limit")),
    Bomb("sleeping again and again", "import time\nwhile True:\n    time.sleep(1)", ("limit",)),
    Bomb(
        "sleeping asynchronously",
        "import asyncio\nfor i in range(100_000):\n    await asyncio.sleep(1)",
        ("", "limit"),
    ),
    Bomb(
        "sleeping asynchronously for ever",
        "import asyncio\nwhile True:\n    await asyncio.sleep(1e9)",
        ("limit",),
    ),
    Bomb(
        "sleepers gathered",
        "import asyncio\nawait asyncio.gather(*[asyncio.sleep(1e9) for i in range(5_000)])",
        ("", "limit", "raised"),
    ),
    Bomb("thousands of calls", "for i in range(5_000):\n    await ask(window=i)", ("limit",)),
    Bomb(
        "thousands of calls gathered",
        "import asyncio\nawait asyncio.gather(*[ask(window=i) for i in range(5_000)])",
        ("limit",),
    ),
    Bomb(
        "thousands of tasks",
        "import asyncio\nasync def one() -> int:\n    return 1\n"
        "while True:\n    await asyncio.gather(*[one() for i in range(5_000)])",
        ("limit",),
    ),
    Bomb(
        "tasks that make tasks",
        "import asyncio\nasync def more() -> None:\n"
        "    await asyncio.gather(more(), more())\nawait more()",
        ("limit", "raised"),
    ),
    Bomb(
        "backtracking", "import re\nre.match('(a+)+$', 'a' * 5_000 + 'b')", ("", "raised", "limit")
    ),
    Bomb(
        "backtracking by a reference",
        r"import re" + "\n" + r"re.match(r'(a*)*(\1b)*$', 'a' * 40 + 'c')",
        ("", "raised", "limit"),
    ),
    Bomb(
        "a large repetition",
        "import re\nre.compile('(((a{1000}){1000}){1000}){1000}')",
        ("", "raised", "limit"),
    ),
    Bomb(
        "JSON nested deeply",
        "import json\njson.loads('[' * 1_000_000)",
        ("raised", "limit", "crash"),
    ),
    Bomb(
        "JSON of much nesting to text",
        "import json\nx: object = 1\nfor i in range(100_000):\n    x = [x]\njson.dumps(x)",
        ("raised", "limit", "crash"),
    ),
    Bomb(
        "JSON of a number of many digits",
        "import json\njson.loads('9' * 1_000_000)",
        ("", "raised", "limit"),
    ),
    Bomb(
        "a list in itself",
        "import json\nx: list[object] = []\nx.append(x)\njson.dumps(x)",
        ("raised", "limit", "crash"),
    ),
    Bomb(
        "a date of long ago",
        "from datetime import timedelta\nx = timedelta(days=10**18)",
        ("raised",),
    ),
    Bomb("half a surrogate pair, printed", "print('\\ud800', '\\udfff')", ("", "raised", "syntax")),
    Bomb("an escape sequence, printed", "print('\\x1b[2J\\x00')", ("",)),
    Bomb("source nested deeply", "x = " + "[" * 50_000 + "]" * 50_000, ("syntax", "crash")),
    Bomb("source of many signs", "x = " + "-" * 50_000 + "1", ("syntax", "crash")),
    Bomb(
        "source of many blocks",
        "".join(" " * n + "if 1:\n" for n in range(300)) + " " * 300 + "x = 1",
        ("syntax", "crash"),
    ),
    Bomb("types that grow", "x = (1,)\n" + "x = x + x\n" * 60, ("limit", "type", "crash")),
    Bomb(
        "types that double by inference",
        "def f0(x):\n    return (x, x)\n"
        + "".join(f"def f{n + 1}(x):\n    return f{n}(f{n}(x))\n" for n in range(40))
        + "f40(1)",
        ("limit", "type", "crash"),
    ),
    Bomb("thousands of type errors", "\n".join(f"nothing{n}" for n in range(5_000)), ("type",)),
    Bomb("code that is no text", "\x00\x01\ud800", ("syntax", "type")),
)


class Giant(NamedTuple):
    """`kind` is the error it ends with; "" is none."""

    name: str
    value: str
    kind: str = "limit"


GIANTS = (
    Giant("long text", "'x' * 10_001"),
    Giant("text of many megabytes", "'x' * 5_000_000"),
    Giant("many numbers", "[0] * 100_000"),
    Giant("a large dict", "{str(n): n for n in range(10_000)}"),
    Giant("a long key", "{'k' * 20_000: 1}"),
    Giant("deep nesting", "nested", "raised"),
    Giant("the same list ten times, thirty times over", "laughs"),
    Giant("a list in itself", "own", ""),
    Giant("a number of many digits", "10 ** 5_000", "raised"),
)
