"""Whether a tool's source keeps to the contract: what every version passes before it counts."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from triage.errors import Finding
from triage.library.lint import Fault, Lint, is_docstring

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

SOURCE_LIMIT = 256 << 10  # bytes
PARAMETERS = ("warehouse", "timestamp", "context")

_TOP_LEVEL = (
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Assign,
    ast.AnnAssign,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """`code` is None when any finding is an error (`Finding.warning` is False)."""

    code: CodeType | None
    findings: tuple[Finding, ...]


def check_source(  # noqa: PLR0911 - one refusal a return
    source: bytes, *, file: str, node: str, dynamic: bool, linted: bool = False
) -> Checked:
    """Lint and compile; nothing of the source runs. Never raises for what the source is.

    `file` names the source in findings and in the tracebacks of the compiled code. `dynamic`
    tools have only `async def evaluate`, the others `queries` and `evaluate`. With `linted` the
    caller vouches that these very bytes passed the lint of this policy, without a finding.
    """

    def refused(problem: str, fix: str, line: int = 0) -> Checked:
        return Checked(
            code=None,
            findings=(Finding(file=file, line=line, where=node, problem=problem, fix=fix),),
        )

    if len(source) > SOURCE_LIMIT:
        return refused(f"is larger than {SOURCE_LIMIT} bytes", "a tool judges one node: shorten it")
    try:
        text = source.decode("utf-8")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        return refused("is not UTF-8", "save the file as UTF-8", line)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        return refused("contains a NUL byte", "remove it", line)
    try:
        if linted:
            return Checked(code=compile(text, file, "exec", dont_inherit=True), findings=())
        tree = ast.parse(text, filename=file)
        faults = [*_contract(tree, dynamic=dynamic), *Lint(tree, dynamic=dynamic).faults()]
        findings = tuple(
            Finding(
                file=file,
                line=fault.line,
                where=node,
                problem=fault.problem,
                fix=fault.fix,
                warning=fault.warning,
            )
            for fault in sorted(faults, key=lambda fault: fault.line)
        )
        if any(not finding.warning for finding in findings):
            return Checked(code=None, findings=findings)
        code = compile(tree, file, "exec", dont_inherit=True)
    except SyntaxError as error:
        return refused(f"is not Python: {error.msg}", "correct the syntax", error.lineno or 0)
    except (RecursionError, MemoryError):
        return refused("is nested too deeply to compile", "use shorter expressions")
    except (ValueError, OverflowError) as error:
        return refused(f"cannot be compiled: {error}", "correct the source")
    return Checked(code=code, findings=findings)


def _contract(tree: ast.Module, *, dynamic: bool) -> Iterator[Fault]:
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if statement.name in functions:
                yield Fault.at(statement, f"`{statement.name}` is defined twice", "keep one")
            functions[statement.name] = statement
        elif isinstance(statement, ast.ClassDef):
            for inner in statement.body:
                if not isinstance(inner, (*_TOP_LEVEL, ast.Pass)) and not is_docstring(inner):
                    yield Fault.at(
                        inner, "a statement that runs when the file loads", "put it in a method"
                    )
        elif not isinstance(statement, _TOP_LEVEL) and not is_docstring(statement):
            yield Fault.at(
                statement,
                "a statement that runs when the file loads",
                "only imports, constants, classes and functions stand at the top",
            )
    for name in ("evaluate",) if dynamic else ("queries", "evaluate"):
        if name in functions:
            yield from _signature(functions[name], dynamic=dynamic)
        else:
            yield Fault(
                line=0,
                problem=f"has no function `{name}`",
                fix=f"define `{name}({', '.join(PARAMETERS)})`",
            )
    if dynamic and "queries" in functions:
        yield Fault.at(
            functions["queries"],
            "`queries` in a dynamic tool",
            "remove it: a dynamic tool asks with `await context.ask(query)`",
        )


def _signature(
    function: ast.FunctionDef | ast.AsyncFunctionDef, *, dynamic: bool
) -> Iterator[Fault]:
    name, args = function.name, function.args
    names = tuple(arg.arg for arg in (*args.posonlyargs, *args.args))
    if names != PARAMETERS or args.vararg or args.kwarg or args.kwonlyargs or args.defaults:
        yield Fault.at(
            function,
            f"`{name}` does not take ({', '.join(PARAMETERS)})",
            f"write `def {name}({', '.join(PARAMETERS)})`",
        )
    if function.decorator_list:
        yield Fault.at(function, f"`{name}` is decorated", "remove the decorator")
    if dynamic and not isinstance(function, ast.AsyncFunctionDef):
        yield Fault.at(
            function,
            f"`{name}` of a dynamic tool is not async",
            f"write `async def {name}`, or say `dynamic = false` in the manifest",
        )
