"""What happens while workflows run: the journal, the committer, ownership and its services.

Everything here works against the ports; no store, driver, or public decorator is known here.
"""
