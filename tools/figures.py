"""Draws the pictures of the documentation from the estimator's own figures: SVG, nothing else.

`python -m tools.figures` writes them to docs/images; a test compares those with what is drawn now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from trainfit.api.examples import DEEPSEEK_V3, LLAMA_8B
from trainfit.catalog.gpus import find_gpu
from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.placement import place
from trainfit.estimator.results import Estimate, Stage
from trainfit.estimator.run import run_of
from trainfit.estimator.tree import module_tree
from trainfit.questions.estimate import plan_of
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.specs.job import Job

IMAGES = Path(__file__).parents[1] / "docs" / "images"
GIB = 2**30

COMPONENTS = {
    "weights": "#4477aa",
    "gradients": "#66ccee",
    "optimizer_states": "#228833",
    "activations": "#ee6677",
    "workspace": "#ccbb44",
    "framework_buffers": "#aa3377",
    "allocator_slack": "#bbbbbb",
    "context_and_communicators": "#777777",
}
"""The colour of each component, from the bottom of a bar to its top."""

INK, PALE, FONT = "#222222", "#dddddd", "font-family='Helvetica, Arial, sans-serif'"


@dataclass(slots=True)
class Canvas:
    """An SVG picture that is drawn from the back to the front. Units are pixels."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def rectangle(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Edges are rounded, not sizes, so that neighbours meet."""
        left, top = round(x, 1), round(y, 1)
        across, down = round(x + width, 1) - left, round(y + height, 1) - top
        if down > 0:
            self.parts.append(
                f"<rect x='{left:.1f}' y='{top:.1f}' width='{across:.1f}' height='{down:.1f}' "
                f"fill='{colour}' shape-rendering='crispEdges'/>"
            )

    def line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str = INK, dashes: str = ""
    ) -> None:
        dashed = f" stroke-dasharray='{dashes}'" if dashes else ""
        self.parts.append(
            f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' "
            f"stroke='{colour}'{dashed}/>"
        )

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "start", size: int = 13
    ) -> None:
        self.parts.append(
            f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' "
            f"fill='{INK}'>{escape(words)}</text>"
        )

    def legend(self, x: float, y: float, entries: Mapping[str, str]) -> None:
        """Names with their colours, the first lowest, as they are stacked."""
        for index, (name, colour) in enumerate(reversed(list(entries.items()))):
            self.rectangle(x, y + 22 * index, 14, 14, colour)
            self.text(x + 22, y + 22 * index + 12, name)

    def svg(self) -> str:
        body = "\n".join(self.parts)
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {self.width} {self.height}' "
            f"width='{self.width}' height='{self.height}' role='img' {FONT}>\n"
            f"<title>{escape(self.title)}</title>\n"
            f"<rect width='{self.width}' height='{self.height}' fill='#ffffff'/>\n{body}\n</svg>\n"
        )


class Scale(NamedTuple):
    """GiB to pixels on a vertical axis that begins at 0."""

    bottom: float
    pixels_per_gib: float

    def at(self, size: float) -> float:
        return self.bottom - size / GIB * self.pixels_per_gib


def axis(canvas: Canvas, left: float, right: float, top: float, bottom: float, most: int) -> Scale:
    """A vertical axis in GiB with a line at every round number up to `most` bytes."""
    step = next(each for each in (1, 2, 5, 10, 20, 25, 50, 100) if most / GIB / each <= 8)
    end = -(-most // (step * GIB)) * step
    scale = Scale(bottom, (bottom - top) / end)
    for gib in range(0, end + 1, step):
        y = scale.at(gib * GIB)
        canvas.line(left, y, right, y, PALE)
        canvas.text(left - 8, y + 4, str(gib), anchor="end", size=12)
    canvas.text(left - 8, top - 12, "GiB", anchor="end", size=12)
    return scale


def planned(document: Mapping[str, Any]) -> tuple[MegatronPlan, Estimate]:
    """The plan and the estimate of a job as it would be sent."""
    plan = plan_of(Job.model_validate(document))
    assert isinstance(plan, MegatronPlan)
    return plan, estimate(plan)


def stages() -> str:
    """The components of every pipeline rank, with the bounds and the memory of three cards."""
    _, result = planned(DEEPSEEK_V3)
    canvas = Canvas(900, 500, "DeepSeek-V3 on 128 GPUs: memory of each pipeline rank")
    left, right, bottom = 60, 640, 410
    cards = [find_gpu(name) for name in ("H100-80GB", "H200-141GB", "B200")]
    most = max(card.reported_bytes for card in cards)
    scale = axis(canvas, left, right, 50, bottom, most)
    pitch = (right - left) / len(result.stages)
    for stage in result.stages:
        x = left + pitch * (stage.pp_rank + 0.2)
        _stack(canvas, x, 0.6 * pitch, scale, [_sizes(stage)[name] for name in COMPONENTS])
        bounds = stage.device_bytes
        _whisker(canvas, x + 0.6 * pitch + 12, scale.at(bounds.low), scale.at(bounds.high))
        middle = x + 0.3 * pitch
        canvas.text(middle, bottom + 20, f"stage {stage.pp_rank}", anchor="middle")
        canvas.text(middle, bottom + 38, _contents(stage), anchor="middle", size=12)
    for card in cards:
        y = scale.at(card.reported_bytes)
        canvas.line(left, y, right, y, INK, "6 4")
        canvas.text(right + 8, y + 4, f"{card.name}, {card.reported_bytes / GIB:.1f} GiB", size=12)
    canvas.legend(right + 30, 286, {_plain(name): colour for name, colour in COMPONENTS.items()})
    _whisker(canvas, right + 37, 463, 477)
    canvas.text(right + 52, 474, "low to high")
    canvas.text(left, 24, f"{canvas.title}, expected bytes at its peak", size=15)
    return canvas.svg()


def _stack(
    canvas: Canvas, x: float, width: float, scale: Scale, sizes: Sequence[int], below: int = 0
) -> None:
    """A bar of these sizes in the components' colours, from `below` bytes upwards."""
    for size, colour in zip(sizes, COMPONENTS.values(), strict=True):
        canvas.rectangle(
            x, scale.at(below + size), width, scale.at(below) - scale.at(below + size), colour
        )
        below += size


def _whisker(canvas: Canvas, x: float, low: float, high: float) -> None:
    canvas.line(x, low, x, high)
    canvas.line(x - 4, low, x + 4, low)
    canvas.line(x - 4, high, x + 4, high)


def _contents(stage: Stage) -> str:
    count = sum(len(chunk.layers) for chunk in stage.chunks)
    parts = ["embedding"] * any(chunk.embedding for chunk in stage.chunks)
    parts += [f"{count} layers"]
    parts += ["mtp"] * any(chunk.mtp_layers for chunk in stage.chunks)
    parts += ["head"] * any(chunk.output_layer for chunk in stage.chunks)
    return ", ".join(parts)


def _sizes(stage: Stage) -> dict[str, int]:
    return {component.name: component.bytes for component in stage.components}


def _plain(name: str) -> str:
    return name.replace("_", " ")


class Point(NamedTuple):
    """The highest moment of one segment's forward or backward."""

    segment: str
    direction: str
    operation: str
    kept: int
    borrowed: int


def micro_batch(plan: MegatronPlan) -> list[Point]:
    """One micro-batch through the only rank of a plan, segment by segment, there and back."""
    (placements,) = place(plan)
    (placement,) = placements
    segments = [each.segment for each in MegatronLedger(run_of(plan)).segments(placement.content)]
    ahead: list[Point] = []
    back: list[Point] = []
    live = 0
    for segment in segments:
        moments = (ahead, "forward", segment.forward), (back, "backward", segment.backward)
        for points, direction, moment in moments:
            kept = live + moment.kept
            points.append(Point(segment.name, direction, moment.operation, kept, moment.borrowed))
        live += segment.saved
    return ahead + back[::-1]


def step() -> str:
    """One micro-batch and the optimizer step of a rank that has the whole model."""
    plan, result = planned(LLAMA_8B)
    (stage,) = result.stages
    points = micro_batch(plan)
    canvas = Canvas(980, 480, "Llama-3.1-8B, tensor parallel 2: one micro-batch on one GPU")
    left, right, bottom = 60, 740, 400
    scale = axis(canvas, left, right, 60, bottom, stage.allocated_bytes.expected)
    sizes = _sizes(stage)
    at_peak = max(points, key=lambda point: point.kept + point.borrowed)
    standing = {
        **{name: sizes[name] for name in ("weights", "gradients", "optimizer_states")},
        "workspace": sizes["workspace"] - at_peak.borrowed,
        "framework_buffers": sizes["framework_buffers"],
    }
    below = sum(standing.values())
    slots = len(points) + 3
    width = (right - left) / slots
    bands = [standing.get(name, 0) for name in COMPONENTS]
    _stack(canvas, left, right - left, scale, bands)
    for index, point in enumerate(points):
        moving = [0] * len(COMPONENTS)
        moving[list(COMPONENTS).index("activations")] = point.kept
        moving[list(COMPONENTS).index("workspace")] = point.borrowed
        _stack(canvas, left + width * index, width, scale, moving, below)
    for first, last, name in _runs(points):
        x = left + width * (first + last + 1) / 2
        canvas.text(x, bottom + 20, name, anchor="middle", size=12)
        canvas.line(left + width * first + 2, bottom + 4, left + width * (last + 1) - 2, bottom + 4)
    half = left + width * len(points) / 2
    canvas.line(half, 60, half, bottom + 44, INK, "2 3")
    canvas.text(half - 8, bottom + 42, "forward", anchor="end")
    canvas.text(half + 8, bottom + 42, "backward")
    end = left + width * len(points)
    canvas.line(end, 60, end, bottom + 44, INK, "2 3")
    canvas.text(end + 8, bottom + 42, "optimizer step")
    x = left + width * (points.index(at_peak) + 0.5)
    top = scale.at(below + at_peak.kept + at_peak.borrowed)
    canvas.line(x, top - 3, x, top - 12)
    canvas.text(x + 10, top - 8, f"peak: {at_peak.operation}, {at_peak.segment}", size=12)
    names = [name for name in COMPONENTS if name in standing or name == "activations"]
    canvas.legend(right + 30, 240, {_plain(name): COMPONENTS[name] for name in names})
    canvas.text(left, 24, f"{canvas.title}, allocated bytes", size=15)
    return canvas.svg()


def _runs(points: Sequence[Point]) -> list[tuple[int, int, str]]:
    """First and last index of the layers, where there is room to name them."""
    starts = [0, *(i for i, (a, b) in enumerate(pairwise(points), 1) if a[:2] != b[:2])]
    runs = zip(starts, [*starts[1:], len(points)], strict=True)
    named = [(first, end - 1, points[first]) for first, end in runs if end - first > 2]
    return [(first, last, f"{last - first + 1} layers") for first, last, _ in named]


def in_flight() -> str:
    """Saved bytes on every rank of a pipeline over the passes of a step."""
    plan, result = planned(DEEPSEEK_V3)
    canvas = Canvas(900, 520, "DeepSeek-V3, pipeline parallel 4: what each rank keeps for backward")
    left, right, height = 60, 860, 84
    saved = [module_tree(plan, stage.pp_rank).saved_bytes for stage in result.stages]
    tracks = [passes(stage, plan.batch.num_microbatches) for stage in result.stages]
    most = max(size * max(track) for size, track in zip(saved, tracks, strict=True))
    for stage, size, track in zip(result.stages, saved, tracks, strict=True):
        bottom = 150 + 110 * stage.pp_rank
        scale = Scale(bottom, height / (most / GIB))
        width = (right - left) / len(track)
        for index, count in enumerate(track):
            x, y = left + width * index, scale.at(size * count)
            canvas.rectangle(x, y, width - 1, bottom - y, COMPONENTS["activations"])
        canvas.line(left, bottom, right, bottom)
        canvas.text(left - 8, bottom - 4, f"rank {stage.pp_rank}", anchor="end", size=12)
        words = f"{max(track)} x {size / GIB:.1f} GiB"
        canvas.text(left + 4, scale.at(size * max(track)) - 6, words, size=12)
    canvas.text(left, 24, canvas.title, size=15)
    count = len(tracks[0])
    canvas.text(right, 512, f"{count} passes: a step of {count // 2} micro-batches", anchor="end")
    return canvas.svg()


def passes(stage: Stage, microbatches: int) -> list[int]:
    """Micro-batches in flight after every forward and backward pass of 1F1B, in order."""
    most = stage.microbatches_in_flight
    warm_up = list(range(1, most + 1))
    steady = [most - 1, most] * (microbatches - most)
    return [*warm_up, *steady, *range(most - 1, -1, -1)]


FIGURES: Mapping[str, Callable[[], str]] = {
    "deepseek-v3-stages.svg": stages,
    "megatron-step.svg": step,
    "micro-batches-in-flight.svg": in_flight,
}
"""The pictures by file name."""


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    for name, draw in FIGURES.items():
        (IMAGES / name).write_text(draw(), "utf-8")


if __name__ == "__main__":
    main()
