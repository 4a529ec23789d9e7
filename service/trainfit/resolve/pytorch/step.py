"""Precision, optimizer, sharding and checkpointing of a step under torchtitan or transformers."""

from typing import Literal

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.freezing import check_frozen, frozen_modules
from trainfit.resolve.plan import Layout, TargetGpu
from trainfit.resolve.pytorch.adapters import (
    adapters_of,
    check_decomposed,
    check_virtual_tokens,
)
from trainfit.resolve.pytorch.auto_tp import check_auto_tp
from trainfit.resolve.pytorch.expert_parallel import check_expert_parallel
from trainfit.resolve.pytorch.objective import check_objective, policy_of, preference_of
from trainfit.resolve.pytorch.plan import (
    Checkpointing,
    DataParallelStrategy,
    Engine,
    OptimizerStep,
    PytorchStep,
    ZeroBuffers,
)
from trainfit.resolve.pytorch.precision import (
    computes_in_half,
    dtypes_of,
    gathers_fp8,
    narrow_products,
    recipe_of,
    states_of,
    with_base,
)
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Experts, LatentAttention, Mlp, Recurrence
from trainfit.specs.framework import DeepSpeed, Framework, Torchtitan, Transformers
from trainfit.specs.job import Job
from trainfit.specs.optimizers import OPTIMIZERS
from trainfit.specs.precision import Precision


def resolve_pytorch_step(
    job: Job, model: ModelSpec, layout: Layout, gpu: TargetGpu, findings: Findings
) -> PytorchStep:
    """The step, with everything that is inconsistent added to the findings."""
    assert isinstance(job.framework, Torchtitan | Transformers)
    framework, training = job.framework, job.training
    engine = _engine(framework, layout, findings)
    dtypes = with_base(dtypes_of(job, engine, layout), training.peft, findings)
    adapters = adapters_of(training.peft, dtypes, model) if training.peft is not None else None
    _check(job, model, layout, engine, findings)
    return PytorchStep(
        activation_bytes=dtypes.computed,
        residual_bytes=dtypes.stored if dtypes.autocast else dtypes.computed,
        half=computes_in_half(training.precision),
        autocast=dtypes.autocast,
        states=states_of(
            dtypes,
            training.optimizer,
            adapters,
            in_fp8=gathers_fp8(training.precision),
            embedding_in_fp32=_embedding_in_fp32(job, engine),
        ),
        optimizer=OptimizerStep(
            training.optimizer.name,
            training.optimizer.implementation,
            training.optimizer.in_backward,
            training.optimizer.paged,
        ),
        data_parallelism=_data_parallelism(framework, engine, layout, model),
        checkpointing=_checkpointing(job, gpu),
        offload_activations=training.offload_activations,
        ulysses=isinstance(framework, Transformers)
        and layout.cp > 1
        and layout.cp_comm_type == "a2a",
        adapters=adapters,
        frozen=frozen_modules(training),
        kernels="fused" if _is_fused(framework) else "eager",
        compiled=framework.compile,
        narrow=narrow_products(recipe_of(training.precision), compiled=framework.compile),
        narrow_experts=narrow_products(training.moe.fp8_recipe, compiled=framework.compile),
        repeats_kv=training.attention.repeats_kv or _repeats_kv(framework),
        scales_by_sinks=isinstance(framework, Torchtitan),  # models/gpt_oss/model.py
        fuses_qkv=isinstance(framework, Torchtitan) and framework.fuse_qkv,
        turns_as_complex=isinstance(framework, Torchtitan),  # models/common/rope.py
        attention_backend=attention_backend(job, model),
        attention_dropout=_drops(
            training.attention.dropout, framework, declared=model.traits.attention_dropout
        ),
        hidden_dropout=_drops(
            training.hidden_dropout, framework, declared=model.traits.hidden_dropout
        ),
        cross_entropy=_loss(job),
        shifted=training.loss.shifted,
        loss_chunks=training.loss.num_chunks,
        preference=preference_of(training.loss),
        policy=policy_of(training.loss),
        logits_kept=min(training.loss.logits_to_keep or 0, training.seq_length),
        loss_parallel=framework.loss_parallel and layout.tp > 1 and engine != "deepspeed",
        collects_outputs=isinstance(framework, Torchtitan) and framework.collect_outputs,
        experts_one_by_one=isinstance(framework, Transformers) and framework.experts_one_by_one,
    )


def _repeats_kv(framework: Torchtitan | Transformers) -> bool:
    """Older torchtitan copies keys and values whatever else is set: it did so until January
    2026, longer than embedding and head belonged to the root's unit.
    """
    return isinstance(framework, Torchtitan) and not framework.shard_embedding_and_head_apart


def attention_backend(job: Job, model: ModelSpec) -> Literal["flash", "sdpa", "eager"]:
    """torch's scaled_dot_product_attention, unless something else is asked for. It has neither soft
    caps nor sinks: transformers falls back to its eager attention for them (_supports_sdpa).
    """
    backend = job.training.attention.backend
    if backend == "auto":
        sinks = isinstance(job.framework, Transformers) and _has_sinks(model)
        return "eager" if model.traits.attention_softcap or sinks else "sdpa"
    assert backend in ("flash", "sdpa", "eager")
    return backend


def _has_sinks(model: ModelSpec) -> bool:
    attention = [b for b in model.blocks if isinstance(b, Attention | LatentAttention)]
    return any(block.sinks for block in attention)


def _engine(framework: Torchtitan | Transformers, layout: Layout, findings: Findings) -> Engine:
    """ddp where nothing is shared out, else FSDP, or what the job names."""
    named = framework.data_parallel_engine if isinstance(framework, Transformers) else None
    if named is None:
        return "ddp" if layout.sharding == "no_shard" else "fsdp2"
    pointer = "/framework/data_parallel_engine"
    if named == "ddp" and layout.sharding != "no_shard":
        findings.add(pointer, "conflict", "DDP shards nothing", put(pointer, "fsdp2"))
    if named in ("fsdp1", "fsdp2") and layout.sharding == "optim":
        message = f"{named} shards gradients as well"
        strategy = "/parallelism/data_parallel_sharding_strategy"
        findings.add(strategy, "conflict", message, put(strategy, "optim_grads"))
    return named


def _data_parallelism(
    framework: Torchtitan | Transformers, engine: Engine, layout: Layout, model: ModelSpec
) -> DataParallelStrategy:
    keeps = layout.sharding == "optim_grads"
    if isinstance(framework, Torchtitan):
        wanted = framework.fsdp_reshard_after_forward
        reshards = wanted == "always" or (wanted == "default" and layout.pipeline.pp == 1)
        return DataParallelStrategy(
            engine,
            reshard_after_forward=reshards and not keeps,
            sync_each_micro_batch=layout.pipeline.pp == 1,
            gradient_as_bucket_view=False,
            embedding_and_head_apart=framework.shard_embedding_and_head_apart
            and not model.output_layer.tied,
        )
    return DataParallelStrategy(
        engine,
        reshard_after_forward=framework.reshard_after_forward and not keeps,
        sync_each_micro_batch=framework.sync_each_micro_batch,
        gradient_as_bucket_view=framework.gradient_as_bucket_view,
        embedding_and_head_apart=layout.ep > 1 and not model.output_layer.tied,
        on_host=framework.offload_params,
        zero=_zero_buffers(framework.deepspeed, model) if engine == "deepspeed" else None,
    )


def _zero_buffers(given: DeepSpeed, model: ModelSpec) -> ZeroBuffers:
    """Source of what auto stands for: transformers' integrations/deepspeed.py."""
    square = model.hidden_size**2
    reduced, prefetched = given.reduce_bucket_size, given.stage3_prefetch_bucket_size
    threshold = given.stage3_param_persistence_threshold
    return ZeroBuffers(
        reduced=square if reduced == "auto" else reduced,
        prefetched=int(0.9 * square) if prefetched == "auto" else prefetched,
        live=given.stage3_max_live_parameters,
        persistence_threshold=10 * model.hidden_size if threshold == "auto" else threshold,
        contiguous=given.contiguous_gradients,
        overlapped=bool(given.overlap_comm),
        optimizer_on_host=given.offload_optimizer,
        parameters_on_host=given.offload_param,
    )


def _embedding_in_fp32(job: Job, engine: Engine) -> bool:
    """Whether bitsandbytes keeps the moments of embeddings in fp32. Trainer tells it to by the
    module, whose parameter DeepSpeed does not step. Source: transformers' trainer.py
    (create_optimizer), bitsandbytes' optim/optimizer.py (check_overrides).
    """
    given = job.training.optimizer.embedding_moments_in_fp32
    if not OPTIMIZERS[job.training.optimizer.name].of_bitsandbytes:
        return False
    if given is None:
        return isinstance(job.framework, Transformers) and engine != "deepspeed"
    return given


def _checkpointing(job: Job, gpu: TargetGpu) -> Checkpointing:
    given = job.training.recompute
    every = given.every_nth_layer
    if given.granularity == "full":
        return Checkpointing("layers", every, given.frozen_layers, given.use_reentrant)
    if given.granularity == "selective":
        again = _remakes_attention(job.framework, gpu)
        return Checkpointing("operations", every, given.frozen_layers, attention_again=again)
    return Checkpointing("none", 1)


def _remakes_attention(framework: Framework, gpu: TargetGpu) -> bool:
    """Sources: torchtitan's models/attention.py (has_cuda_capability(10, 0)) and models/*/infra/
    parallelize.py (_op_sac_save_list).
    """
    if not isinstance(framework, Torchtitan) or gpu.vendor == "amd":
        return False
    blackwell = gpu.compute_capability.startswith(("sm_10", "sm_11", "sm_12"))
    return framework.remake_attention == "always" or (
        framework.remake_attention == "on-blackwell" and blackwell
    )


def _is_fused(framework: Torchtitan | Transformers) -> bool:
    """Whether norms and activations are one kernel each: Liger's, or compiled ones."""
    return framework.compile or (isinstance(framework, Transformers) and framework.liger_kernel)


def _loss(
    job: Job,
) -> Literal["full", "fused", "chunked", "checkpointed", "with_head", "cut"]:
    """Liger's kernels bring their loss along, but a model that is asked without labels, by what
    reads log-probabilities, makes logits (liger_kernel/transformers/model/llama.py: lce_forward).
    """
    liger = isinstance(job.framework, Transformers) and job.framework.liger_kernel
    liger = liger and job.training.loss.objective not in ("preference", "policy")
    match job.training.loss.cross_entropy:
        case "chunked":
            return "chunked"
        case "chunked_nll":
            return "checkpointed"
        case "fused":
            return "fused"
        case "liger":
            return "with_head"
        case "cut":
            return "cut"
        case _:
            return "with_head" if liger else "full"


def _drops(given: float | None, framework: Torchtitan | Transformers, *, declared: bool) -> bool:
    """Whether something is dropped: transformers takes what the config says."""
    if given is not None:
        return given > 0
    return declared and isinstance(framework, Transformers)


def _check(job: Job, model: ModelSpec, layout: Layout, engine: Engine, findings: Findings) -> None:
    """What these frameworks do not run together."""
    framework = job.framework
    if isinstance(framework, Transformers) and layout.pipeline.pp > 1:
        pointer = "/parallelism/pp"
        message = "pp > 1 under transformers is not modelled"
        findings.add(pointer, "not_modelled", message, put(pointer, 1))
    if isinstance(framework, Transformers) and layout.ep > 1:
        check_expert_parallel(job, model, layout, engine, findings)
    if gathers_fp8(job.training.precision):
        _check_float8_gathering(job, layout, engine, findings)
    third = layout.sharding == "optim_grads_params"
    if engine == "deepspeed" and isinstance(framework, Transformers) and not third:
        _check_offload(framework, findings)
    if isinstance(framework, Transformers) and framework.offload_params:
        _check_fsdp_offload(layout, engine, findings)
    if layout.cp > 1 and isinstance(framework, Transformers):
        _check_context_parallel(job, model, layout, engine, findings)
    if engine == "deepspeed" and layout.tp > 1:
        check_auto_tp(job, model, layout, findings)
    check_virtual_tokens(job, model, layout, findings)
    check_decomposed(job, model, layout, findings)
    check_objective(job, layout, findings)
    if job.training.loss.cross_entropy == "chunked_nll":
        _check_chunked_nll(job, layout, findings)
    check_frozen(job, model, findings)
    if job.training.loss.shifted != "labels" and isinstance(framework, Torchtitan):
        pointer = "/training/loss/shifted"
        findings.add(pointer, "conflict", "torchtitan shifts labels", put(pointer, "labels"))
    if job.training.optimizer.in_backward and ((job.training.num_microbatches or 1) > 1):
        findings.add(
            "/training/optimizer/in_backward",
            "conflict",
            "a step in backward leaves no gradients to add up over micro-batches",
            put("/training/num_microbatches", 1),
        )


def _check_float8_gathering(job: Job, layout: Layout, engine: Engine, findings: Findings) -> None:
    """torchao gathers tensorwise scaled weights, under FSDP2. Source: torchao's float8/config.py
    (enable_fsdp_float8_all_gather).
    """
    pointer = "/training/precision/fp8_param_gather"
    precision = job.training.precision
    assert isinstance(precision, Precision)
    if precision.fp8_recipe != "tensorwise":
        message = "weights are gathered in fp8 where fp8_recipe is tensorwise"
        recipe = put("/training/precision/fp8_recipe", "tensorwise")
        findings.add(pointer, "conflict", message, recipe)
    if engine != "fsdp2" or layout.sharding == "no_shard":
        findings.add(pointer, "conflict", "FSDP2 gathers weights in fp8 only", put(pointer, False))


def _check_offload(framework: Transformers, findings: Findings) -> None:
    if framework.deepspeed.offload_param:
        findings.add(
            "/framework/deepspeed/offload_param",
            "conflict",
            "DeepSpeed offloads parameters in stage 3",
            put("/parallelism/data_parallel_sharding_strategy", "optim_grads_params"),
        )


def _check_fsdp_offload(layout: Layout, engine: Engine, findings: Findings) -> None:
    if engine not in ("fsdp1", "fsdp2") or layout.sharding != "optim_grads_params":
        pointer = "/framework/offload_params"
        findings.add(pointer, "conflict", "FSDP offloads what it shards", put(pointer, False))


def _check_context_parallel(
    job: Job, model: ModelSpec, layout: Layout, engine: Engine, findings: Findings
) -> None:
    """accelerate's is that of PyTorch, as torchtitan's: under FSDP2, by way of
    scaled_dot_product_attention, without a mask. Sources: accelerate's parallelism_config.py and
    big_modeling.py (_attach_context_parallel_hooks). Ulysses divides heads, whatever their kernel.
    """
    if job.parallelism.cp_comm_type == "a2a":
        _check_ulysses(model, layout, engine, findings)
        return
    if job.parallelism.cp_comm_type != "p2p":
        pointer = "/parallelism/cp_comm_type"
        message = "under transformers keys and values are passed round, or heads exchanged"
        findings.add(pointer, "conflict", message, put(pointer, "p2p"))
    if engine != "fsdp2":
        findings.add(
            "/parallelism/cp",
            "not_modelled",
            f"cp under {engine} is not modelled: accelerate has it under FSDP2",
            put("/parallelism/data_parallel_sharding_strategy", "optim_grads_params"),
        )
    if attention_backend(job, model) != "sdpa":
        pointer = "/training/attention/backend"
        message = "context parallelism passes keys and values round within sdpa only"
        findings.add(pointer, "conflict", message, put(pointer, "sdpa"))
    if any(isinstance(b, Attention) and b.window is not None for b in model.blocks):
        message = "accelerate's context parallelism has no windows: it drops every mask"
        findings.add("/parallelism/cp", "conflict", message, put("/parallelism/cp", 1))
    if any(isinstance(b, Recurrence) for b in model.blocks):
        message = "accelerate's context parallelism has no mixers that are linear in the sequence"
        findings.add("/parallelism/cp", "conflict", message, put("/parallelism/cp", 1))


def _check_ulysses(model: ModelSpec, layout: Layout, engine: Engine, findings: Findings) -> None:
    """Sources: verl's models/transformers/monkey_patch.py, deepspeed's
    runtime/sequence_parallel/ulysses_sp.py (UlyssesSPAttentionHF.register_with_transformers).
    """
    pointer = "/parallelism/cp"
    heads = {block.heads for block in model.blocks if isinstance(block, Attention)}
    if engine == "ddp":
        message = "heads are exchanged under FSDP and DeepSpeed"
        findings.add(pointer, "not_modelled", message, put(pointer, 1))
    if not all(isinstance(each, Attention | Mlp | Experts) for each in model.blocks):
        message = "heads are exchanged of softmax attention alone"
        findings.add(pointer, "not_modelled", message, put(pointer, 1))
    elif any(number % layout.cp for number in heads):
        message = f"{', '.join(map(str, sorted(heads)))} heads do not divide over cp = {layout.cp}"
        findings.add(pointer, "conflict", message, put(pointer, 1))


def _check_chunked_nll(job: Job, layout: Layout, findings: Findings) -> None:
    """TRL's loss reads the whole head, and has no part of a vocabulary."""
    pointer = "/training/loss/cross_entropy"
    if isinstance(job.framework, Torchtitan):
        message = "chunked_nll is TRL's, for models of transformers: torchtitan's is chunked"
        findings.add(pointer, "conflict", message, put(pointer, "chunked"))
    if layout.tp > 1:
        message = "chunked_nll with a head that tensor-parallel ranks share is not modelled"
        findings.add(pointer, "not_modelled", message, put(pointer, "unfused"))
