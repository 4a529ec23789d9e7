"""YAML in the strictness of a JSON body, for what an annotation holds."""

from __future__ import annotations

import json
from typing import Any

from yaml import AliasEvent, MarkedYAMLError, Node, YAMLError
from yaml.composer import ComposerError

from trainfit.api.strict_json import JsonError, parse_json
from trainfit.documents.strict_loader import StrictLoader

MAX_LENGTH = 32_768
"""What is longer takes PyYAML more than a tenth of a second."""


class YamlError(ValueError):
    """The text is not the YAML that is wanted."""


class AliasFreeLoader(StrictLoader):
    """A value is no larger than the text that stands for it: an alias would repeat what is long."""

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        if self.check_event(AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise ComposerError(None, None, "an alias is not taken", mark)
        return super().compose_node(parent, index)


def parse_yaml(text: str) -> Any:
    """The value of a document in YAML that JSON can carry. Raises YamlError."""
    if len(text) > MAX_LENGTH:
        raise YamlError(f"YAML may have at most {MAX_LENGTH} characters; JSON may have more")
    try:
        value = AliasFreeLoader(text).get_single_data()
        return parse_json(json.dumps(value, allow_nan=False).encode())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise YamlError(f"{error.problem or error.context}{where}") from None
    except RecursionError:
        raise YamlError("it is nested too deeply") from None
    except JsonError as error:
        raise YamlError(error.problem.detail) from None
    except TypeError as error:  # a date, or another value that JSON has not
        raise YamlError(f"{error}; quote it if it is text") from None
    except (YAMLError, ValueError):
        raise YamlError("it is not YAML") from None
