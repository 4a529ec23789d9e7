"""How much memory every rank of an LLM training run will need, answered before it starts.

    from trainfit import Job, TrainfitError
    from trainfit import calibrate, compare, estimate, fit_check, reconcile, search, trace

Each name is loaded when it is first used, so that to import the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainfit.errors import TrainfitError
    from trainfit.questions.python import (
        QuestionError,
        calibrate,
        compare,
        estimate,
        fit_check,
        reconcile,
        search,
        trace,
    )
    from trainfit.specs.job import Job

__version__ = "0.1.0"

__all__ = [
    "Job",
    "QuestionError",
    "TrainfitError",
    "__version__",
    "calibrate",
    "compare",
    "estimate",
    "fit_check",
    "reconcile",
    "search",
    "trace",
]

_HOMES = {
    "Job": "trainfit.specs.job",
    "TrainfitError": "trainfit.errors",
    "QuestionError": "trainfit.questions.python",
    "calibrate": "trainfit.questions.python",
    "compare": "trainfit.questions.python",
    "estimate": "trainfit.questions.python",
    "fit_check": "trainfit.questions.python",
    "reconcile": "trainfit.questions.python",
    "search": "trainfit.questions.python",
    "trace": "trainfit.questions.python",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
