"""What the engine needs from outside: Protocols only, one file per concern.

No implementation, no driver, no decision lives here. The docstring of a method is its
specification: the guard, what is atomic, what a lost race returns; its contract test quotes it.
"""
