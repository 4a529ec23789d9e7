"""`trainfit estimate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.flags import takes_job_flags
from trainfit.cli.jobs import called, question
from trainfit.cli.launches import NOTHING_SAID, LaunchOptions
from trainfit.cli.lookup import answered
from trainfit.cli.terminal import print_json
from trainfit.estimator.results import Estimate
from trainfit.questions.dimensions import Find
from trainfit.questions.estimate import estimate_over_releases, plan_of, signed
from trainfit.questions.launches import RequestedJob
from trainfit.questions.wire import to_json
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job

if TYPE_CHECKING:
    from trainfit.launch.reading import LaunchReading

OUTPUT = Group("Output", sort_key=-1)


def _output(about: str, *names: str, show: bool = True) -> Parameter:
    return Parameter(
        name=names, negative=(), group=OUTPUT, help=about, show_default=False, show=show
    )


NAMED = Parameter(
    name="MODEL | LAUNCH FILES",
    help="A Hub id, or a path: of a config.json, its folder or a job. Or launch files, a script "
    "and what it reads, over which the flags below hold.",
)
JOB = Parameter(group="Arguments", help="A job in JSON, YAML or TOML; the flags below override it.")
ACTIVATIONS = Parameter(
    group=OUTPUT,
    show_default=False,
    show=False,
    help="Count activations and workspaces, not states only.",
)
VERBOSE = _output("Add every table behind the report.", "--verbose", "-v")
TREE = _output("Print the modules of one stage instead.", "--tree")
STAGE = _output("Pipeline rank of the tree. Unset: the one that binds.", "--stage", show=False)
SUMMARY = _output("Print one line or number instead.", "--summary")
JSON = _output("Print what HTTP answers instead.", "--json")


@takes_job_flags
def estimate(
    named: Annotated[list[str] | None, NAMED] = None,
    /,
    *,
    job: Annotated[Path | None, JOB] = None,
    activations: Annotated[bool, ACTIVATIONS] = True,
    verbose: Annotated[bool, VERBOSE] = False,
    tree: Annotated[bool, TREE] = False,
    stage: Annotated[int | None, STAGE] = None,
    summary: Annotated[Literal["mb", "gb", "total"] | None, SUMMARY] = None,
    as_json: Annotated[bool, JSON] = False,
    launch: Annotated[LaunchOptions, Parameter(show=False)] = NOTHING_SAID,
    **flags: Any,
) -> None:
    """Estimate the memory of every pipeline rank.

    The flags are Megatron's; `trainfit estimate deepseek-ai/DeepSeek-V3 --tp 8 --pp 2 --ep 16
    --num-layers-in-last-pipeline-stage 31` is answered for the smallest number of GPUs.
    """
    if sum((tree, summary is not None, as_json)) > 1:
        raise RefusedCommandError("trainfit: give one of --tree, --summary and --json")
    if stage is not None and not tree:
        raise RefusedCommandError("trainfit: --stage: goes with --tree")
    document = question(named or (), job, flags, launch)
    asked, plan, result = _estimated(document, activations=activations, as_json=as_json)
    if as_json or summary is not None:
        answer = signed(asked.job, plan, result, activations=activations, reading=asked.reading)
        if summary is None:
            print_json(to_json(answer))
        else:
            print(answer.in_brief(summary))
    elif tree:
        from trainfit.cli.modules import print_modules

        print_modules(plan, result, stage)
    else:
        from trainfit.cli.report import print_report

        title = called(named or (), job)
        print_report(result, plan, asked, title, activations=activations)
        if verbose:
            from trainfit.cli.details import print_details

            print_details(result)


def _estimated(
    document: dict[str, Any], *, activations: bool, as_json: bool
) -> tuple[RequestedJob[Job], Plan, Estimate]:
    """A job, its plan and its estimate, or RefusedCommandError with the problem in words or as
    JSON.
    """

    def answer(job: Job, find: Find, reading: LaunchReading | None) -> tuple[Plan, Estimate]:
        plan = plan_of(job, find)
        result = estimate_over_releases(job, plan, reading, activations=activations, find=find)
        return plan, result

    asked, found = answered(document, Job, answer, as_json=as_json)
    return asked, *found
