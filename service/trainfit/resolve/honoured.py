"""What a job sets and its framework does not honour: refused, or remarked on."""

from collections.abc import Iterator
from functools import cache

from trainfit.specs.framework import FrameworkName
from trainfit.specs.honoured import Limited, Only, OnlyValues, limited_fields
from trainfit.specs.job import Job


def refused(job: Job) -> Iterator[tuple[str, str]]:
    """Pointers to what changes memory, and has no model under the job's framework, with its name
    and the framework's.
    """
    framework = job.framework.name
    for field, value in _unhonoured(job, ignored=False):
        what = value if isinstance(field.only, OnlyValues) else field.path[-1]
        yield field.pointer, f"{what} under {framework}"


def remarks(job: Job) -> tuple[str, ...]:
    """What changes no memory under the framework, which mostly has no such thing."""
    framework = job.framework.name
    return tuple(
        f"{field.pointer} has no effect on memory under {framework}."
        for field, _ in _unhonoured(job, ignored=True)
    )


def _unhonoured(job: Job, *, ignored: bool) -> Iterator[tuple[Limited, object]]:
    """Fields that are not at their default, and that the framework does not honour, or not with
    this value: those that it may ignore, or the others.
    """
    framework = job.framework.name
    for field in _limited_under(framework, ignored=ignored):
        value = field.value(job)
        if value == field.default:
            continue
        only = field.only
        if isinstance(only, Only):
            if value != only.neutral:
                yield field, value
        elif framework not in only.frameworks.get(value, (framework,)):
            yield field, value


@cache
def _limited_under(framework: FrameworkName, *, ignored: bool) -> tuple[Limited, ...]:
    """The fields that this framework does not honour, and may ignore; or those that it does not
    honour, or not with every value, where that changes memory.
    """
    return tuple(
        field
        for field in limited_fields(Job)
        if (
            field.only.ignored == ignored and framework not in field.only.frameworks
            if isinstance(field.only, Only)
            else not ignored
        )
    )
