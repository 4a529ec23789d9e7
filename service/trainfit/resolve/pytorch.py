"""Precision, optimizer, sharding and checkpointing of a step under torchtitan or transformers."""

from fractions import Fraction
from typing import Literal, NamedTuple

from trainfit.resolve.auto_tp import check_auto_tp
from trainfit.resolve.expert_parallel import check_expert_parallel
from trainfit.resolve.findings import Findings, put
from trainfit.resolve.plan import (
    Adapters,
    Checkpointing,
    DataParallelism,
    Engine,
    Layout,
    OptimizerStep,
    PytorchStates,
    PytorchStep,
    VirtualTokens,
    ZeroBuffers,
)
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Experts, Layer, Recurrence
from trainfit.specs.framework import DeepSpeed, Torchtitan, Transformers
from trainfit.specs.job import Job
from trainfit.specs.training import (
    BaseDtype,
    FrozenBase,
    Lora,
    Optimizer,
    Peft,
    Precision,
    PrecisionPreset,
    PrefixTuning,
    PromptTuning,
    PTuning,
    Training,
)

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}


class Dtypes(NamedTuple):
    """Bytes of an element: of stored weights, of gathered ones and activations, and of gradients
    while they are reduced. `autocast` narrows the inputs of matrix products only. Where a forward
    narrows what it reads, `base` is how weights that are not trained are stored.
    """

    stored: int
    computed: int
    reduced: int
    autocast: bool
    master: int = 0
    base: BaseDtype | None = None


def resolve_pytorch_step(
    job: Job, model: ModelSpec, layout: Layout, findings: Findings
) -> PytorchStep:
    """The step, with everything that does not hold together added to the findings."""
    assert isinstance(job.framework, Torchtitan | Transformers)
    framework, training = job.framework, job.training
    engine = _engine(framework, layout, findings)
    dtypes = _with_base(_dtypes(job, engine, layout), training.peft, findings)
    adapters = _adapters(training.peft, dtypes, model) if training.peft is not None else None
    _check(job, model, layout, engine, findings)
    return PytorchStep(
        activation_bytes=dtypes.computed,
        residual_bytes=dtypes.stored if dtypes.autocast else dtypes.computed,
        half=_computes_in_half(training.precision),
        autocast=dtypes.autocast,
        states=_states(
            dtypes, training.optimizer, adapters, in_fp8=_gathers_fp8(training.precision)
        ),
        optimizer=OptimizerStep(
            training.optimizer.name,
            training.optimizer.implementation,
            training.optimizer.in_backward,
            training.optimizer.paged,
        ),
        data_parallelism=_data_parallelism(framework, engine, layout, model),
        checkpointing=_checkpointing(job),
        offload_activations=training.offload_activations,
        adapters=adapters,
        frozen=_frozen(training),
        kernels="fused" if _is_fused(framework) else "eager",
        compiled=framework.compile,
        float8=_is_float8(training.precision),
        repeats_kv=training.attention.repeats_kv,
        attention_backend=attention_backend(job, model),
        attention_dropout=_drops(
            training.attention.dropout, framework, declared=model.traits.attention_dropout
        ),
        hidden_dropout=_drops(
            training.hidden_dropout, framework, declared=model.traits.hidden_dropout
        ),
        cross_entropy=_loss(job),
        loss_chunks=training.loss.num_chunks,
        logits_kept=min(training.loss.logits_to_keep or 0, training.seq_length),
        loss_parallel=framework.loss_parallel and layout.tp > 1 and engine != "deepspeed",
    )


def attention_backend(job: Job, model: ModelSpec) -> Literal["flash", "sdpa", "eager"]:
    """torch's scaled_dot_product_attention, unless something else is asked for. It has no soft
    caps: transformers falls back to its eager attention for them.
    """
    backend = job.training.attention.backend
    if backend == "auto":
        return "eager" if model.traits.attention_softcap else "sdpa"
    assert backend in ("flash", "sdpa", "eager")
    return backend


def _engine(framework: Torchtitan | Transformers, layout: Layout, findings: Findings) -> Engine:
    """ddp where nothing is shared out, else FSDP, or what the job names."""
    named = framework.data_parallel_engine if isinstance(framework, Transformers) else None
    if named is None:
        return "ddp" if layout.sharding == "no_shard" else "fsdp2"
    pointer = "/framework/data_parallel_engine"
    if named == "ddp" and layout.sharding != "no_shard":
        findings.add(pointer, "conflict", "DDP shares nothing out", put(pointer, "fsdp2"))
    if named in ("fsdp1", "fsdp2") and layout.sharding == "optim":
        message = f"{named} shares out gradients as well"
        strategy = "/parallelism/data_parallel_sharding_strategy"
        findings.add(strategy, "conflict", message, put(strategy, "optim_grads"))
    return named


def _dtypes(job: Job, engine: Engine, layout: Layout) -> Dtypes:
    """What a preset means to the framework.

    torchtitan gathers fp32 weights in bf16 and reduces in fp32 (config: mixed_precision_param and
    mixed_precision_reduce). accelerate does the same under FSDP but reduces in bf16, and casts
    automatically where nothing is gathered. DeepSpeed keeps bf16 weights beside fp32 masters.
    """
    given = job.training.precision
    if isinstance(given, Precision):
        return _given_dtypes(given, engine, layout)
    sharded = layout.sharding != "no_shard"
    if given == "fp32":
        return Dtypes(4, 4, 4, False)
    if given == "bf16-pure":
        return Dtypes(2, 2, 2, False)
    if engine == "deepspeed":
        return Dtypes(2, 2, 2, False, 4)
    if given == "autocast-bf16" or not sharded:
        return Dtypes(4, 2, 4, True)
    wide = isinstance(job.framework, Torchtitan) or layout.ep > 1
    return Dtypes(4, 2, 4 if wide else 2, False)


def _computes_in_half(precision: PrecisionPreset | Precision) -> bool:
    return (precision.compute if isinstance(precision, Precision) else precision) == "fp16"


def _with_base(dtypes: Dtypes, peft: Peft | None, findings: Findings) -> Dtypes:
    """Mixed precision leaves stored weights as they are: those of a frozen base may be narrow
    already, and where adapters are so too, autocast finds nothing to narrow.
    """
    if peft is None:
        return dtypes
    if dtypes.autocast or dtypes.computed < dtypes.stored:
        base = base_dtype(peft, autocast=dtypes.autocast)
        own = peft.adapter_dtype if isinstance(peft, Lora) else None
        widest = max(BYTES[base], BYTES[own or "fp32"])
        autocast = dtypes.autocast and widest > dtypes.computed
        return dtypes._replace(stored=BYTES[base], autocast=autocast, base=base)
    if peft.base_dtype is not None:
        pointer = "/training/peft/base_dtype"
        message = "without mixed precision it is precision that says how the base is stored"
        findings.add(pointer, "conflict", message, put(pointer, None))
    return dtypes


def base_dtype(peft: Peft, *, autocast: bool) -> BaseDtype:
    """How what is not quantised of a frozen base is stored under mixed precision."""
    if peft.base_dtype is not None:
        return peft.base_dtype
    return "bf16" if peft.quantization is None and autocast else "fp32"


def _given_dtypes(given: Precision, engine: Engine, layout: Layout) -> Dtypes:
    stored, computed = BYTES[given.params], BYTES[given.compute]
    master = BYTES[given.main_params] if engine == "deepspeed" and given.params != "fp32" else 0
    gathers = engine in ("fsdp1", "fsdp2") and layout.sharding != "no_shard"
    autocast = stored > computed and not gathers
    return Dtypes(stored, computed, BYTES[given.gradients], autocast, master)


MOMENT_TENSORS = {"adam": 2, "adamw8bit": 0, "adafactor": 0, "lion": 1, "muon": 2, "sgd": 0}
QUANTISED_MOMENTS = 2 * (1 + Fraction(4, 256))
"""bitsandbytes' 8-bit Adam: two bytes and two fp32 scales for 256 elements."""


def _is_float8(given: PrecisionPreset | Precision) -> bool:
    return given == "fp8" if isinstance(given, str) else given.fp8_recipe is not None


def _gathers_fp8(given: PrecisionPreset | Precision) -> bool:
    return isinstance(given, Precision) and given.fp8_param_gather


def _states(
    dtypes: Dtypes, optimizer: Optimizer, adapters: Adapters | None, *, in_fp8: bool
) -> PytorchStates:
    """Gradients and moments are as wide as the parameters that are stepped; Muon keeps one of
    matrices.

    Adafactor keeps a row and a column of each matrix, which is next to nothing.
    """
    stepped = adapters.element_bytes if adapters is not None else dtypes.stored
    own = dtypes.master or stepped
    first, second = (
        BYTES.get(dtype or "", own)
        for dtype in (optimizer.exp_avg_dtype, optimizer.exp_avg_sq_dtype)
    )
    moments = Fraction({2: first + second, 1: first, 0: 0}[MOMENT_TENSORS[optimizer.name]])
    if optimizer.name == "adamw8bit":
        moments = QUANTISED_MOMENTS
    if optimizer.name == "sgd" and optimizer.momentum:
        moments = Fraction(first)
    gathers = dtypes.computed if not dtypes.autocast else dtypes.stored
    return PytorchStates(
        parameters=dtypes.stored,
        gathered=gathers,
        gathered_matrices=1 if in_fp8 else gathers,
        gradients=stepped,
        reduced=dtypes.reduced,
        master=dtypes.master,
        moments=moments,
        matrix_moments=Fraction(first) if optimizer.name == "muon" else moments,
    )


def _data_parallelism(
    framework: Torchtitan | Transformers, engine: Engine, layout: Layout, model: ModelSpec
) -> DataParallelism:
    keeps = layout.sharding == "optim_grads"
    if isinstance(framework, Torchtitan):
        wanted = framework.fsdp_reshard_after_forward
        reshards = wanted == "always" or (wanted == "default" and layout.pp == 1)
        return DataParallelism(
            engine,
            reshard_after_forward=reshards and not keeps,
            sync_each_micro_batch=layout.pp == 1,
            gradient_as_bucket_view=False,
            embedding_and_head_apart=framework.shard_embedding_and_head_apart
            and not model.output_layer.tied,
        )
    return DataParallelism(
        engine,
        reshard_after_forward=framework.reshard_after_forward and not keeps,
        sync_each_micro_batch=framework.sync_each_micro_batch,
        gradient_as_bucket_view=framework.gradient_as_bucket_view,
        embedding_and_head_apart=layout.ep > 1 and not model.output_layer.tied,
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


def _checkpointing(job: Job) -> Checkpointing:
    given = job.training.recompute
    every = given.every_nth_layer
    if given.granularity == "full":
        return Checkpointing("layers", every, given.frozen_layers)
    if given.granularity == "selective":
        return Checkpointing("operations", every, given.frozen_layers)
    return Checkpointing("none", 1)


def _adapters(peft: Peft, dtypes: Dtypes, model: ModelSpec) -> Adapters:
    """PEFT casts adapters of a narrow model to fp32, and has virtual tokens in nothing else.
    Sources: peft's tuners_utils.py (autocast_adapter_dtype) and tuners/prompt_tuning/model.py.
    """
    lora = peft if isinstance(peft, Lora) else Lora(method="lora", target_modules=())
    stored = BYTES[lora.adapter_dtype or "fp32"]
    all_linear = lora.target_modules == "all-linear"
    return Adapters(
        rank=lora.r,
        dropout=lora.dropout > 0,
        targets=None if all_linear else frozenset(lora.target_modules),
        element_bytes=stored,
        computed_bytes=_narrowed(stored, dtypes),
        matrix_bytes=_frozen_bytes(peft, dtypes),
        saved=frozenset(lora.modules_to_save),
        base_dtype=dtypes.base,
        virtual=_virtual_tokens(peft, model),
    )


def _virtual_tokens(peft: Peft, model: ModelSpec) -> VirtualTokens | None:
    """Source of the widths: peft's utils/other.py (_prepare_prompt_learning_config)."""
    if isinstance(peft, Lora):
        return None
    count, width = peft.num_virtual_tokens, model.hidden_size
    match peft:
        case PromptTuning():
            return VirtualTokens(count, "embeddings", width, 0, 0)
        case PTuning(encoder_reparameterization_type="LSTM"):
            encoder = peft.encoder_hidden_size or width
            return VirtualTokens(count, "lstm", width, encoder, peft.encoder_num_layers)
        case PTuning():
            return VirtualTokens(count, "mlp", width, peft.encoder_hidden_size or width, 0)
    width = max(_key_widths(model.layer_kinds[model.pattern[0]]), default=0)
    if peft.prefix_projection:
        encoder = peft.encoder_hidden_size or width
        return VirtualTokens(count, "projected_keys_and_values", width, encoder, 0)
    return VirtualTokens(count, "keys_and_values", width, 0, 0)


def _key_widths(layer: Layer) -> tuple[int, ...]:
    """g d of each block of a layer that has keys of its own, and values as wide."""
    blocks = [block for sublayer in layer.sublayers for block in sublayer.blocks]
    return tuple(
        block.kv_heads * block.head_dim
        for block in blocks
        if isinstance(block, Attention)
        and block.owns_kv
        and block.v_head_dim in (None, block.head_dim)
    )


def _narrowed(stored: int, dtypes: Dtypes) -> int:
    """Bytes of an element of an adapter as a forward reads it."""
    return stored if dtypes.base is None else dtypes.computed


def _frozen_bytes(peft: FrozenBase, dtypes: Dtypes) -> Fraction:
    """Bytes of an element of a frozen matrix. Source: bitsandbytes' functional.py (blocks of 64,
    double quantisation).
    """
    if peft.quantization == "int8":
        return Fraction(1)
    if peft.quantization == "nf4":
        scales = Fraction(1, 64) + Fraction(4, 16_384)
        return Fraction(1, 2) + (scales if peft.double_quantization else Fraction(4, 64))
    return Fraction(dtypes.stored)


def _is_fused(framework: Torchtitan | Transformers) -> bool:
    """Whether norms and activations are one kernel each: Liger's, or compiled ones."""
    return framework.compile or (isinstance(framework, Transformers) and framework.liger_kernel)


def _loss(job: Job) -> Literal["full", "fused", "chunked", "checkpointed", "with_head"]:
    """Liger's kernels bring their loss along."""
    liger = isinstance(job.framework, Transformers) and job.framework.liger_kernel
    match job.training.loss.cross_entropy:
        case "chunked":
            return "chunked"
        case "chunked_nll":
            return "checkpointed"
        case "fused":
            return "fused"
        case "liger":
            return "with_head"
        case _:
            return "with_head" if liger else "full"


def _drops(given: float | None, framework: Torchtitan | Transformers, *, declared: bool) -> bool:
    """Whether something is dropped: transformers takes what the config says."""
    if given is not None:
        return given > 0
    return declared and isinstance(framework, Transformers)


FREEZABLE = (
    "embed_tokens",
    "lm_head",
    "norm",
    "final_norm",
    "router",
    "vision_tower",
    "multi_modal_projector",
    "language_model",
)
"""Modules that can be frozen by themselves. For all but adapters there is peft."""
TOWERS = frozenset({"vision_tower", "multi_modal_projector"})
"""What feeds a language model."""
OF_LANGUAGE_MODEL = frozenset({"embed_tokens", "lm_head", "norm"})
"""What a language model has besides layers."""


def _frozen(training: Training) -> frozenset[str]:
    frozen = frozenset(training.frozen)
    return frozen | OF_LANGUAGE_MODEL if "language_model" in frozen else frozen


def with_frozen_layers(model: ModelSpec, training: Training) -> ModelSpec:
    """The model, layers that are not trained of kinds of their own."""
    total = model.num_layers
    first, last = training.num_frozen_layers, training.num_frozen_last_layers
    whole = "language_model" in training.frozen
    still = {i for i in range(total) if whole or i < first or i >= total - last}
    if not still:
        return model
    found = sorted({model.pattern[i] for i in still})
    frozen = {kind: len(model.layer_kinds) + index for index, kind in enumerate(found)}
    kinds = (*model.layer_kinds, *(_frozen_layer(model.layer_kinds[kind]) for kind in found))
    pattern = tuple(frozen[kind] if i in still else kind for i, kind in enumerate(model.pattern))
    return model.model_copy(update={"layer_kinds": kinds, "pattern": pattern})


def _frozen_layer(layer: Layer) -> Layer:
    sublayers = [each.model_copy(update={"trainable": False}) for each in layer.sublayers]
    return layer.model_copy(update={"sublayers": tuple(sublayers)})


def _check(job: Job, model: ModelSpec, layout: Layout, engine: Engine, findings: Findings) -> None:
    """What these frameworks do not run together."""
    framework = job.framework
    if isinstance(framework, Transformers) and layout.pp > 1:
        pointer = "/parallelism/pp"
        message = "pp > 1 under transformers is not modelled"
        findings.add(pointer, "not_modelled", message, put(pointer, 1))
    if isinstance(framework, Transformers) and layout.ep > 1:
        check_expert_parallel(job, model, layout, engine, findings)
    if _gathers_fp8(job.training.precision):
        _check_float8_gathering(job, layout, engine, findings)
    third = layout.sharding == "optim_grads_params"
    if engine == "deepspeed" and isinstance(framework, Transformers) and not third:
        _check_offload(framework, findings)
    if layout.cp > 1 and isinstance(framework, Transformers):
        _check_context_parallel(job, model, engine, findings)
    if engine == "deepspeed" and layout.tp > 1:
        check_auto_tp(job, model, layout, findings)
    _check_virtual_tokens(job, model, layout, findings)
    if job.training.loss.cross_entropy == "chunked_nll":
        _check_chunked_nll(job, layout, findings)
    for name in job.training.frozen:
        if name not in FREEZABLE:
            known = ", ".join(FREEZABLE)
            findings.add(
                "/training/frozen", "not_modelled", f"modules that can be frozen are {known}"
            )
            break
    _check_frozen(job, model, findings)
    _check_frozen_layers(job, model, findings)
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


def _check_context_parallel(job: Job, model: ModelSpec, engine: Engine, findings: Findings) -> None:
    """accelerate's is that of PyTorch, as torchtitan's: under FSDP2, by way of
    scaled_dot_product_attention, without a mask. Sources: accelerate's parallelism_config.py and
    big_modeling.py (_attach_context_parallel_hooks).
    """
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
    blocks = [b for kind in model.layer_kinds for s in kind.sublayers for b in s.blocks]
    if any(isinstance(b, Attention) and b.window is not None for b in blocks):
        message = "accelerate's context parallelism has no windows: it drops every mask"
        findings.add("/parallelism/cp", "conflict", message, put("/parallelism/cp", 1))
    if any(isinstance(b, Recurrence) for b in blocks):
        message = "accelerate's context parallelism has no mixers that are linear in the sequence"
        findings.add("/parallelism/cp", "conflict", message, put("/parallelism/cp", 1))


def _check_virtual_tokens(job: Job, model: ModelSpec, layout: Layout, findings: Findings) -> None:
    """PEFT puts them before samples that no rank shares with another."""
    peft = job.training.peft
    if peft is None or isinstance(peft, Lora):
        return
    if isinstance(job.framework, Torchtitan):
        findings.add(
            "/framework/name",
            "conflict",
            f"{peft.method} is PEFT's, for models of transformers",
            put("/framework", {"name": "transformers"}),
        )
    for name in ("tp", "cp"):
        if getattr(layout, name) > 1:
            pointer = f"/parallelism/{name}"
            message = f"{name} with {peft.method} is not modelled"
            findings.add(pointer, "not_modelled", message, put(pointer, 1))
    if isinstance(peft, PrefixTuning):
        _check_prefix(job, model, findings)
    lstm = isinstance(peft, PTuning) and peft.encoder_reparameterization_type == "LSTM"
    if lstm and layout.sharding == "optim_grads_params":
        pointer = "/training/peft/encoder_reparameterization_type"
        message = "an LSTM whose weights are shared out is not modelled"
        findings.add(pointer, "not_modelled", message, put(pointer, "MLP"))


def _check_prefix(job: Job, model: ModelSpec, findings: Findings) -> None:
    """Keys and values go to a cache, which a forward that runs again would fill twice, and are as
    wide in every layer. Source: peft's peft_model.py (_setup_prompt_encoder, get_prompt).
    """
    pointer = "/training/recompute/granularity"
    if job.training.recompute.granularity is not None:
        message = "PEFT has no prefix tuning where activations are recomputed"
        findings.add(pointer, "conflict", message, put(pointer, None))
    (width, *others) = {_key_widths(model.layer_kinds[kind]) for kind in model.pattern}
    if others or len(width) != 1:
        message = "prefix tuning goes with models whose layers have keys and values of one width"
        findings.add("/training/peft/method", "conflict", message)


def _check_chunked_nll(job: Job, layout: Layout, findings: Findings) -> None:
    """TRL's loss reads the whole head, and has no part of a vocabulary."""
    pointer = "/training/loss/cross_entropy"
    if isinstance(job.framework, Torchtitan):
        message = "chunked_nll is TRL's, for models of transformers: torchtitan's is chunked"
        findings.add(pointer, "conflict", message, put(pointer, "chunked"))
    if layout.tp > 1:
        message = "chunked_nll with a head that tensor-parallel ranks share is not modelled"
        findings.add(pointer, "not_modelled", message, put(pointer, "unfused"))


def _check_frozen(job: Job, model: ModelSpec, findings: Findings) -> None:
    """What a model has of its own that can be frozen, and what is left to train."""
    pointer, named = "/training/frozen", frozenset(job.training.frozen)
    if (alone := named & TOWERS) and not model.encoder_parameters:
        message = f"the model has no {', '.join(sorted(alone))}"
        findings.add(pointer, "conflict", message)
    elif len(alone) == 1 and model.projector_parameters is None:
        message = f"of this model only {' and '.join(sorted(TOWERS))} together can be frozen"
        findings.add(pointer, "not_modelled", message, put(pointer, sorted(named | TOWERS)))
    if "language_model" in named and (alone == TOWERS or not model.encoder_parameters):
        findings.add(pointer, "conflict", "nothing is left that is trained")
    if "router" in named and not any(map(_has_experts, model.layer_kinds)):
        findings.add(pointer, "conflict", "the model has no router")


def _has_experts(layer: Layer) -> bool:
    return any(isinstance(b, Experts) for sublayer in layer.sublayers for b in sublayer.blocks)


def _check_frozen_layers(job: Job, model: ModelSpec, findings: Findings) -> None:
    first, last = job.training.num_frozen_layers, job.training.num_frozen_last_layers
    for name, count in (("num_frozen_layers", first), ("num_frozen_last_layers", last)):
        pointer = f"/training/{name}"
        if count > model.num_layers:
            message = f"the model has {model.num_layers} layers"
            findings.add(pointer, "too_many_layers", message, put(pointer, model.num_layers))
        if count and job.training.peft is not None:
            message = "adapters freeze every layer themselves"
            findings.add(pointer, "conflict", message, put(pointer, 0))
