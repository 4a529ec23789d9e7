"""Tensor parallelism of DeepSpeed: tensor_parallel.autotp_size in its config.

It divides what transformers' own plan of a model divides, linears by columns and rows, and nothing
between them: every rank has whole sequences, norms and embedding. The head is divided, its logits
are gathered; a tied one stays whole. Sources: deepspeed/runtime/engine.py
(_apply_autotp_partitioning), module_inject/tp_plan_converter.py, module_inject/layers.py and
module_inject/auto_tp.py (0.19.6); base_model_tp_plan of transformers' configurations (5.23.0).
"""

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.plan import Layout
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention
from trainfit.specs.framework import Transformers
from trainfit.specs.job import Job


def check_auto_tp(job: Job, model: ModelSpec, layout: Layout, findings: Findings) -> None:
    """What DeepSpeed does not divide, and what of it is not modelled."""
    assert isinstance(job.framework, Transformers)
    pointer, training = "/parallelism/tp", job.training
    if not model.implementation.tp_plan or model.encoder_parameters:
        message = f"tp under DeepSpeed is not modelled for {model.model_type}"
        findings.add(pointer, "not_modelled", message, put(pointer, 1))
    heads = min((block.kv_heads for block in _attention(model)), default=layout.tp)
    if layout.tp > heads or any(block.kv_heads % layout.tp for block in _attention(model)):
        message = f"DeepSpeed gives the {heads} key/value heads to {layout.tp} ranks unevenly"
        findings.add(pointer, "not_modelled", message, put(pointer, 1))
    if layout.sequence_parallel:
        pointer = "/parallelism/sequence_parallel"
        message = "DeepSpeed's tensor-parallel ranks have whole sequences"
        findings.add(pointer, "conflict", message, put(pointer, False))
    if training.loss.cross_entropy != "unfused" or job.framework.liger_kernel:
        liger = job.framework.liger_kernel
        pointer = "/framework/liger_kernel" if liger else "/training/loss/cross_entropy"
        message = "losses that read the head's matrix, with tp under DeepSpeed, are not modelled"
        wanted = False if liger else "unfused"
        findings.add(pointer, "not_modelled", message, put(pointer, wanted))
    if training.peft is not None:
        pointer = "/training/peft"
        message = "adapters with tp under DeepSpeed are not modelled"
        findings.add(pointer, "not_modelled", message, put(pointer, None))


def _attention(model: ModelSpec) -> list[Attention]:
    return [block for block in model.blocks if isinstance(block, Attention)]
