"""Metrics and traces of what goes on; imports neither the engine nor a store."""
