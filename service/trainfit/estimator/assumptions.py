"""What an estimate takes for granted, by an id that the documentation explains."""

from collections.abc import Mapping, Sequence, Set
from types import ModuleType

from trainfit.estimator.frameworks.registry import all_frameworks, framework_of
from trainfit.estimator.memo import Memo
from trainfit.estimator.overhead import calibration_of
from trainfit.estimator.results import Assumption, Basis
from trainfit.resolve.plan import Plan
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Opaque, Recurrence, making

OF_ANY_FRAMEWORK: Mapping[str, str] = {
    "later-step": "The step is a later one: the optimizer's states exist, and gradients were freed "
    "before it (set_to_none).",
    "grouped-experts": "All experts of a rank run in grouped products (transformers' "
    "experts_implementation grouped_mm, torchtitan's use_grouped_mm).",
    "balanced-routing": "Every expert receives the same number of rows, times imbalance_factor.",
    "fixed-shapes": "Every micro-batch has the same shape.",
    "lengths-differ": "Micro-batches are as long as their longest sample, of which one has "
    "seq_length: blocks of shorter ones stay in the allocator's cache, of lengths as "
    "training.lengths tells them.",
    "first-order-recurrence": "Of mixers that are linear in the sequence only the wide tensors are "
    "counted.",
    "weights-only-blocks": "Some parts are known by their weights; the activations that they make "
    "are not counted, or are counted as plainer ones.",
    "encoder-on-first-stage": "Vision and audio towers lie on the first stage; their "
    "activations count where training.image_tokens says of how many tokens.",
    "encoder-bounded": "How many of a sample's tokens are of images is not known, as "
    "training.image_tokens does not say it: the bounds span from none to all of them, and what is "
    "expected has none.",
    "allocator-slack": "Reserved memory exceeds allocated memory as in published runs with fixed "
    "shapes.",
    "allocator-replayed": "Reserved memory is what PyTorch's caching allocator reserves for the "
    "requests of a rank in their order, on a GPU that nobody else uses.",
    "cache-released": "The GPU has room only because the allocator, when it finds none, waits for "
    "the GPU, gives all of its cache back and asks again: slow where a step does so, and a crash "
    "where a little more is needed.",
    "communicators": "Each group of ranks in use costs what published runs show for one NCCL "
    "communicator.",
    "nccl-user-buffers": "NCCL is 2.26 or later, which rounds the buffers that it gives to 2 MiB "
    "as PyTorch does; before, it rounds each to what multicast asks for.",
    "no-card": "No GPU was named: workspaces are those of compute capability 9.0.",
    "calibrated": "What lies outside PyTorch, and what is reserved above what is allocated, is as "
    "in the runs of the cluster that the calibration was fitted to; bounds of what is reserved are "
    "narrower where these have told it.",
    "calibration-unused": "The calibration is of another GPU, framework or allocator than the "
    "job's, and was not used.",
    "steady-state": "There are enough micro-batches to keep the pipeline full.",
    "class-sizes": "The config.json leaves hidden_size or num_hidden_layers open: the model has "
    "the sizes that its class has by default.",
    "longer-than-positions": "The sequence is longer than max_position_embeddings of the model's "
    "config, whose positions are computed and go on.",
    "several-releases": "The launch can be of several releases of its framework: the bounds span "
    "all of them, and what is expected is that of the latest. framework_version narrows it.",
    "bounded-options": "Options that are not modelled move the peak by at most so much: the bounds "
    "take it in, and what is expected leaves it out. The launch's account names each.",
    "open-facts": "The launch leaves facts open: the verdict is the same at every value that they "
    "can have, and the figures are those of the one that is named.",
    "last-known-revision": "The branch or tag of the model still names the commit that it named "
    "when the Hub was last asked.",
}

SEVERAL_RELEASES = Assumption("several-releases", OF_ANY_FRAMEWORK["several-releases"])
BOUNDED_OPTIONS = Assumption("bounded-options", OF_ANY_FRAMEWORK["bounded-options"])
OPEN_FACTS = Assumption("open-facts", OF_ANY_FRAMEWORK["open-facts"])
"""Of what was read from a launch, which no plan knows of."""


SIZES = frozenset(
    f"/model/hf_config{section}/{key}"
    for section in ("", "/text_config", "/llm_config", "/language_config")
    for key in ("hidden_size", "num_hidden_layers")
)
"""Keys without which a caller's config.json says next to nothing of its model's size."""


def all_assumptions() -> dict[str, str]:
    """Every assumption that an estimate can make: those of each framework, then those of any."""
    own = [each.ASSUMPTIONS for each in all_frameworks()]
    return {name: text for texts in (*own, OF_ANY_FRAMEWORK) for name, text in texts.items()}


def assumptions_of(
    plan: Plan, uncounted: Sequence[str], *, bases: Set[Basis], released: bool
) -> list[Assumption]:
    """The assumptions that bear on this plan, in the order of `all_assumptions`: which parts' sizes
    are `uncounted`, what reserved bytes rest on, and whether the cache has to be `released`.
    """
    blocks, experts = plan.model.blocks, plan.model.has_experts
    framework = framework_of(plan)
    of_framework = framework.assumptions(plan)
    calibrated = calibration_of(plan)
    whys = {default.pointer: default.why for default in plan.defaults}
    holds = {
        **dict.fromkeys(of_framework, True),
        "later-step": "later-step" in of_framework,
        "grouped-experts": "grouped-experts" in of_framework and experts,
        "balanced-routing": "balanced-routing" in of_framework and experts,
        "fixed-shapes": plan.batch.spread is None,
        "lengths-differ": plan.batch.spread is not None,
        "first-order-recurrence": any(isinstance(b, Recurrence) for b in blocks),
        "weights-only-blocks": bool(uncounted),
        "encoder-on-first-stage": plan.model.encoder_parameters > 0,
        "encoder-bounded": "encoder-bounded" in of_framework,
        "allocator-slack": "ratio" in bases and not (calibrated and calibrated.slack_ratio),
        "allocator-replayed": "replayed" in bases,
        "cache-released": released,
        "communicators": plan.layout.num_gpus > 1 and not (calibrated and calibrated.outside),
        "nccl-user-buffers": "nccl-user-buffers" in of_framework,
        "no-card": plan.gpu.memory_bytes == 0,
        "calibrated": calibrated is not None,
        "calibration-unused": plan.calibration is not None and calibrated is None,
        "steady-state": "full" in whys.get("/training/num_microbatches", ""),
        "class-sizes": not whys.keys().isdisjoint(SIZES),
        "longer-than-positions": _is_longer_than_positions(plan),
        SEVERAL_RELEASES.id: False,
        BOUNDED_OPTIONS.id: False,
        OPEN_FACTS.id: False,
        "last-known-revision": plan.source.stale,
    }
    texts = {**framework.ASSUMPTIONS, **OF_ANY_FRAMEWORK}
    return [Assumption(name, text) for name, text in texts.items() if holds.get(name)]


def warnings_of(plan: Plan, uncounted: Sequence[str]) -> list[str]:
    """What the caller should know before trusting the figures."""
    found = list(plan.remarks)
    bounded = "encoder-bounded" in framework_of(plan).assumptions(plan)
    known = bounded or plan.batch.image_tokens is not None
    if plan.model.encoder_parameters and not known:
        found.append(
            "This model has a vision or audio tower. Its parameters are counted, the activations "
            "of its tokens are not: expect more than this estimate says. Where samples have no "
            "images and no sound, set training.image_tokens to 0."
        )
    if uncounted:
        parts = ", ".join(uncounted)
        found.append(f"Activations of these parts are not counted in full: {parts}.")
    return found


def _is_longer_than_positions(plan: Plan) -> bool:
    positions = plan.model.max_position_embeddings
    return positions is not None and plan.batch.seq_length > positions


def not_followed(plan: Plan, memo: Memo) -> tuple[str, ...]:
    """Parts that make activations which the programs of their blocks do not follow."""
    return memo(_not_followed, plan.model, *framework_of(plan).programs(plan).items())


def _not_followed(model: ModelSpec, *programs: tuple[str, ModuleType]) -> tuple[str, ...]:
    names = {extra.name for extra in model.extras}
    of_kind = dict(programs)
    for block in model.blocks:
        if isinstance(block, Opaque):
            names.add(block.name)
            continue
        honoured: frozenset[str] = getattr(of_kind[block.kind], "HONOURS", frozenset())
        names.update(what for field, what in making(block) if field not in honoured)
    return tuple(sorted(names))
