"""DeepSpeed's config. Source: DeepSpeed 0.19 (runtime/config.py, runtime/zero/config.py)."""
