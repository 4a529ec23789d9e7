"""A service under mixed load for a while: nothing fails, and nothing piles up."""
