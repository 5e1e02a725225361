"""What users import: decorators, calls, handles, the engine. Short modules on top of the journal."""
