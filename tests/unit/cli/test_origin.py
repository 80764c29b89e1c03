"""Where a command reads: the options that name it, and the token they lead to."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from triage.cli import options
from triage.cli.origin import Origin, takes_origin
from triage.errors import ConfigError

RUNNER = CliRunner()


def reading() -> tuple[typer.Typer, list[tuple[str, Origin]]]:
    """A command that reads, and what it was called with."""
    application, called = options.application(), []

    @application.command()
    @takes_origin
    def read(node: str = "", *, origin: Origin) -> None:
        """Read it."""
        called.append((node, origin))

    return application, called


def test_a_command_has_the_options_after_its_own() -> None:
    application, called = reading()
    told = RUNNER.invoke(application, ["--help"], env={"COLUMNS": "100"}).output
    places = [told.index(name) for name in ("--node", "--config", "--url", "--token-env")]
    assert places == sorted(places)
    assert "Read it." in told
    assert "--origin" not in told
    assert called == []


def test_what_is_not_given_is_the_store_of_the_configuration_here() -> None:
    application, called = reading()
    assert RUNNER.invoke(application, ["--node", "n"]).exit_code == 0
    assert called == [("n", Origin())]
    assert called[0][1].config == Path("triage.toml")


def test_each_option_is_a_part_of_it() -> None:
    application, called = reading()
    given = ["-c", "x.toml", "--url", "http://h", "--token-env", "T", "--token-file", "f"]
    assert RUNNER.invoke(application, given).exit_code == 0
    whole = Origin(config=Path("x.toml"), url="http://h", token_env="T", token_file=Path("f"))
    assert called == [("", whole)]


def test_a_token_comes_from_its_variable_or_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("from-a-file\n")
    monkeypatch.setenv("TOKEN", " from-a-variable ")
    origins = (Origin(), Origin(token_env="TOKEN"), Origin(token_file=tmp_path / "token"))
    assert [one.token for one in origins] == ["", "from-a-variable", "from-a-file"]


def test_a_token_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "two").write_text("two words")
    monkeypatch.delenv("TOKEN", raising=False)
    for name, problem in (("empty", "no token"), ("two", "white space"), ("none", "be read")):
        with pytest.raises(ConfigError, match=problem):
            _ = Origin(token_file=tmp_path / name).token
    with pytest.raises(ConfigError, match="not set"):
        _ = Origin(token_env="TOKEN").token
    with pytest.raises(typer.BadParameter, match="one of"):
        _ = Origin(token_env="TOKEN", token_file=tmp_path / "two").token
