"""Benchmarks: figures to read and ratios within one run. Nothing here is a test."""
