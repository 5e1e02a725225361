"""Durable workflows and durable queues, embedded in your process, on Postgres or SQLite."""
