"""Sizes that a launch spells out, and the number of GPUs that they make: against every layout of a
small world, worked out by hand from what each framework checks.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import pytest

from tests.launch.launches import Read, launch_of, read
from trainfit.launch.errors import LaunchError

REPLICAS = "/parallelism/data_parallel_replicate_size"
WORLDS = (2, 4, 8, 16, 24, 32, 64)
AXOLOTL = """
base_model: Qwen/Qwen3-8B
micro_batch_size: 1
sequence_len: 2048
fsdp_version: 2
fsdp_config: {auto_wrap_policy: TRANSFORMER_BASED_WRAP}
"""
ACCELERATE = """
distributed_type: FSDP
mixed_precision: bf16
fsdp_config: {fsdp_version: 2, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}
"""
TITAN = """
[model]
name = "llama3"
flavor = "8B"
[training]
seq_len = 2048
[parallelism]
"""
TUNE = """
model: {_component_: torchtune.models.llama3.llama3_8b}
tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, max_seq_len: 2048}
optimizer: {_component_: torch.optim.AdamW, fused: true}
loss: {_component_: torchtune.modules.loss.CEWithChunkedOutputLoss}
dtype: bf16
batch_size: 1
"""
Sizes = dict[str, int | None]


def settings(sizes: Sizes, form: str) -> str:
    return "".join(f"{form.format(name, size)}\n" for name, size in sizes.items() if size)


def attempt(files: dict[str, str], num_gpus: int | None, argv: str | None = None) -> Read | None:
    """The launch as it is read, None where it is refused for its sizes."""
    overrides: dict[str, Any] = {"training": {"seq_length": 2048, "micro_batch_size": 1}}
    if num_gpus is not None:
        overrides["parallelism"] = {"num_gpus": num_gpus}
    try:
        return read(launch_of(files, argv.split() if argv else None, overrides=overrides))
    except LaunchError as error:
        if "GPUs, the" not in str(error):
            raise
        return None


def axolotls_replicas(world: int, sizes: Sizes) -> int | None:
    """Replicas as axolotl's _get_parallel_config_kwargs makes them; None where accelerate then
    finds another product, or shards that are asked for are dropped as no rank is left for them.
    """
    left = world // (sizes["tensor_parallel_size"] or 1)
    shard, replicas = sizes["dp_shard_size"], sizes["dp_replicate_size"]
    made = {"tp": sizes["tensor_parallel_size"] or 1}
    if shard is None and replicas in (None, 1) and left > 1:
        made["shard"], left = left, 1
    if replicas and replicas > 1:
        made["replicas"], left = replicas, left // replicas
    if left > 1 and shard and shard > 1:
        made["shard"], left = shard, left // shard
        if left > 1 and "replicas" not in made:
            made["replicas"], left = left, 1
    if left > 1 and "shard" not in made:
        made["shard"], left = left, 1
    dropped = shard not in (None, 1, made.get("shard"))
    fits = left <= 1 and prod(made.values()) == world and not dropped
    return made.get("replicas", 1) if fits else None


def test_axolotl_makes_of_its_sizes_what_axolotl_makes() -> None:
    refused = 0
    for shard, replicas, tp, world in product((None, 1, 4), (None, 1, 2), (None, 2), WORLDS):
        sizes: Sizes = {
            "dp_shard_size": shard,
            "dp_replicate_size": replicas,
            "tensor_parallel_size": tp,
        }
        expected = axolotls_replicas(world, sizes)
        found = attempt({"a.yaml": AXOLOTL + settings(sizes, "{}: {}")}, world)
        assert (found is None) == (expected is None), (sizes, world)
        if found is not None:
            assert (found.field(REPLICAS) or 1) == expected, (sizes, world)
        refused += found is None
    assert refused > 10


@pytest.mark.parametrize("world", [8, 16, 32, 64])
def test_axolotls_four_shards_of_two_replicas_and_two_ranks_are_sixteen(world: int) -> None:
    sizes: Sizes = {"dp_shard_size": 4, "dp_replicate_size": 2, "tensor_parallel_size": 2}
    found = attempt({"a.yaml": AXOLOTL + settings(sizes, "{}: {}")}, world)
    assert (found is not None) == (world == 16)


def test_axolotls_shards_need_fsdp() -> None:
    plain = AXOLOTL.partition("fsdp_version")[0] + "dp_shard_size: 4\n"
    with pytest.raises(LaunchError, match="dp_shard_size: goes with FSDP"):
        read(launch_of({"a.yaml": plain}, overrides={"parallelism": {"num_gpus": 8}}))


def test_sizes_of_accelerate_make_the_number_of_processes() -> None:
    command = "accelerate launch --config_file a.yaml train.py --model_name_or_path Qwen/Qwen3-8B"
    for shard, replicas, tp, world in product((None, 1, 4), (None, 1, 2), (None, 2), WORLDS):
        sizes: Sizes = {
            "parallelism_config_dp_shard_size": shard,
            "parallelism_config_dp_replicate_size": replicas,
            "parallelism_config_tp_size": tp,
        }
        section = "parallelism_config:\n" + settings(sizes, "  {}: {}")
        config = ACCELERATE + (section if any(sizes.values()) else "")
        total = prod(size or 1 for size in sizes.values())
        found = attempt({"a.yaml": config}, world, command)
        assert (found is not None) == (total in (1, world)), (sizes, world)
        counted = attempt({"a.yaml": f"{config}num_processes: {world}\n"}, None, command)
        assert (counted is not None) == (total in (1, world)), (sizes, world)
    sizes["parallelism_config_dp_shard_size"] = 8
    section = "parallelism_config:\n" + settings(sizes, "  {}: {}")
    told = attempt({"a.yaml": ACCELERATE + section}, None, command)
    assert told is not None
    assert told.field("/parallelism/num_gpus") == 32


def test_degrees_of_torchtitan_make_the_world() -> None:
    for shard, replicas, tp, world in product((-1, 1, 4), (None, 2), (None, 3), WORLDS):
        sizes: Sizes = {
            "data_parallel_shard_degree": shard,
            "data_parallel_replicate_degree": replicas,
            "tensor_parallel_degree": tp,
        }
        rest = (replicas or 1) * (tp or 1)
        fits = world % rest == 0 if shard < 1 else rest * shard == world
        if shard == 1 and replicas and tp:
            continue  # DDP runs beside no other parallelism, which is refused in words of its own
        found = attempt({"t.toml": TITAN + settings(sizes, "{} = {}")}, world)
        assert (found is not None) == fits, (sizes, world)


def test_degrees_of_torchtune_make_the_world() -> None:
    for shard, replicas, tp, world in product((None, -1, 4), (None, 2), (None, 2), WORLDS):
        sizes: Sizes = {
            "data_parallel_shard_dim": shard,
            "data_parallel_replicate_dim": replicas,
            "tensor_parallel_dim": tp,
        }
        rest = (replicas or 1) * (tp or 1)
        fits = world % rest == 0 if shard in (None, -1) else rest * shard == world
        found = attempt({"t.yaml": TUNE + settings(sizes, "{}: {}")}, world)
        assert (found is not None) == fits, (sizes, world)


VERL = (
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen3-8B "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 algorithm.adv_estimator=grpo "
    "actor_rollout_ref.actor.fsdp_config.fsdp_size=16"
)


def verl(gpus: int) -> Read:
    overrides = {"parallelism": {"num_gpus": gpus}, "gpu": {"reserved_other_bytes": 0}}
    return read(launch_of(None, VERL.split(), overrides=overrides))


@pytest.mark.parametrize("gpus", [16, 32])
def test_groups_of_verl_are_made_of_the_gpus_that_are_given(gpus: int) -> None:
    assert (verl(gpus).field(REPLICAS) or 1) == gpus // 16


@pytest.mark.parametrize("gpus", [8, 12, 24])
def test_groups_of_verl_divide_the_gpus_that_are_given(gpus: int) -> None:
    with pytest.raises(LaunchError, match=f"does not divide {gpus} GPUs"):
        verl(gpus)
