#!/usr/bin/env python3
"""A service to watch in the demo: nothing but a /metrics page. `shop.py PORT`."""

from __future__ import annotations

import signal
import sys

from prometheus_client import start_http_server


def main() -> None:
    start_http_server(int(sys.argv[1]), addr="127.0.0.1")
    signal.pause()


if __name__ == "__main__":
    main()
