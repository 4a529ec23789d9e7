"""Rows of runs of PyTorch modules, as their authors published them -> jobs.

torchtune, llm-foundry and litgpt run modules of their own under FSDP or on one card; they go under
transformers, whose modules keep the same tensors. What they do otherwise is said here.
"""

from __future__ import annotations

import re
from typing import Any

from tests.accuracy import published_runs
from tests.accuracy.outcomes import NotStatedError, UnusableRowError
from trainfit.specs.job import Job

Row = dict[str, Any]

NO_FIELD = ("linear_cut_ce", "activation_cpu_offload")
"""Training options of rows that change memory and that a job has no field for."""

UNTIL_MARCH_2025 = r"\(2024-|9a2f578"
HELD_BY_ROOT = re.compile(UNTIL_MARCH_2025)
"""Revisions of torchtitan in rows whose embedding and head belonged to the root's unit."""

REPEATS_KV = re.compile(rf"torchtune|lit-?gpt|torchtitan .*({UNTIL_MARCH_2025})")
"""Code bases whose attention copies keys and values to every query head."""


def job_of(row: Row, framework: str) -> Job:
    """The job of a row of `measured.jsonl` or `runs.jsonl`."""
    model, training = row["model"], row["training"]
    if missing := [name for name in ("hidden", "layers", "vocab") if model.get(name) is None]:
        raise NotStatedError(f"the model's {', '.join(missing)} are not stated")
    if options := [name for name in NO_FIELD if training.get(name)]:
        raise UnusableRowError(f"a job has no field for {', '.join(options)}")
    if training["micro_batch"] is None or training["seq_len"] is None:
        raise NotStatedError("the micro-batch or the sequence length is not stated")
    if OF_NVFP4.search(row["source"]):
        training = training | {"recompute": {"granularity": "selective"}, "loss_chunks": 8}
    switches = _torchtitan(row) if framework == "torchtitan" else _transformers(row)
    return Job.model_validate(
        {
            "model": {"spec": published_runs.model_of(model, training["seq_len"])},
            "parallelism": published_runs.parallelism_of(row["parallelism"]),
            "training": _training(training, model, row["notes"], row["framework"])
            | published_runs.stated({"peft": published_runs.peft_of(row)}),
            "framework": {"name": framework, **switches},
            "gpu": published_runs.gpu_of(row),
        }
    )


OF_NVFP4 = re.compile(r"components/quantization/nvfp4\.md@")
"""A page whose runs are of configs that checkpoint by operations and have the loss of 8 chunks,
started by torchrun itself (models/qwen3/config_registry.py at the page's commit:
qwen3_8b_first_85_pct_layers_nvfp4)."""
RAN_BY_SLURM = re.compile(rf"llama3_h100_202412_torchtitan\.md@\S+ Table [13]\b|{OF_NVFP4.pattern}")
"""Pages and tables whose runs did not grow segments: torchtitan's launcher on one host does
(run_train.sh, since October 2024), its script for Slurm does not, nor does torchrun. What each of
their five rows of Slurm reserved tells the two apart by 3 to 4 %.
"""


def _torchtitan(row: Row) -> Row:
    """Its launcher on one host grows segments."""
    return {
        "compile": bool(row["training"].get("compile")),
        "expandable_segments": not RAN_BY_SLURM.search(row["source"]),
        "shard_embedding_and_head_apart": not HELD_BY_ROOT.search(row["framework"]),
        "fuse_qkv": bool(OF_NVFP4.search(row["source"])),
    }


def _transformers(row: Row) -> Row:
    """Composer reduces gradients after every micro-batch (DDPSyncStrategy.FORCED_SYNC)."""
    sharding = (row["parallelism"]["sharding"] or "").casefold()
    engine = None
    if "llm-foundry" in row["framework"]:
        engine = "fsdp1"
    elif sharding.startswith("zero"):
        engine = "deepspeed"
    return published_runs.stated(
        {
            "compile": bool(row["training"].get("compile")),
            "data_parallel_engine": engine,
            "sync_each_micro_batch": engine == "fsdp1",
        }
    )


LITGPT_GLOBAL_BATCH = 64
"""litgpt's global_batch_size where a run says none (litgpt/args.py)."""


def _training(training: Row, model: Row, notes: str, framework: str) -> Row:
    optimizer = published_runs.optimizer_of(training)
    unstated = LITGPT_GLOBAL_BATCH if "litgpt" in framework else None
    return published_runs.stated(
        {
            "micro_batch_size": training["micro_batch"],
            "global_batch_size": training["global_batch"] or unstated,
            "num_microbatches": training["num_microbatches"],
            "seq_length": training["seq_len"],
            "precision": _precision(training["precision"], notes, model["layers"]),
            "optimizer": optimizer | {"in_backward": bool(training.get("optimizer_in_backward"))},
            "recompute": _recompute(training["recompute"]),
            "attention": {"repeats_kv": bool(REPEATS_KV.search(framework))},
            "loss": _loss(training, framework),
            "offload_activations": bool(training.get("activation_offload")),
        }
    )


MIXED = {"params": "fp32", "compute": "bf16", "gradients": "fp32"}
"""Computed in bf16, reduced and stepped in fp32."""


def _precision(words: str, notes: str, layers: int) -> Row | str:
    """torchao's float8 keeps what is saved in bf16. Composer's mode PURE reduces in bf16, its
    mode DEFAULT in fp32 (composer/distributed/mosaic_parallelism.py, get_mixed_precision).
    """
    spelled = words.casefold()
    if (narrow := re.match(r"nvfp4 layers 0-(\d+)", spelled)) is not None:
        wide = layers - int(narrow[1]) - 1
        return {**MIXED, "fp4_recipe": "nvfp4", "num_layers_at_end_in_bf16": wide}
    if spelled == "mxfp8":
        return {**MIXED, "fp8_recipe": "mxfp8"}
    if "amp_fp8" in spelled or "nvfp4" in spelled or "mxfp8" in spelled:
        raise UnusableRowError(f"a job has no field for {words}")
    if "mp mode default" in spelled:
        return MIXED
    if "mixed precision pure" in spelled:
        return {"params": "fp32", "compute": "bf16", "gradients": "bf16"}
    if re.fullmatch(r"float8 rowwise|bf16", spelled):
        return MIXED
    if spelled.endswith(", float8 linear"):
        return {**MIXED, "fp8_recipe": "tensorwise"}
    plain = spelled.removesuffix(", float8")
    return published_runs.precision_of(plain, notes)


def _loss(training: Row, framework: str) -> Row:
    """llm-foundry's default is flash-attn's kernel. torchtune's compiled loss of chunks keeps the
    logits as they are, and backward reaches the head when the gradients of all chunks are there.
    """
    if chunks := training.get("loss_chunks"):
        return {"cross_entropy": "chunked", "num_chunks": chunks}
    fused = "llm-foundry" in framework or training.get("chunked_ce")
    return {"cross_entropy": "fused" if fused else "unfused"}


def _recompute(recompute: Row | None) -> Row:
    said = recompute or {}
    granularity = said.get("granularity")
    if granularity is None:
        return {}
    if granularity not in ("full", "selective"):
        raise NotStatedError(f"the recompute {granularity!r} is not understood")
    return {"granularity": granularity}
