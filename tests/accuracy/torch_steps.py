"""Rows with a Hugging Face model's training step in PyTorch, every tensor tracked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.accuracy.measured import check_trusted
from tests.accuracy.outcomes import GIB, Memory, UnusableRowError, memory
from trainfit.answer import answer
from trainfit.estimator import cublas
from trainfit.estimator.results import Interval, Stage
from trainfit.specs.job import Job

Row = dict[str, Any]

DEFAULTS: Row = {
    "num_layers": None,
    "seq": 2048,
    "mbs": 1,
    "dtype": "bf16",
    "reduce_dtype": None,
    "optimizer": "adamw_foreach",
    "strategy": "single",
    "world": 1,
    "tp": 1,
    "sp": True,
    "loss_parallel": True,
    "reshard_after_forward": True,
    "ac": "none",
    "attn": "flash",
    "loss": "hf",
    "experts": "grouped_mm",
    "keep_logits": False,
}
"""What a spec leaves out."""

WITHOUT_FIELD = ("experts", "keep_logits", "loss")
"""Options that a job cannot say: a row is usable where they have their default."""

PRECISIONS: dict[str, Any] = {
    "bf16": "bf16-pure",
    "fp32": "fp32",
    "autocast": "autocast-bf16",
    "fsdp_mp": {"params": "fp32", "compute": "bf16"},
}
OPTIMIZERS = {
    "adamw_foreach": {"name": "adam", "implementation": "foreach"},
    "adamw_fused": {"name": "adam", "implementation": "fused"},
    "adamw_forloop": {"name": "adam", "implementation": "for-loop"},
    "sgd": {"name": "sgd"},
}
SHARDING = {
    "single": "no_shard",
    "ddp": "no_shard",
    "tp": "no_shard",
    "fsdp2": "optim_grads_params",
    "fsdp2_tp": "optim_grads_params",
}
RECOMPUTE: dict[str, dict[str, Any]] = {
    "none": {},
    "full": {"granularity": "full"},
    "selective": {"granularity": "selective"},
}
BACKENDS = {"flash": "sdpa", "cpu_sdpa": "sdpa", "eager": "eager"}


def group(row: Row) -> str:
    return f"torch_steps-{row['spec'].get('strategy', DEFAULTS['strategy'])}"


def price(row: Row, folder: Path) -> dict[str, Memory]:  # noqa: ARG001
    """The step's peak beside the service's. The rows count tensors, not kernels' workspaces."""
    check_trusted(row)
    (stage,) = answer(job_of(row["spec"])).stages
    return {"": memory(row["measured"]["total_peak"] / GIB, tensors_of(stage))}


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
    if options := [name for name in WITHOUT_FIELD if given[name] != DEFAULTS[name]]:
        raise UnusableRowError(f"a job has no field for {', '.join(options)}")
    return Job.model_validate(
        {
            "model": {"hf_config": config_of(given)},
            "parallelism": {
                "num_gpus": given["world"],
                "tp": given["tp"],
                "sequence_parallel": given["sp"] and given["tp"] > 1,
                "data_parallel_sharding_strategy": SHARDING[given["strategy"]],
            },
            "training": {
                "micro_batch_size": given["mbs"],
                "num_microbatches": 1,
                "seq_length": given["seq"],
                "precision": precision_of(given),
                "optimizer": OPTIMIZERS[given["optimizer"]],
                "recompute": RECOMPUTE[given["ac"]],
                "attention": {"backend": BACKENDS[given["attn"]]},
            },
            "framework": {
                "name": "transformers",
                "reshard_after_forward": given["reshard_after_forward"],
                "loss_parallel": given["loss_parallel"],
            },
        }
    )


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
    if reduced is None or isinstance(precision, str):
        return precision
    return precision | {"gradients": reduced}
