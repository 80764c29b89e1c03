"""What the same model does as an agent: it looks at what there is before it works a question.

It writes no name that it has not been shown: by the prompt, or by what its own code printed. Its
first reply looks at the catalogues, later ones at what the sources say; as soon as every name of
the data has been seen it works the question, with all that it knows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from bench.fallback.answering import RUN, Reply
from bench.make.draft import Known
from bench.make.holes import Hole, holes_of, is_seen
from bench.make.quirks import DIFFERENT, WRITTEN

GIVEN_UP = "I have looked at all that there is and do not find what the question is about."

_FUNCTION = re.compile(r"^async def (\w+)\(", re.MULTILINE)
_TABLE = re.compile(r"\b(?:FROM|JOIN) ([a-z_]\w*)")

LOOKS = """\
def told(r, key):
    return r["data"][key] if r["ok"] else [{"name": r["error"]}]

"""
LOOK_METRICS = """\
for one in told(await METRICS(limit=200), "metrics"):
    print(one["name"], one.get("labels"))
"""
LOOK_TABLES = """\
for one in told(await TABLES(limit=200), "tables"):
    print(one["name"], [column["name"] for column in one.get("columns", [])])
"""
LOOK_CALL = """\
asset = asset_id(entity, words=facts["id_words"], width=facts["id_width"])
r = await CALL(ARGUMENTS)
print(str(r["data"])[:700] if r["ok"] else r["error"])
"""
ASK_METRIC = """\
for seconds in (600, 86400):
    r = await AGGREGATE(
        selector=selector(METRIC, site=site), start=ago(seconds), end=fired_at, function="max"
    )
    found = [one["labels"] for one in r["data"]["readings"]] if r["ok"] else []
    names = sorted({name for labels in found for name in labels})
    print(METRIC, seconds, {name: sorted({one.get(name) for one in found})[:12] for name in names})
    if found:
        break
r = await SAMPLES(selector=selector(METRIC, site=site), start=ago(600), end=fired_at)
read = read_series(r["data"]) if r["ok"] else ()
print([(one.labels, one.values[:3]) for one in read[:2]])
"""
ASK_TABLE = """\
r = await QUERY(
    sql=(
        "SELECT (SELECT count(*) FROM TABLE WHERE site = :site) AS WRITTEN,"
        " (SELECT count(*) FROM (SELECT DISTINCT * FROM TABLE WHERE site = :site) one) AS DIFFERENT"
    ),
    params={"site": site},
)
print("TABLE", r["data"]["rows"] if r["ok"] else r["error"])
"""
ASK_COLUMN = """\
r = await QUERY(
    sql="SELECT DISTINCT COLUMN FROM TABLE WHERE site = :site ORDER BY COLUMN LIMIT 20",
    params={"site": site},
)
print("COLUMN", [one["COLUMN"] for one in r["data"]["rows"]] if r["ok"] else r["error"])
"""
ASK_ALL = """

for query in dict.fromkeys(queries(site, timestamp, context)):
    print(str(await ask(query))[:900])
"""


def exploring(known: Known, source: str, messages: Sequence[tuple[str, str]]) -> Reply:
    """The next reply of a conversation."""
    said = "\n".join(content for role, content in messages if role != "assistant")
    turn = sum(role == "assistant" for role, _ in messages)
    functions = _FUNCTION.findall(said)
    if turn == 0:
        look = _look(source, functions, said)
        if look:
            return _reply("I look at what there is.", LOOKS + look)
    unseen = [hole for hole in known.holes if not is_seen(hole, said)]
    if not unseen:
        return _reply("All that the question needs is known, so I work it.", source + RUN)
    tree = ast.parse(source)
    if turn <= 1:
        ask = "".join(_ask(tree, functions, said))
        if ask:
            return _reply(f"I look at what is there: {len(unseen)} names are open.", ask)
    asking = _asking(tree)
    if turn <= 3 and all(is_seen(hole, said) for hole in holes_of(asking)):
        return _reply("I ask what I would ask, and look.", ast.unparse(asking) + ASK_ALL)
    return Reply(GIVEN_UP, known=True)


def _look(source: str, functions: Sequence[str], said: str) -> str:
    """Catalogues, and those calls of controllers that the question is about."""
    parts = [
        LOOK_METRICS.replace("METRICS", name) for name in functions if name.endswith("_metrics")
    ]
    parts += [LOOK_TABLES.replace("TABLES", name) for name in functions if name.endswith("_tables")]
    tree = ast.parse(source)
    for hole in holes_of(tree):
        if hole.kind == "call" and is_seen_call(hole, functions):
            name = next(one for one in functions if one.endswith(f"_{hole.name}"))
            arguments = {"site": "site", "asset": "asset", "at": "fired_at"}
            wanted = _arguments(tree, hole)
            given = ", ".join(f"{one}={arguments.get(one, one)}" for one in wanted)
            if all(is_seen(Hole("argument", one), said) for one in wanted):
                parts.append(LOOK_CALL.replace("CALL", name).replace("ARGUMENTS", given))
    return "".join(parts)


def is_seen_call(hole: Hole, functions: Sequence[str]) -> bool:
    """A tool of a server is seen as a host function."""
    return any(name.endswith(f"_{hole.name}") for name in functions)


def _arguments(tree: ast.Module, hole: Hole) -> list[str]:
    return [
        keyword.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "call"
        and isinstance(node.args[1], ast.Constant)
        and node.args[1].value == hole.name
        for keyword in node.keywords
        if keyword.arg is not None
    ]


def _ask(tree: ast.Module, functions: Sequence[str], said: str) -> Iterator[str]:
    """About metrics, tables and columns that have been seen."""
    aggregate = next((one for one in functions if one.endswith("_aggregate")), "")
    samples = next((one for one in functions if one.endswith("_samples")), "")
    query = next((one for one in functions if one.endswith("_query")), "")
    if aggregate and samples:
        for name in _metrics(tree, said):
            yield (
                ASK_METRIC.replace("AGGREGATE", aggregate)
                .replace("SAMPLES", samples)
                .replace("METRIC", repr(name))
            )
    if query:
        for table, columns in _tables(tree).items():
            if not is_seen(Hole("field", table), said):
                continue
            yield (
                ASK_TABLE.replace("QUERY", query)
                .replace("TABLE", table)
                .replace("WRITTEN", WRITTEN)
                .replace("DIFFERENT", DIFFERENT)
            )
            for column in columns:
                if is_seen(Hole("field", column), said):
                    yield (
                        ASK_COLUMN.replace("QUERY", query)
                        .replace("TABLE", table)
                        .replace("COLUMN", column)
                    )


def _metrics(tree: ast.Module, said: str) -> list[str]:
    """Whole names of the tool's metrics, of those that were shown."""
    wanted: dict[str, None] = {}
    holes = list(holes_of(tree))
    for hole in holes:
        if hole.kind == "metric":
            wanted[hole.name] = None
        elif hole.kind == "family":
            for word in holes:
                if word.kind == "word":
                    wanted[hole.name.replace("*", word.name)] = None
    return [name for name in wanted if is_seen(Hole("metric", name), said)]


def _tables(tree: ast.Module) -> dict[str, list[str]]:
    """By table, the columns whose texts the tool compares with some of its own."""
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "SELECT" in node.value
    ]
    compared = {
        node.left.slice.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Subscript)
        and isinstance(node.left.slice, ast.Constant)
        and any(isinstance(one, ast.Constant | ast.Name) for one in node.comparators)
    } | {
        part.slice.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "_squeezed"
        for part in node.args
        if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant)
    }
    found: dict[str, list[str]] = {}
    for text in texts:
        tables = list(dict.fromkeys(_TABLE.findall(text)))
        names = [
            *re.findall(r"(\w+) (?:=|IN) \(?'", text),
            *(one for one in compared if re.search(rf"\b{one!s}\b", text) and "_" not in str(one)),
        ]
        for table in tables:
            found.setdefault(table, [])
            if len(tables) == 1:
                found[table] += [str(one) for one in names if one not in found[table]]
    return found


def _asking(tree: ast.Module) -> ast.Module:
    """The file without `evaluate` and what only that needs."""
    functions = {
        one.name: one
        for one in tree.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    wanted = {"queries"}
    while True:
        named = {
            one.id
            for name in wanted
            for one in ast.walk(functions[name])
            if isinstance(one, ast.Name) and one.id in functions
        }
        if named <= wanted:
            break
        wanted |= named
    used = {
        one.id for name in wanted for one in ast.walk(functions[name]) if isinstance(one, ast.Name)
    }
    body: list[ast.stmt] = [
        one
        for one in tree.body
        if isinstance(one, ast.Import | ast.ImportFrom)
        or (isinstance(one, ast.FunctionDef) and one.name in wanted)
        or (
            isinstance(one, ast.Assign)
            and any(isinstance(part, ast.Name) and part.id in used for part in one.targets)
        )
    ]
    return ast.Module(body, [])


def _reply(thought: str, code: str) -> Reply:
    return Reply(f"{thought}\n\n```python\n{code.rstrip()}\n```\n", known=True)
