"""NeMo-RL's configs over one another, and what each algorithm learns."""

from __future__ import annotations

import pytest
import yaml

from tests.launch.derived.nemo_rl import GRPO, M
from tests.launch.launches import Read, launch_of
from tests.launch.launches import read as read_launch
from trainfit.launch.errors import LaunchError

GROWS = "/framework/expandable_segments"
BASE = GRPO.written(())


def read(files: dict[str, str], words: str = "") -> Read:
    return read_launch(launch_of(files, words.split() or None))


def test_a_config_lies_over_the_files_that_it_names() -> None:
    """load_config of utils/config.py: bases first, relative to the file, then its own keys."""
    files = {
        "configs/grpo.yaml": BASE,
        "configs/recipes/wide.yaml": f"defaults: ../grpo.yaml\n{M}:\n".replace(f"{M}:\n", "")
        + "policy:\n  train_micro_batch_size: 2\n  megatron_cfg: {tensor_model_parallel_size: 4}\n",
        "configs/recipes/long.yaml": "defaults: [wide.yaml]\n"
        "policy: {max_total_sequence_length: 8192}\n",
        "configs/recipes/more.yaml": "defaults: long.yaml\ncluster: {num_nodes: 4}\n",
    }
    for found in (read(files), read(files, "run_grpo.py --config configs/recipes/more.yaml")):
        assert found.field("/parallelism/tp") == 4
        assert found.field("/parallelism/num_gpus") == 32
        assert found.field("/training/micro_batch_size") == 2
        assert found.field("/training/seq_length") == 8192
    del files["configs/grpo.yaml"]
    with pytest.raises(LaunchError, match=r"names \.\./grpo\.yaml; send that file too"):
        read(files)


def test_what_is_no_mapping_takes_the_place_of_one() -> None:
    """merge_with_override of utils/config.py; a file that two others name is laid below both."""
    files = {
        "grpo.yaml": BASE,
        "one.yaml": "defaults: grpo.yaml\n"
        "policy: {megatron_cfg: {distributed_data_parallel_config: 1}}\n",
        "same.yaml": "defaults: grpo.yaml\npolicy: {megatron_cfg: {}}\n",
        "run.yaml": f"defaults: [one.yaml, {'same.yaml, ' * 40}one.yaml]\n",
    }
    base, run, one, same = (
        read(files, f"run_grpo.py --config {name}.yaml") for name in ("grpo", "run", "one", "same")
    )
    assert base.job == same.job
    assert run.job == one.job
    assert run.field("/training/precision") != base.field("/training/precision")


def test_a_config_is_not_laid_over_itself() -> None:
    files = {"a.yaml": "defaults: b.yaml\n", "b.yaml": f"defaults: {['a.yaml'] * 9}\n{BASE}"}
    with pytest.raises(LaunchError, match=r"a\.yaml is laid over itself"):
        read(files, "run_grpo.py --config a.yaml")


@pytest.mark.parametrize(
    ("script", "samples"), [("run_grpo.py", 4), ("run_sft.py", 4), ("run_dpo.py", 8)]
)
def test_both_samples_of_a_pair_are_in_a_micro_batch(script: str, samples: int) -> None:
    found = read({"c.yaml": BASE}, f"uv run examples/{script} --config=c.yaml")
    assert found.field("/training/micro_batch_size") == samples
    assert found.field("/training/loss/objective") == "policy"
    assert found.field("/training/loss/log_probs_by") == "nemo-rl"
    beside = {"policy.generation.colocated.enabled"} if script == "run_grpo.py" else set()
    assert found.left_out == beside


def test_its_own_variables_count_before_those_of_the_environment() -> None:
    """_create_workers_from_bundle_indices of distributed/worker_groups.py."""
    config = yaml.safe_load(BASE)
    words = (
        "env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python run_grpo.py --config=c.yaml"
    )
    assert read({"c.yaml": BASE}, words).field(GROWS) is True
    own = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False", "NCCL_DEBUG": "INFO"}
    config["policy"]["megatron_cfg"]["env_vars"] = own
    found = read({"c.yaml": yaml.safe_dump(config)}, words)
    assert found.field(GROWS) is False
    assert f"{M}.env_vars.PYTORCH_CUDA_ALLOC_CONF" in found.recognised


def test_routers_in_fp64_and_replayed_ones_are_bounded() -> None:
    config = yaml.safe_load(BASE)
    config["policy"] |= {"model_name": "Qwen/Qwen3-30B-A3B", "router_replay": {"enabled": True}}
    found = read({"c.yaml": yaml.safe_dump(config)})
    bounds = {each.key: each.bytes for each in found.account.bounded}
    rows = 4 * 4096 * 48
    assert bounds[f"{M}.moe_router_dtype in fp64"] == 16 * rows * 128
    assert bounds["policy.router_replay.enabled"] == 16 * rows * 8
    assert not found.unsupported


def test_other_algorithms_are_refused_by_name() -> None:
    with pytest.raises(LaunchError, match="what ppo holds beside the policy is not modelled"):
        read({"c.yaml": f"{BASE}ppo: {{}}\n"})
