"""What people get wrong on the command line: each ends with a message and a documented code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.command_line import environment, make_project
from tests.forked_commands import run_forked
from triage.cli.exit_codes import MEANINGS

NOWHERE = "http://127.0.0.1:9"  # the port of "discard", which nothing serves any more

MISTAKES: list[tuple[str, int, str]] = [
    ("", 2, "Usage: triage"),
    ("chekc", 2, "Did you mean 'check'?"),
    ("check --frobnicate", 2, "No such option"),
    ("check --config absent.toml", 78, "absent.toml: cannot be read: No such file"),
    ("check --config tools_lib", 78, "tools_lib: cannot be read: Is a directory"),
    ("check --config tool.py", 78, "tool.py:"),
    ("check --connect --no-secrets", 2, "needs the secrets"),
    ("serve --config absent.toml", 78, "make a project with: triage init DIR"),
    ("serve --listen nonsense", 78, "write HOST:PORT"),
    ("serve --listen 0.0.0.0:0", 78, "there is no token"),
    ("run absent.json", 2, "absent.json: cannot be read: No such file"),
    ("run tools_lib", 2, "Is a directory"),
    ("run tool.py", 1, "refused: body: is not JSON"),
    ("run -", 1, "refused: body: is empty"),
    ("run --format frob tool.py", 2, "--format"),
    ("run --at yesterday tool.py", 2, "is no time"),
    ("run --config absent.toml tool.py", 78, "absent.toml"),
    ("decisions", 2, "Usage: triage decisions"),
    ("decisions list", 78, "nothing was served from it"),
    ("decisions list --since 2026-06-01T12:31:00", 2, "is no time"),
    ("decisions list --outcome lost", 2, "--outcome"),
    ("decisions list --limit 0", 2, "--limit"),
    (f"decisions list --url {NOWHERE}", 69, "is the daemon running there?"),
    ("decisions list --url ftp://x", 2, "write http://HOST:PORT"),
    ("decisions list --url nonsense", 2, "write http://HOST:PORT"),
    (f"decisions list --url {NOWHERE} --token-env ABSENT", 78, "ABSENT is not set"),
    (f"decisions list --url {NOWHERE} --token-file absent", 78, "absent: cannot be read"),
    (f"decisions list --url {NOWHERE} --token-env A --token-file b", 2, "give one of"),
    ("decisions list --token-env HOME", 2, "a token goes with --url"),
    (f"decisions show abcdefabcdef --url {NOWHERE}", 69, "cannot be reached"),
    (f"decisions show abc --url {NOWHERE}", 2, "is too short"),
    ("replay", 78, "nothing was served from it"),
    ("replay --config absent.toml", 78, "make a project with: triage init DIR"),
    ("replay --sop absent.yaml", 78, "absent.yaml: there is no such file"),
    ("replay --sop tool.py", 78, "tool.py:"),
    ("replay --sites absent.yaml", 78, "absent.yaml: there is no such file"),
    ("replay --library absent", 78, "absent: is not a folder"),
    ("replay --since yesterday", 2, "is no time"),
    ("replay --outcome lost", 2, "--outcome"),
    ("replay --limit 0", 2, "--limit"),
    ("replay --url http://127.0.0.1:9", 2, "No such option"),
    ("ledger", 78, "does not exist"),
    (f"ledger --url {NOWHERE}", 69, "cannot be reached"),
    ("tools show obs_depe", 2, "did you mean `obs_deep`?"),
    ("tools add obs_deep absent.py", 2, "absent.py: cannot be read"),
    ("tools add obs_deep sop.yaml", 78, "is not Python"),
    ("tools add nope tool.py", 2, "has no node 'nope'"),
    ("tools add obs_deep tool.py --reads-parent nope", 2, "has no node 'nope'"),
    ("tools promote obs_deep", 2, "has no candidate: name a version; there are: 1 (active)"),
    ("tools promote obs_deep 9", 78, "there is no version 9"),
    ("tools rollback obs_deep", 78, "no version was active before"),
    ("tools quarantine release obs_deep", 1, "obs_deep is not quarantined; there are: none"),
    ("tools list --config absent.toml", 78, "absent.toml"),
    ("schema frob", 2, "frob"),
    ("init tool.py", 2, "tool.py is a file: name a folder"),
    ("init tool.py/below", 69, "cannot be written: Not a directory"),
    ("init .", 2, "there is already triage.toml, sop.yaml"),
]


LINES = [line for line, _, _ in MISTAKES]


def _contents(folder: Path) -> dict[Path, bytes]:
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture(scope="module")
def ended(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[int, str, str, bool]]:
    """Code, output and errors by command, and whether its project was left as it was."""
    folder = tmp_path_factory.mktemp("mistakes")
    made = make_project(folder / "made")
    before = _contents(made)
    folders = [shutil.copytree(made, folder / str(n)) for n in range(len(LINES))]
    jobs = [(line.split(), project) for line, project in zip(LINES, folders, strict=True)]
    results = run_forked(jobs, environment())
    return {
        line: (*result, _contents(project) == before)
        for line, result, project in zip(LINES, results, folders, strict=True)
    }


@pytest.mark.parametrize(("line", "code", "said"), MISTAKES, ids=LINES)
def test_a_mistake_ends_with_a_message_and_a_code(
    ended: dict[str, tuple[int, str, str, bool]], line: str, code: int, said: str
) -> None:
    found, out, err, untouched = ended[line]
    assert found == code, err
    assert code in MEANINGS
    assert said in err
    assert "Traceback" not in err
    assert out == ""
    assert untouched
