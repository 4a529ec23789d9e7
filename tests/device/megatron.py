"""Megatron-core trains a job on one GPU: its GPTModel of local layers, its gradient buffers, its
optimizer and its schedule, put together as megatron/training/training.py puts them together
(get_model, setup_model_and_optimizer, train_step of release 0.19).

Nothing of TransformerEngine or Apex is needed. Two of their parts have a stand-in: AdamW is
PyTorch's fused one, which keeps what their FusedAdam keeps and borrows as little, and clipping
multiplies one gradient after the other with a copy of each (megatron/core/utils.py,
local_multi_tensor_scale).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from tests.device.alone import expand_segments, stand_alone
from tests.device.asked import Asked, NotHonouredError
from tests.device.measuring import measured

SEED = 1234
BUCKET_ELEMENTS = 40_000_000
"""Of a gradient bucket where gradients are reduced during backward, up to 40 ranks."""
WITHOUT_TE = {"core_attn", "mlp", "moe", "shared_experts"}
"""Modules that are recomputed without TransformerEngine, which the others ask about fp8
(tensor_parallel/random.py, CheckpointWithoutOutputFunction) or whose experts it runs."""
GATED = {"swiglu": "silu", "geglu": "gelu"}


class Setup(NamedTuple):
    """What a job says, in megatron-core's own terms."""

    transformer: dict[str, Any]
    model: dict[str, Any]
    buffers: dict[str, Any]
    optimizer: dict[str, Any]
    micro_batch_size: int
    micro_batches: int
    sequence: int
    vocabulary: int
    sends_mask: bool
    expandable_segments: bool


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Trains the job and says what it took. Raises NotHonouredError for what does not run here."""
    setup = read(job)
    start_distributed()
    return measured(training_step(setup))


def start_distributed() -> None:
    """A process group of this process alone, by NCCL, on GPU 0."""
    stand_alone()
    # As Megatron-LM asks of everybody who overlaps communication.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")
    torch.cuda.set_device(0)
    torch.distributed.init_process_group("nccl", world_size=1, rank=0)


def read(job: dict[str, Any]) -> Setup:
    """The job in megatron-core's terms."""
    asked = Asked(job)
    _one_gpu(asked)
    transformer, model = _architecture(asked)
    training = {
        "micro_batch_size": asked.take("training.micro_batch_size", 1),
        "sequence": asked.take("training.seq_length", 4096),
    }
    micro_batches = asked.take("training.num_microbatches")
    samples = asked.take("training.global_batch_size")
    if micro_batches is None:
        micro_batches = 1 if samples is None else samples // training["micro_batch_size"]
    dtype, gradients_in_fp32 = _precision(asked)
    transformer |= {
        "bf16": dtype is torch.bfloat16,
        "params_dtype": dtype,
        "pipeline_dtype": dtype,
        "hidden_dropout": asked.take("training.hidden_dropout") or 0.0,
        "attention_dropout": asked.take("training.attention.dropout") or 0.0,
    }
    asked.require("training.attention.backend", "auto", "unfused", unset="auto")
    transformer |= _recompute(asked) | _loss(asked) | _experts(asked, transformer)
    transformer |= _framework(asked)
    sharded = _shards(asked)
    buffers = {
        "grad_reduce_in_fp32": gradients_in_fp32,
        "use_distributed_optimizer": sharded,
        "overlap_grad_reduce": asked.take("framework.overlap_grad_reduce", True),
        "pad_buckets_for_high_nccl_busbw": asked.take(
            "framework.pad_buckets_for_high_nccl_busbw", False
        ),
        "check_for_nan_in_grad": False,
    }
    if asked.take("framework.overlap_param_gather", True) and sharded:
        # It comes with hooks that gather what one rank has already.
        raise NotHonouredError("framework.overlap_param_gather: not with one rank")
    optimizer = _optimizer(asked) | {
        "bf16": dtype is torch.bfloat16,
        "params_dtype": dtype,
        "use_distributed_optimizer": sharded,
    }
    setup = Setup(
        transformer=transformer,
        model=model | {"max_sequence_length": model["max_sequence_length"] or training["sequence"]},
        buffers=buffers,
        optimizer=optimizer,
        micro_batches=micro_batches,
        vocabulary=asked.take("model.spec.vocab_size"),
        sends_mask=asked.take("framework.create_attention_mask_in_dataloader", False),
        expandable_segments=asked.take("framework.expandable_segments", False),
        **training,
    )
    padding = asked.take("framework.make_vocab_size_divisible_by", 128)
    setup.model["vocab_size"] = -(-setup.vocabulary // padding) * padding
    asked.nothing_left()
    return setup


def _one_gpu(asked: Asked) -> None:
    asked.require("framework.name", "megatron")
    asked.require("framework.transformer_impl", "local")
    for name in ("num_gpus", "tp", "pp", "vpp", "cp", "ep", "etp"):
        asked.require(f"parallelism.{name}", None, 1)
    asked.require("parallelism.sequence_parallel", None, False)


def _shards(asked: Asked) -> bool:
    """Whether the distributed optimizer holds the states, of one rank as it happens."""
    asked_for = asked.require("parallelism.use_distributed_optimizer", None, True, False)
    strategy = asked.require(
        "parallelism.data_parallel_sharding_strategy", None, "no_shard", "optim"
    )
    if asked_for is not None:
        return bool(asked_for)
    return bool(strategy != "no_shard")


def _architecture(asked: Asked) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of TransformerConfig and of GPTModel."""

    def spec(name: str, unset: Any = None) -> Any:
        return asked.take(f"model.spec.{name}", unset)

    spec("name")
    heads = spec("num_attention_heads")
    kind = spec("activation_func", "gelu")
    if spec("swiglu", False):
        kind = "swiglu"
    gated = spec("gated_linear_unit")
    activation = GATED.get(kind, kind)
    functions = {"silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu}
    if activation not in functions:
        raise NotHonouredError(f"model.spec.activation_func {kind!r}")
    positions = asked.require(
        "model.spec.position_embedding_type",
        *("learned_absolute", "rope", "none"),
        unset="learned_absolute",
    )
    transformer = {
        "num_layers": spec("num_layers"),
        "hidden_size": spec("hidden_size"),
        "ffn_hidden_size": spec("ffn_hidden_size"),
        "num_attention_heads": heads,
        "num_query_groups": spec("num_query_groups", heads),
        "kv_channels": spec("kv_channels"),
        "normalization": spec("normalization", "LayerNorm"),
        "activation_func": functions[activation],
        "gated_linear_unit": kind in GATED if gated is None else gated,
        "add_bias_linear": spec("add_bias_linear", True),
        "add_qkv_bias": spec("add_qkv_bias", False),
        "qk_layernorm": spec("qk_layernorm", False),
        "num_moe_experts": spec("num_moe_experts"),
    }
    if transformer["ffn_hidden_size"] is None:
        raise NotHonouredError("model.spec.ffn_hidden_size: to be said")
    model = {
        "share_embeddings_and_output_weights": not spec(
            "untie_embeddings_and_output_weights", False
        ),
        "position_embedding_type": positions,
        "max_sequence_length": spec("max_position_embeddings"),
    }
    return transformer, model


def _precision(asked: Asked) -> tuple[torch.dtype, bool]:
    """The type of weights and activations, and whether gradients are in fp32."""
    if not asked.has("training.precision"):
        preset = asked.require("training.precision", "bf16", "fp32", unset="bf16")
        return (torch.bfloat16 if preset == "bf16" else torch.float32), True
    params = asked.require("training.precision.params", "bf16", "fp32", unset="bf16")
    asked.require("training.precision.compute", params, unset="bf16")
    asked.require("training.precision.main_params", "fp32", unset="fp32")
    gradients = asked.require("training.precision.gradients", "fp32", params, unset="fp32")
    return (torch.bfloat16 if params == "bf16" else torch.float32), gradients == "fp32"


def _recompute(asked: Asked) -> dict[str, Any]:
    def recompute(name: str) -> Any:
        return asked.take(f"training.recompute.{name}")

    granularity, method = recompute("granularity"), recompute("method")
    layers, modules = recompute("num_layers"), recompute("modules")
    if granularity == "full":
        return {
            "recompute_granularity": "full",
            "recompute_method": method or "uniform",
            "recompute_num_layers": layers or 1,
        }
    if granularity == "selective":
        modules = list(modules or ["core_attn"])
        if not set(modules) <= WITHOUT_TE:
            raise NotHonouredError(f"training.recompute.modules {modules}: only {WITHOUT_TE}")
        return {"recompute_granularity": "selective", "recompute_modules": modules}
    return {}


def _loss(asked: Asked) -> dict[str, Any]:
    asked.require("training.loss.objective", "next_token", unset="next_token")
    kind = asked.require("training.loss.cross_entropy", "unfused", "native_fused", unset="unfused")
    if kind == "unfused":
        return {"cross_entropy_loss_fusion": False}
    return {"cross_entropy_loss_fusion": True, "cross_entropy_fusion_impl": "native"}


def _experts(asked: Asked, transformer: dict[str, Any]) -> dict[str, Any]:
    """What a mixture of experts has: one expert after the other, tokens permuted by PyTorch."""
    if transformer["num_moe_experts"] is None:
        return {}

    def spec(name: str, unset: Any = None) -> Any:
        return asked.take(f"model.spec.{name}", unset)

    asked.require("training.moe.grouped_gemm", False, unset=True)
    asked.require("training.moe.permute_fusion", False, unset=True)
    asked.require("training.moe.imbalance_factor", 1, unset=1)
    router_dtype = asked.require("training.moe.router_dtype", None, "fp32")
    frequency = spec("moe_layer_freq", 1)
    return {
        "moe_router_topk": spec("moe_router_topk", 2),
        "moe_ffn_hidden_size": spec("moe_ffn_hidden_size", transformer["ffn_hidden_size"]),
        "moe_layer_freq": frequency if isinstance(frequency, int) else list(frequency),
        "moe_shared_expert_intermediate_size": spec("moe_shared_expert_intermediate_size"),
        "moe_shared_expert_gate": spec("moe_shared_expert_gate", False),
        "moe_token_dispatcher_type": asked.require(
            "training.moe.token_dispatcher_type", "alltoall", "allgather", unset="alltoall"
        ),
        "moe_router_force_load_balancing": asked.take(
            "training.moe.router_force_load_balancing", False
        ),
        "moe_router_dtype": router_dtype,
        "moe_router_load_balancing_type": "none",
        "moe_grouped_gemm": False,
        "moe_permute_fusion": False,
    }


def _framework(asked: Asked) -> dict[str, Any]:
    asked.require("framework.gradient_accumulation_fusion", False, unset=True)
    graphs = asked.require(
        "framework.cuda_graph_impl", "none", "local", "full_iteration", unset="none"
    )
    scope = asked.take("framework.cuda_graph_scope", [])
    asked.take("framework.deallocate_pipeline_outputs", True)  # Of one stage there are none.
    return {
        "gradient_accumulation_fusion": False,
        "bias_activation_fusion": asked.take("framework.bias_activation_fusion", True),
        "bias_dropout_fusion": True,
        "masked_softmax_fusion": False,
        "persist_layer_norm": False,
        "apply_rope_fusion": False,
        "attention_softmax_in_fp32": False,
        "deallocate_pipeline_outputs": True,
        "batch_p2p_comm": False,
        "transformer_impl": "local",
        "cuda_graph_impl": graphs,
        "cuda_graph_modules": list(scope),
    }


def _optimizer(asked: Asked) -> dict[str, Any]:
    asked.require("training.optimizer.name", "adam", unset="adam")
    for name in ("exp_avg_dtype", "exp_avg_sq_dtype"):
        asked.require(f"training.optimizer.{name}", None, "fp32")
    asked.require("training.optimizer.precision_aware", None, False)
    return {"optimizer": "adam", "lr": 1e-5, "weight_decay": 0.1, "clip_grad": 1.0}


def training_step(setup: Setup) -> Callable[[], object]:
    """Builds model, buffers and optimizer, and returns what trains one step of them."""
    if setup.expandable_segments:
        expand_segments()

    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.distributed import finalize_model_grads
    from megatron.core.full_cuda_graph import FullCudaGraphWrapper
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.rerun_state_machine import RerunMode, initialize_rerun_state_machine

    parallel_state.initialize_model_parallel(create_gloo_process_groups=False)
    tensor_parallel.model_parallel_cuda_manual_seed(
        SEED, use_cudagraphable_rng=setup.transformer["cuda_graph_impl"] != "none"
    )
    initialize_rerun_state_machine(mode=RerunMode.DISABLED)
    model = wrapped_model(setup)
    optimizer = fused_optimizer(setup, model)
    config = model.config
    config.grad_scale_func = optimizer.scale_loss
    config.finalize_model_grads_func = finalize_model_grads
    if setup.buffers["overlap_grad_reduce"]:
        config.no_sync_func = model.no_sync
    schedule = get_forward_backward_func()
    if config.cuda_graph_impl == "full_iteration":
        schedule = FullCudaGraphWrapper(schedule, cuda_graph_warmup_steps=1)
    batches = random_batches(setup)

    def step() -> object:
        model.zero_grad_buffer()
        optimizer.zero_grad()
        losses = schedule(
            forward_step_func=forward_step,
            data_iterator=batches,
            model=[model],
            num_microbatches=setup.micro_batches,
            seq_length=setup.sequence,
            micro_batch_size=setup.micro_batch_size,
            decoder_seq_length=None,
            forward_only=False,
        )
        optimizer.step()
        return losses

    return step


def wrapped_model(setup: Setup) -> Any:
    """GPTModel in its type of weights, within DistributedDataParallel's buffers."""
    from megatron.core import tensor_parallel
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.full_cuda_graph import get_shared_capture_stream
    from megatron.core.models.gpt.gpt_layer_specs import (
        get_gpt_decoder_block_spec,
        get_gpt_layer_local_spec,
    )
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
    from megatron.core.transformer.module import Float16Module
    from megatron.core.transformer.transformer_config import TransformerConfig

    config = TransformerConfig(**setup.transformer)
    if config.num_moe_experts:
        layers = get_gpt_decoder_block_spec(
            config, use_transformer_engine=False, normalization=config.normalization
        )
    else:
        layers = get_gpt_layer_local_spec(
            qk_layernorm=config.qk_layernorm, normalization=config.normalization
        )
    model = GPTModel(config=config, transformer_layer_spec=layers, **setup.model)
    for parameter in model.parameters():
        tensor_parallel.set_defaults_if_not_set_tensor_model_parallel_attributes(parameter)
    model.cuda(torch.cuda.current_device())
    if config.bf16:
        model = Float16Module(config, model)
    buffers = DistributedDataParallelConfig(**setup.buffers)
    buffers.bucket_size = BUCKET_ELEMENTS if buffers.overlap_grad_reduce else None
    full = config.cuda_graph_impl == "full_iteration"
    stream = get_shared_capture_stream() if full else torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    layout = {}
    if buffers.use_distributed_optimizer:
        parameters = [each for each in model.parameters() if each.requires_grad]
        layout["full_param_layout"] = DistributedOptimizer.compute_full_param_layout(
            parameters, buffers.bucket_size, 1, buffers, expert_data_parallel_world_size=1
        )
    with torch.cuda.stream(stream):
        model = DistributedDataParallel(
            config=config, ddp_config=buffers, module=model, disable_bucketing=False, **layout
        )
    torch.cuda.current_stream().wait_stream(stream)
    model.train()
    return model


def fused_optimizer(setup: Setup, model: Any) -> Any:
    """Megatron's optimizer around PyTorch's fused AdamW."""
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    optimizer = get_megatron_optimizer(
        OptimizerConfig(**setup.optimizer), [model], use_gloo_process_groups=False
    )
    for each in optimizer.chained_optimizers:
        for group in each.optimizer.param_groups:
            group.update(fused=True, foreach=False)
    return optimizer


def random_batches(setup: Setup) -> Iterator[dict[str, Any]]:
    """Micro-batches of random tokens, copied to the GPU as get_batch copies what a loader has."""
    shape = setup.micro_batch_size, setup.sequence
    generator = torch.Generator().manual_seed(SEED)
    later = torch.ones(1, 1, setup.sequence, setup.sequence, dtype=torch.bool).triu(1)
    mask = later.expand(setup.micro_batch_size, -1, -1, -1).contiguous()
    positions = torch.arange(setup.sequence).expand(shape).contiguous()
    while True:
        tokens = torch.randint(
            setup.vocabulary, (shape[0], shape[1] + 1), generator=generator, dtype=torch.int64
        )
        yield {
            "tokens": tokens[:, :-1].contiguous().cuda(),
            "labels": tokens[:, 1:].contiguous().cuda(),
            "loss_mask": torch.ones(shape).cuda(),
            "position_ids": positions.cuda(),
            "attention_mask": mask.cuda() if setup.sends_mask else None,
        }


def forward_step(batches: Iterator[dict[str, Any]], model: Any) -> tuple[Any, Any]:
    """As pretrain_gpt.py's."""
    batch = next(batches)
    mask = batch["loss_mask"]

    def loss_func(output: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
        weights = mask.view(-1).float()
        loss = torch.sum(output.view(-1).float() * weights)
        count = weights.sum().clone().detach().to(torch.int)
        return loss, count, {"lm loss": torch.cat([loss.clone().detach().view(1), count.view(1)])}

    output = model(
        batch["tokens"],
        batch["position_ids"],
        batch["attention_mask"],
        labels=batch["labels"],
        loss_mask=mask,
    )
    return output, loss_func
