"""How close the service comes to ground truth: `python -m tests.accuracy FILE... [--json]`."""
