"""What the one who submits an object reads: short lines, each of which can be acted upon."""

from __future__ import annotations

from collections.abc import Iterator

from trainfit.decisions.quantities import gib, gib_range, plain
from trainfit.decisions.words import VERDICTS, suggested
from trainfit.estimator.results import Binding
from trainfit.kubernetes.workloads import Workload
from trainfit.questions.fit_check import FitCheckAnswer

MAX_LENGTH = 256
"""The API server cuts off what is longer, once all warnings together are long."""
SUGGESTED = 2
NOT_MODELLED = 3


def line(text: str) -> str:
    """A warning: one line, no longer than is shown."""
    said = f"trainfit: {' '.join(text.split())}"
    return said if len(said) <= MAX_LENGTH else f"{said[: MAX_LENGTH - 1]}…"


def not_checked(reason: str) -> str:
    """The warning that an object passes without having been checked."""
    return line(f"not checked: {reason}")


def reasons(check: FitCheckAnswer) -> tuple[str, ...]:
    """Why a job does not simply fit its card, and what would help most."""
    return () if check.verdict == "fits" else tuple(_reasons(check))


def mismatch(check: FitCheckAnswer, workload: Workload) -> tuple[str, ...]:
    """A warning where the run that was checked is on more or fewer GPUs than the pods ask for."""
    if check.estimate is None or workload.gpus is None:
        return ()
    described = check.estimate.parallelism.num_gpus
    if described == workload.gpus:
        return ()
    words = (
        f"the pods ask for {workload.gpus} GPUs, but the job that was checked is on {described}; "
        "make /parallelism/num_gpus and the pods agree"
    )
    return (line(words),)


def _reasons(check: FitCheckAnswer) -> Iterator[str]:
    verdict = f"{VERDICTS[check.verdict]} on {_card(check)}"
    if check.binding is not None:
        yield f"{verdict}: {_needs(check, check.binding)}"
        yield (
            f"stage {check.binding.pp_rank} needs most at {plain(check.binding.moment)}, "
            f"most of all for {plain(check.binding.component)}"
        )
    for missing in check.not_modelled[:NOT_MODELLED]:
        yield f"{verdict}: {missing.pointer}: {missing.message}"
    for suggestion in check.suggestions[:SUGGESTED]:
        yield f"would help: {suggested(suggestion)}"


def _needs(check: FitCheckAnswer, binding: Binding) -> str:
    margin = check.stages[binding.pp_rank].margin_bytes
    headroom = check.policy.headroom_bytes
    kept = f", {gib(headroom)} of them to stay free" if headroom else ""
    return (
        f"stage {binding.pp_rank} needs {gib_range(binding.device_bytes)} GiB, "
        f"{gib(check.usable_bytes)} are usable{kept}: "
        f"a margin of {gib(margin.low)} to {gib(margin.high)} GiB"
    )


def _card(check: FitCheckAnswer) -> str:
    """What to call the card that the job names."""
    gpu = check.job["gpu"]
    return str(gpu["name"] if isinstance(gpu, dict) else gpu)
