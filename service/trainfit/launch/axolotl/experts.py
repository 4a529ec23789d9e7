"""Experts below adapters that axolotl trains: whether they are quantised with all else."""

from __future__ import annotations

from trainfit.launch.effects import Effect
from trainfit.launch.models import experts_of, hidden_size, text_config_of
from trainfit.launch.transformers.adapters import PEFT, QUANTISED_EXPERTS
from trainfit.launch.transformers.engine import TrainerEngine
from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.step import RECOMPUTE

KEY = "quantize_moe_experts"
MATRICES = 3
"""Of an expert: the gate, and into it and out of it."""
BF16 = 2
OF_PREPARATION = "peft/utils/other.py: prepare_model_for_kbit_training"
OF_QUANTISING = "axolotl/monkeypatch/moe_quant.py; torch's derivatives.yaml: _grouped_mm"


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
    """What a product of all experts of a layer reads in bf16 is kept for the gradient of its input:
    of one layer where layers run again, else of all. Under FSDP2 the experts of all layers
    may not be shared out.
    """
    config, experts = text_config_of(run.draft), experts_of(run.draft)
    width = config.get("moe_intermediate_size") or config.get("intermediate_size")
    layers = config.get("num_hidden_layers")
    why = "experts are made wide again where they are read"
    if not (isinstance(width, int) and isinstance(layers, int)):
        return Effect(why, "raises", OF_QUANTISING)
    elements = MATRICES * experts * width * hidden_size(run.draft)
    kept = BF16 * elements * (1 if run.draft.get(RECOMPUTE) else layers)
    if engine.name == "fsdp2":
        why = f"{why}, and those of some layers may be whole on every rank"
        kept += layers * elements // (2 if quantised == "load_in_4bit" else 1)
    return Effect(why, "raises", OF_QUANTISING, bytes=kept)
