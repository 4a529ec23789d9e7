"""Layers of several kinds: Mamba, attention, feed-forward networks and experts in one pattern.

Sources: megatron/core/models/hybrid (hybrid_layer_allocation.py) and validate_args of
megatron/training/arguments.py.
"""

from __future__ import annotations

from trainfit.launch.draft import Reading
from trainfit.launch.megatron.fields import copy

MAMBA = {
    "mamba_state_dim": "mamba_state_dim",
    "mamba_head_dim": "mamba_head_dim",
    "mamba_num_groups": "mamba_num_groups",
    "mamba_num_heads": "mamba_num_heads",
}
"""Arguments whose value is that of a field of the job."""

PATTERNS = ("hybrid_layer_pattern", "hybrid_override_pattern")
SPECS = (
    ["megatron.core.models.mamba.mamba_layer_specs", "mamba_stack_spec"],
    ["megatron.core.models.hybrid.hybrid_layer_specs", "hybrid_stack_spec"],
)
"""Where Megatron-LM's own layers of these kinds are put together."""
MODELLED = "M*+-E"
"""Symbols of layers that a pattern of `model.spec` may have."""
NOT_MODELLED = {"G": "gated delta nets", "D": "sparse attention"}
"""The other symbols of layers, and what they stand for."""
PATTERN = "/model/spec/hybrid_layer_pattern"


def has_latent_attention(reading: Reading) -> bool:
    """Whether the pattern, if there is one, has layers of latent attention."""
    return any("+" in str(reading.value(name, "")) for name in PATTERNS)


def read_hybrid(reading: Reading, *, hybrid: bool) -> None:
    """Put the pattern of layers, where there is one. The programs of `hybrid` models train Mamba
    alone without one.
    """
    name = next((each for each in PATTERNS if each in reading.settings), None)
    if name is None and not hybrid:
        return
    copy(reading, MAMBA, "/model/spec")
    reading.get("is_hybrid_model")
    if (spec := reading.settings.get("spec")) is not None and spec.value in SPECS:
        reading.get("spec")
    if name is not None:
        _read_pattern(reading, name)
    elif (layers := reading.get("num_layers")) is not None:
        reading.draft.put(PATTERN, "M" * reading.value("num_layers"), layers)


def _read_pattern(reading: Reading, name: str) -> None:
    """The pattern tells the number of layers, the stages between | and what is predicted behind
    each /.
    """
    draft, setting = reading.draft, reading.get(name)
    if setting is None:
        return
    main, *behind = _unified(reading, name).split("/")
    depths = [depth for depth in behind if depth]
    stages = main.split("|")
    layers = "".join(stages)
    if (given := reading.get("num_layers")) is not None:
        draft.ignore(given)
    draft.put("/model/spec/num_layers", len(layers), setting)
    symbols = {*layers, *"".join(depths)}
    if symbols - {*MODELLED, *NOT_MODELLED} or not layers:
        draft.complain(
            setting, f"must hold only {', '.join([*MODELLED, *NOT_MODELLED, '|'])} and /"
        )
        return
    for symbol in sorted(symbols & NOT_MODELLED.keys()):
        what = NOT_MODELLED[symbol]
        draft.leave_out(setting, f"layers of {what} ({symbol}) have no place in model.spec")
    if symbols <= set(MODELLED):
        draft.put(PATTERN, "/".join((layers, *depths)), setting)
    if depths:
        draft.put("/model/spec/mtp_num_layers", len(depths), setting)
    if len(stages) > 1:
        layout = "|".join("t" * len(stage) for stage in stages)
        layout = f"E{layout}{'m' * len(depths)}L"
        draft.put("/parallelism/pipeline_model_parallel_layout", layout, setting)


def _unified(reading: Reading, name: str) -> str:
    """The pattern with that of multi-token prediction, which had an option of its own."""
    pattern = str(reading.value(name))
    further = reading.get("mtp_hybrid_override_pattern")
    if further is None or "/" in pattern:
        return pattern
    count = reading.value("mtp_num_layers", 0)
    return "/".join((pattern, *[str(reading.value("mtp_hybrid_override_pattern"))] * count))
