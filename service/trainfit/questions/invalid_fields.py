"""Pydantic's errors in the words of the one who wrote the job. No value of the input is named."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from trainfit.documents.json_pointer import shortened
from trainfit.questions.field_types import FieldPlace, accepted_names, homes, place
from trainfit.resolve.findings import Finding
from trainfit.specs.model import HF_ID, REVISION

WANTED: Mapping[str, tuple[str, str]] = {
    "bool_parsing": ("wrong_type", "true or false"),
    "bool_type": ("wrong_type", "true or false"),
    "dict_type": ("wrong_type", "an object"),
    "float_parsing": ("wrong_type", "a number"),
    "float_type": ("wrong_type", "a number"),
    "int_type": ("wrong_type", "an integer"),
    "model_attributes_type": ("wrong_type", "an object"),
    "model_type": ("wrong_type", "an object"),
    "string_type": ("wrong_type", "a string"),
    "string_unicode": ("malformed", "a string of whole Unicode characters"),
    "tuple_type": ("wrong_type", "a list"),
    "greater_than": ("out_of_bounds", "more than {gt}"),
    "greater_than_equal": ("out_of_bounds", "at least {ge}"),
    "less_than": ("out_of_bounds", "less than {lt}"),
    "less_than_equal": ("out_of_bounds", "at most {le}"),
    "string_too_long": ("out_of_bounds", "at most {max_length} characters long"),
    "string_too_short": ("out_of_bounds", "at least {min_length} character(s) long"),
    "too_long": ("out_of_bounds", "a list of at most {max_length}"),
    "too_short": ("out_of_bounds", "a list of at least {min_length}"),
    "string_pattern_mismatch": ("malformed", "{pattern}"),
    "literal_error": ("not_one_of", "{expected}"),
    "union_tag_invalid": ("not_one_of", "one of {expected_tags}"),
}
"""Pydantic's kinds of errors: a code of ours, and what the value must be."""

PATTERNS = {
    HF_ID: "the id of a repository on the Hub, such as deepseek-ai/DeepSeek-V3",
    REVISION: "the name of a branch or tag, or a commit",
}
"""What text that must match one of these is, for people."""


def invalid_fields(errors: Iterable[Mapping[str, Any]], body_type: Any) -> list[Finding]:
    """What is wrong with a body of this type, from Pydantic's errors about it.

    Where a value may be of several types, only what the nearest of them lacks is named.
    """
    placed = [(place(body_type, error["loc"]), error) for error in errors]
    near = {
        union
        for where, error in placed
        if not _is_of_another_type(where, error)
        for union in where.unions
    }
    findings: list[Finding] = []
    alternatives: dict[str, list[str]] = {}
    for where, error in placed:
        if not _is_of_another_type(where, error):
            findings.append(_finding(where, error, body_type))
        elif where.pointer not in near:
            alternatives.setdefault(where.pointer, []).append(_wanted(error))
    for pointer, wanted in alternatives.items():
        findings.append(Finding(pointer, "wrong_type", f"must be {' or '.join(wanted)}"))
    return findings


def _is_of_another_type(where: FieldPlace, error: Mapping[str, Any]) -> bool:
    """Whether the error says no more than that a union's branch is not the one that was meant."""
    if error["type"] == "literal_error":
        return where.of_branch and not isinstance(error["input"], str)
    code, _ = WANTED.get(error["type"], ("", ""))
    return where.of_branch and code == "wrong_type"


def _finding(where: FieldPlace, error: Mapping[str, Any], body_type: Any) -> Finding:
    match error["type"]:
        case "missing":
            return Finding(where.pointer, "missing", "is needed and missing")
        case "extra_forbidden":
            return _unknown_field(where, str(error["loc"][-1]), body_type)
        case "value_error":
            return Finding(where.pointer, "invalid", str(error["ctx"]["error"]))
        case "union_tag_not_found":
            return Finding(_tag(where, error), "missing", "is needed and missing")
        case "union_tag_invalid" as kind:
            return Finding(_tag(where, error), WANTED[kind][0], f"must be {_wanted(error)}")
        case kind if kind in WANTED:
            return Finding(where.pointer, WANTED[kind][0], f"must be {_wanted(error)}")
        case _:
            return Finding(where.pointer, "invalid", "is not valid")


def _wanted(error: Mapping[str, Any]) -> str:
    _, wanted = WANTED[error["type"]]
    limits = error.get("ctx", {})
    if "pattern" in limits:
        return PATTERNS.get(limits["pattern"], f"text that matches {limits['pattern']}")
    return wanted.format(**limits)


def _tag(where: FieldPlace, error: Mapping[str, Any]) -> str:
    tag = error["ctx"]["discriminator"].strip("'")
    return f"{where.pointer}/{tag}"


def _unknown_field(where: FieldPlace, name: str, body_type: Any) -> Finding:
    names = accepted_names(where.owner) if where.owner is not None else {}
    if name in names:
        message = f"is another name of {names[name]}, which is given too; leave one out"
        return Finding(where.pointer, "given_twice", message)
    here = where.pointer.rpartition("/")[0]
    if places := [each for each in homes(body_type).get(name, ()) if each != here]:
        wanted = " or ".join(dict.fromkeys(place or "the top level" for place in places))
        message = f"unknown field here; it belongs to {wanted}"
    elif close := get_close_matches(shortened(name), names, n=1):
        message = f"unknown field; did you mean {close[0]}?"
    else:
        message = f"unknown field; there are {', '.join(dict.fromkeys(names.values()))}"
    return Finding(where.pointer, "unknown_field", message)
