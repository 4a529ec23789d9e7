"""Experts below adapters that axolotl trains: whether they are quantised with all else."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from trainfit.launch.effects import Effect
from trainfit.launch.models import experts_of, hidden_size, text_config_of
from trainfit.launch.transformers.adapters import PEFT, QUANTISED_EXPERTS
from trainfit.launch.transformers.engine import TrainerEngine
from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.step import LENGTH, MICRO_BATCH, RECOMPUTE

KEY = "quantize_moe_experts"
MATRICES = 3
"""Of an expert: the gate, and into it and out of it."""
BF16, FP32 = 2, 4
OF_4_BITS = Fraction(1, 2) + Fraction(1, 64) + Fraction(4, 64 * 256)
"""Bytes of a quantised element: a block of 64 has a scale of one byte, and 256 of these another."""
OF_PREPARATION = "peft/utils/other.py: prepare_model_for_kbit_training"
OF_QUANTISING = "axolotl/monkeypatch/moe_quant.py; torch's derivatives.yaml: _grouped_mm"
"""bitsandbytes gives back the type that 4 bits were quantised from. Of 8 bits it makes fp32, twice
over (_ops.py: int8_vectorwise_dequant), and rows are widened to what they are multiplied with
(transformers' integrations/moe.py: _grouped_mm).
"""


def put_experts(run: TrainerRun, engine: TrainerEngine, quantised: str) -> None:
    """Set whether experts are quantised, and bound what follows from it. `quantised` is the key by
    which the linears are.
    """
    setting = run.arguments.get(KEY)
    if setting is not None and run.arguments.is_on(KEY):
        run.draft.put(QUANTISED_EXPERTS, True, setting)
        run.draft.leave_out(setting, _dequantised(run, engine, quantised))
        return
    below = run.arguments.get(quantised)
    if below is None or run.draft.get(QUANTISED_EXPERTS) or not _is_prepared(run, engine):
        return
    why = "experts that are not quantised may be widened to fp32 before training"
    within = {f"{PEFT}/base_dtype": "fp32"}
    run.draft.leave_out(below, Effect(why, "raises", OF_PREPARATION, within=within))


def _is_prepared(run: TrainerRun, engine: TrainerEngine) -> bool:
    """Whether what is not quantised is widened. Source: axolotl/loaders/model.py
    (_prepare_model_for_quantization).
    """
    four = run.arguments.is_on("load_in_4bit")
    on_host = run.accelerate.is_on("fsdp_cpu_ram_efficient_loading")
    shares = engine.sharded and engine.name != "deepspeed"
    return engine.name != "deepspeed" and not (shares and (four or on_host))


def _dequantised(run: TrainerRun, engine: TrainerEngine, quantised: str) -> Effect:
    """What a product of all experts of a layer reads is made wide, and kept for the gradient of its
    input: of one layer where layers run again, else of all. Under FSDP2 the experts of all layers
    may not be shared out.
    """
    config, experts = text_config_of(run.draft), experts_of(run.draft)
    width = config.get("moe_intermediate_size") or config.get("intermediate_size")
    layers = config.get("num_hidden_layers")
    why = "experts are made wide again where they are read"
    if not (isinstance(width, int) and isinstance(layers, int)):
        return Effect(why, "raises", OF_QUANTISING)
    hidden = hidden_size(run.draft)
    elements = MATRICES * experts * width * hidden
    times = 1 if run.draft.get(RECOMPUTE) else layers
    four = quantised == "load_in_4bit"
    kept = (BF16 if four else FP32) * elements * times
    if not four:
        per_token = config.get("num_experts_per_tok")
        rows = _tokens(run) * (per_token if isinstance(per_token, int) else experts)
        kept += FP32 * elements // MATRICES
        kept += (FP32 - BF16) * rows * (2 * hidden + MATRICES * width) * (times + 1)
    if engine.name == "fsdp2":
        why = f"{why}, and those of some layers may be whole on every rank"
        kept += layers * ceil(elements * (OF_4_BITS if four else 1))
    return Effect(why, "raises", OF_QUANTISING, bytes=kept)


def _tokens(run: TrainerRun) -> int:
    """Of a micro-batch, as far as it is known."""
    samples, length = run.draft.get(MICRO_BATCH), run.draft.get(LENGTH)
    return samples * length if isinstance(samples, int) and isinstance(length, int) else 0
