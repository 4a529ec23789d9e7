"""Known vulnerabilities of what the lock files install."""
