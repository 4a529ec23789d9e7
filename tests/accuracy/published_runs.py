"""Rows of runs as their authors published them (`model`, `parallelism`, `training`) -> jobs.

What a row says in words is read by the words that such rows use; words that are not known make
the row unusable rather than guessed at.
"""

from __future__ import annotations

import re
from typing import Any

from tests.accuracy.cards import card_of
from tests.accuracy.outcomes import NotStatedError, UnusableRowError
from trainfit.specs.job import Job

Row = dict[str, Any]

NO_FIELD = ("cuda_graph", "offload", "activation_cpu_offload")
"""Training options of rows that change memory and that a job has no field for."""


RECIPES: dict[str, Row] = {
    "recipes/moonlight/h100/moonlight_16b.py": {"shared_expert_overlap": True},
}
"""What the recipe that a row's source names says of experts, where the row itself does not."""


def job_of(row: Row) -> Job:
    """The job of a row of Megatron's in `measured.jsonl` or `runs.jsonl` without a command line."""
    model, layout, training = row["model"], row["parallelism"], row["training"]
    if missing := [name for name in ("hidden", "layers", "vocab") if model.get(name) is None]:
        raise NotStatedError(f"the model's {', '.join(missing)} are not stated")
    if options := [name for name in NO_FIELD if training.get(name)]:
        raise UnusableRowError(f"a job has no field for {', '.join(options)}")
    return Job.model_validate(
        {
            "model": {"spec": model_of(model, training["seq_len"])},
            "parallelism": parallelism_of(layout),
            "training": training_of(training, row["notes"], _of_recipe(row["source"]))
            | stated({"peft": peft_of(row)}),
            "framework": {"name": "megatron"} | _reduction(row),
            "gpu": gpu_of(row),
        }
    )


def _reduction(row: Row) -> Row:
    """Megatron-LM reduces gradients behind the backward unless it is told otherwise."""
    told = row["training"].get("grad_reduce_overlap")
    if told is None and "Megatron-LM" not in row["framework"]:
        return {}
    return {"overlap_grad_reduce": bool(told)}


def _of_recipe(source: str) -> Row:
    return next((facts for recipe, facts in RECIPES.items() if recipe in source), {})


def gpu_of(row: Row) -> str | None:
    card = card_of(row["gpu"])
    return None if card is None else card.name


def model_of(model: Row, positions: int) -> Row:
    """Megatron's names for a row's model. An absent q/k norm is none, except in latent attention,
    whose published models all norm their latents."""
    latent = model["mla"] or {}
    spec = {
        "name": model["name"],
        "num_layers": model["layers"],
        "hidden_size": model["hidden"],
        "num_attention_heads": model["heads"],
        "num_query_groups": None if latent else model["kv_heads"],
        "kv_channels": None if latent else model["head_dim"],
        "ffn_hidden_size": model["ffn"],
        "vocab_size": model["vocab"],
        "untie_embeddings_and_output_weights": not model["tied_embeddings"],
        "gated_linear_unit": model["gated_mlp"],
        "activation_func": "silu" if model["gated_mlp"] else model.get("activation", "gelu"),
        "normalization": "RMSNorm" if model["norm"] == "rmsnorm" else "LayerNorm",
        "add_bias_linear": model["linear_bias"],
        "qk_layernorm": model.get("qk_layernorm") or bool(latent),
        "position_embedding_type": model["position"],
        "max_position_embeddings": positions,
        "mtp_num_layers": model.get("mtp_layers"),
        "multi_latent_attention": bool(latent),
        "q_lora_rank": latent.get("q_lora_rank"),
        "kv_lora_rank": latent.get("kv_lora_rank"),
        "qk_head_dim": latent.get("qk_head_dim"),
        "qk_pos_emb_head_dim": latent.get("qk_rope_head_dim"),
        "v_head_dim": latent.get("v_head_dim"),
    }
    return stated(spec | _experts_of(model))


def _experts_of(model: Row) -> Row:
    if model["experts"] is None:
        return {}
    dense = model["dense_first_layers"] or 0
    return {
        "num_moe_experts": model["experts"],
        "moe_router_topk": model["topk"],
        "moe_ffn_hidden_size": model["moe_ffn"],
        "moe_shared_expert_intermediate_size": model["shared_ffn"],
        "moe_layer_freq": [0] * dense + [1] * (model["layers"] - dense),
    }


def parallelism_of(layout: Row) -> Row:
    sizes = {name: layout[name] for name in ("tp", "pp", "vpp", "cp", "ep", "etp")}
    return stated(
        sizes
        | {
            "num_gpus": layout["world_size"],
            "sequence_parallel": bool(layout["sp"]) and layout["tp"] > 1,
            "data_parallel_sharding_strategy": _sharding_of(layout["sharding"] or ""),
            "cp_comm_type": layout.get("cp_comm"),
            "pipeline_schedule": layout.get("schedule"),
            "pipeline_model_parallel_layout": layout.get("pp_layout"),
        }
    )


def _sharding_of(words: str) -> str:
    spelled = words.casefold()
    for pattern, strategy in (
        (r"zero3|fsdp2|full_shard|optim_grads_params", "optim_grads_params"),
        (r"zero2|shard_grad_op", "optim_grads"),
        (r"zero1", "optim"),
        (r"zero0|ddp|^$", "no_shard"),
    ):
        if re.search(pattern, spelled):
            return strategy
    raise NotStatedError(f"the sharding {words!r} is not understood")


def training_of(training: Row, notes: str, recipe: Row) -> Row:
    if training["micro_batch"] is None or training["seq_len"] is None:
        raise NotStatedError("the micro-batch or the sequence length is not stated")
    dropout = training.get("dropout") or 0.0
    fusion = training.get("cross_entropy_fusion")
    return stated(
        {
            "micro_batch_size": training["micro_batch"],
            "global_batch_size": training["global_batch"],
            "num_microbatches": training["num_microbatches"],
            "seq_length": training["seq_len"],
            "precision": precision_of(training["precision"], notes),
            "optimizer": optimizer_of(training),
            "recompute": recompute_of(training["recompute"]),
            "attention": {"backend": backend_of(training["attention"]), "dropout": dropout},
            "hidden_dropout": dropout,
            "loss": {"cross_entropy": "te_fused" if fusion else "unfused"},
            "moe": moe_of(training) | recipe,
        }
    )


def precision_of(words: str, notes: str) -> Row | str:
    """Data types from words like "bf16 params, fp32 main grads, fp32 master+moments"."""
    spelled = words.casefold()
    if re.search(r"fp8|float8", spelled):
        return {"fp8_recipe": _fp8_recipe(words)}
    if re.search(r"fp4", spelled):
        raise UnusableRowError("a job has no field for fp4")
    if re.search(r"pure bf16|bf16-true", spelled):
        return "bf16-pure"
    params = re.search(r"(fp32|bf16|fp16) sharded param|^(fp32|bf16|fp16) params", spelled)
    if params is not None:
        held = params[1] or params[2]
        gradients = re.search(r"(fp32|bf16)( main)? grad", spelled)
        return {
            "params": held,
            "compute": "bf16" if re.search(r"bf16 (params|compute)", spelled) else held,
            "gradients": gradients[1] if gradients else "fp32",
        }
    if re.fullmatch(r"fp16(, fp32 master)?", spelled):
        return "fp16"
    if re.fullmatch(r"bf16(, fp32 grads)?", spelled):
        return {"gradients": "bf16" if "bf16 grad reduce" in notes else "fp32"}
    raise NotStatedError(f"the precision {words!r} is not understood")


FP8_RECIPES = {
    r"fp8[-_ ]?cs|current scaling|tensorwise": "tensorwise",
    r"mxfp8|fp8[-_ ]?mx": "mxfp8",
    r"fp8[-_ ]?ds|delayed": "delayed",
    r"fp8[-_ ]?(sc|bs)|subchannel|blockwise|block scaling": "blockwise",
}
"""How sources spell a recipe."""


def _fp8_recipe(words: str) -> str:
    for pattern, recipe in FP8_RECIPES.items():
        if re.search(pattern, words.casefold()):
            return recipe
    raise NotStatedError(f"the fp8 recipe of {words!r} is not stated")


def optimizer_of(training: Row) -> Row:
    spelled = training["optimizer"].casefold()
    name = "adamw8bit" if "8bit" in spelled else "adam" if "adam" in spelled else spelled
    moments = "bf16" if "bf16 moments" in training["precision"] else None
    return stated(
        {
            "name": name,
            # No row's optimizer was made by Trainer.
            "embedding_moments_in_fp32": False if name == "adamw8bit" else None,
            "exp_avg_dtype": moments,
            "exp_avg_sq_dtype": moments,
            "implementation": "foreach" if "foreach" in spelled else None,
        }
    )


def recompute_of(recompute: Row | None) -> Row:
    """Nothing where nothing is said, or no module is named; "per layer" is a group of one."""
    said = recompute or {}
    granularity, method = said.get("granularity"), said.get("method")
    if granularity is None or said.get("modules") == []:
        return {}
    if granularity not in ("full", "selective"):
        raise NotStatedError(f"the recompute {granularity!r} is not understood")
    if granularity == "selective" and method is not None:
        raise UnusableRowError(f"a job has no field for {method}")
    layers = said.get("num_layers")
    if granularity == "full" and (method is None or method.startswith("per")):
        method, layers = "uniform", 1
    return stated(
        {
            "granularity": granularity,
            "method": method,
            "num_layers": layers,
            "modules": said.get("modules"),
        }
    )


def backend_of(words: str | None) -> str:
    """The attention kernel. Of "flash/fused" the service takes what Megatron would: auto."""
    spelled = (words or "auto").casefold()
    for backend in ("auto", "flash/fused", "unfused", "fused", "flash", "sdpa"):
        if backend in spelled:
            return "auto" if backend == "flash/fused" else backend
    raise NotStatedError(f"the attention {words!r} is not understood")


def moe_of(training: Row) -> Row:
    dispatcher = "flex" if training.get("dispatcher_backend") else training.get("dispatcher")
    return stated(
        {
            "token_dispatcher_type": dispatcher,
            "expert_capacity_factor": training.get("moe_capacity_factor"),
            "pad_expert_input_to_capacity": training.get("moe_pad_to_capacity"),
            "grouped_gemm": training.get("grouped_gemm"),
            "permute_fusion": training.get("permute_fusion"),
        }
    )


LITGPT_TABLE = "litgpt tutorials/resource-tables.md"
"""Adapters of rank 8 on queries and values: the table counts 4,194,304 parameters of Llama 2 7B and
6,553,600 of 13B, in the rows that ran and so in those beside them that did not."""


def peft_of(row: Row) -> Row | None:
    """Adapters, on the linears that a row or its notes name by one letter each ("q,v")."""
    training, notes = row["training"], row["notes"] or ""
    adapters = training.get("lora")
    if adapters is None:
        return None
    noted = re.search(r"r=(\d+) on (\w(?:,\w)*)\b", notes)
    targets = "q,v" if LITGPT_TABLE in row["source"] else None
    rank, targets = adapters.get("r"), adapters.get("targets", targets)
    if noted is not None:
        rank, targets = rank or int(noted[1]), targets or noted[2]
    if rank is None or targets is None:
        raise NotStatedError("the rank and the targets of the adapters are not stated")
    return stated(
        {
            "method": "lora",
            "r": rank,
            "target_modules": [f"{name}_proj" for name in targets.split(",")],
            "quantization": training.get("quantize"),
        }
    )


def stated(values: Row) -> Row:
    """What a row leaves open stays open in the job."""
    return {name: value for name, value in values.items() if value is not None}
