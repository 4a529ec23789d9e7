"""The reader of shell scripts, held to bash itself."""
