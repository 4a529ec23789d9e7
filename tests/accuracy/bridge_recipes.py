"""What Megatron-Bridge's performance recipes say that its tables of throughput leave out.

Source: NVIDIA-NeMo/Megatron-Bridge, scripts/performance/configs and src/megatron/bridge/recipes of
v0.1.0rc4 to v0.5.1, src/megatron/bridge/perf_recipes of v0.6.0 and of 067f987df03b (`main`), whose
containers have the release that a table names. `tests/data/bridge_recipes.jsonl` has, of each
recipe, what decides memory, in Megatron's own names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tests.accuracy.outcomes import NotStatedError, UnusableRowError
from tests.accuracy.performance_recipes import MISPRINTED
from tests.accuracy.published_runs import backend_of, gpu_of, model_of
from trainfit.questions.estimate import plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.specs.job import Job

Row = dict[str, Any]

RECIPES = Path(__file__).parents[1] / "data/bridge_recipes.jsonl"

TASKS = {
    "Pre-Training Performance": "pretrain",
    "SFT Performance": "sft",
    "LoRA Performance": "peft",
}
PRECISIONS = {
    r"bf16": ("bf16",),
    r"mxfp8|fp8[-_ ]?mx|fp8-blockwise/mx": ("fp8_mx",),
    r"nvfp4|fp4": ("nvfp4",),
    r"fp8[-_ ]?cs": ("fp8_cs",),
    r"fp8[-_ ]?(sc|bs)": ("fp8_sc",),
    r"fp8[-_ ]?ds": ("fp8_ds",),
    r"fp8": ("fp8_cs", "fp8_sc"),
    r"see section": ("fp8_cs",),
}
"""What a table calls a precision -> what its recipes do; later releases say FP8 of either. The
first release's tables give FP8 for all, and in parentheses what other scaling reached."""

LAYOUT = ("tp", "pp", "vpp", "cp", "ep")

FIELDS = {
    **{name: f"/parallelism/{name}" for name in (*LAYOUT, "etp", "cp_comm_type")},
    "pipeline_model_parallel_layout": "/parallelism/pipeline_model_parallel_layout",
    "account_for_embedding_in_pipeline_split": (
        "/parallelism/account_for_embedding_in_pipeline_split"
    ),
    "account_for_loss_in_pipeline_split": "/parallelism/account_for_loss_in_pipeline_split",
    "data_parallel_sharding_strategy": "/parallelism/data_parallel_sharding_strategy",
    "num_distributed_optimizer_instances": "/parallelism/data_parallel_replicate_size",
    "micro_batch_size": "/training/micro_batch_size",
    "seq_length": "/training/seq_length",
    "optimizer": "/training/optimizer/name",
    "use_precision_aware_optimizer": "/training/optimizer/precision_aware",
    "exp_avg_dtype": "/training/optimizer/exp_avg_dtype",
    "exp_avg_sq_dtype": "/training/optimizer/exp_avg_sq_dtype",
    "fp8_recipe": "/training/precision/fp8_recipe",
    "fp8_param_gather": "/training/precision/fp8_param_gather",
    "recompute_granularity": "/training/recompute/granularity",
    "recompute_method": "/training/recompute/method",
    "recompute_num_layers": "/training/recompute/num_layers",
    "recompute_modules": "/training/recompute/modules",
    "offload_modules": "/training/offload_modules",
    "moe_token_dispatcher_type": "/training/moe/token_dispatcher_type",
    "moe_flex_dispatcher_backend": "/training/moe/flex_dispatcher_backend",
    "moe_shared_expert_overlap": "/training/moe/shared_expert_overlap",
    "moe_router_dtype": "/training/moe/router_dtype",
    "moe_permute_fusion": "/training/moe/permute_fusion",
    "make_vocab_size_divisible_by": "/framework/make_vocab_size_divisible_by",
    "gradient_accumulation_fusion": "/framework/gradient_accumulation_fusion",
    "overlap_grad_reduce": "/framework/overlap_grad_reduce",
    "overlap_moe_expert_parallel_comm": "/framework/overlap_moe_expert_parallel_comm",
    "fp4": "/training/precision/fp4_recipe",
    "fp4_param_gather": "/training/precision/fp4_param_gather",
    "reuse_grad_buf_for_mxfp8_param_ag": "/training/precision/reuse_grad_buf_for_mxfp8_param_ag",
    "fp8_dot_product_attention": "/training/precision/fp8_dot_product_attention",
    "fp8_output_proj": "/training/precision/fp8_output_proj",
    "moe_expert_capacity_factor": "/training/moe/expert_capacity_factor",
    "moe_pad_expert_input_to_capacity": "/training/moe/pad_expert_input_to_capacity",
    "moe_deepep_num_sms": "/training/moe/deepep_num_sms",
    "moe_expert_rank_capacity_factor": "/training/moe/expert_rank_capacity_factor",
    "moe_paged_stash": "/training/moe/paged_stash",
    "moe_paged_stash_buffer_size_factor_cuda": (
        "/training/moe/paged_stash_buffer_size_factor_cuda"
    ),
    "moe_router_padding_for_quantization": "/training/moe/router_padding_for_quantization",
    "moe_router_force_load_balancing": "/training/moe/router_force_load_balancing",
    "cuda_graph_impl": "/framework/cuda_graph_impl",
    "cuda_graph_scope": "/framework/cuda_graph_scope",
    "delay_wgrad_compute": "/framework/delay_wgrad_compute",
    "tp_comm_overlap": "/framework/tp_comm_overlap",
    "use_transformer_engine_op_fuser": "/framework/use_transformer_engine_op_fuser",
    "cpu_offloading_num_layers": "/framework/cpu_offloading_num_layers",
    "defer_embedding_wgrad_compute": "/framework/defer_embedding_wgrad_compute",
    "wgrad_deferral_limit": "/framework/wgrad_deferral_limit",
    "fsdp_double_buffer": "/framework/fsdp_double_buffer",
    "nccl_ub": "/framework/nccl_ub",
    "expandable_segments": "/framework/expandable_segments",
    "peft": "/training/peft",
}
"""What a recipe says -> the field of a job that says it."""

WITHOUT_EFFECT = frozenset(
    {
        "fp8",
        "use_megatron_fsdp",
        "use_distributed_optimizer",
        "moe_paged_stash_buffer_size_factor_cpu",
        "keep_fp8_transpose_cache",
        "suggested_communication_unit_size",
    }
)
"""What other entries say as well (Megatron-FSDP has a strategy of sharding, and only its recipes
and those of Muon have no distributed optimizer of Megatron's), room in host memory, and what
Megatron-FSDP's double buffers and a default leave nothing of."""

OPTIMIZERS = {"dist_muon": "muon"}
"""Optimizers whose states are those of another name."""


def _as_it_is(value: Any) -> Any:
    return value


def _adapters(peft: Row) -> Row:
    """Bridge's LoRA as a job says it; alpha scales what it adds."""
    return {"method": "lora", "r": peft["dim"], "target_modules": peft["target_modules"]}


SPELLED: dict[str, Callable[[Any], Any]] = {
    "optimizer": lambda name: OPTIMIZERS.get(name, name),
    "peft": _adapters,
}
"""What a job says otherwise than a recipe."""

ABOUT = frozenset(
    {"model", "task", "gpu", "precision", "releases", "names", "mtp_num_layers"}
    | {"grad_reduce_in_fp32", "main_grads_dtype", "cross_entropy_fusion_impl"}
)
"""Entries that name a recipe, or that are read by themselves."""


def job_of(row: Row) -> Job | None:
    """The job of a row of a table, or of a preset, as its recipe has it; None for a row of neither,
    and of a release whose recipes are not at hand.
    """
    recipes = _of_row(row)
    if recipes is None:
        return None
    return _job(row, recipes[-1])


def checked(job: Job) -> Job:
    """A recipe's job, if the recipe holds together: some that are shipped do not divide their GPUs,
    or switch on what Megatron refuses.
    """
    try:
        plan_of(job)
    except RefusedError as error:
        if any(found.code == "not_modelled" for found in error.findings):
            raise
        said = "; ".join(found.message for found in error.findings)
        raise NotStatedError(f"the recipe cannot run: {said}") from None
    return job


def _of_row(row: Row) -> list[Row] | None:
    """The recipes that a row can be of, the likeliest last: the preset's, or those of its table's
    release with the table's layout, of which later releases have kept the best; where none has it,
    those of the first later release that has, since tables are measured anew as recipes change;
    where no release has it, those that its launcher makes.
    """
    if row["id"].startswith("bridge-preset-"):
        name = row["id"].removeprefix("bridge-preset-")
        return [each for each in _recipes() if name in each.get("names", ())] or None
    if not row["id"].startswith(("bridge-perf-", "bridge-tab-")):
        return None
    precisions = _precisions(row["training"]["precision"])
    own = _of_release(row, precisions)
    if not own:
        return None
    for of_release in (own, *_of_later_releases(row, precisions)):
        alike = [each for each in of_release if _layout(each) == _layout_of(row)]
        if alike:
            return sorted(alike, key=lambda each: (_rank(each, precisions), max(each["releases"])))
    return [_launched(row, (own, *_of_later_releases(row, precisions)))]


def _launched(row: Row, releases: Iterable[list[Row]]) -> Row:
    """A recipe that was given a table's layout, micro-batch and length of sequences, as arguments
    of the launcher of recipes (scripts/performance/README.md; `model.seq_length=8192` in Hydra's
    form): the first of the first release that shards as the table says. A layout that is spelled
    out stage by stage takes no other number of stages.
    """
    sizes, training = row["parallelism"], row["training"]
    shards = bool(sizes["fsdp"])
    alike = (each for of_release in releases for each in of_release if _shards(each) == shards)
    recipe = next(alike, None)
    stages = ("pp", "vpp")
    if (
        row["id"] in MISPRINTED
        or recipe is None
        or (
            "pipeline_model_parallel_layout" in recipe
            and any(recipe.get(name, 1) != (sizes[name] or 1) for name in stages)
        )
    ):
        raise NotStatedError("the recipe of its release says other than the row")
    given = {name: sizes[name] or 1 for name in LAYOUT}
    return (
        recipe
        | given
        | {
            "micro_batch_size": training["micro_batch"],
            "seq_length": training["seq_len"],
        }
    )


def _shards(recipe: Row) -> bool:
    """Whether Megatron-FSDP shares out the weights."""
    return "data_parallel_sharding_strategy" in recipe


def _rank(recipe: Row, precisions: tuple[str, ...]) -> int:
    """What a table is likelier to mean by its precision is higher."""
    return -precisions.index(recipe["precision"])


def _of_release(row: Row, precisions: tuple[str, ...]) -> list[Row]:
    """The recipes of a table's release, in any layout."""
    release = _release_of(row)
    return [each for each in _of_model(row, precisions) if release in each["releases"]]


def _of_later_releases(row: Row, precisions: tuple[str, ...]) -> Iterator[list[Row]]:
    """Those of each release behind a table's, in turn; the branch `main` comes last."""
    release, own = _release_of(row), _of_model(row, precisions)
    for later in sorted({name for each in own for name in each["releases"]}):
        if release is not None and later > release:
            yield [each for each in own if later in each["releases"]]


def _of_model(row: Row, precisions: tuple[str, ...]) -> list[Row]:
    """The recipes of a row's model and task on its GPUs, of any release."""
    task = row["training"].get("task")
    return [
        each
        for each in _recipes()
        if each["model"] == row["model"]["name"]
        and each["task"] == TASKS.get(task, task)
        and each["gpu"] == row["gpu"]["type"]
        and each["precision"] in precisions
    ]


def _release_of(row: Row) -> str | None:
    found = re.search(r"Megatron-Bridge (\S+)", row["framework"])
    return None if found is None else found[1]


SWITCHES = (
    "cuda_graph_impl",
    "cuda_graph_scope",
    "overlap_moe_expert_parallel_comm",
    "tp_comm_overlap",
)
"""What decides how fast a step is, and not what it computes."""


def switches(row: Row) -> Row:
    """What the recipes of a table's row say of `SWITCHES`, as far as they agree: those with its
    layout, or where none has it, all of its release.
    """
    own = _of_release(row, _precisions(row["training"]["precision"]))
    alike = [each for each in own if _layout(each) == _layout_of(row)] or own
    said = {name: [each.get(name) for each in alike] for name in SWITCHES}
    return {
        name: values[0]
        for name, values in said.items()
        if values and values[0] is not None and values == values[:1] * len(values)
    }


def _precisions(words: str) -> tuple[str, ...]:
    spelled = words.casefold()
    return next((own for said, own in PRECISIONS.items() if re.fullmatch(said, spelled)), ())


def _layout(recipe: Row) -> tuple[int, ...]:
    return *[recipe.get(name, 1) for name in LAYOUT], recipe["micro_batch_size"]


def _layout_of(row: Row) -> tuple[int, ...]:
    sizes = row["parallelism"]
    return *[sizes[name] or 1 for name in LAYOUT], row["training"]["micro_batch"]


def _job(row: Row, recipe: Row) -> Job:
    """A job in the words of a recipe. Its gradients are kept as they are reduced; main_grads_dtype
    decides nothing (megatron-core's optimizer_config.py).
    """
    if unknown := sorted(set(recipe) - set(FIELDS) - WITHOUT_EFFECT - ABOUT):
        raise UnusableRowError(f"a job has no field for {', '.join(unknown)}")
    gradients = "fp32" if recipe["grad_reduce_in_fp32"] else "bf16"
    job: Row = {
        "model": {"spec": _model(row, recipe)},
        "parallelism": {"num_gpus": row["parallelism"]["world_size"]},
        "training": {
            "global_batch_size": row["training"]["global_batch"],
            "precision": {"gradients": gradients},
            "loss": {"cross_entropy": _loss(recipe)},
            "attention": {"backend": backend_of(row["training"].get("attention"))},
        },
        "framework": {"name": "megatron"},
        "gpu": gpu_of(row),
    }
    chunks = "vpp" if "pipeline_model_parallel_layout" in recipe else None
    if recipe.get("optimizer") in OPTIMIZERS and not recipe["use_distributed_optimizer"]:
        # As Bridge sets Muon up (recipes/kimi/kimi_k2.py): ranks are dealt whole parameters.
        job["framework"] |= {"use_layer_wise_param_layout": False, "overlap_param_gather": False}
    for name, pointer in FIELDS.items():
        if name in recipe and name != chunks:
            _put(job, pointer, SPELLED.get(name, _as_it_is)(recipe[name]))
    try:
        return Job.model_validate(job)
    except ValidationError as error:
        raise UnusableRowError(f"no job: {error.errors()[0]['msg']}") from None


def _model(row: Row, recipe: Row) -> Row:
    """Depths of multi-token prediction are the recipe's, and Qwen3's norms of queries and keys
    those of its bridge (models/qwen/qwen3_moe_bridge.py), which rows leave out.
    """
    said = {"mtp_layers": recipe.get("mtp_num_layers")}
    if row["model"]["name"].startswith("Qwen3-"):
        said["qk_layernorm"] = True
    return model_of({**row["model"], **said}, recipe["seq_length"])


def _loss(recipe: Row) -> str:
    kinds = {"te": "te_fused", "native": "native_fused", None: "unfused"}
    return kinds[recipe.get("cross_entropy_fusion_impl")]


def _put(job: Row, pointer: str, value: Any) -> None:
    *parts, last = pointer[1:].split("/")
    inner = job
    for part in parts:
        inner = inner.setdefault(part, {})
    inner[last] = value


@cache
def _recipes() -> tuple[Row, ...]:
    with RECIPES.open() as lines:
        return tuple(map(json.loads, lines))
