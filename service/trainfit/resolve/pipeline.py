"""How many layers each virtual stage holds: even, uneven, accounted for, or by layout string.

Sources: megatron/core/transformer/transformer_block.py (get_num_layers_to_build) and
pipeline_parallel_layer_layout.py.
"""

from collections.abc import Callable

from trainfit.resolve.findings import Change, Findings, put
from trainfit.specs.parallelism import V_SHAPED, Parallelism
from trainfit.specs.pipeline_layout import VirtualStage, parse_layout

FIRST = "/parallelism/num_layers_in_first_pipeline_stage"
LAST = "/parallelism/num_layers_in_last_pipeline_stage"
LAYOUT = "/parallelism/pipeline_model_parallel_layout"

ByStage = Callable[[int], tuple[int, ...] | None]
"""Layers of each of so many virtual stages; None where they are shared out evenly."""


def virtual_pipeline_size(given: Parallelism, layers: int, findings: Findings) -> int:
    """Chunks per pipeline rank, from vpp, the layout string or layers per virtual stage."""
    if given.pipeline_model_parallel_layout is not None:
        return _chunks_of_layout(given, findings)
    per_stage = given.num_layers_per_virtual_pipeline_stage
    if per_stage is None:
        return given.vpp or (2 if given.pipeline_schedule in V_SHAPED else 1)
    pointer = "/parallelism/num_layers_per_virtual_pipeline_stage"
    if given.vpp is not None:
        findings.add(pointer, "conflict", "give vpp or the layers per virtual stage, not both")
        return given.vpp
    if layers % (given.pp * per_stage):
        findings.add(
            pointer,
            "layers_not_divisible",
            f"{layers} layers do not divide into chunks of {per_stage} on {given.pp} stages",
        )
        return 1
    return layers // (given.pp * per_stage)


def _chunks_of_layout(given: Parallelism, findings: Findings) -> int:
    stages = len(parse_layout(given.pipeline_model_parallel_layout or ""))
    if stages % given.pp:
        findings.add(
            LAYOUT,
            "layout_stages",
            f"the layout has {stages} stages, which is no multiple of pp = {given.pp}",
        )
        return given.vpp or 1
    chunks = stages // given.pp
    if given.vpp not in (None, chunks):
        findings.add(
            "/parallelism/vpp",
            "layout_stages",
            f"the layout has {stages} stages over pp = {given.pp}: vpp is {chunks}",
            put("/parallelism/vpp", chunks),
        )
    return chunks


def split(
    given: Parallelism,
    layers: int,
    mtp: int,
    vpp: int,
    findings: Findings,
    by_stage: ByStage | None = None,
) -> tuple[VirtualStage, ...]:
    """The virtual stages in order, pp * vpp of them; empty where something is refused. Where no
    field says how layers are shared out, `by_stage` does.
    """
    before = len(findings.found)
    if given.pipeline_model_parallel_layout is not None:
        stages = parse_layout(given.pipeline_model_parallel_layout)
        _check_layout(given, stages, layers, mtp, findings)
    else:
        counts = _layers_by_stage(given, layers, vpp, findings, by_stage)
        last = len(counts) - 1
        stages = tuple(
            VirtualStage(i == 0, count, mtp if i == last else 0, i == last)
            for i, count in enumerate(counts)
        )
    return stages if len(findings.found) == before else ()


def _check_layout(
    given: Parallelism,
    stages: tuple[VirtualStage, ...],
    layers: int,
    mtp: int,
    findings: Findings,
) -> None:
    named = sum([stage.layers for stage in stages])
    if named != layers:
        findings.add(
            LAYOUT, "layout_layers", f"the layout names {named} t; the model has {layers} layers"
        )
    depths = sum([stage.mtp_layers for stage in stages])
    if depths != mtp:
        findings.add(
            LAYOUT,
            "layout_mtp",
            f"the layout names {depths} m; the model trains {mtp} multi-token-prediction layers",
            put("/training/mtp", {"num_layers": depths}),
        )
    holder = next((i for i, stage in enumerate(stages) if stage.mtp_layers), None)
    if holder is not None and (
        (holder % given.pp == 0 and given.pp > 1) or holder + given.pp < len(stages)
    ):
        findings.add(
            LAYOUT, "layout_mtp", "m stands in the last chunk of a pipeline rank other than 0"
        )
    uneven = (
        given.num_layers_in_first_pipeline_stage,
        given.num_layers_in_last_pipeline_stage,
    )
    if uneven != (None, None) or _accounted(given) != (0, 0):
        findings.add(
            LAYOUT, "conflict", "a layout leaves no room for other options of the layer split"
        )


def _accounted(given: Parallelism) -> tuple[int, int]:
    return (
        int(given.account_for_embedding_in_pipeline_split),
        int(given.account_for_loss_in_pipeline_split),
    )


def _layers_by_stage(
    given: Parallelism, layers: int, vpp: int, findings: Findings, by_stage: ByStage | None
) -> tuple[int, ...]:
    first = given.num_layers_in_first_pipeline_stage
    last = given.num_layers_in_last_pipeline_stage
    if first is None and last is None:
        own = None if by_stage is None else by_stage(given.pp * vpp)
        return _even(given, layers, vpp, findings) if own is None else own
    if _accounted(given) != (0, 0):
        pointer = FIRST if first is not None else LAST
        findings.add(
            pointer,
            "conflict",
            "account_for_embedding and account_for_loss go with an even split only",
        )
        return ()
    return _uneven(given.pp, layers, vpp, first, last, findings)


def _even(given: Parallelism, layers: int, vpp: int, findings: Findings) -> tuple[int, ...]:
    embedding, loss = _accounted(given)
    total, stages = layers + embedding + loss, given.pp * vpp
    if total % stages:
        chunks = f" of {vpp} chunks" if vpp > 1 else ""
        counted = " (embedding and loss counted)" if embedding or loss else ""
        message = f"{total} layers{counted} do not divide over {given.pp} pipeline stages{chunks}"
        words, changes = _splits_that_work(layers, given.pp, vpp)
        findings.add("/parallelism/pp", "layers_not_divisible", f"{message}{words}", *changes)
        return ()
    counts = [total // stages] * stages
    counts[0] -= embedding
    counts[-1] -= loss
    return tuple(counts)


def _uneven(
    pp: int, layers: int, vpp: int, first: int | None, last: int | None, findings: Findings
) -> tuple[int, ...]:
    rest = layers - (first or 0) - (last or 0)
    middle = pp - (first is not None) - (last is not None)
    pointer = FIRST if first is not None else LAST
    if rest < 0 or middle < 0 or (middle == 0 and rest) or (middle and rest % middle):
        words, changes = _splits_that_work(layers, pp, vpp)
        findings.add(
            pointer,
            "layers_not_divisible",
            f"{max(rest, 0)} of {layers} layers remain for {max(middle, 0)} of {pp} stages and do "
            f"not divide{words}",
            *changes,
        )
        return ()
    each = rest // middle if middle else 0
    ranks = [each] * pp
    if first is not None:
        ranks[0] = first
    if last is not None:
        ranks[-1] = last
    if any(count % vpp for count in ranks):
        findings.add(
            "/parallelism/vpp",
            "layers_not_divisible",
            f"stages of {first if first is not None else each}, {each} and "
            f"{last if last is not None else each} layers do not divide into {vpp} chunks each",
        )
        return ()
    return tuple(count // vpp for count in ranks) * vpp


def _splits_that_work(layers: int, pp: int, vpp: int) -> tuple[str, tuple[Change, ...]]:
    """The split closest to even, with the fewer layers beside the embedding and the head."""
    if pp < 2 or layers < pp * vpp:
        return "", ()
    options = [
        (first, middle, last)
        for middle in range(vpp, layers // vpp * vpp + 1, vpp)
        for first, last in _ends(layers - middle * (pp - 2), vpp)
    ]
    if not options:
        return "", ()
    best = min(options, key=lambda split: (max(split) - min(split), split[0] + split[2]))
    first, middle, last = best
    shown = "+".join(str(count) for count in (first, *([middle] * (pp - 2)), last))
    if pp > 8:
        shown = f"{first} + {pp - 2} x {middle} + {last}"
    return f"; {shown} does", (put(FIRST, first), put(LAST, last))


def _ends(rest: int, vpp: int) -> tuple[tuple[int, int], ...]:
    """First and last stage for `rest` layers: equal, or the last one chunk shorter."""
    if rest < 2 * vpp or rest % vpp:
        return ()
    chunks = rest // vpp
    last = chunks // 2
    return (((chunks - last) * vpp, last * vpp),)
