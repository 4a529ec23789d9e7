"""Meta's lingua: configs of its decoder, apps/main, in YAML with key=value over it."""
