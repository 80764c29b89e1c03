"""Run by Alembic, which loads it by path. The connection is the caller's, already open."""

from alembic import context

from triage.adapters.store.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
