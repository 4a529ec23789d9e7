"""torchtitan: TOML files and --section.key options up to v0.2.2, and the options that came after.

After v0.2.2 a Python function describes a run. It is never run: what it sets has to be given.
"""
