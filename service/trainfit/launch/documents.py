"""The documents among the files of a launch."""

from __future__ import annotations

from trainfit.documents.document import Document, FileError, parse_documents
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.specs.launch import LaunchFile


def document_of(file: LaunchFile, suffix: str) -> Document:
    """The one document of a file in JSON, YAML or TOML. Raises LaunchError with the line."""
    try:
        documents = parse_documents(suffix, file.content)
    except FileError as error:
        where = f"{file.path}:{error.line}"
        raise LaunchError(Complaint(f"{where}: {error}", file.path, error.line)) from None
    if len(documents) != 1:
        raise LaunchError(Complaint(f"{file.path}: must hold one document", file.path, 1))
    return documents[0]
