"""Whom the gate asks: this process, or a service."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any

from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.lookup import LookUp
from trainfit.cli.service import asking
from trainfit.questions.fit_check import FitCheckAnswer, check_fit
from trainfit.questions.kinds import INTERNAL_ERROR
from trainfit.questions.launches import read_asked
from trainfit.questions.problems import Problem, problem
from trainfit.specs.policy import FitCheckRequest

Ask = Callable[[Mapping[str, Any]], FitCheckAnswer | Problem]


def asking_here(look_up: LookUp) -> Ask:
    """This process as one who is asked."""

    def ask(document: Mapping[str, Any]) -> FitCheckAnswer | Problem:
        asked = read_asked(document, FitCheckRequest)
        if isinstance(asked, Problem):
            return asked
        try:
            find = look_up([asked.job.model])
            return asked.answered(lambda job, reading: check_fit(job, find, reading=reading))
        except RefusedCommandError:
            raise
        except Exception as error:
            # An uncaught one would leave with 1, which means that a job does not fit.
            traceback.print_exc()
            return problem(INTERNAL_ERROR, f"the estimator failed with {type(error).__name__}")

    return ask


def asking_service(server: str) -> Ask:
    """The service at this URL as one who is asked."""
    return asking(server, "fit-check", FitCheckAnswer)
