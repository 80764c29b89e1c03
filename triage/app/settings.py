"""`triage.toml` as one frozen object, read once, every fault found and named.

    settings = Settings.load(Path("triage.toml"), os.environ)

Any key can be given as `TRIAGE_<SECTION>__<KEY>` too (`TRIAGE_HTTP__LISTEN`,
`TRIAGE_SOURCES__METRICS__URL`, `TRIAGE_QUEUE__URL`), which wins over the file. Only names with two
underscores after the section count: Kubernetes, for one, puts `TRIAGE_PORT` and the like there by
itself.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from triage.app.delivery_sections import (
    STORES,
    Addressed,
    QueueSection,
    StoreSection,
    StreamSection,
    embedded_elsewhere,
    shorthand,
)
from triage.app.fallback_section import FallbackSection
from triage.app.making_sections import MakeSection, ShadowSection, WatchSection
from triage.app.sections import (
    AnySink,
    AnySource,
    EngineSection,
    HttpSection,
    IntakeSection,
    LogSection,
    Name,
    Section,
    SopSection,
)
from triage.app.settings_faults import Places, explain, literal_secrets
from triage.app.settings_places import SQLITE, settle
from triage.errors import Finding, InvalidFiles

PREFIX = "TRIAGE_"
MAX_FILE_BYTES = 1 << 20


class Settings(BaseSettings):
    """Paths are absolute, relative ones being taken from the file's folder, and secrets have been
    read: `settings.sources["metrics"].secret("bearer_token")`. No `repr` shows one, nor a URL."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        title="triage.toml",
    )

    sop: SopSection = SopSection()
    store: StoreSection = StoreSection()
    queue: QueueSection = QueueSection()
    streams: dict[Name, StreamSection] = {}
    engine: EngineSection = EngineSection()
    fallback: FallbackSection = FallbackSection()
    make: MakeSection = MakeSection()
    shadow: ShadowSection = ShadowSection()
    watch: WatchSection = WatchSection()
    http: HttpSection = HttpSection()
    intake: IntakeSection = IntakeSection()
    sources: dict[Name, AnySource] = {}
    sinks: dict[Name, AnySink] = {}
    log: LogSection = LogSection()

    @classmethod
    def load(cls, path: Path, env: Mapping[str, str], *, read_secrets: bool = True) -> Self:
        """Raises InvalidFiles with every fault found.

        Without `read_secrets` variables and files that hold secrets need not be there: to check a
        file on another machine than the one it is for.
        """
        text = _read(path)
        document = shorthand(_parse(path, text))
        overrides, faults = _overrides(cls, env)
        places = Places(str(path), text, _paths(overrides))
        faults += literal_secrets(document, places)
        if faults:
            # Unknown keys would otherwise be reported a second time, as just that.
            raise InvalidFiles(faults)
        try:
            settings = cls(**_merged(document, overrides))
        except ValidationError as error:
            raise InvalidFiles(explain(cls, error, places)) from None
        folder = path.resolve().parent
        settled, faults = settle(settings, folder, env if read_secrets else None, places)
        faults += [*_addressed_twice(settings, places), *_queue_faults(settled, places)]
        if faults:
            raise InvalidFiles(faults)
        return settled._with_data_folder(folder)  # noqa: SLF001 - its own, of a copy

    def _with_data_folder(self, folder: Path) -> Self:
        """`store.data` filled in: beside an SQLite file, else `data` in `folder`."""
        store = self.store
        if store.data is not None:
            return self
        sqlite = store.address.startswith(SQLITE)
        data = Path(store.address.removeprefix(SQLITE)).parent if sqlite else folder / "data"
        return self.model_copy(update={"store": store.model_copy(update={"data": data})})

    def secrets(self) -> tuple[str, ...]:
        """Every secret that was read, wherever it is configured: what must not leave."""
        found = {s for name in type(self).model_fields for s in _secrets(getattr(self, name))}
        return tuple(sorted(found - {""}))

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the base class's signature
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - likewise
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - likewise
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - likewise
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` hands over: the process's environment is not read behind its back."""
        return (init_settings,)


def _addressed_twice(written: Settings, places: Places) -> Iterator[Finding]:
    for name in ("store", "queue"):
        section: Addressed = getattr(written, name)
        # What a default says counts for nothing, and settled settings no longer know.
        if section.elsewhere and section.url and "url" in section.model_fields_set:
            problem = f"url and {section.elsewhere} are both set"
            yield places.finding((name, section.elsewhere), problem, "keep one")


def _queue_faults(settings: Settings, places: Places) -> list[Finding]:
    store, queue = settings.store, settings.queue
    problem = embedded_elsewhere(store, queue)
    if problem:
        return [places.finding(("queue", "url"), *problem.split(": ", 1))]
    if queue.elsewhere and queue.address.startswith(STORES):
        return [
            places.finding(
                ("queue", queue.elsewhere),
                "an embedded queue has no place of its own",
                f"take {queue.elsewhere} out: the queue is in the store then",
            )
        ]
    return []


def _secrets(value: object) -> Iterator[str]:
    match value:
        case Section():
            yield from value.secrets_read()
            for name in type(value).model_fields:
                yield from _secrets(getattr(value, name))
        case Mapping():
            for below in value.values():
                yield from _secrets(below)
        case tuple():
            for below in value:
                yield from _secrets(below)


def settings_schema() -> dict[str, Any]:
    """JSON Schema of `triage.toml`, for editors."""
    schema = Settings.model_json_schema()
    for name in ("store", "queue"):
        section = schema["properties"][name]
        schema["properties"][name] = {"anyOf": [{"type": "string"}, section]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


RELOADABLE = frozenset({"sop", "sources", "intake"})


def restart_needed(old: Settings, new: Settings) -> list[str]:
    """Key paths that differ and that a reload does not take up: all but those of sop, sources and
    intake, and the log level. A secret with a new value counts as changed."""
    changed = []
    for name in type(old).model_fields:
        if name in RELOADABLE:
            continue
        before, after = getattr(old, name), getattr(new, name)
        if isinstance(before, Mapping):
            changed += [
                f"{name}.{one}"
                for one in sorted({*before, *after})
                if before.get(one) != after.get(one)
            ]
            continue
        changed += [
            f"{name}.{key}"
            for key in type(before).model_fields
            if f"{name}.{key}" != "log.level" and getattr(before, key) != getattr(after, key)
        ]
        changed += [
            f"{name}.{secret}"
            for secret in before.SECRETS
            if before.secret(secret) != after.secret(secret)
        ]
    return changed


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            body = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _invalid(
            path, 0, f"cannot be read: {error.strerror}", "make a project with: triage init DIR"
        ) from error
    if len(body) > MAX_FILE_BYTES:
        raise _invalid(path, 0, f"is larger than {MAX_FILE_BYTES} bytes", "is it the right file?")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise _invalid(path, line, "is not UTF-8", "save the file as UTF-8") from error


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        problem = str(error) or "is nested too deeply"
        at = re.search(r" \(at line ([0-9]+), column ([0-9]+)\)$", problem)
        line = int(at[1]) if at else text.count("\n") + 1
        problem = problem.removesuffix(at[0] if at else " (at end of document)")
        raise _invalid(path, line, f"is not TOML: {problem}", "see https://toml.io") from error


def _invalid(path: Path, line: int, problem: str, fix: str) -> InvalidFiles:
    return InvalidFiles([Finding(file=str(path), line=line, problem=problem, fix=fix)])


class _Environment(EnvSettingsSource):
    """The variables of a given mapping instead of those of the process."""

    def __init__(self, settings_cls: type[BaseSettings], env: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in env.items()}
        super().__init__(settings_cls)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return self._given


def _overrides(
    cls: type[BaseSettings], env: Mapping[str, str]
) -> tuple[dict[str, Any], list[Finding]]:
    given: dict[str, str] = {}
    faults = []
    for name, value in env.items():
        section, delimiter, key = name.removeprefix(PREFIX).partition("__")
        if not name.startswith(PREFIX) or not delimiter:
            continue
        if section.lower() in cls.model_fields and key:
            given[name] = value
        else:
            known = ", ".join(section.upper() for section in cls.model_fields)
            faults.append(
                Finding(
                    file=f"environment variable {name}",
                    problem="names no setting",
                    fix=f"write {PREFIX}<SECTION>__<KEY> with one of the sections {known}",
                )
            )
    try:
        return _Environment(cls, given)(), faults
    except SettingsError as error:
        faults.append(
            Finding(
                file="environment",
                problem=str(error),
                fix="lists and tables are written as JSON",
            )
        )
        return {}, faults


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            merged[key] = _merged(under, value)
        else:
            merged[key] = value
    return merged


def _paths(tree: Mapping[str, Any], above: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            found |= _paths(value, (*above, key))
        else:
            found.add((*above, key))
    return found
