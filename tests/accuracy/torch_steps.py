"""Rows with a Hugging Face model's training step in PyTorch, every tensor tracked."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.accuracy.measured import check_trusted
from tests.accuracy.outcomes import GIB, Memory, UnusableRowError, memory
from trainfit.estimator import cublas
from trainfit.estimator.results import Interval, Stage
from trainfit.questions.estimate import answer
from trainfit.specs.job import Job

Row = dict[str, Any]

DEFAULTS: Row = {
    "trainer": "DPOTrainer",
    "num_layers": None,
    "images": 0,
    "image_tokens": 0,
    "seq": 2048,
    "mbs": 1,
    "micro_batches": 1,
    "gradient_sync": "every",
    "dtype": "bf16",
    "base_dtype": None,
    "reduce_dtype": None,
    "optimizer": "adamw_foreach",
    "optimizer_in_backward": False,
    "strategy": "single",
    "world": 1,
    "replicate": 1,
    "tp": 1,
    "ep": 1,
    "dispatch": "torchtitan",
    "sp": True,
    "loss_parallel": True,
    "pp": 1,
    "pp_rank": 0,
    "pp_layout": "",
    "schedule": "1F1B",
    "pp_reshards": False,
    "reshard_after_forward": True,
    "fsdp_wrap": "root",
    "gradient_as_bucket_view": False,
    "ac": "none",
    "ac_every": 2,
    "ac_frozen": True,
    "offload": False,
    "attn": "flash",
    "loss": "hf",
    "loss_chunks": 8,
    "logits_to_keep": 0,
    "reference": None,
    "trl": "",
    "verl": "",
    "openrlhf": "",
    "temperature": 1.0,
    "entropy": "none",
    "pads": False,
    "fused": False,
    "experts": "grouped_mm",
    "keep_logits": False,
    "lora": None,
    "virtual_tokens": 0,
    "virtual_kind": "prompt",
    "freeze": (),
}
"""What a spec leaves out."""

WITHOUT_FIELD = ("experts", "keep_logits")
"""Options that a job cannot say: a row is usable where they have their default."""

PRECISIONS: dict[str, Any] = {
    "bf16": "bf16-pure",
    "fp16": {"params": "fp16", "compute": "fp16", "gradients": "fp16"},
    "fp32": "fp32",
    "autocast": "autocast-bf16",
    "autocast_fp16": {"params": "fp32", "compute": "fp16"},
    "fsdp_mp": {"params": "fp32", "compute": "bf16"},
}
OPTIMIZERS: dict[str, Row] = {
    "adamw_foreach": {"name": "adam", "implementation": "foreach"},
    "adamw_fused": {"name": "adam", "implementation": "fused"},
    "adamw_forloop": {"name": "adam", "implementation": "for-loop"},
    "sgd": {"name": "sgd", "implementation": "foreach"},
    "sgd_momentum": {"name": "sgd", "implementation": "foreach", "momentum": 0.9},
    "adafactor": {"name": "adafactor", "implementation": "foreach"},
    "lion": {"name": "lion", "implementation": "for-loop"},
}
SHARDED = ("fsdp2", "hsdp", "fsdp2_tp", "fsdp2_ep")
RECOMPUTE: dict[str, Row] = {
    "none": {},
    "full": {"granularity": "full"},
    "selective": {"granularity": "selective"},
    "selective_op": {"granularity": "selective"},
    "selective_layer": {"granularity": "full"},
}
MODULES = {
    "audio_tower": "vision_tower",
    "mlp.gate.": "router",
    "model.norm.": "final_norm",
    "vision_model": "vision_tower",
}
"""Parts of the names of parameters, and what a job calls the module."""
BACKENDS = {"flash": "sdpa", "cpu_sdpa": "sdpa", "eager": "eager"}
SCHEDULES = {
    "1F1B": "1f1b",
    "GPipe": "gpipe",
    "Interleaved1F1B": "interleaved",
    "LoopedBFS": "looped-bfs",
    "InterleavedZeroBubble": "interleaved-zb",
    "ZBVZeroBubble": "zb-v",
    "DualPipeV": "dualpipe-v",
}
VIRTUAL: dict[str, Row] = {
    "prompt": {"method": "prompt_tuning"},
    "mlp": {"method": "p_tuning"},
    "prefix": {"method": "prefix_tuning"},
    "projected_prefix": {"method": "prefix_tuning", "prefix_projection": True},
}
LOSSES = {
    "hf": "unfused",
    "chunked": "chunked",
    "chunked_nll": "chunked_nll",
    "fused_linear": "liger",
    "reward": "unfused",
    "preference": "unfused",
    "policy": "unfused",
}
OBJECTIVES = {each: each for each in ("reward", "preference", "policy")}
"""Of losses that learn something else than the next token."""


def group(row: Row) -> str:
    return f"torch_steps-{row['spec'].get('strategy', DEFAULTS['strategy'])}"


def price(row: Row, folder: Path) -> dict[str, Memory]:  # noqa: ARG001
    """The step's peak beside the service's. The rows count tensors, not kernels' workspaces."""
    check_trusted(row)
    check_known(row["spec"])
    return {"": memory(row["measured"]["total_peak"] / GIB, tensors_of(stage_of(row)))}


def stage_of(row: Row) -> Stage:
    """The rank that was measured. Tensors and moments are compared, of which the allocator decides
    nothing.
    """
    rank: int = row["spec"].get("pp_rank", DEFAULTS["pp_rank"])
    return _stages(json.dumps(row["spec"]))[rank]


@cache
def _stages(spec: str) -> list[Stage]:
    """The ranks of a spec, priced once: several tests look at them."""
    return answer(job_of(json.loads(spec)), replay=False).stages


def check_known(spec: Row) -> None:
    """Raise UnusableRowError for a spec that says more than a job can."""
    unknown = sorted(spec.keys() - DEFAULTS.keys() - {"name", "model_type", "config"})
    tables = {
        "dtype": PRECISIONS,
        "optimizer": OPTIMIZERS,
        "ac": RECOMPUTE,
        "loss": LOSSES,
        "virtual_kind": VIRTUAL,
    }
    unknown += [
        str(spec[key]) for key, known in tables.items() if spec.get(key) not in (None, *known)
    ]
    if unknown:
        raise UnusableRowError(f"a job has no field for {', '.join(unknown)}")


def tensors_of(stage: Stage) -> Interval:
    """What is allocated, less the workspaces of cuBLAS, which no tensor of the step is."""
    workspace = cublas.workspaces("")
    allocated = stage.allocated_bytes
    return Interval(
        allocated.low - workspace, allocated.expected - workspace, allocated.high - workspace
    )


def job_of(spec: Row) -> Job:
    """The job of a spec, its defaults filled in."""
    given = DEFAULTS | spec
    without = [name for name in WITHOUT_FIELD if name != "keep_logits" or given["pp"] == 1]
    if options := [name for name in without if given[name] != DEFAULTS[name]]:
        raise UnusableRowError(f"a job has no field for {', '.join(options)}")
    if (given["lora"] or {}).get("input_grads") and given["ac"] == "none":
        raise UnusableRowError("a job has no field for input_grads without recompute")
    sharded = given["strategy"] in SHARDED
    return Job.model_validate(
        {
            "model": {"hf_config": config_of(given)},
            "parallelism": {
                "num_gpus": given["world"],
                "tp": given["tp"],
                **pipeline_of(given),
                "ep": given["ep"],
                "sequence_parallel": given["sp"] and given["tp"] > 1,
                "data_parallel_sharding_strategy": "optim_grads_params" if sharded else "no_shard",
                "data_parallel_replicate_size": given["replicate"],
            },
            "training": training_of(given),
            "framework": framework_of(given),
        }
    )


def pipeline_of(given: Row) -> Row:
    if given["pp"] == 1:
        return {}
    return {
        "pp": given["pp"],
        "pipeline_model_parallel_layout": given["pp_layout"],
        "pipeline_schedule": SCHEDULES[given["schedule"]],
    }


def training_of(given: Row) -> Row:
    every = given["ac_every"] if given["ac"] == "selective_layer" else 1
    loss: Row = {"cross_entropy": LOSSES[given["loss"]], "num_chunks": given["loss_chunks"]}
    loss["objective"] = OBJECTIVES.get(given["loss"], "next_token")
    if given["loss"] == "preference":
        trainer = given["trainer"]
        loss |= {
            "reference": given["reference"] or "none",
            "log_probs_by": since(trainer, given["trl"]),
            "chosen_nll": trainer in ("ORPOTrainer", "CPOTrainer"),
        }
    if given["loss"] == "policy":
        loss["log_probs_by"] = actor_of(given) or since("GRPOTrainer", given["trl"])
        loss["entropy"] = given["entropy"]
    if given["logits_to_keep"]:
        loss["logits_to_keep"] = given["logits_to_keep"]
    training: Row = {
        "micro_batch_size": given["mbs"],
        "num_microbatches": given["micro_batches"],
        "seq_length": given["seq"],
        "precision": precision_of(given),
        "optimizer": OPTIMIZERS[given["optimizer"]]
        | {"in_backward": given["optimizer_in_backward"]},
        "recompute": RECOMPUTE[given["ac"]]
        | {"every_nth_layer": every, "frozen_layers": given["ac_frozen"]},
        "attention": {"backend": BACKENDS[given["attn"]]},
        "loss": loss,
        "offload_activations": given["offload"],
        **({"image_tokens": given["image_tokens"]} if given["images"] else {}),
        **frozen_of(given),
    }
    if given["lora"] is not None:
        training["peft"] = adapters_of(given["lora"], given["dtype"])
    if tokens := given["virtual_tokens"]:
        training["peft"] = VIRTUAL[given["virtual_kind"]] | {"num_virtual_tokens": tokens}
    if "peft" in training and given["dtype"] in ("autocast", "fsdp_mp"):
        training["peft"]["base_dtype"] = given["base_dtype"] or "fp32"
    return training


def actor_of(given: Row) -> str | None:
    """What a job calls the code of verl's actor or OpenRLHF's, where it ran."""
    if given["openrlhf"]:
        return "openrlhf" if given["temperature"] == 1 else "openrlhf-divided"
    if not given["verl"]:
        return None
    if given["pads"] or given["fused"]:
        return "verl-padded" if given["pads"] else "verl-fused"
    return "verl"


CHANGED: dict[str, tuple[str, list[str]]] = {
    "DPOTrainer": ("trl", ["0.9", "0.12", "0.15", "0.19", "0.29", "1.6", "1.15"]),
    "KTOTrainer": ("trl-kto", ["0.9", "0.15", "0.17", "1.6", "1.7", "1.8", "1.9"]),
    "ORPOTrainer": ("trl-orpo", ["0.9", "0.15"]),
    "CPOTrainer": ("trl-orpo", ["0.9", "0.15"]),
    "GRPOTrainer": ("trl-grpo", ["0.16", "0.20", "0.23", "1.0", "1.10", "1.14"]),
}
"""Releases of TRL since which a trainer computes log-probabilities otherwise."""


def since(trainer: str, release: str) -> str:
    """The way that a job names of a release."""
    if trainer == "GRPOTrainer" and numbers(release) >= [1, 15]:
        return "trl-1.15"
    prefix, known = CHANGED[trainer]
    known = [each for each in known if numbers(each) <= numbers(release)]
    return f"{prefix}-{max(known, key=numbers)}"


def numbers(release: str) -> list[int]:
    return [int(each) for each in release.split(".")]


def frozen_of(given: Row) -> Row:
    """Modules, and layers: the first ones, or the last ones."""
    layers = [name for name in given["freeze"] if name.startswith("layers.")]
    names = [MODULES.get(name, name) for name in given["freeze"] if name not in layers]
    first = "layers.0." in layers
    return {
        "frozen": names,
        "num_frozen_layers" if first else "num_frozen_last_layers": len(layers),
    }


def adapters_of(lora: Row, dtype: str) -> Row:
    narrow = lora.get("dtype") == "base" and dtype != "fp32"
    return {
        "method": "lora",
        "r": lora["rank"],
        "target_modules": lora.get("targets", "all-linear"),
        "adapter_dtype": "bf16" if narrow else "fp32",
        "dropout": lora.get("dropout", 0.0),
        "decomposed": lora.get("decomposed", False),
    }


def framework_of(given: Row) -> Row:
    """Units as torchtitan has them are said of torchtitan, whose modules keep the same tensors,
    but where experts are dispatched by transformers. DeepSpeed's buckets are not in a row.
    """
    units = given["fsdp_wrap"] == "torchtitan" and given["dispatch"] == "torchtitan"
    if units or given["pp"] > 1:
        return {
            "name": "torchtitan",
            "loss_parallel": given["loss_parallel"],
            "fsdp_reshard_after_forward": "always" if given["pp_reshards"] else "default",
            "collect_outputs": given["keep_logits"],
        }
    engine = {"data_parallel_engine": "deepspeed"} if given["strategy"] == "autotp" else {}
    return {
        "name": "transformers",
        **engine,
        "deepspeed": {"contiguous_gradients": False},
        "reshard_after_forward": given["reshard_after_forward"],
        "sync_each_micro_batch": given["gradient_sync"] == "every",
        "gradient_as_bucket_view": given["gradient_as_bucket_view"],
        "loss_parallel": given["loss_parallel"],
    }


def config_of(given: Row) -> Row:
    """A config.json with the number of layers that the row ran."""
    config = {"model_type": given["model_type"], **given["config"]}
    layers = given["num_layers"]
    if layers is not None:
        config["n_layer" if "n_layer" in config else "num_hidden_layers"] = layers
        if "layer_types" in config:
            config["layer_types"] = config["layer_types"][:layers]
    return config


def precision_of(given: Row) -> Row | str:
    precision: Row | str = PRECISIONS[given["dtype"]]
    reduced = given["reduce_dtype"]
    if reduced is None:
        return precision
    stored = {"params": "bf16", "compute": "bf16"} if isinstance(precision, str) else precision
    return stored | {"gradients": reduced}
