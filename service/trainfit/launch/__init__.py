"""The launch file that a team already has -> a job, with an account of every key in it.

A launch is unwrapped (`commands`: shells, schedulers, containers, launchers) until the program that
trains stands there with its arguments; the format whose program it is reads its settings into a
draft of a job. What a format neither reads nor knows not to matter is unsupported, by name.
"""
