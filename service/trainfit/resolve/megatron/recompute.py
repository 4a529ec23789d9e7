"""What a step under Megatron recomputes and offloads."""

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.megatron.plan import RecomputePolicy
from trainfit.resolve.plan import Layout
from trainfit.specs.training import Training


def resolve_recompute(
    training: Training, layout: Layout, layers: int, findings: Findings
) -> RecomputePolicy:
    """What is dropped. Source: megatron/core/transformer/transformer_config.py."""
    given, offloaded = training.recompute, frozenset(training.offload_modules)
    where = "/training/recompute"
    if given.granularity == "full" and offloaded:
        findings.add(
            "/training/offload_modules",
            "conflict",
            "full recompute keeps nothing to offload",
            put("/training/offload_modules", []),
        )
    if "attn_proj" in offloaded and "core_attn" not in offloaded:
        findings.add(
            "/training/offload_modules",
            "conflict",
            "attn_proj reads what core_attn keeps: it is not offloaded without core_attn",
            put("/training/offload_modules", [*training.offload_modules, "core_attn"]),
        )
    if given.granularity != "full":
        if given.method is not None or given.num_layers is not None:
            findings.add(
                f"{where}/method",
                "recompute",
                "method and num_layers go with granularity full",
                put(f"{where}/granularity", "full"),
            )
        modules = frozenset(given.modules or ("core_attn",))
        chosen = modules if given.granularity == "selective" else frozenset[str]()
        if given.granularity is None and given.modules is not None:
            findings.add(
                f"{where}/modules",
                "recompute",
                "modules go with granularity selective",
                put(f"{where}/granularity", "selective"),
            )
        return RecomputePolicy("none", 0, chosen, offloaded, False)
    if given.modules is not None:
        findings.add(f"{where}/modules", "recompute", "modules go with granularity selective")
    if given.num_layers is not None and given.num_layers > layers:
        findings.add(f"{where}/num_layers", "recompute", f"the model has {layers} layers")
    if given.distribute_saved_activations and layout.sequence_parallel:
        findings.add(
            f"{where}/distribute_saved_activations",
            "conflict",
            "sequence parallelism shares them out already",
            put(f"{where}/distribute_saved_activations", False),
        )
    count = given.num_layers if given.num_layers is not None else 1
    method = given.method or "uniform"
    if method == "uniform" and count == 0:
        findings.add(f"{where}/num_layers", "recompute", "uniform recomputes groups of 1 or more")
    _check_mtp_recompute(method, count, layout, findings)
    nothing = frozenset[str]()
    distributed = given.distribute_saved_activations
    return RecomputePolicy(method, count, nothing, nothing, distributed)


def _check_mtp_recompute(method: str, count: int, layout: Layout, findings: Findings) -> None:
    """Multi-token prediction recomputes each of its layers by itself, or none.

    Source: megatron/core/transformer/multi_token_prediction.py.
    """
    if not any(stage.mtp_layers for stage in layout.pipeline.virtual_stages):
        return
    if method == "block" and count:
        findings.add(
            "/training/recompute/method",
            "recompute",
            "multi-token prediction recomputes uniformly only",
            put("/training/recompute/method", "uniform"),
        )
    elif count > 1:
        findings.add(
            "/training/recompute/num_layers",
            "recompute",
            "multi-token prediction recomputes one layer at a time",
            put("/training/recompute/num_layers", 1),
        )
