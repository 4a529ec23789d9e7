"""The requests of a rank that shares its states out: an engine's buffers between the passes of the
model's stretches.
"""
