"""Files that the command line names."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from trainfit.documents.document import (
    Document,
    FileError,
    parse_documents,
    raised_as_file_errors,
)

PIPED = Path("/dev/stdin")
"""Standard input in the place of a file, which `-` stands for."""


def read_text(path: Path) -> str:
    """The text of a file, or what is piped into the command. Raises FileError."""
    try:
        if path == PIPED:
            return sys.stdin.buffer.read().decode("utf-8")
        return path.read_text("utf-8")
    except OSError as error:
        raise FileError(error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise FileError("is not UTF-8") from None


def read_documents(path: Path) -> list[Document]:
    """Every document of a file: several in YAML, otherwise one. Raises FileError."""
    return parse_documents(path.suffix, read_text(path))


def read_config(path: Path) -> Any:
    """The value of a config.json, in which Infinity is common. Raises FileError."""
    text = read_text(path)
    with raised_as_file_errors():
        return json.loads(text)
