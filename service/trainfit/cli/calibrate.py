"""`trainfit calibrate`: what runs of a cluster took beyond their tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic import ValidationError

from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.flags import takes_flags_over_files
from trainfit.cli.jobs import question
from trainfit.cli.launches import NOTHING_SAID, LaunchOptions, on_card, sorted_out
from trainfit.cli.logs import artifact
from trainfit.cli.lookup import looking_up
from trainfit.cli.refusals import refused
from trainfit.cli.terminal import print_json
from trainfit.questions.calibration import calibrated
from trainfit.questions.jobs import not_a_job
from trainfit.questions.launches import RequestedJob, read_asked
from trainfit.questions.problems import Problem, within
from trainfit.questions.wire import to_json
from trainfit.specs.reconcile import CalibrationRequest, ReconcileRequest

RUN = Parameter(
    name="--run",
    help="A job or the launch file that started a run, and what it has printed. May be repeated.",
    negative=(),
)
GPU = Parameter(help="The card of every run, instead of its own.")
DRIVER = Parameter(help="The version of the driver, which is kept for people to compare.")
NCCL = Parameter(help="The version of NCCL.")
TORCH = Parameter(help="The version of PyTorch.")
JSON = Parameter(name="--json", negative=(), show_default=False, help="Print what HTTP answers.")


@takes_flags_over_files
def calibrate(
    *,
    run: Annotated[list[tuple[Path, Path]], RUN],
    gpu: Annotated[str | None, GPU] = None,
    driver: Annotated[str | None, DRIVER] = None,
    nccl: Annotated[str | None, NCCL] = None,
    torch: Annotated[str | None, TORCH] = None,
    as_json: Annotated[bool, JSON] = False,
    launch: LaunchOptions = NOTHING_SAID,
    **flags: Any,
) -> None:
    """Print what --calibration of the other commands takes."""
    documents = [_document(job, log, gpu, launch, flags) for job, log in run]
    beside = {"driver": driver, "nccl": nccl, "torch": torch}
    whole = {"runs": documents, **beside}
    asked: list[RequestedJob[ReconcileRequest]] = []
    for number, each in enumerate(documents):
        read = read_asked(each, ReconcileRequest)
        if isinstance(read, Problem):
            raise refused(within(f"/runs/{number}", read), whole, as_json=as_json)
        asked.append(read)
    try:
        request = CalibrationRequest.model_validate(whole)
    except ValidationError as error:
        raise refused(not_a_job(error, CalibrationRequest), whole, as_json=as_json) from None
    with looking_up(online=True) as look_up:
        find = look_up([each.job.model for each in asked])
    found = calibrated(request, asked, find)
    if isinstance(found, Problem):
        raise refused(found, whole, as_json=as_json)
    print_json(to_json(found if as_json else found.calibration))


def _document(
    job: Path, log: Path, gpu: str | None, launch: LaunchOptions, flags: dict[str, Any]
) -> dict[str, Any]:
    """A run as it would be sent."""
    try:
        jobs, _ = sorted_out({job: job.read_text("utf-8")})
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedCommandError(f"trainfit: {job}: {error}") from None
    document = question([] if jobs else [str(job)], job if jobs else None, flags, launch)
    said = {"artifacts": [artifact(log).model_dump(exclude_none=True)]}
    return {**(document if gpu is None else on_card(document, gpu)), "run": said}
