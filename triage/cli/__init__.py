"""The command line. `main` is the console script; each command has a module of its own, which is
imported when it is used."""

from triage.cli.main import main

__all__ = ["main"]
