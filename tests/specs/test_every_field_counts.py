"""Every field of a job changes what is estimated, or its description says that it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache, cached_property
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from typing_extensions import TypeAliasType

from trainfit.architectures.config import ConfigError
from trainfit.estimator.estimate import estimate
from trainfit.questions.estimate import MEMOS, plan_of, price
from trainfit.resolve.findings import RefusedError
from trainfit.specs.framework import FrameworkName
from trainfit.specs.honoured import Only, limited_fields
from trainfit.specs.job import Job

IN_ALLOCATOR = 6
"""Components before allocator slack."""

SAYS_SO = "Changes no memory: "

CHANGES_NOTHING = {
    "/framework/overlap_param_gather",
    "/framework/delay_wgrad_compute",
    "/framework/use_transformer_engine_op_fuser",
    "/framework/deepspeed/allgather_bucket_size",
}
"""Fields that are read because launches have them."""

OF_A_VERDICT = {"/gpu/memory_bytes", "/gpu/reserved_other_bytes"}
"""What a card has left is compared with an estimate, and is no part of it."""

CALIBRATION = "calibration"
"""A document that stands for itself by its digest, so that no field of it changes alone."""

SPEED = "speed"
"""What the time of a step alone rests on; tests/steptime/test_speed.py has its fields."""

NAMES = {"/model/spec/name", "/gpu/name", "/framework/name"}

SOURCES = {"/model/hf_id", "/model/revision", "/gpu", "/estimator_version"}
"""Where a description is looked up."""

DENSE: dict[str, Any] = {
    "num_layers": 8,
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "num_query_groups": 4,
    "vocab_size": 512,
    "position_embedding_type": "rope",
    "swiglu": True,
    "add_bias_linear": False,
    "untie_embeddings_and_output_weights": True,
}
WIDE = DENSE | {"vocab_size": 32_003}
LLAMA = WIDE | {"normalization": "RMSNorm"}
SPARSE = DENSE | {"num_moe_experts": 8, "moe_shared_expert_intermediate_size": 512}
LATENT = SPARSE | {"multi_latent_attention": True, "kv_lora_rank": 64, "mtp_num_layers": 1}
LEARNED = DENSE | {
    "position_embedding_type": "learned_absolute",
    "max_position_embeddings": 2048,
    "swiglu": False,
}
EIGHT = {"num_gpus": 8}
IN_TWO_LEVELS = {
    "cp": 8,
    "cp_comm_type": "a2a+p2p",
    "hierarchical_context_parallel_sizes": [2, 4],
}
FULL = {"granularity": "full"}
ZERO_1, ZERO_2, ZERO_3 = (
    EIGHT | {"data_parallel_sharding_strategy": strategy}
    for strategy in ("no_shard", "optim_grads", "optim_grads_params")
)


def job(
    name: str,
    spec: dict[str, Any],
    parallelism: dict[str, Any],
    training: dict[str, Any] | None = None,
    framework: dict[str, Any] | None = None,
    gpu: str = "H100-80GB",
) -> dict[str, Any]:
    sizes = {"micro_batch_size": 2, "seq_length": 2048, "num_microbatches": 8}
    return {
        "model": {"spec": spec},
        "parallelism": parallelism,
        "training": sizes | (training or {}),
        "framework": {"name": name} | (framework or {}),
        "gpu": gpu,
    }


def megatron(*parts: Any, **more: Any) -> dict[str, Any]:
    return job("megatron", *parts, **more)


def torchtitan(*parts: Any, **more: Any) -> dict[str, Any]:
    return job("torchtitan", *parts, **more)


def transformers(*parts: Any, **more: Any) -> dict[str, Any]:
    return job("transformers", *parts, **more)


def nanotron(*parts: Any, **more: Any) -> dict[str, Any]:
    return job("nanotron", *parts, **more)


SQUARED = {"swiglu": False, "activation_func": "squared_relu", "mtp_num_layers": 2}
HYBRID_EP = {"token_dispatcher_type": "flex", "flex_dispatcher_backend": "hybridep"}
STASHED = {"expert_rank_capacity_factor": 1.5, "paged_stash": True}
DEEP_EP = {"token_dispatcher_type": "flex"}
WHOLE_MATRICES = {"name": "muon", "muon_tp_mode": "duplicated"}
IN_MXFP8 = {"fp8_recipe": "mxfp8", "fp8_param_gather": True}
OF_ACTOR = {"objective": "policy", "log_probs_by": "verl"}
LORA = {"method": "lora"}
PROMPT = {"method": "prompt_tuning", "num_virtual_tokens": 8}
ENCODED = {"method": "p_tuning", "num_virtual_tokens": 8}
LSTM = {"encoder_reparameterization_type": "LSTM"}
PREFIX = {"method": "prefix_tuning", "num_virtual_tokens": 8, "prefix_projection": True}
DEEPSPEED = {"data_parallel_engine": "deepspeed"}
SDPA = {"recompute": FULL, "attention": {"backend": "sdpa"}}
FSDP1 = {"data_parallel_engine": "fsdp1"}
FETCHING_LITTLE = {"stage3_max_live_parameters": 0, "stage3_prefetch_bucket_size": 10**6}
TOWER = {"depth": 2, "embed_dim": 64, "hidden_size": 256, "num_heads": 4}
SEEING = {
    "model_type": "qwen2_vl",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "vision_config": TOWER,
}
DEEP = {
    "model_type": "qwen3_vl",
    "text_config": {key: value for key, value in SEEING.items() if isinstance(value, int)},
    "vision_config": TOWER | {"out_hidden_size": 256},
}
JOBS = [
    megatron(DENSE, {"num_gpus": 32, "pp": 2, "tp": 2, "vpp": 2, "cp": 2}, {"recompute": FULL}),
    megatron(SPARSE, {"num_gpus": 8, "ep": 4, "etp": 1, "pp": 2, "vpp": 2}),
    megatron(SPARSE, {"num_gpus": 16, "tp": 2, "pp": 2, "ep": 2}),
    megatron(SPARSE, EIGHT, {"moe": {"expert_capacity_factor": 1.0}, "seq_length": 512}),
    megatron(LATENT, EIGHT, {"recompute": {"granularity": "selective"}}),
    megatron(DENSE | {"hybrid_layer_pattern": "M-M*M-M-"}, EIGHT),
    megatron(SPARSE | SQUARED, EIGHT | {"ep": 4}),
    megatron(LEARNED, EIGHT | {"tp": 4}, {"precision": {}}, {"transformer_impl": "local"}),
    megatron(SPARSE, ZERO_3, {"precision": {"fp8_recipe": "delayed"}}),
    megatron(SPARSE, EIGHT | {"ep": 4}, {"moe": HYBRID_EP}),
    megatron(SPARSE, EIGHT | {"ep": 4}, {"moe": HYBRID_EP | STASHED}),
    megatron(SPARSE, EIGHT | {"ep": 4}, {"moe": DEEP_EP}),
    megatron(
        SPARSE,
        EIGHT | {"ep": 4},
        {"precision": IN_MXFP8, "moe": {"router_padding_for_quantization": True}},
        {"overlap_moe_expert_parallel_comm": True},
    ),
    megatron(DENSE, EIGHT | {"tp": 4}, {"precision": {"fp4_recipe": "nvfp4"}}),
    megatron(DENSE, EIGHT | {"pp": 2}, {}, {"cuda_graph_impl": "transformer_engine"}),
    megatron(DENSE | {"activation_func": "geglu"}, EIGHT, {}, {"bias_activation_fusion": False}),
    megatron(DENSE, EIGHT | {"tp": 4, "sequence_parallel": False}, {"recompute": FULL}),
    megatron(WIDE, EIGHT, {"loss": OF_ACTOR}),
    megatron(DENSE, EIGHT | {"tp": 4}, gpu="A100-80GB"),
    megatron(WIDE, EIGHT, {}, {"defer_embedding_wgrad_compute": True}),
    megatron(DENSE, EIGHT | {"pp": 4}, {"num_microbatches": None}),
    megatron(DENSE | {"ffn_hidden_size": 64}, EIGHT | IN_TWO_LEVELS, {"recompute": FULL}),
    *[
        megatron(
            DENSE | {"num_layers": 7},
            EIGHT | {"pp": 2, f"account_for_{what}_in_pipeline_split": True},
        )
        for what in ("embedding", "loss")
    ],
    *[
        megatron(DENSE, EIGHT | {"tp": 2}, {"image_tokens": 512}) | {"model": {"hf_config": config}}
        for config in (SEEING, DEEP)
    ],
    torchtitan(DENSE, ZERO_3),
    torchtitan(WIDE, {"num_gpus": 16, "tp": 2}),
    torchtitan(SPARSE, EIGHT | {"ep": 2}),
    torchtitan(SPARSE, EIGHT | {"ep": 2}, {}, {"compile": True}),
    torchtitan(WIDE, EIGHT | {"pp": 4}, {"loss": {"cross_entropy": "chunked"}}),
    torchtitan(DENSE, EIGHT | {"pp": 4}, {"seq_length": 16, "num_microbatches": None}),
    torchtitan(DENSE, EIGHT, {"recompute": FULL}),
    torchtitan(DENSE, EIGHT, {"recompute": {"granularity": "selective"}}),
    torchtitan(DENSE, EIGHT, {"optimizer": {"name": "sgd"}}),
    torchtitan(WIDE, {"num_gpus": 1}, {"optimizer": {"name": "adamw8bit"}}),
    torchtitan(DENSE, ZERO_1, {"seq_length": 64}),
    torchtitan(DENSE, ZERO_3, {"precision": {"params": "fp32", "fp4_recipe": "nvfp4"}}),
    torchtitan(DENSE, EIGHT, {"attention": {"backend": "eager"}}),
    torchtitan(WIDE, {"num_gpus": 1}, {"recompute": FULL, "num_frozen_layers": 4}),
    transformers(DENSE, EIGHT, {"optimizer": {"name": "sgd"}}),
    transformers(WIDE, {"num_gpus": 1}, {"optimizer": {"name": "adamw8bit"}}),
    transformers(WIDE, EIGHT, {"loss": {"cross_entropy": "chunked_nll"}}),
    transformers(WIDE, EIGHT, {"loss": {"objective": "preference", "log_probs_by": "trl-0.12"}}),
    transformers(WIDE, ZERO_3, {"seq_length": 64, "loss": OF_ACTOR}),
    transformers(WIDE, ZERO_3, {"loss": OF_ACTOR | {"scored_tokens": 2**20}}),
    transformers({}, ZERO_3 | {"ep": 2}) | {"model": {"hf_id": "Qwen/Qwen3-30B-A3B"}},
    megatron(DENSE, EIGHT, {"optimizer": {"name": "sgd"}}),
    megatron(DENSE, EIGHT, {"optimizer": {"name": "muon"}}),
    megatron(DENSE, EIGHT, {"optimizer": WHOLE_MATRICES, "seq_length": 64, "recompute": FULL}),
    transformers(WIDE, EIGHT | {"tp": 2}),
    transformers(DENSE, EIGHT, {"seq_length": 64}),
    transformers(DENSE, ZERO_1, {"seq_length": 64}),
    transformers(DENSE, ZERO_2, {}, DEEPSPEED),
    transformers(DENSE, ZERO_3, {}, DEEPSPEED),
    transformers(DENSE, ZERO_3, {"seq_length": 64}),
    transformers(DENSE, ZERO_3, {}, DEEPSPEED | {"deepspeed": FETCHING_LITTLE}),
    transformers(DENSE, ZERO_1, {"num_microbatches": 1}),
    transformers(DENSE, EIGHT, {"attention": {"backend": "eager"}}),
    transformers(WIDE, {"num_gpus": 1}, {"peft": LORA}),
    transformers(WIDE, {"num_gpus": 1}, {"lengths": {}}, {"compile": True}),
    transformers(
        WIDE,
        {"num_gpus": 1},
        {"precision": "autocast-bf16", "peft": LORA | {"quantization": "nf4"}},
    ),
    *[
        transformers(SPARSE, {"num_gpus": 1}, {"peft": tokens | {"quantization": "nf4"}})
        for tokens in (LORA, PROMPT, ENCODED, PREFIX)
    ],
    *[
        transformers(WIDE, {"num_gpus": 1}, {"peft": tokens | stored} | precision)
        for tokens in (PROMPT, ENCODED, PREFIX)
        for stored, precision in (
            ({}, {}),
            ({}, {"precision": "bf16-pure"}),
            ({"quantization": "nf4"}, {}),
        )
    ],
    nanotron(LLAMA, {"num_gpus": 16, "tp": 2, "pp": 2, "sequence_parallel": True}),
    nanotron(LLAMA, ZERO_1, {"seq_length": 16}),
    transformers(WIDE, {"num_gpus": 1}, {"peft": ENCODED | LSTM}),
    transformers(WIDE, {"num_gpus": 1}, {"recompute": FULL, "num_frozen_layers": 4}),
    transformers(DENSE, ZERO_3, {"peft": LORA, "recompute": FULL}, FSDP1),
    transformers(DENSE | {"ffn_hidden_size": 64}, ZERO_3 | {"cp": 8}, SDPA),
    *[
        each(DENSE, {"num_gpus": 1}) | {"model": {"hf_config": SEEING}}
        for each in (torchtitan, transformers)
    ],
]


class Leaf(NamedTuple):
    """A field of a part of a job, and values to try. `kind` is what the part is named by, where
    it is one of several.
    """

    path: tuple[str, ...]
    field: FieldInfo
    values: tuple[Any, ...]
    kind: tuple[str, str] | None

    @property
    def pointer(self) -> str:
        return "/" + "/".join(self.path)


def arguments(kind: Any) -> Iterator[Any]:
    """The types that a type is one of."""
    if get_origin(kind) is Annotated:
        yield from arguments(get_args(kind)[0])
    elif isinstance(kind, TypeAliasType):
        yield from arguments(kind.__value__)
    elif get_origin(kind) in (Union, UnionType):
        for each in get_args(kind):
            yield from arguments(each)
    else:
        yield kind


NUMBERS = (0, 1, 2, 3, 4, 8, 16, 64, 128, 1000, 4096, 10**6, 10**9, 64 * 2**20)
WORDS = ("embed_tokens", "lm_head", "norm", "q_proj", "Et*5|t*3L", "MMMMMMMM")


DISCRIMINATORS = ("name", "method")
"""Fields that tell which of several parts a part is."""


def values(kind: Any) -> Iterator[Any]:
    for each in arguments(kind):
        if get_origin(each) is Literal:
            yield from get_args(each)
        elif get_origin(each) is tuple:
            singles = list(values(get_args(each)[0]))
            yield from ([single] for single in singles)
            yield from ([8, 1], [0, 1] * 4)
        elif each is bool:
            yield from (True, False)
        elif each is int:
            yield from NUMBERS
        elif each is float:
            yield from (0.0, 0.1, 0.5, 1.0, 1.25, 2.0)
        elif each is str:
            yield from WORDS


def leaves(part: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    names = {n: get_args(f.annotation) for n, f in part.model_fields.items() if n in DISCRIMINATORS}
    kind = next(((n, found[0]) for n, found in names.items() if len(found) == 1), None)
    for name, field in part.model_fields.items():
        for each in arguments(field.annotation):
            if isinstance(each, type) and issubclass(each, BaseModel):
                yield from leaves(each, (*path, name))
        tried = tuple(values(field.annotation))
        if tried:
            yield Leaf((*path, name), field, tried, kind)


ALL = list(leaves(Job))
APART = SOURCES | NAMES | OF_A_VERDICT
TRIED = [
    leaf
    for leaf in ALL
    if leaf.pointer not in APART
    and leaf.path[0] not in (CALIBRATION, SPEED)
    and leaf.path[-1] not in DISCRIMINATORS
]


def put(document: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    changed = deepcopy(document)
    part = changed
    for step in path[:-1]:
        if not isinstance(part.get(step), dict):
            part[step] = {}
        part = part[step]
    part[path[-1]] = value
    return changed


class Asked:
    """A job, and what is estimated of it."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.plan = plan_of(Job.model_validate(document))

    @cached_property
    def tensors(self) -> Any:
        """What replaying the allocator does not change, which takes nine tenths of the time."""
        result = estimate(self.plan, memo=MEMOS.current(), replay=False)
        return result.model.parameters, [
            (stage.components[:IN_ALLOCATOR], stage.allocated_bytes) for stage in result.stages
        ]

    @cached_property
    def held(self) -> Any:
        """What the card holds."""
        return [
            (stage.components, stage.reserved_bytes, stage.device_bytes)
            for stage in estimate(self.plan, memo=MEMOS.current()).stages
        ]


@cache
def unchanged(number: int) -> Asked:
    return Asked(JOBS[number])


def is_there(leaf: Leaf, document: dict[str, Any]) -> bool:
    """Whether a job has the part of which this is a field."""
    if leaf.kind is None:
        return True
    name, kind = leaf.kind
    part: Any = document
    for step in leaf.path[:-1]:
        part = part.get(step, {})
    return bool(part.get(name) == kind)


Effect = Literal["counts", "is refused", "is ignored"]


def effect(leaf: Leaf, framework: str) -> Effect:
    """What values of a field do to the jobs of a framework: they count where an estimate changes,
    or something else does not hold.
    """
    return _effect(ALL.index(leaf), framework)


@cache
def _effect(index: int, framework: str) -> Effect:
    found, alike = on_tensors(index, framework)
    for number, value in alike:
        new, old = Asked(put(JOBS[number], ALL[index].path, value)), unchanged(number)
        if new.plan != old.plan and new.held != old.held:
            return "counts"
    return found


@cache
def on_tensors(index: int, framework: str) -> tuple[Effect, Sequence[tuple[int, Any]]]:
    """What values of a field do where no allocator is replayed, and the first and the last of those
    that leave the tensors of a job as they are, with the number of that job: the first of each job
    before the last of any, as most fields count in few jobs and by any value.
    """
    leaf = ALL[index]
    found: Effect = "is ignored"
    first: dict[int, Any] = {}
    last: dict[int, Any] = {}
    for number, document in enumerate(JOBS):
        asked = document["framework"]["name"] == framework and is_there(leaf, document)
        for value in leaf.values if asked else ():
            try:
                changed = Asked(put(document, leaf.path, value))
                if changed.tensors != unchanged(number).tensors:
                    return "counts", ()
            except (ValidationError, ConfigError):
                continue
            except RefusedError as error:
                if not any(found.pointer.startswith(leaf.pointer) for found in error.findings):
                    return "counts", ()
                found = "is refused"
            else:
                last[number] = value
                first.setdefault(number, value)
    others = [(number, value) for number, value in last.items() if value is not first[number]]
    return found, [*first.items(), *others]


@pytest.mark.parametrize("leaf", TRIED, ids=lambda leaf: leaf.pointer)
def test_a_field_changes_an_estimate_or_says_that_it_does_not(leaf: Leaf) -> None:
    said = SAYS_SO in (leaf.field.description or "")
    assert said == (leaf.pointer in CHANGES_NOTHING)
    names = get_args(FrameworkName)
    # Tensors first, of all frameworks, since replays take most of the time.
    counts = any(on_tensors(ALL.index(leaf), name)[0] == "counts" for name in names) or any(
        effect(leaf, name) == "counts" for name in names
    )
    assert counts != said


LIMITED = {each.pointer: each.only for each in limited_fields(Job)}
OF_STEPS = [leaf for leaf in TRIED if leaf.path[0] in ("parallelism", "training")]


@pytest.mark.parametrize("framework", get_args(FrameworkName))
@pytest.mark.parametrize("leaf", OF_STEPS, ids=lambda leaf: leaf.pointer)
def test_a_framework_honours_a_field_unless_the_field_says_so(leaf: Leaf, framework: Any) -> None:
    """Nothing is ignored without a word: what has no effect says where it has none."""
    only = LIMITED.get(leaf.pointer)
    if isinstance(only, Only) and framework not in only.frameworks:
        assert effect(leaf, framework) == ("is ignored" if only.ignored else "is refused")
    elif is_asked(leaf, framework):
        # Refused or not is seen without a replay.
        on_its_tensors, _ = on_tensors(ALL.index(leaf), framework)
        assert on_its_tensors != "is ignored" or effect(leaf, framework) == "counts"


def is_asked(leaf: Leaf, framework: str) -> bool:
    """Whether any job of a framework has the part of which this is a field."""
    asked = [each for each in JOBS if each["framework"]["name"] == framework]
    return any(is_there(leaf, each) for each in asked)


def test_what_a_framework_ignores_is_remarked_on() -> None:
    asked = torchtitan(SPARSE, EIGHT, {"moe": {"permute_fusion": False}})
    (warning,) = price(Job.model_validate(asked)).warnings
    assert warning == "/training/moe/permute_fusion has no effect on memory under torchtitan."


def test_the_lists_name_fields() -> None:
    assert {leaf.pointer for leaf in ALL} >= CHANGES_NOTHING | APART
