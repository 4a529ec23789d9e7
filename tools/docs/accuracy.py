"""How close the estimates come to ground truth: what the accuracy runner finds on the corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from statistics import median

from tests.accuracy.outcomes import Counts, Fit, Memory, Outcome
from tests.accuracy.report import groups_of, summary
from tests.accuracy.schemas import all_outcomes
from tools.docs.markdown import code, table

CORPUS = Path(__file__).parents[2] / "tests" / "data" / "corpus"
GIB = 2**30

GROUPS = {
    "simumax-b200": "Megatron-LM with TransformerEngine on 8 B200, every rank (SimuMax)",
    "mlm": "Megatron-LM's continuous integration on A100, H100 and GB200, last rank",
    "mlm near": "runs of that kind with something unknown",
    "mlm completed": "Megatron-LM's tests, with GPUs and options from its recipes of them",
    "bridge": "Megatron-Bridge on H100",
    "bridge near": "runs of that kind with something unknown",
    "mbridge near": "Megatron-LM, published by mbridge, with something unknown",
    "nanotron near": "nanotron, with something unknown",
    "titan": "torchtitan with FSDP on H100, reserved",
    "titan near": "runs of that kind with something unknown",
    "tune": "torchtune on one A100",
    "litgpt near": "litgpt on one A10G or A100, with something unknown",
    "torch_steps-single": "tensors of a step of transformers' classes: one GPU",
    "torch_steps-fsdp2": "the same: FSDP2",
    "torch_steps-tp": "the same: tensor parallelism",
    "torch_steps-fsdp2_tp": "the same: both",
    "megatron_stage_parameters": "every rank and chunk of a real megatron-core model",
    "parameter_counts-exact": "what transformers builds from a published config.json",
    "parameter_counts-exact-isomorphic": "the same, through a class of the same shapes",
    "peer_megatron_lm": "what Megatron-LM's own estimator prints, where it is right",
    "runs-foundry": "llm-foundry with FSDP",
    "runs-foundry near": "the same, with something unknown",
    "runs-litgpt": "litgpt on one GPU",
    "runs-titan": "torchtitan",
    "runs-oom near": "configurations that ran out of memory",
    "runs-bridge near": "Megatron-Bridge recipes",
}
"""What the rows of a group are."""

WORST_SHOWN = 12


@cache
def outcomes() -> tuple[Outcome, ...]:
    """What becomes of every row of the corpus."""
    files = sorted(CORPUS.glob("*.jsonl"))
    return tuple(outcome for file in files for outcome in all_outcomes(file))


def _groups(kind: type[Memory] | type[Counts] | type[Fit]) -> dict[str, list[Outcome]]:
    """The groups with figures of this kind."""
    groups = groups_of(outcomes())
    groups.pop("overall")
    return {
        name: listed
        for name, listed in groups.items()
        if any(isinstance(outcome.figures, kind) for outcome in listed)
    }


def _figures(listed: Iterable[Outcome]) -> list[Memory]:
    return [each.figures for each in listed if isinstance(each.figures, Memory)]


def measured() -> str:
    """Groups of measured runs."""
    rows = [
        [code(name), GROUPS.get(name, ""), str(len(listed)), *_closeness(_figures(listed))]
        for name, listed in _groups(Memory).items()
    ]
    heads = ["group", "what was measured", "rows", "priced", *_CLOSENESS]
    return table(heads, rows, numbers=len(heads) - 2)


_CLOSENESS = ("median error", "worst error", "inside", "median width")


def _closeness(figures: Sequence[Memory]) -> list[str]:
    """How many, the median and worst |error|, the share inside the bounds, and their width."""
    errors = [abs(each.error_ratio) for each in figures]
    widths = [(each.high_bytes - each.low_bytes) / each.expected_bytes for each in figures]
    inside = sum(each.inside for each in figures)
    return [
        str(len(figures)),
        f"{median(errors):.2%}",
        f"{max(errors):.2%}",
        f"{inside / len(figures):.0%}",
        f"{median(widths):.1%}",
    ]


def measured_briefly() -> str:
    """Groups of runs of which the rows say everything, without their ids."""
    rows = []
    for name, listed in _groups(Memory).items():
        if not name.endswith((" near", " completed")) and not name.startswith("torch_steps"):
            priced, middle, worst, inside, _ = _closeness(_figures(listed))
            rows.append([GROUPS.get(name, code(name)), priced, middle, worst, inside])
    heads = ["peak memory of real runs", "figures", "median error", "worst", "within bounds"]
    return table(heads, rows, numbers=4)


def counted() -> str:
    """Groups of exact counts."""
    rows = []
    for name, listed in _groups(Counts).items():
        found = summary(listed)
        cells = str(found["rows"]), str(found["priced"]), str(found["exact"])
        rows.append([code(name), GROUPS.get(name, ""), *cells])
    return table(["group", "what is counted", "rows", "compared", "exact"], rows, numbers=3)


def runs() -> str:
    """Configurations known to run, beside the card's memory."""
    rows = []
    for name, listed in _groups(Fit).items():
        fits = [each.figures for each in listed if isinstance(each.figures, Fit)]
        ran = [each for each in fits if each.fits]
        cells = [
            sum(each.low_bytes <= each.capacity_bytes for each in ran),
            sum(each.expected_bytes <= each.capacity_bytes for each in ran),
            sum(each.high_bytes <= each.capacity_bytes for each in ran),
            sum(each.contradicts for each in fits),
        ]
        rows.append([code(name), str(len(listed)), str(len(ran)), *map(str, cells)])
    heads = ["group", "rows", "ran and priced", "low fits", "expected fits", "high fits"]
    return table([*heads, "contradicted"], rows, numbers=6)


def contradicted() -> str:
    """Runs whose card is too small by the estimate's low bound, or the other way round."""
    rows = [
        [
            code(outcome.id),
            "ran" if figures.fits else "ran out of memory",
            figures.verdict.replace("_", " "),
            f"{figures.low_bytes / GIB:.1f}",
            f"{figures.capacity_bytes / GIB:.1f}",
        ]
        for outcome in outcomes()
        if isinstance(figures := outcome.figures, Fit) and figures.contradicts
    ]
    heads = ["row", "what happened", "verdict", "low bound, GiB", "card, GiB"]
    return table(heads, rows, numbers=2) if rows else "None."


def largest_errors() -> str:
    """The figures that are furthest off."""
    priced = [each for each in outcomes() if isinstance(each.figures, Memory)]
    off = sorted(((_error(each), each) for each in priced), key=lambda pair: -abs(pair[0]))
    rows = [
        [
            code(each.id),
            f"{figures.measured_bytes / GIB:.2f}",
            f"{figures.expected_bytes / GIB:.2f}",
            f"{error:+.2%}",
            "yes" if figures.inside else "no",
        ]
        for error, each in off[:WORST_SHOWN]
        if isinstance(figures := each.figures, Memory)
    ]
    heads = ["row", "measured, GiB", "expected, GiB", "error", "within bounds"]
    return table(heads, rows, numbers=4)


def _error(outcome: Outcome) -> float:
    assert isinstance(outcome.figures, Memory)
    return outcome.figures.error_ratio


WHY_SKIPPED = {
    "incomplete:": "the row leaves open something that decides memory",
    "the same measurement": "the same measurement as another row, with more micro-batches",
    "refused: /framework": "the framework is not modelled",
    "refused, as it should be": "an architecture without a count, refused by name",
    "supported, and": "the model is read, and the row has no count to compare with",
    "refused: ": "the run uses an option that is refused",
    "a job has no field for": "the run uses an option that a job has no field for",
    "the framework ": "the framework is not modelled",
    "no valid job": "the run uses an option in a form that a job does not take",
    "the row says": "the row says that it is not to be trusted",
    "the recipe": "the recipe of the run says other than the row",
}
"""Beginnings of reasons, the longer before the shorter, and what they come to."""


def skipped() -> str:
    """Why rows are not priced, over the whole corpus."""
    why = Counter(_why(each.reason or "") for each in outcomes() if not each.priced)
    rows = [[str(count), reason] for reason, count in why.most_common()]
    return table(["rows", "why they are not priced"], rows)


def _why(reason: str) -> str:
    return next(
        (words for start, words in WHY_SKIPPED.items() if reason.startswith(start)),
        "the row does not state the model, the batch, the adapters or the precision",
    )


BLOCKS = {
    "accuracy": measured,
    "accuracy-briefly": measured_briefly,
    "accuracy-contradicted": contradicted,
    "accuracy-counts": counted,
    "accuracy-largest": largest_errors,
    "accuracy-runs": runs,
    "accuracy-skipped": skipped,
}
