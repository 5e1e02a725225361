"""The two system databases a workflow can live in, Postgres and SQLite, behind one port.

Drivers, SQL and wire words (`workflow_uuid`, `function_id`) exist here and nowhere else. What both
stores share stands beside this file; each store's package holds the same file names, so that a
reader can lay them side by side. Nothing here retries, and nothing decides what a run does next.
"""
