"""What a run said of itself, beside what was predicted."""
