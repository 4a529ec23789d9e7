"""Recordings of PyTorch's allocator: read safely, and reduced where they lie."""
