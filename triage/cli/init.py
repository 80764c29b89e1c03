"""`triage init`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import orjson
import typer

from triage.app.exits import Exit
from triage.app.golden_file import golden_schema
from triage.app.settings import settings_schema
from triage.cli import options
from triage.cli.exit_codes import CommandFailed
from triage.clock import SystemClock
from triage.library import lifecycle
from triage.model.decision import NodeId
from triage.sop.load import load_sop
from triage.sop.schema import sites_schema, sop_schema

application = options.application()

FILES = ("triage.toml", "sop.yaml", "sites.yaml", "golden/scrapes.yaml", "README.md")
TOOLS = ("obs_target_down", "rc_whole_job_down", "obs_scrape_slow")
LIBRARY = "tools_lib"
MAKER = "triage init"
GITIGNORE = "data/\n"
FIRST = 1

SAMPLE = MappingProxyType(
    {"alarm": "TargetDown", "entity": "localhost:9090", "severity": "warning"}
)


@application.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Made when it is not there.")],
) -> None:
    """Make a new project that can be checked and served.

    It watches a Prometheus: a small procedure with three tools, ready to be changed. Nothing that
    is there already is overwritten.

    Exit codes: 0; 2 a file is in the way, and nothing was written; 69 a file cannot be written.
    """
    person = options.person("", "--by")
    contents = _contents()
    _refuse_to_overwrite(folder, contents)
    try:
        for name, body in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(body)
        (folder / LIBRARY).mkdir(exist_ok=True)
    except OSError as error:
        raise CommandFailed(
            f"{error.filename or folder}: cannot be written: {error.strerror}", Exit.UNAVAILABLE
        ) from None
    _add_tools(folder, person)
    _tell_next_steps(folder)


def _contents() -> Mapping[str, bytes]:
    """Path in the project to the file's bytes; tools are made apart."""
    skeleton = _skeleton()
    schemas = {
        "sop": sop_schema(),
        "sites": sites_schema(),
        "config": settings_schema(),
        "golden": golden_schema(),
    }
    return {
        **{name: skeleton.joinpath(name).read_bytes() for name in FILES},
        **{
            f".triage/{name}.schema.json": orjson.dumps(schema, option=orjson.OPT_INDENT_2) + b"\n"
            for name, schema in schemas.items()
        },
        ".gitignore": GITIGNORE.encode(),
    }


def _skeleton() -> Traversable:
    return files("triage.cli").joinpath("skeleton")


def _refuse_to_overwrite(folder: Path, contents: Mapping[str, bytes]) -> None:
    if folder.exists() and not folder.is_dir():
        raise CommandFailed(f"{folder} is a file: name a folder", Exit.USAGE)
    wanted = [*contents, *(f"{LIBRARY}/{node}" for node in TOOLS)]
    taken = [name for name in wanted if _is_taken(folder / name)]
    if taken:
        raise CommandFailed(
            f"nothing was written: in {folder} there is already {', '.join(taken)} — name another"
            " folder, or move them away",
            Exit.USAGE,
        )


def _is_taken(path: Path) -> bool:
    """A link that leads nowhere is there too."""
    return path.exists() or path.is_symlink()


def _add_tools(folder: Path, person: str) -> None:
    """By the verbs that anyone would use, so that hashes and history are right."""
    sop = load_sop(folder / "sop.yaml")
    library = folder / LIBRARY
    for node in map(NodeId, TOOLS):
        source = _skeleton().joinpath("tools", f"{node}.py.txt").read_bytes()
        at = SystemClock().now()
        version = lifecycle.add_version(library, sop, node, source, maker=MAKER, at=at)
        lifecycle.promote(library, sop, node, version, by=person, at=at, note="comes with init")


def _tell_next_steps(folder: Path) -> None:
    where = shlex.quote(str(folder))
    sample = ", ".join(f'"{key}": "{value}"' for key, value in SAMPLE.items())
    typer.echo(
        f"""Made a project in {where}. Next:

  cd {where}
  triage check --connect     # is all well, and does Prometheus answer?
  triage test                # does the procedure still decide what golden/ says?
  triage serve               # listens on 127.0.0.1:9797, for programs of this machine

and in another terminal:

  curl -sS http://127.0.0.1:9797/api/v1/alerts \\
    -d '{{{sample}, "fired_at": "'$(date -u +%FT%TZ)'"}}'
  triage decisions list

README.md says how to go on."""
    )
