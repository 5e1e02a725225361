"""What the library talks about: ids, states, rows, answers.

Plain immutable values and the strings shared with other SDKs live here. Nothing here decides,
awaits, or knows a database.
"""
