"""An estimate as a person reads it: the model, the layout, a row per pipeline rank, what binds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from trainfit.cli.cards import own_card, usual_cards
from trainfit.cli.colours import STYLES
from trainfit.cli.reach import reach
from trainfit.cli.terminal import labelled, print_all, table
from trainfit.decisions.quantities import count, gib, gib_range, plain, ranges
from trainfit.estimator.memo import Memo
from trainfit.estimator.results import Chunk, ComponentName, Estimate, Peak, Stage
from trainfit.questions.launches import RequestedJob
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job
from trainfit.steptime import StepTime, Untimed, step_time
from trainfit.steptime.alignment import misaligned

if TYPE_CHECKING:
    from trainfit.launch.reading import ReadLaunch

WORDS = ("stage", "layers")
NUMBERS = (
    "in\nflight",
    "\nweights",
    "\ngradients",
    "optimizer\nstates",
    "\nactivations",
    "workspace,\nbuffers",
    "\nallocated",
    "\nreserved",
    "\non device",
)
LEAST = ("\npeak at", "\nreserved", "in\nflight", "\nallocated", "layers")
"""Columns that a narrow terminal does without, this one first."""

STATES: tuple[ComponentName, ...] = ("weights", "gradients", "optimizer_states")
ORIGINS = {"bundled": "bundled config", "hub": "from the Hub"}
SHORT_COMMIT = 12
BESIDE: tuple[ComponentName, ...] = ("workspace", "framework_buffers")


def print_report(
    result: Estimate, plan: Plan, asked: RequestedJob[Job], title: str, *, activations: bool
) -> None:
    """The whole report. `title` names a model that has no name of its own; without `activations`
    there is no peak and no verdict.
    """
    launch = [] if asked.launch is None else [("Launch", _launch(asked.launch))]
    print_all(
        labelled(_model(result, title)),
        *([labelled(launch)] if launch else []),
        labelled([("Layout", _layout(result, plan))]),
        _stages(result, activations=activations),
        labelled(_conclusions(result, plan, asked, activations=activations)),
    )


def _model(result: Estimate, title: str) -> Iterator[tuple[str, str | Text]]:
    model, parameters = result.model, result.model.parameters
    origin = ORIGINS.get(model.source) or f"from the {model.source}"
    if model.revision is not None:
        origin += f" at {model.revision[:SHORT_COMMIT]}"
    name = Text.assemble((model.name or title, "bold"), f", {model.model_type}, {origin}")
    buckets = sorted(parameters.by_bucket.items(), key=lambda each: -each[1])
    shares = [f"{plain(bucket)} {count(number)}" for bucket, number in buckets if number]
    yield "Model", name
    yield "Parameters", f"{count(parameters.total)} total, {count(parameters.active)} active"
    yield "", ", ".join(shares)


def _launch(launch: ReadLaunch) -> str:
    account = launch.account
    return (
        f"{plain(launch.format)}: {len(account.recognised)} keys decide, "
        f"{len(account.irrelevant)} do not matter, {len(account.unsupported)} are not modelled, "
        f"{len(account.bounded)} are bounded, "
        f"{len(account.defaulted)} defaults (`trainfit job from-launch` lists them)"
    )


def _layout(result: Estimate, plan: Plan) -> str:
    layout, pipeline, batch = plan.layout, plan.layout.pipeline, plan.batch
    sizes = result.parallelism
    used = [("tp", layout.tp), ("pp", pipeline.pp), ("vpp", pipeline.vpp), ("cp", layout.cp)]
    dense = [f"{name} {size}" for name, size in used if size > 1]
    parts = [
        f"{sizes.num_gpus} GPU{'s' * (sizes.num_gpus > 1)}: {', '.join([*dense, f'dp {sizes.dp}'])}"
    ]
    if "routed_experts" in result.model.parameters.by_bucket:
        parts.append(f"experts: ep {layout.ep}, etp {layout.etp}, dp {sizes.expert_dp}")
    samples = f"{batch.micro_batch_size} x {batch.seq_length} tokens"
    parts.append(f"{sizes.num_microbatches} micro-batches of {samples}")
    return "; ".join(parts)


def _stages(result: Estimate, *, activations: bool) -> Table:
    """A row per pipeline rank, in GiB on each of its GPUs."""
    rows = table(WORDS, NUMBERS, expendable=LEAST)
    if activations:
        rows.add_column("\npeak at", no_wrap=True)
    for stage in result.stages:
        binds = stage.pp_rank == result.binding.pp_rank
        rank = f"{stage.pp_rank} *" if binds else str(stage.pp_rank)
        moment = [_moment(stage.peak)] if activations else []
        rows.add_row(rank, *_cells(stage), *moment, style="bold" if binds else None)
    rows.caption = "GiB on each GPU; reserved and on device from low to high; * binds"
    return rows


def _cells(stage: Stage) -> list[str]:
    sizes = {component.name: component.bytes for component in stage.components}
    return [
        _contents(stage.chunks),
        str(stage.microbatches_in_flight),
        *(gib(sizes[name]) for name in STATES),
        gib(sizes["activations"]),
        gib(sum(sizes[name] for name in BESIDE)),
        gib(stage.allocated_bytes.expected),
        gib_range(stage.reserved_bytes),
        gib_range(stage.device_bytes),
    ]


def _contents(chunks: list[Chunk]) -> str:
    """The layers of a rank, with E, m and L where Megatron's layout string has them."""
    layers = [layer for chunk in chunks for layer in chunk.layers]
    shown = ranges(layers) if len(chunks) <= 2 else f"{len(layers)} in {len(chunks)} chunks"
    parts = [
        "E" * any(chunk.embedding for chunk in chunks),
        shown,
        "m" * sum(chunk.mtp_layers for chunk in chunks),
        "L" * any(chunk.output_layer for chunk in chunks),
    ]
    return " ".join(part for part in parts if part)


def _moment(peak: Peak) -> str:
    layer = "" if peak.layer is None else f", layer {peak.layer}"
    return f"{plain(peak.moment)}{layer}"


def _conclusions(
    result: Estimate, plan: Plan, asked: RequestedJob[Job], *, activations: bool
) -> Iterator[tuple[str, str | Text]]:
    yield "Binding", _binding(result, activations=activations)
    bare = result.stages[result.binding.pp_rank].uncalibrated_device_bytes
    if bare is not None:
        yield "Uncalibrated", f"{gib_range(bare)} GiB on the device, expected {gib(bare.expected)}"
    if asked.unread:
        yield "GPU", Text("unknown: the launch says what is not modelled", STYLES["unknown"])
    elif activations:
        if asked.job.gpu is not None:
            yield "GPU", own_card(result, asked.job.gpu, plan.gpu)
        yield "GPUs (GiB)", usual_cards(result, plan.gpu)
    if plan.gpu.name:
        yield "Step", _step(step_time(plan))
        for each in misaligned(plan, Memo()):
            yield "Slow", each
    for warning in result.warnings:
        yield "Warning", Text(warning, "yellow")
    for unread in asked.reading.unread() if asked.reading is not None else ():
        yield "Not modelled", Text(unread.message, "yellow")
    for bounded in asked.bounded:
        yield "Bounded", f"{bounded.where}: {reach(bounded)}; {bounded.why}"
    names = ", ".join(assumption.id for assumption in result.assumptions)
    yield "Assumes", f"{names} (--verbose explains)"


def _step(timed: StepTime | Untimed) -> str:
    """Seconds, tokens, and the largest parts."""
    if isinstance(timed, Untimed):
        return timed.reason
    seconds, parts = timed.seconds, timed.parts
    shares = {field.name: getattr(parts, field.name) for field in fields(parts)}
    largest = sorted(shares, key=lambda name: -shares[name])[:3]
    made_of = ", ".join(
        f"{plain(name.removesuffix('_seconds'))} {shares[name] / seconds.expected:.0%}"
        for name in largest
        if shares[name]
    )
    return (
        f"{seconds.expected:.3g} s ({seconds.low:.3g} to {seconds.high:.3g}), "
        f"{timed.tokens_per_second_per_gpu:,.0f} tokens/s on each GPU, "
        f"{timed.model_flops_utilization_ratio:.0%} of its bf16 peak: {made_of}"
    )


def _binding(result: Estimate, *, activations: bool) -> str:
    binding = result.binding
    stage = result.stages[binding.pp_rank]
    largest = next(each for each in stage.components if each.name == binding.component)
    when = f"at {_moment(stage.peak)}" if activations else "without activations"
    needed = f"{gib(binding.device_bytes.expected)} GiB on the device {when}"
    return f"stage {binding.pp_rank}: {needed}, of which {plain(largest.name)} {gib(largest.bytes)}"
