"""A problem, in words for who reads no HTTP."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import from_json, to_json


def in_words(document: bytes) -> str:
    """What a problem details document says: what is wrong, where, and what would be right."""
    problem = from_json(document)
    return "\n".join([f"{problem['title']}: {problem['detail']}", *_findings(problem)])


def _findings(problem: Mapping[str, Any]) -> Iterator[str]:
    for finding in problem["errors"]:
        line = f", line {finding['line']}" if finding["line"] else ""
        yield f"- {finding['pointer'] or 'the arguments'}{line}: {finding['message']}"
        if finding["suggestion"]:
            yield f"  suggestion (JSON Patch): {to_json(finding['suggestion']).decode()}"
