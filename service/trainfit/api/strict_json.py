"""Strict JSON (RFC 8259): what Python's parser lets pass is refused here."""

import json
import math
import re
from typing import Any, Never

from trainfit.api.kinds import TOO_LARGE
from trainfit.documents.json_pointer import json_pointer
from trainfit.questions.kinds import INVALID_JSON, ProblemKind
from trainfit.questions.problems import Problem, problem, summary
from trainfit.resolve.findings import Finding

MAX_VALUES = 10_000
"""A config.json has some hundred values; each that is wrong would cost an error report."""

MAX_DEPTH = 64
"""Lists and objects within one another; a job with a config.json has 12. What answers walks down
them, and some hundred are too deep for that.
"""

HALF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
"""What may be one: only then is it worth looking whether the other follows."""


class JsonError(ValueError):
    """The text is not the JSON that is wanted; `problem` says why."""

    def __init__(self, kind: ProblemKind, detail: str, *errors: Finding) -> None:
        super().__init__(detail)
        self.problem: Problem = problem(kind, detail, errors)


class _ConstantError(ValueError):
    """NaN, Infinity or -Infinity."""


class _DuplicateKeyError(ValueError):
    """Two members of one object have the same name."""


def parse_json(body: bytes, max_values: int = MAX_VALUES) -> Any:
    """The value of a JSON document. Raises JsonError for anything that is not strict JSON."""
    if body.count(b",") >= max_values:
        raise JsonError(TOO_LARGE, f"the body may have at most {max_values} values")
    try:
        text = body.decode()
        value = _STRICT.decode(text)
        if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
            _check_depth(value)
        if HALF_A_PAIR.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise JsonError(INVALID_JSON, "a string has half a surrogate pair") from None
    except UnicodeDecodeError:
        raise JsonError(INVALID_JSON, "the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise JsonError(INVALID_JSON, reason if body.strip() else "the body is empty") from None
    except _DuplicateKeyError:
        finding = Finding(_duplicate_in(text), "duplicate_key", "is given twice in one object")
        raise JsonError(INVALID_JSON, summary([finding]), finding) from None
    except _ConstantError as error:
        raise JsonError(INVALID_JSON, f"{error} is not a JSON number") from None
    except ValueError:
        raise JsonError(INVALID_JSON, "a number is out of range") from None
    except RecursionError:
        detail = f"the body is nested too deeply; at most {MAX_DEPTH} levels are read"
        raise JsonError(INVALID_JSON, detail) from None


def _check_depth(value: Any) -> None:
    """Raises RecursionError for a value with more levels than are read."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for part in inner for each in part if isinstance(each, dict | list)]
        if not level:
            return
    raise RecursionError


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(members)
    if len(values) != len(members):
        raise _DuplicateKeyError
    return values


def _finite(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise ValueError
    return value


def _refuse(constant: str) -> Never:
    raise _ConstantError(constant)


class _Pairs(list[tuple[str, Any]]):
    """An object with every member that was written, in order."""


def _duplicate_in(text: str) -> str:
    """The pointer of the first name that is given twice; empty where the rest is no JSON."""
    try:
        return json_pointer(_duplicate(_PAIRS.decode(text)))
    except (ValueError, RecursionError):
        return ""


def _duplicate(value: Any) -> list[str | int]:
    if not isinstance(value, list):
        return []
    seen: set[str | int] = set()
    for name, inner in value if isinstance(value, _Pairs) else enumerate(value):
        if name in seen:
            return [name]
        seen.add(name)
        if path := _duplicate(inner):
            return [name, *path]
    return []


_STRICT = json.JSONDecoder(object_pairs_hook=_object, parse_float=_finite, parse_constant=_refuse)
_PAIRS = json.JSONDecoder(object_pairs_hook=_Pairs)
