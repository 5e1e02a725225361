"""What users import: decorators, calls, queues, handles, the engine.

Each module is short and stands on the journal; `wiring` alone knows which stores there are.
"""
