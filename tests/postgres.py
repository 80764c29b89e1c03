"""A private PostgreSQL cluster for a test module, as the benchmarks start theirs."""

from __future__ import annotations

from bench.real_servers.postgres import WAIT_S, PostgresServer, running_postgres

__all__ = ["WAIT_S", "PostgresServer", "running_postgres"]
