"""What PyTorch's frameworks offer: switches, narrower states, layers that run again."""

from __future__ import annotations

from collections.abc import Iterator

from trainfit.decisions.candidates.candidate import RECOMPUTE, Candidate, Price
from trainfit.specs.framework import Torchtitan, Transformers
from trainfit.specs.job import Job
from trainfit.specs.optimizers import OPTIMIZERS


def switches(job: Job) -> Iterator[Candidate]:
    """What gives next to nothing up under PyTorch, where it is not on already."""
    training, layout, framework = job.training, job.parallelism, job.framework
    assert isinstance(framework, Torchtitan | Transformers)
    fused = isinstance(framework, Transformers) and framework.liger_kernel
    if isinstance(framework, Transformers) and not (fused or framework.compile):
        yield Candidate(
            {"/framework/liger_kernel": True},
            Price.NOTHING,
            "none: faster kernels, of liger-kernel, for norms, SwiGLU and the loss",
        )
    if isinstance(framework, Torchtitan) and not framework.compile:
        yield Candidate({"/framework/compile": True}, Price.NOTHING, "time to compile at the start")
    if training.loss.cross_entropy == "unfused" and not fused and layout.tp == 1:
        yield Candidate(
            {"/training/loss/cross_entropy": "chunked"},
            Price.NOTHING,
            "none to speak of: head and loss run over one part of the sequence after the other",
        )
    if not framework.expandable_segments:
        yield Candidate(
            {"/framework/expandable_segments": True},
            Price.NOTHING,
            "none to speak of; set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        )
    if isinstance(framework, Transformers) and not framework.sync_each_micro_batch:
        yield Candidate(
            {"/framework/sync_each_micro_batch": True},
            Price.COMMUNICATION,
            "gradients are reduced after every micro-batch (accelerate: sync_each_batch)",
        )
    made = OPTIMIZERS[training.optimizer.name].temporaries
    if training.optimizer.implementation in made and "fused" not in made:
        yield Candidate(
            {"/training/optimizer/implementation": "fused"}, Price.NOTHING, "none: a faster kernel"
        )


def trades(job: Job) -> Iterator[Candidate]:
    """What memory is bought with: precision, time, transfers to the host."""
    yield from _precision(job)
    yield from _checkpointing(job)


def _precision(job: Job) -> Iterator[Candidate]:
    """Experts quantised as linears are, moments in 8 bits, or everything in bf16."""
    peft = job.training.peft
    if peft is not None and peft.quantization is not None and not peft.quantize_experts:
        yield Candidate(
            {"/training/peft/quantize_experts": True},
            Price.PRECISION,
            "experts are made wide again where they are read (axolotl's quantize_moe_experts)",
        )
    narrower = OPTIMIZERS[job.training.optimizer.name].in_8_bits
    if narrower is not None:
        yield Candidate(
            {"/training/optimizer/name": narrower},
            Price.PRECISION,
            "moments in 8 bits, by bitsandbytes",
        )
    if job.training.precision in ("autocast-bf16", "bf16"):
        yield Candidate(
            {"/training/precision": "bf16-pure"},
            Price.PRECISION,
            "weights, gradients and moments in bf16 only: small updates are rounded away",
        )


def _checkpointing(job: Job) -> Iterator[Candidate]:
    """Layers that run again in backward, half of them or all; operations where torchtitan runs."""
    given = job.training.recompute
    if given.granularity == "full" and given.every_nth_layer == 1:
        if not job.training.offload_activations:
            yield Candidate(
                {"/training/offload_activations": True},
                Price.TRANSFERS,
                "inputs of the layers go to host memory and back with every micro-batch",
            )
        return
    if isinstance(job.framework, Torchtitan) and given.granularity is None:
        yield Candidate(
            {RECOMPUTE: {"granularity": "selective"}},
            Price.SPEED,
            "cheap operations and every second matrix product are computed twice",
        )
    if given.granularity is None:
        yield Candidate(
            {RECOMPUTE: {"granularity": "full", "every_nth_layer": 2}},
            Price.RECOMPUTATION,
            "every second layer is computed twice",
        )
    yield Candidate(
        {RECOMPUTE: {"granularity": "full"}},
        Price.RECOMPUTATION,
        "the whole forward is computed twice: about a third more computation",
    )
