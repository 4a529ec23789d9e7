"""Data, not code: the GPUs and model configs that ship with the package."""
