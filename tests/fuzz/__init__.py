"""Coverage-guided fuzzing, in an environment of its own."""
