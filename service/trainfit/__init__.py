"""How much memory every rank of an LLM training run will need, answered before it starts."""

__version__ = "0.1.0"
