"""The page: see where the memory goes."""
