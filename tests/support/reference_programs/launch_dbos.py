"""Run by an interpreter that has the real dbos: launches an application and shuts it down.

launch_dbos.py URL SCHEMA listen|poll
"""

import sys

from dbos import DBOS

url, schema, waiting = sys.argv[1:]
DBOS(
    config={
        "name": "reference",
        "system_database_url": url,
        "dbos_system_schema": schema,
        "run_admin_server": False,
        "use_listen_notify": waiting == "listen" and not url.startswith("sqlite"),
    }
)
DBOS.launch()
DBOS.destroy()
