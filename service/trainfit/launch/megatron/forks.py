"""What options of forks, and of Megatron-LM before megatron-core, decide.

Those that are other names of Megatron-LM's stand in `fork_options.json` alone. Sources: NVIDIA's
Megatron-LM v2.5 to v3.0.2, bigscience-workshop/Megatron-DeepSpeed, bigcode-project/Megatron-LM and
stanford-futuredata/Megatron-LM, which megablocks trains with: megatron/arguments.py and
megatron/model/transformer.py of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect
from trainfit.launch.megatron.options import Defaults
from trainfit.launch.settings import Setting
from trainfit.launch.values import whole

SPEC = "/model/spec"
LAYERS = "/framework/transformer_impl"
RECOMPUTE = "/training/recompute"

OLDER = (
    "ddp_impl",
    "data_impl",
    "checkpoint_activations",
    "attention_head_type",
    "megablocks_capacity_factor",
    "moe_expert_model_parallelism",
    "embed_layernorm",
    "alibi",
)
"""Arguments of programs whose layers are not megatron-core's."""
OLDER_WORDS = ("--activations-checkpoint", "--distribute-checkpointed", "--no-query-key-layer")
"""What options of those begin with that are other names of Megatron-LM's."""


def read_forks(reading: Reading, defaults: Defaults) -> None:
    """Put what forks' options say of the model and the step into the draft, once Megatron-LM's own
    are there.
    """
    _put_layers(reading)
    _put_recompute(reading, defaults)
    _put_positions(reading)
    _put_heads(reading)
    _put_stages(reading)
    _put_experts(reading)
    _leave_out_optimizer(reading)


def _put_layers(reading: Reading) -> None:
    """Layers that are not megatron-core's keep what its local ones keep; with FlashAttention, what
    TransformerEngine's do, which megatron-core's had from the first.
    """
    given = reading.settings
    older = [
        setting.key
        for name, setting in given.items()
        if name in OLDER or setting.key.startswith(OLDER_WORDS)
    ]
    fused = reading.value("use_flash_attn") or "deprecated_use_mcore_models" in given
    if older and not fused and reading.draft.get(LAYERS) is None:
        reading.draft.default(LAYERS, "local", f"Megatron-LM of the time of {older[0]}")


def _put_recompute(reading: Reading, defaults: Defaults) -> None:
    """Before core_v0.1.0 every layer was made again where the older options said so."""
    switch, method = reading.get("checkpoint_activations"), reading.get("recompute_method")
    if switch is not None and defaults.release is not None:
        why = f"{defaults.name} stops at it; --recompute-granularity says what is made again"
        reading.draft.leave_out(switch, why)
        return
    older = switch if switch is not None and reading.value("checkpoint_activations") else None
    if method is not None and method.key.startswith("--activations-checkpoint"):
        older = older or method
    if older is not None and reading.draft.get(f"{RECOMPUTE}/granularity") is None:
        reading.draft.put(f"{RECOMPUTE}/granularity", "full", older)
        reading.draft.default(f"{RECOMPUTE}/method", "uniform", "Megatron-LM before core_v0.1.0")


def _put_positions(reading: Reading) -> None:
    """ALiBi adds to the scores as they are made: a row of the length of a sample for each head of
    each sample and layer, b a/t s in the type of the arithmetic, and no positions are learned.
    """
    alibi, draft = reading.get("alibi"), reading.draft
    if alibi is not None:
        draft.put(f"{SPEC}/position_embedding_type", "none", alibi)
        sizes = (f"{SPEC}/num_layers", f"{SPEC}/num_attention_heads", *SAMPLES)
        _leave_out_tensors(reading, alibi, sizes, "the rows that ALiBi adds to the scores")
    norm = reading.get("embed_layernorm")
    if norm is not None and reading.value("embed_layernorm"):
        of_norm = (*SAMPLES, f"{SPEC}/hidden_size")
        _leave_out_tensors(reading, norm, of_norm, "a norm behind the embedding")


SAMPLES = ("/training/micro_batch_size", "/training/seq_length")
FP32 = 4


def _leave_out_tensors(reading: Reading, setting: Setting, sizes: Sequence[str], what: str) -> None:
    """What is kept beside the layers: at most two tensors of these sizes in fp32."""
    number = 2 * FP32
    for pointer in sizes:
        number *= reading.draft.get(pointer) or 0
    source = "bigscience-workshop/Megatron-DeepSpeed megatron/model/transformer.py, mpu/layers.py"
    effect = Effect(f"{what}: at most two tensors in fp32", "raises", source, bytes=number)
    reading.draft.leave_out(setting, effect if number else f"{what}: not modelled")


def _put_heads(reading: Reading) -> None:
    """One head of keys and values. Every tensor-parallel rank has it whole, as it has its own where
    there are as many heads as ranks. Source: bigcode-project's megatron/model/transformer.py, whose
    `key_value` is no parallel linear.
    """
    heads = reading.get("attention_head_type")
    if heads is None or reading.value("attention_head_type") != "multiquery":
        return
    ranks = reading.draft.settled("/parallelism/tp") or 1
    reading.draft.put(f"{SPEC}/num_query_groups", ranks, heads)


SPLITS: Mapping[str, bool] = {"type:transformer": False, "type:transformer|embedding": True}
"""How DeepSpeed's pipeline counts layers -> whether embedding and head are as good as one."""


def _put_stages(reading: Reading) -> None:
    method = reading.get("pp_partition_method")
    if method is None:
        return
    counted = SPLITS.get(str(reading.value("pp_partition_method")))
    if counted is None:
        reading.draft.leave_out(method, f"of such splits {' and '.join(SPLITS)} are modelled")
    elif counted and (reading.draft.get("/parallelism/pp") or 1) > 1:
        for end in ("embedding", "loss"):
            pointer = f"/parallelism/account_for_{end}_in_pipeline_split"
            reading.draft.put(pointer, True, method)


def _put_experts(reading: Reading) -> None:
    """megablocks fills every expert up to its capacity, or without one drops nothing."""
    reading.get("moe_expert_model_parallelism")
    capacity = reading.get("megablocks_capacity_factor")
    factor = float(reading.value("megablocks_capacity_factor", 0, whole))
    if capacity is not None and factor > 0:
        moe = "/training/moe"
        reading.draft.put(f"{moe}/expert_capacity_factor", factor, capacity)
        reading.draft.put(f"{moe}/pad_expert_input_to_capacity", True, capacity)


def put_expert_ranks(reading: Reading) -> None:
    """megablocks shares experts out over all data-parallel ranks, once their number is known."""
    switch, draft = reading.get("moe_expert_model_parallelism"), reading.draft
    if switch is None or not reading.value("moe_expert_model_parallelism"):
        return
    total = _size(draft, "num_gpus")
    ranks = total // (_size(draft, "tp") * _size(draft, "pp"))
    experts = draft.get(f"{SPEC}/num_moe_experts") or 1
    if ranks and experts % ranks == 0:
        draft.put("/parallelism/ep", ranks, switch)
        draft.put("/parallelism/etp", 1, switch)
    elif ranks:
        why = f"{experts} experts over {ranks} ranks are sharded within, which is not modelled"
        draft.leave_out(switch, why)


def _size(draft: Draft, name: str) -> int:
    given = draft.overridden(f"/parallelism/{name}")
    return int(given if given is not None else draft.get(f"/parallelism/{name}") or 1)


def _leave_out_optimizer(reading: Reading) -> None:
    """Adafactor keeps less than Adam, which stands in its place, and more than nothing; AdEMAMix
    keeps a slow average beside Adam's two moments.
    """
    setting = reading.get("fork_optimizer")
    if setting is None:
        return
    if reading.value("fork_optimizer") == "ademamix":
        effect = Effect(
            "the slow average of gradients beside Adam's moments is not modelled",
            "raises",
            "swiss-ai/Megatron-LM megatron/core/optimizer/ademamix.py: exp_avg_slow",
        )
    else:
        effect = Effect(
            "factors of the second moment in the place of Adam's moments are not modelled",
            "lowers",
            "transformers/optimization.py (Adafactor), which Megatron-LM's forks take",
            within={"/training/optimizer/cpu_offload_fraction": 1.0},
        )
    reading.draft.leave_out(setting, effect)
