"""One line of `cases.jsonl`: a labelled case as a person may write it.

::

    {"warehouse": "north", "timestamp": "2026-06-01T12:31:00Z",
     "context": {"entity": "mail", "parents": {"obs_slow": "true"}},
     "expected": "true", "by": "ann", "note": "two workers were off"}

All of it on one line. Everything else may be left out: the node is the one whose folder the file
lies in, the case's id is made of what is asked, and without answers the sources are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from triage.model.verdict import WORDS
from triage.model.verdict_bounds import MAX_TEXT as MAX_EXPLANATION
from triage.model.verdict_bounds import is_storable
from triage.sop.fields import MAX_NAME, MAX_TEXT, FileModel, Scalar
from triage.sop.located import YamlPath, plain
from triage.sop.nearest import Nearest

SPLITS = ("train", "heldout")
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$"
SCHEMA_HINT = "see `triage schema cases`"

ExpectedWord = Literal["true", "false", "no_data"]
SplitWord = Literal["", "train", "heldout"]

_MEANT = {
    "yes": "true",
    "y": "true",
    "1": "true",
    "positive": "true",
    "no": "false",
    "n": "false",
    "0": "false",
    "negative": "false",
    "nodata": "no_data",
    "missing": "no_data",
    "unknown": "no_data",
    "none": "no_data",
    "null": "no_data",
}
"""How verdicts are spelled elsewhere. `_meant` has looked at case and blanks."""


class Fault(NamedTuple):
    """`path` is where in the line; its last part is the field. An error unless `warning`."""

    path: YamlPath
    problem: str
    fix: str
    warning: bool = False


# --- values -----------------------------------------------------------------------------------


def _refused(problem: str, fix: str) -> PydanticCustomError:
    # In the context and not in the template: a value may hold braces.
    return PydanticCustomError("fault", "{problem}", {"problem": problem, "fix": fix})


def _meant(value: str) -> str:
    word = value.strip().lower().replace(" ", "_").replace("-", "_")
    return word if word in WORDS else _MEANT.get(word.replace("_", ""), "")


def _word(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if value in WORDS:
        return value
    meant = _meant(str(value)) if isinstance(value, str | int) or value is None else ""
    shown = f"`{plain(value)}`" if isinstance(value, str) else _kind(value)
    fix = f'write "{meant}"' if meant else "write one of them, in quotes"
    raise _refused(f"must be true, false or no_data, not {shown}", fix)


def _instant(value: Any) -> Any:
    example = "2026-06-01T12:31:00Z or 2026-06-01T14:31:00+02:00"
    if not isinstance(value, str):
        raise _refused(f"must be an ISO 8601 time as text, not {_kind(value)}", f"write {example}")
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise _refused(f"is no ISO 8601 time: `{plain(value)}`", f"write {example}") from None
    raise _refused(f"has no offset: `{plain(value)}`", f"say which instant it is, as in {example}")


def _one_verdict(value: Any) -> Any:
    return {"value": value} if isinstance(value, bool | str) else value


def _observed(value: Any) -> Any:
    if is_storable(value, MAX_EXPLANATION):
        return value
    raise _refused(
        f"must be a number, text, true, false or null, not {_kind(value)}", "write one value"
    )


Instant = Annotated[
    datetime, BeforeValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time"})
]
Word = Annotated[ExpectedWord, BeforeValidator(_word, json_schema_input_type=bool | ExpectedWord)]
Observed = Annotated[
    Any,
    AfterValidator(_observed),
    WithJsonSchema({"type": ["number", "string", "boolean", "null"]}),
]
Bounded = Annotated[str, Field(max_length=MAX_NAME)]
Prose = Annotated[str, Field(max_length=MAX_TEXT)]


# --- the line ---------------------------------------------------------------------------------


class ClauseEntry(FileModel):
    """One comparison of a verdict."""

    name: Bounded = Field(description="What was compared.")
    observed: Observed = Field(default=None, description="The figure that was found.")
    op: Bounded = Field(description="Such as > or >=.")
    threshold: Observed = Field(default=None, description="What it was compared with.")
    unit: Bounded = Field(default="", description="Unit of both.")
    holds: bool | None = Field(default=None, description="null: there was nothing to compare.")


class ParentEntry(FileModel):
    """What a node before said: a word, or the whole verdict."""

    value: Word = Field(description="true, false or no_data.")
    subject: Bounded = Field(default="", description="The asset it speaks of; empty: the entity.")
    explanation: str = Field(default="", max_length=MAX_EXPLANATION, description="One line.")
    clauses: list[ClauseEntry] = Field(default=[], description="What led to it.")


Parent = Annotated[
    ParentEntry,
    BeforeValidator(_one_verdict, json_schema_input_type=bool | ExpectedWord | ParentEntry),
]


class ContextEntry(FileModel):
    """What the node's tool may see beside the answers."""

    entity: Bounded = Field(default="", description="The asset that the alert speaks of.")
    labels: dict[str, str] = Field(default={}, description="The alert's labels.")
    params: dict[str, Scalar] = Field(
        default={}, description="Params of the SOP where they differ from the site's."
    )
    parents: dict[str, Parent] = Field(
        default={}, description="What the nodes before said, by node."
    )


class AnswerEntry(FileModel):
    """One query and what its source said: one of `answer` and `failure`."""

    query: dict[str, Any] = Field(description="The query as decisions show it.")
    answer: dict[str, Any] | None = Field(
        default=None,
        description='{"rows": […]}, {"series": […]}, {"readings": […]} or {"json": …}.',
    )
    failure: Bounded = Field(
        default="", description="Why there was none, such as source_timeout; it fails so again."
    )


class CaseEntry(FileModel):
    """A labelled case: where a node was asked, and what a person says it must answer."""

    case: str | None = Field(
        default=None,
        pattern=NAME_PATTERN,
        description="A name for it. By default an id made of what is asked.",
    )
    node: str | None = Field(
        default=None, description="The node; by default that of the file's folder."
    )
    warehouse: Bounded = Field(description="The site, as the sites file or an alert names it.")
    timestamp: Instant = Field(description="When it was asked: ISO 8601 with an offset.")
    context: ContextEntry = Field(
        default_factory=ContextEntry, description="What the node's tool may see beside the answers."
    )
    expected: Word = Field(description="What the node must say: true, false or no_data.")
    subject: Bounded | None = Field(
        default=None,
        description="The asset it must speak of; empty: the entity. Left out: whichever.",
    )
    split: SplitWord = Field(
        default="", description="train or heldout, whatever its time; empty: by its time."
    )
    origin: Bounded = Field(default="", description="Where it is from.")
    by: Bounded = Field(default="", description="Who labelled it.")
    note: Prose = Field(default="", description="Why.")
    answers: list[AnswerEntry] = Field(
        default=[], description="What the sources said. With none, the sources are asked."
    )


def cases_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of one line. Whether its names exist only a check finds."""
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": "urn:triage:schema:cases",
        **CaseEntry.model_json_schema(mode="validation"),
        "title": "A labelled case of triage: one line of cases.jsonl",
    }


# --- faults in plain words --------------------------------------------------------------------

_ANY = "*"
_ENTRIES: Mapping[tuple[str, ...], type[FileModel]] = {
    (): CaseEntry,
    ("context",): ContextEntry,
    ("context", "parents", _ANY): ParentEntry,
    ("context", "parents", _ANY, "clauses", _ANY): ClauseEntry,
    ("answers", _ANY): AnswerEntry,
}
_OTHER_NAMES = {
    "site": "warehouse",
    "label": "expected",
    "verdict": "expected",
    "time": "timestamp",
    "fired_at": "timestamp",
    "id": "case",
    "body": "answer",
}
_WANTED = {
    "string_type": ("text", "put it in quotes"),
    "bool_type": ("true or false", "write one of the two, without quotes"),
    "list_type": ("a list", "write [ … ]"),
    "dict_type": ("an object", "write { … }"),
    "model_type": ("an object", "write { … }"),
    "scalar_type": ("a number, text, true or false", "write one value"),
}


def faults(error: ValidationError) -> Iterator[Fault]:
    """Every fault of a line that is an object."""
    nearest = Nearest()
    for detail in error.errors(include_url=False, include_context=True):
        yield _fault(detail, nearest)


def _fault(detail: ErrorDetails, nearest: Nearest) -> Fault:
    path: YamlPath = detail["loc"]
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    match kind:
        case "missing":
            problem, fix = "is missing", f"add it{_description(path)}"
        case "extra_forbidden":
            problem, fix = "the key is unknown", _known_key(path, nearest)
        case "fault":
            problem, fix = str(context["problem"]), str(context["fix"])
        case "string_too_long":
            problem, fix = f"is longer than {context['max_length']} characters", "shorten it"
        case "string_pattern_mismatch":
            problem = f"may not be {_shown(value)}"
            fix = "letters, digits, `_`, `.`, `:` and `-`, 64 at most; or leave it out"
        case "literal_error":
            problem = f"may not be {_shown(value)}"
            fix = f"write one of {', '.join(SPLITS)}, or leave it out"
        case _ if kind in _WANTED:
            wanted, fix = _WANTED[kind]
            problem = f"must be {wanted}, not {_kind(value)}"
        case _:
            problem, fix = f"is not accepted: {detail['msg']}", SCHEMA_HINT
    return Fault(path, problem, fix)


def _description(path: YamlPath) -> str:
    field = _fields(path[:-1]).get(str(path[-1]))
    return f": {field.description}" if field is not None and field.description else ""


def _known_key(path: YamlPath, nearest: Nearest) -> str:
    key, known = str(path[-1]), _fields(path[:-1])
    if (other := _OTHER_NAMES.get(key.lower(), "")) in known:
        return f"write `{other}`"
    if "context" in known and key in ContextEntry.model_fields:
        return "put it into `context`"
    return nearest(key, known) or f"known here: {', '.join(known)}"


def _fields(path: YamlPath) -> Mapping[str, Any]:
    for pattern, model in _ENTRIES.items():
        if len(pattern) == len(path) and all(
            want in (_ANY, part) for want, part in zip(pattern, path, strict=True)
        ):
            return model.model_fields
    return {}


def _shown(value: Any) -> str:
    return f"`{plain(value)}`" if isinstance(value, str) else _kind(value)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
