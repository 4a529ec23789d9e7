"""Fields of a job that a launch format has no words for."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from trainfit.specs.framework import FrameworkName
from trainfit.specs.honoured import Only, limited_fields
from trainfit.specs.job import Job

Unsaid = Mapping[str, Sequence[Any]]
"""The pointer of each, with the values that a run means without a word."""


def unsaid(framework: FrameworkName, own: Unsaid, *, said: Container[str] = ()) -> Unsaid:
    """The format's `own`, and the default of each field that its framework does not honour, unless
    it is `said` nonetheless.
    """
    not_honoured = {
        field.pointer: (field.default,)
        for field in limited_fields(Job)
        if isinstance(field.only, Only) and framework not in field.only.frameworks
    }
    return {
        pointer: usual for pointer, usual in {**not_honoured, **own}.items() if pointer not in said
    }
