"""Which layout: of all that a job leaves open, what is best by an objective and fits."""
