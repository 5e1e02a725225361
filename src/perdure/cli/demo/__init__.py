"""`perdure demo`: archives a folder durably, one child workflow for each file.

`workflows` is the durable part, on the plain file work of `listing` and `packing`; the other
modules are the program around it.
"""
