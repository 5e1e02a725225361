"""Benchmarks: the same questions to this library, to the reference, and to a bare bound."""
