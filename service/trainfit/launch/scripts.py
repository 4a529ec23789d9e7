"""Which files are shell scripts: by their name, or by what their first line names."""

from __future__ import annotations

import re

SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm")
_SHEBANG = re.compile(r"#!\s*\S*/(?:env\s+(?:-S\s+)?)?(?:ba|z|da)?sh\b")


def is_script(path: str, content: str) -> bool:
    """Whether a file is a shell script."""
    return path.endswith(SUFFIXES) or _SHEBANG.match(content) is not None
