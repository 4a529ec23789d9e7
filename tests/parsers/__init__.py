"""Launches with keys that were changed, read by Trainfit and by the program's own parser.

The parsers run in an environment of their own (`make parsers`), by the modules of `own`.
"""
