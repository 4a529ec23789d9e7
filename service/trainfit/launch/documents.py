"""The documents among the files of a launch."""

from __future__ import annotations

from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from trainfit.documents.document import Document, FileError, parse_documents
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.specs.launch import LaunchFile

YAML = (".yaml", ".yml")
TOML = (".toml",)
SUFFIXES = (*YAML, *TOML, ".json")
REMEMBERED = 8
"""Every format looks at the documents of a launch; these are those of one with many."""


def document_of(file: LaunchFile, suffix: str) -> Document:
    """The one document of a file in JSON, YAML or TOML. Raises LaunchError with the line."""
    documents = _parsed(suffix, file.content)
    if isinstance(documents, FileError):
        raise LaunchError(_complaint(file, documents))
    if len(documents) != 1:
        raise LaunchError(Complaint(f"{file.path}: must hold one document", file.path, 1))
    return documents[0]


def mapping_in(
    file: LaunchFile, having: str = "", suffixes: tuple[str, ...] = YAML
) -> dict[str, Any] | None:
    """The keys of a file with such a suffix that says this word and reads; None of any other."""
    if not file.path.endswith(suffixes) or having not in file.content:
        return None
    try:
        value = document_of(file, suffixes[0]).value
    except LaunchError:
        return None
    return value if isinstance(value, dict) else None


def unread(file: LaunchFile) -> Complaint | None:
    """Why a file that is called a document does not read, however many it should hold."""
    suffix = PurePosixPath(file.path).suffix
    documents = _parsed(suffix, file.content) if suffix in SUFFIXES else []
    return _complaint(file, documents) if isinstance(documents, FileError) else None


def _complaint(file: LaunchFile, error: FileError) -> Complaint:
    return Complaint(f"{file.path}:{error.line}: {error}", file.path, error.line)


@lru_cache(maxsize=REMEMBERED)
def _parsed(suffix: str, text: str) -> list[Document] | FileError:
    """The documents, which nobody changes, or why there are none."""
    try:
        return parse_documents(suffix, text)
    except FileError as error:
        return FileError(str(error), error.line)
