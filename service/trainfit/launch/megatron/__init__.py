"""Megatron-LM's arguments, on a command line or in files, and the formats in their names.

`options` knows what a release takes and splits a command line by it; `arguments` makes a job of
arguments under the names that Megatron-LM's namespace has them by, wherever they were written.
"""
