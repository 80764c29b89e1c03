"""`python -m bench.make.endpoint`: an OpenAI-compatible endpoint behind which `Author` writes.

It sees what a model would see, the messages, and nothing else. At the start it is told the
procedure's texts with the tool of each, as a model would have it from its training, and which
mistakes its first drafts have (`--bugs`, a JSON file: node to bugs). Tokens are bytes of UTF-8 by
four.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import uvicorn

from bench.fallback.endpoint import Endpoint
from bench.make.author import read_author, read_bugs
from bench.servers import HOST


def main(argv: list[str] | None = None) -> None:
    """Serves until it is ended."""
    parser = argparse.ArgumentParser(prog="python -m bench.make.endpoint")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--sop", type=Path, required=True)
    parser.add_argument("--library", type=Path, required=True, help="with a tool for every text")
    parser.add_argument("--bugs", type=Path, help="what first drafts get wrong; without it nothing")
    parser.add_argument(
        "--ignores-mismatches", action="store_true", help="mends nothing, whatever a prompt shows"
    )
    chosen = parser.parse_args(argv)
    author = read_author(
        chosen.sop,
        chosen.library,
        read_bugs(chosen.bugs) if chosen.bugs is not None else {},
        ignores_mismatches=chosen.ignores_mismatches,
    )
    uvicorn.run(
        Endpoint(author).application(),
        host=HOST,
        port=chosen.port,
        log_level="warning",
        lifespan="off",
    )


if __name__ == "__main__":
    main()
