"""Decisions: plain functions over estimates."""
