"""Rows with the published speed of a run: the seconds of a step beside those that the service says.

What a row leaves open is filled in as its authors' software has it, which is said here: nothing is
chosen by what the row measured.
"""

from __future__ import annotations

import copy
import re
from math import ceil
from pathlib import Path
from typing import Any

from tests.accuracy import bridge_recipes, measured, performance_recipes
from tests.accuracy.outcomes import NotStatedError, Speed, UnusableRowError, speed
from trainfit.catalog.speed import clusters, stacks
from trainfit.questions.estimate import MEMOS, plan_of
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job
from trainfit.steptime import Surroundings, Untimed, step_time, surroundings

Row = dict[str, Any]

CARDS = {
    "A100": "A100-80GB-SXM",
    "A100-40": "A100-40GB",
    "A100-PCIe": "A100-80GB-PCIe",
    "B200": "B200",
    "B300": "B300",
    "GB200": "GB200",
    "GB300": "GB300",
    "H100": "H100-80GB-SXM",
    "H100-500W-HBM2e": "H100-96GB",
}
"""Cards of the catalogue by what rows call them, with 40 where the row names that memory."""

PRECISIONS = {
    r"bf16|bf16 \(default\)|bf16\+fp32 grad-accum|bf16 params, fp32 main grads, .*moments": "bf16",
    r"bf16 \(pure\)": "bf16-pure",
    r"fp16": "fp16",
    r"fp8|fp8-cs|float8|float8-tensorwise|fp8 hybrid tensorwise": {"fp8_recipe": "tensorwise"},
    r"float8-rowwise": {"fp8_recipe": "rowwise"},
    r"fp8 hybrid": {"fp8_recipe": "delayed"},
    r"mxfp8|fp8-mx|fp8-blockwise/mx|mxfp8_cublas(_rceil)?": {"fp8_recipe": "mxfp8"},
    r"nvfp4": {"fp4_recipe": "nvfp4"},
}
"""How rows spell a precision. Of Megatron-Bridge's FP8 the recipe is current scaling."""

WIDE = 0.15
"""Of the layers of torchtitan's configs in nvfp4 so many, the last ones, multiply in bf16
(nvfp4_bf16_tail_fqns)."""

EARLY = re.compile(r"Megatron-DeepSpeed|Megatron-LM 2022")
"""Software before fused attention, whose optimizer waited for gradients to be reduced."""


def group(row: Row) -> str:
    return str(row["family"])


def price(row: Row, folder: Path) -> dict[str, Speed]:  # noqa: ARG001
    """The step's seconds beside the service's."""
    if not row["complete"]:
        raise UnusableRowError("incomplete: a formula cannot be run on it without guessing")
    if row["trust"] == "C":
        raise UnusableRowError("too small a model: the host's launches are all that it measured")
    seconds = seconds_of(row)
    plan = plan_of(job_of(row))
    timed = step_time(plan, memo=MEMOS.current(), on=surroundings_of(row, plan))
    if isinstance(timed, Untimed):
        raise UnusableRowError(timed.reason)
    return {"": speed(seconds, timed.seconds)}


def seconds_of(row: Row) -> float:
    """Seconds of a step: as measured, or of the tokens of a global batch."""
    figures, training = row["measured"], row["training"]
    if "step_time_s" in figures:
        return float(figures["step_time_s"])
    if row["framework"].startswith("nanotron"):
        per_gpu = _nanotron_flops(row["model"], training) / row["parallelism"]["world_size"]
        return float(per_gpu / (figures["tflops_per_gpu"] * 1e12))
    tokens = figures.get("tokens_per_s_per_gpu")
    if tokens is None:
        raise UnusableRowError("FLOP/s alone, which are counted in more ways than one")
    batch = training["global_batch"] * training["seq_len"]
    return float(batch / (tokens * row["parallelism"]["world_size"]))


def _nanotron_flops(model: Row, training: Row) -> float:
    """What nanotron counts for a step: attention whole, the head with it (models/llama.py,
    get_flops).
    """
    h, s, layers = model["hidden"], training["seq_len"], model["layers"]
    heads, groups = model["heads"], model["kv_heads"]
    projections = 2 * h * h + 2 * h * groups * (h // heads)
    layer = 2 * projections + 6 * h * model["ffn"] + 4 * s * h
    each = 3 * (layers * layer + 2 * h * model["vocab"])
    return float(each * s * training["global_batch"])


def job_of(row: Row) -> Job:
    """The job of a run of any of the frameworks: as the recipe of a row of Megatron-Bridge's tables
    has it, where it is known which, else as the row has it.
    """
    return _of_recipe(row) or _of_row(row)


def _of_recipe(row: Row) -> Job | None:
    """By the recipe of a table's release, unless the table was measured with another."""
    if row["id"] in performance_recipes.MISPRINTED:
        raise UnusableRowError("the recipe of its release says other than the row")
    try:
        job = bridge_recipes.job_of(row)
    except NotStatedError:
        return None
    if job is None:
        return None
    document = job.model_dump(exclude_unset=True)
    document["gpu"] = _card(row)
    return Job.model_validate(document)


def _of_row(row: Row) -> Job:
    """By what a row says, and by what its software does where it says nothing."""
    switches = bridge_recipes.switches(row)
    row = copy.deepcopy(row)
    framework, training, layout = row["framework"], row["training"], row["parallelism"]
    if training.get("task") in ("lora", "LoRA Performance"):
        raise UnusableRowError("the adapters are not stated")
    if "kernels" in training:
        raise UnusableRowError(
            f"modules of transformers do not run the kernels {training['kernels']}"
        )
    early = bool(EARLY.search(framework))
    row["gpu"]["memory_gb"] = None
    training.setdefault("optimizer", "adam")
    training["attention"] = "unfused" if early else training.get("attention")
    precision = _precision(training["precision"])
    training["precision"] = "bf16"
    training["recompute"] = _recompute(training["recompute"])
    row["model"]["position"] = _positions(row["model"]["position"])
    layout["sharding"] = (layout["sharding"] or "").replace("megatron-fsdp", "")
    if early and layout["sharding"] == "deepspeed zero1":
        layout["sharding"] = "zero1"
    layout["pp_layout"] = _uneven(row)
    if re.match(r"NeMo 2|Megatron", framework):
        row["framework"] = "megatron"
    if framework.startswith("nanotron"):
        layout |= {"tp_mode": "REDUCE_SCATTER" if layout["sp"] else "ALL_REDUCE"}
        layout.setdefault("schedule", "1f1b")
    if "AutoModel" in framework:
        row["framework"] = "automodel"
    job = performance_recipes.completed(row, measured.job_of(row))
    document = job.model_dump(exclude_unset=True)
    if framework == "torchtitan" and precision == {"fp4_recipe": "nvfp4"}:
        precision = precision | {"num_layers_at_end_in_bf16": ceil(WIDE * row["model"]["layers"])}
    document["training"]["precision"] = precision
    document["gpu"] = _card(row)
    if row["framework"] == "megatron":
        overlaps = training.get("grad_reduce_overlap", not early)
        document["framework"] |= {
            "overlap_grad_reduce": overlaps,
            "overlap_param_gather": overlaps,
            "gradient_accumulation_fusion": "DeepSpeed" not in framework,
            "tp_comm_overlap": _overlaps_tensors(row, precision),
        }
    if row["family"] == "bridge" and row["model"]["experts"]:
        _add_experts(row, document)
    if row["framework"] == "megatron":
        document["framework"] |= switches
    return Job.model_validate(document)


STACKS = {
    r"Megatron-DeepSpeed 2022": "megatron-2022",
    r"Megatron-LM 2022": "megatron-lm-2022",
    r"Megatron-DeepSpeed \(2023\)": "megatron-2023",
    r"llm-foundry": "llm-foundry",
    r"Megatron-Bridge 26.0[68]": "megatron-bridge-26.06",
    r"Megatron-Bridge 25": "megatron-bridge-25",
    r"Megatron-Bridge|NeMo": "megatron-bridge",
}
"""Software stacks of the catalogue by the words of a row's framework, where it is not the
framework's own."""

CLUSTERS = {r"4x100Gb/s Omni-Path": "omni-path-4x100", r"800 Gb/s per node": "infiniband-4x200"}
"""Clusters whose NICs are not the usual ones of the GPU, by the words of a row."""

MACHINES = {r"Megatron-LM 23e00ed0 \+ TE 2.11": "simumax-8-b200"}
"""Clusters whose GPUs reach less than others do, by the words of a row's framework."""


def surroundings_of(row: Row, plan: Plan) -> Surroundings | None:
    """The stack and the cluster that a row names."""
    usual = surroundings(plan)
    if usual is None:
        return None
    stack, cluster = usual.stack, usual.cluster
    for words, name in reversed(STACKS.items()):
        if re.search(words, row["framework"]):
            stack = stacks()[name]
    for words, name in CLUSTERS.items():
        if re.search(words, row["gpu"].get("interconnect") or ""):
            cluster = clusters()[name]
    for words, name in MACHINES.items():
        if re.search(words, row["framework"]):
            cluster = clusters()[name]
    return Surroundings(usual.gpu, stack, cluster)


RECOMPUTED = {"GB200": ("mla_up_proj",), "GB300": ("moe_act",)}
"""What Megatron-Bridge 25.11 runs again of DeepSeek-V3, by GPU."""


def _add_experts(row: Row, document: Row) -> None:
    """What Megatron-Bridge 25.11's recipes of DeepSeek-V3 say of experts, of which its tables have
    other stages, and no multi-token prediction (scripts/performance/configs/deepseek at v0.2.0).
    """
    training = document["training"]
    training["moe"] = {"token_dispatcher_type": "flex", "flex_dispatcher_backend": "hybridep"}
    modules = RECOMPUTED[row["gpu"]["type"]]
    training["recompute"] = {"granularity": "selective", "modules": modules}


def _overlaps_tensors(row: Row, precision: Any) -> bool:
    """Whether tensor-parallel exchanges travel beside the products: in NVIDIA's recipes of dense
    models (tp_comm_overlap of Megatron-Bridge's, ub_tp_comm_overlap of NeMo's), but not in fp4. The
    larger models of Megatron-LM's examples/llama are those of NeMo's recipes, as its README says.
    """
    if row["parallelism"]["tp"] == 1 or not row["parallelism"]["sp"] or row["model"]["experts"]:
        return False
    by_nvidia = row["family"] in ("bridge", "nemo-table", "nemo-longseq")
    return by_nvidia and precision != {"fp4_recipe": "nvfp4"}


def _card(row: Row) -> str:
    kind = row["gpu"]["type"]
    name = f"{kind}-40" if row.get("memory_gb") == 40 else kind
    if name not in CARDS:
        raise UnusableRowError(f"the speed of {kind} is not known")
    return CARDS[name]


def _precision(words: str) -> Any:
    for pattern, precision in PRECISIONS.items():
        if re.fullmatch(pattern, words.casefold()):
            return precision
    raise UnusableRowError(f"a job has no field for {words}")


def _recompute(said: Row | None) -> Row:
    """Modules in brackets or words; a note that the operations of a layer are chosen."""
    said = said or {}
    granularity, modules = said.get("granularity"), said.get("modules")
    if granularity is not None and "offload" in granularity:
        raise UnusableRowError(f"a job has no field for {granularity}")
    if modules == "none" or granularity is None:
        return {}
    if granularity.startswith("selective"):
        names = re.findall(r"layernorm|mla_up_proj|moe_act|core_attn|mlp|moe", modules or "")
        return {"granularity": "selective", "modules": names or None}
    return {key: said.get(key) for key in ("granularity", "method", "num_layers")}


def _positions(words: str) -> str:
    return "learned_absolute" if words in ("learned", "alibi/learned") else words


def _uneven(row: Row) -> str | None:
    """A layout of stages where layers do not divide: embedding and loss count as a layer each."""
    layout, layers = row["parallelism"], row["model"]["layers"]
    given: str | None = layout.get("pp_layout")
    stages = layout["pp"] * (layout["vpp"] or 1)
    if layers % stages == 0 or given is not None or layout["pp"] == 1:
        return given
    base, more = divmod(layers + 2, stages)
    counts = [base + (stage < more) for stage in range(stages)]
    counts[0], counts[-1] = counts[0] - 1, counts[-1] - 1
    texts = ["t" * count for count in counts]
    texts[0], texts[-1] = "E" + texts[0], texts[-1] + "L"
    return "|".join(texts)
