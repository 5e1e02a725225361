"""Pure decisions: numbering, retries, endings, liveness, durations.

Nothing here awaits, reads a clock, draws a random number or knows a store; everything it needs
comes in as an argument, so that each rule can be tested by itself.
"""
