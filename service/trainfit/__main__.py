"""`python -m trainfit` is the `trainfit` command."""

from __future__ import annotations

if __name__ == "__main__":
    from trainfit.cli import main

    main()
