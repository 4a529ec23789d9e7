"""torchtitan 0.2 trains a Llama of these sizes on one GPU by its own Trainer: its model, its way to
parallelise, its loss, its optimizers and its train_step. Random tokens stand for a data set.

On one GPU torchtitan shards nothing: weights in fp32, matrix products narrowed by autocast
(distributed/utils.py, maybe_enable_amp), which is what `no_shard` asks. Any other sharding strategy
is fully_shard over one rank, which torchtitan has from two on: it is told that it is enabled.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import torch

from tests.device.alone import expand_segments, stand_alone
from tests.device.asked import Asked, NotHonouredError
from tests.device.measuring import measured

SEED = 1234
NAME = "as-asked"
BY_FLOAT8 = "quantize.linear.float8"


class Setup(NamedTuple):
    """What a job says, in torchtitan's own terms: fields of its sections of JobConfig."""

    architecture: dict[str, Any]
    sections: dict[str, dict[str, Any]]
    converters: tuple[str, ...]
    float8_recipe: str | None
    fully_sharded: bool
    expandable_segments: bool


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Trains the job and says what it took. Raises NotHonouredError for what does not run here."""
    setup = read(job)
    stand_alone()  # The process group is torchtitan's to make.
    return measured(training_step(setup))


def read(job: dict[str, Any]) -> Setup:
    """The job in torchtitan's terms."""
    asked = Asked(job)
    asked.require("framework.name", "torchtitan")
    for name in ("num_gpus", "tp", "pp", "vpp", "cp", "ep", "etp", "data_parallel_replicate_size"):
        asked.require(f"parallelism.{name}", None, 1)
    asked.require("parallelism.sequence_parallel", None, False)
    sharding = asked.require(
        "parallelism.data_parallel_sharding_strategy",
        *("optim_grads_params", "no_shard"),
        unset="optim_grads_params",
    )
    architecture = _architecture(asked)
    samples = asked.take("training.micro_batch_size", 1)
    micro_batches = asked.take("training.num_microbatches")
    whole = asked.take("training.global_batch_size")
    if micro_batches is None:
        micro_batches = 1 if whole is None else whole // samples
    dtype, recipe = _precision(asked)
    compiled = asked.take("framework.compile", False)
    loss = asked.require("training.loss.cross_entropy", "unfused", "fused", unset="unfused")
    if loss == "fused" and not compiled:
        raise NotHonouredError("training.loss.cross_entropy fused: a compiled loss, with compile")
    asked.require("training.optimizer.name", "adam", unset="adam")
    asked.require("training.attention.backend", "auto", "sdpa", unset="auto")
    asked.require("training.attention.dropout", None, 0, 0.0)
    asked.require("training.hidden_dropout", None, 0, 0.0)
    asked.require("framework.shard_embedding_and_head_apart", True, unset=True)
    asked.require("framework.fuse_qkv", False, unset=False)
    asked.require("framework.collect_outputs", False, unset=False)
    asked.take("framework.loss_parallel", True)  # Of one rank.
    sections = {
        "training": {
            "local_batch_size": samples,
            "global_batch_size": samples * micro_batches,
            "seq_len": asked.take("training.seq_length", 4096),
            "dtype": dtype,
            "steps": 100,
        },
        "optimizer": {
            "lr": 1e-5,
            "implementation": asked.take("training.optimizer.implementation", "fused"),
        },
        "lr_scheduler": {"warmup_steps": 1},
        "activation_checkpoint": _checkpointing(asked),
        "compile": {
            "enable": compiled,
            "components": ["model", "loss"] if loss == "fused" else ["model"],
        },
        "parallelism": {
            "fsdp_reshard_after_forward": asked.take(
                "framework.fsdp_reshard_after_forward", "default"
            )
        },
        # It says so at its first step and at every so many, and then resets the peaks.
        "metrics": {"log_freq": 1_000_000},
        "comm": {"trace_buf_size": 0},
        "job": {"dump_folder": "/tmp/torchtitan"},
    }
    setup = Setup(
        architecture=architecture,
        sections=sections,
        converters=(BY_FLOAT8,) if recipe else (),
        float8_recipe=recipe,
        fully_sharded=sharding != "no_shard",
        expandable_segments=asked.take("framework.expandable_segments", True),
    )
    asked.nothing_left()
    return setup


def _architecture(asked: Asked) -> dict[str, Any]:
    """Arguments of torchtitan's TransformerModelArgs (models/llama3), of a Llama's config.json."""

    def config(name: str, unset: Any = None) -> Any:
        return asked.take(f"model.hf_config.{name}", unset)

    asked.require("model.hf_config.model_type", "llama")
    config("architectures")
    asked.require("model.hf_config.hidden_act", "silu", unset="silu")
    asked.require("model.hf_config.tie_word_embeddings", False, unset=False)
    asked.require("model.hf_config.attention_bias", False, unset=False)
    asked.require("model.hf_config.mlp_bias", False, unset=False)
    for name in ("max_position_embeddings", "initializer_range", "torch_dtype"):
        config(name)  # Of no weight: positions turn by a table as long as the sequence.
    hidden, heads = config("hidden_size"), config("num_attention_heads")
    asked.require("model.hf_config.head_dim", None, hidden // heads)
    width = config("intermediate_size")
    if width < int(8 * hidden / 3):
        raise NotHonouredError("model.hf_config.intermediate_size: two thirds of 4 h at least")
    return {
        "dim": hidden,
        "n_layers": config("num_hidden_layers"),
        "n_heads": heads,
        "n_kv_heads": config("num_key_value_heads", heads),
        "vocab_size": config("vocab_size"),
        # What is narrower than that is rounded up to a multiple of it: this width itself.
        "multiple_of": width,
        "ffn_dim_multiplier": None,
        "norm_eps": config("rms_norm_eps", 1e-5),
        "rope_theta": config("rope_theta", 500000),
    }


def _precision(asked: Asked) -> tuple[str, str | None]:
    """training.dtype, and the recipe of float8."""
    if not asked.has("training.precision"):
        preset = asked.require(
            "training.precision", "bf16", "bf16-pure", "autocast-bf16", unset="bf16"
        )
        return ("bfloat16" if preset == "bf16-pure" else "float32"), None
    for name, dtype in (("params", "bf16"), ("gradients", "fp32"), ("main_params", "fp32")):
        asked.require(f"training.precision.{name}", None, "fp32", unset=dtype)
    asked.require("training.precision.compute", None, "bf16")
    recipe = asked.require("training.precision.fp8_recipe", None, "tensorwise", "rowwise")
    asked.require("training.precision.fp8_param_gather", None, False)
    return "float32", recipe


def _checkpointing(asked: Asked) -> dict[str, Any]:
    granularity = asked.require("training.recompute.granularity", None, "full", "selective")
    every = asked.take("training.recompute.every_nth_layer", 1)
    asked.require("training.recompute.method", None, "uniform")
    if granularity is None:
        return {"mode": "none"}
    if granularity == "selective":
        return {"mode": "selective", "selective_ac_option": "op"}
    if every > 1:
        return {"mode": "selective", "selective_ac_option": str(every)}
    return {"mode": "full"}


def training_step(setup: Setup) -> Callable[[], object]:
    """Builds torchtitan's Trainer, and returns what trains one step of it."""
    if setup.expandable_segments:
        expand_segments()
    _without_text_data_sets()

    from torchtitan.config import JobConfig
    from torchtitan.distributed import ParallelDims
    from torchtitan.models.llama3 import get_train_spec
    from torchtitan.models.llama3.model.args import TransformerModelArgs
    from torchtitan.protocols.train_spec import register_train_spec
    from torchtitan.train import Trainer

    architecture = TransformerModelArgs(**setup.architecture)
    spec = dataclasses.replace(
        get_train_spec(),
        model_args={NAME: architecture},
        build_tokenizer_fn=None,
        build_dataloader_fn=lambda job_config, **_: RandomTokens(
            architecture.vocab_size, job_config.training
        ),
        build_validator_fn=None,
        state_dict_adapter=None,
    )
    register_train_spec(NAME, spec)
    config = JobConfig()
    config.model.name, config.model.flavor = NAME, NAME
    config.model.converters = list(setup.converters)
    for name, fields in setup.sections.items():
        section = getattr(config, name)
        for field, value in fields.items():
            if not hasattr(section, field):
                raise AttributeError(f"torchtitan has no {name}.{field}")
            setattr(section, field, value)
    if setup.float8_recipe is not None:
        float8 = config.quantize.linear.float8
        # tensorwise is what it does without a name.
        float8.recipe_name = None if setup.float8_recipe == "tensorwise" else setup.float8_recipe
        float8.filter_fqns = ["output"]
    if setup.fully_sharded:
        _shard_over_one(ParallelDims)
    trainer = Trainer(config)
    batches = trainer.batch_generator(trainer.dataloader)
    trainer.step = 1  # The first step's report resets the peaks.

    def step() -> None:
        trainer.step += 1
        trainer.gc_handler.run(trainer.step)
        trainer.train_step(batches)

    return step


def _without_text_data_sets() -> None:
    """The data sets of text, and what reads them, are not there: nothing of them runs."""
    name = "torchtitan.hf_datasets.text_datasets"
    module = ModuleType(name)
    for each in ("build_text_dataloader", "build_text_validation_dataloader"):
        setattr(module, each, None)
    sys.modules[name] = module


def _shard_over_one(dims: Any) -> None:
    """Has torchtitan shard weights over one rank, by a process group of NCCL as over several."""
    exists = dims._mesh_exist
    dims.fsdp_enabled = True
    dims._mesh_exist = lambda self, name, degree: name == "fsdp" or exists(self, name, degree)


class RandomTokens:
    """Micro-batches of random tokens, as torchtitan's loaders give them: on the host."""

    def __init__(self, vocabulary: int, training: Any) -> None:
        self._vocabulary = vocabulary
        self._shape = training.local_batch_size, training.seq_len + 1

    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        generator = torch.Generator().manual_seed(SEED)
        while True:
            tokens = torch.randint(self._vocabulary, self._shape, generator=generator)
            yield {"input": tokens[:, :-1].contiguous()}, tokens[:, 1:].contiguous()
