"""Flags over what a file says: over a job they take its fields' place, over a launch they go as its
overrides, so that both are asked as they would be over HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.files import read_config
from trainfit.cli.flags import CALIBRATION, SET, Flag, flags
from trainfit.documents.document import FileError

Kinds = Mapping[str, Mapping[str, str]]
DEFAULT_KINDS: Kinds = {"framework": {"name": "megatron"}, "peft": {"method": "lora"}}
"""What a part is where only some other field of it is given."""


def overrides_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The overrides of a launch that the values of these flags are."""
    patch: dict[str, Any] = {}
    _put_all(patch, given, {})
    return _both(patch, _patch(given))


def over_job(document: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A job with the values of these flags in the place of its own."""
    _put_all(document, given, DEFAULT_KINDS)
    patch = _patch(given)
    if not patch:
        return document
    # A command about a job in its own words does without what reads launches.
    from trainfit.launch.overriding import overridden

    return overridden(document, patch)[0]


def over(question: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A question about a job, or about a launch in its place, with the values of these flags."""
    launch = question.get("launch")
    if not isinstance(launch, dict):
        return over_job(question, given)
    patch = overrides_of(given)
    own = launch.get("overrides", {})
    if not patch or not isinstance(own, dict):  # validation tells what is wrong with it
        return question
    return {**question, "launch": {**launch, "overrides": _both(own, patch)}}


def _both(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """One merge patch that does what two do one after the other."""
    both = dict(first)
    for name, value in second.items():
        before = both.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            value = _both(before, value)
        both[name] = value
    return both


def _patch(given: Mapping[str, Any]) -> dict[str, Any]:
    """What --set and --calibration say, as a merge patch."""
    path = given.get(CALIBRATION)
    if path is None:
        return _set(given)
    try:
        return {**_set(given), CALIBRATION: read_config(path)}
    except FileError as error:
        raise RefusedCommandError(f"trainfit: {path}: {error}") from None


def _set(given: Mapping[str, Any]) -> dict[str, Any]:
    """What --set says, as a merge patch; its values are JSON, and what is none is a text."""
    patch: dict[str, Any] = {}
    for text in given.get(SET) or ():
        pointer, sign, written = text.partition("=")
        if not (sign and pointer.startswith("/") and pointer != "/"):
            raise RefusedCommandError(
                f"trainfit: --set {text}: must be /pointer=value, as in --set /training/peft/r=16"
            )
        try:
            value = json.loads(written)
        except (ValueError, RecursionError):
            value = written
        *parents, name = (
            each.replace("~1", "/").replace("~0", "~") for each in pointer[1:].split("/")
        )
        part = patch
        for parent in parents:
            inner = part.get(parent)
            part[parent] = part = inner if isinstance(inner, dict) else {}
        part[name] = value
    return patch


def _put_all(document: dict[str, Any], given: Mapping[str, Any], kinds: Kinds) -> None:
    for flag in flags().values():
        if given.get(flag.keyword) is not None:
            _put(document, flag, given[flag.keyword], kinds)


def _put(document: dict[str, Any], flag: Flag, value: Any, kinds: Kinds) -> None:
    """Set a field in the place of what a job file says of it, under whichever of its names."""
    *parents, _ = flag.pointer.strip("/").split("/")
    part: Any = document
    for parent in parents:
        inner = part.setdefault(parent, dict(kinds.get(parent, {})))
        if not isinstance(inner, dict):
            return  # validation tells what is wrong with it
        part = inner
    for spelling in flag.spellings:
        part.pop(spelling, None)
    part[flag.spellings[0]] = value
