"""The gate in front of a cluster: jobs of files checked against cards, in CI's own formats."""
