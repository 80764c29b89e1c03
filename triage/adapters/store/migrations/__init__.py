"""Alembic's environment: how the tables of `schema` came to be, one file a step."""
