"""nanotron's configs."""
