"""Runs the migrations on the connection and in the transaction that `groundwire.catalog.migrating` opened."""

from alembic import context

# SQLite can roll back DDL; alembic's default is to assume that it cannot.
context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
