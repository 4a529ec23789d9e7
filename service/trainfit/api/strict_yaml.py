"""YAML in the strictness of a JSON body, for what an annotation holds."""

from __future__ import annotations

import json
from typing import Any

from yaml import MarkedYAMLError, YAMLError

from trainfit.api.strict_json import JsonError, parse_json
from trainfit.documents.bounds import FileError
from trainfit.documents.strict_loader import documents_in


class YamlError(ValueError):
    """The text is not the YAML that is wanted."""


def parse_yaml(text: str) -> Any:
    """The value of a document in YAML that JSON can carry. Raises YamlError."""
    try:
        values = [value for value, _ in documents_in(text)]
        if len(values) != 1:
            raise YamlError("must hold one document")
        return parse_json(json.dumps(values[0], allow_nan=False).encode())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise YamlError(f"{error.problem or error.context}{where}") from None
    except FileError as error:
        raise YamlError(f"line {error.line}: {error}") from None
    except JsonError as error:
        raise YamlError(error.problem.detail) from None
    except TypeError as error:  # a date, or another value that JSON has not
        raise YamlError(f"{error}; quote it if it is text") from None
    except YamlError:
        raise
    except (YAMLError, ValueError):
        raise YamlError("it is not YAML") from None
