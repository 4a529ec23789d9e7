"""Trained tokens before every sample, and what makes them."""
