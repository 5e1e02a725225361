"""The command line: it parses, calls the api, and prints.

Nothing here decides about workflows, and nothing here is imported by the rest of the library.
Modules that draw tables are imported by the commands that need them, so that the program starts
quickly.
"""
