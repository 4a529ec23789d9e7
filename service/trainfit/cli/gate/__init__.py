"""The gate in front of a cluster: jobs of files checked against cards, told in CI's own formats."""
