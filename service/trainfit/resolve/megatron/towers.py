"""Towers of images and sounds beside Megatron's layers: who runs them, and what of them is frozen.

Source: Megatron-Bridge's models, which put them on the first pipeline stage: transformers' classes
in qwen_vl/modeling_qwen25_vl.py, gemma_vl/modeling_gemma3_vl.py, glm_vl/modeling_glm_45v.py,
ministral3/modeling_ministral3.py, kimi_vl/modeling_kimi_k25_vl.py, qwen_omni and
qwen_audio/modeling_qwen2_audio.py, whole on every tensor-parallel rank
(hook_hf_module_setattr_for_tp_grad_sync);
Megatron's layers in qwen_vl/modelling_qwen3_vl/vision_model.py. ms-swift's are transformers'
(swift/megatron/model/mm_gpts/utils.py, HuggingFaceModule).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.freezing import TOWERS, check_frozen_modules
from trainfit.resolve.megatron.precision import BYTES, resolve_precision
from trainfit.resolve.plan import Layout, TargetGpu
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.framework import Megatron, Transformers
from trainfit.specs.job import Job
from trainfit.specs.training import AttentionOptions, Recompute, Training

if TYPE_CHECKING:
    from trainfit.resolve.pytorch.plan import PytorchStep

FREEZABLE = (*sorted(TOWERS), "language_model")


def is_divided(model: ModelSpec, framework: Megatron) -> bool:
    """Whether tensor-parallel ranks share a tower out, as they do Megatron's own layers."""
    if model.encoder is None:
        return False
    if framework.tower_impl is None:
        return model.encoder.of_megatron
    return framework.tower_impl == "transformer_engine"


def check_tower(job: Job, model: ModelSpec, framework: Megatron, findings: Findings) -> None:
    """Only those towers are made of Megatron's layers that Megatron-Bridge makes so, which follow
    what the text's layers recompute; only towers and the text's model can be frozen.
    """
    where = "/framework/tower_impl"
    made = model.encoder is not None and model.encoder.of_megatron
    if framework.tower_impl == "transformer_engine" and not made:
        message = "Megatron-Bridge does not make this model's tower of Megatron's layers"
        findings.add(where, "conflict", message, put(where, "transformers"))
    if framework.recompute_tower and is_divided(model, framework):
        where = "/framework/recompute_tower"
        message = "Megatron's layers of a tower are recomputed where the text's are"
        findings.add(where, "conflict", message, put(where, False))
    for name in job.training.frozen:
        if name not in FREEZABLE:
            message = f"parts that Megatron-Bridge freezes are {', '.join(FREEZABLE)}"
            findings.add("/training/frozen", "not_modelled", message)
            return
    check_frozen_modules(job, model, findings)


def frozen_not_modelled(job: Job) -> Iterator[tuple[str, str]]:
    """What is not followed beside parts that are frozen."""
    training, where = job.training, "/training/frozen"
    if not training.frozen or training.peft is not None:
        return
    if job.parallelism.data_parallel_sharding_strategy in ("optim_grads", "optim_grads_params"):
        yield where, "frozen parts under Megatron-FSDP"
    if "language_model" in training.frozen and training.optimizer.name == "muon":
        yield where, "Muon of a tower alone"


def step_of_transformers(
    job: Job, model: ModelSpec, framework: Megatron, layout: Layout, gpu: TargetGpu
) -> PytorchStep | None:
    """How transformers' modules run a tower, in the type of Megatron's weights; None where there is
    no tower of theirs. Attention is torch's own, as Megatron-Bridge leaves it, or FlashAttention
    where a job says so, as ms-swift has it.
    """
    if model.encoder is None or is_divided(model, framework):
        return None
    from trainfit.resolve.pytorch.step import resolve_pytorch_step

    training, again = job.training, framework.recompute_tower
    half = BYTES[resolve_precision(training).compute] == BYTES["bf16"]
    flash = training.attention.backend == "flash"
    alone = Training(
        micro_batch_size=training.micro_batch_size,
        seq_length=training.seq_length,
        precision="bf16-pure" if half else "fp32",
        attention=AttentionOptions(backend="flash" if flash else "sdpa"),
        recompute=Recompute(granularity="full" if again else None),
    )
    as_transformers = job.model_copy(
        update={"training": alone, "framework": Transformers(name="transformers")}
    )
    whole = replace(layout, tp=1, ep=1, etp=1, cp=1, sharding="no_shard")
    return resolve_pytorch_step(as_transformers, model, whole, gpu, Findings())
