"""What a script starts beside the program that trains, and what it does not tell of it."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of, read
from trainfit.launch.errors import LaunchError

SFT = """
model_name_or_path: Qwen/Qwen3-8B
per_device_train_batch_size: 2
max_length: 2048
"""
LLAMA_FACTORY = SFT + "finetuning_type: full\ncutoff_len: 2048\nstage: sft\n"
AXOLOTL = """
base_model: Qwen/Qwen3-8B
micro_batch_size: 2
sequence_len: 2048
"""
TOOLS = (
    "MODEL=$(grep model config.yaml)",
    "find . -name '*.pyc' | xargs rm -f",
    "rm -rf out",
    "clear",
    "nvidia-smi -L | tee gpus.txt",
    "trl vllm-serve --model Qwen/Qwen3-8B &",
    "python scripts/vllm_infer.py --model_name_or_path out --output_dir answers",
    "python scripts/auto_infer_watcher.py --output_dir out &",
    "python -m vllm.entrypoints.openai.api_server --output_dir out &",
)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("config", "command"),
    [
        (SFT, "accelerate launch --num_processes 8 sft.py --config config.yaml"),
        (SFT, "trl sft --config config.yaml --num_processes 8"),
        (LLAMA_FACTORY, "torchrun --nproc_per_node 8 src/train.py config.yaml"),
        (AXOLOTL, "axolotl train config.yaml -- --num_processes 8"),
    ],
)
def test_a_tool_is_not_taken_for_the_program(config: str, command: str, tool: str) -> None:
    files = {"run.sh": f"{tool}\n{command}\n", "config.yaml": config}
    assert read(launch_of(files)).field("/training/micro_batch_size") == 2


@pytest.mark.parametrize(
    ("config", "beside", "command"),
    [
        (AXOLOTL, "axolotl preprocess config.yaml", "axolotl train config.yaml"),
        (AXOLOTL, "python -m axolotl.cli.preprocess config.yaml", "axolotl train config.yaml"),
        (AXOLOTL, "axolotl merge-lora config.yaml", "python -m axolotl.cli.train config.yaml"),
        (
            LLAMA_FACTORY,
            "llamafactory-cli export config.yaml",
            "llamafactory-cli train config.yaml",
        ),
    ],
)
def test_commands_of_a_tool_that_do_not_train(config: str, beside: str, command: str) -> None:
    files = {"run.sh": f"{command}\n{beside}\n", "config.yaml": config}
    eight = {"parallelism": {"num_gpus": 8}}
    assert read(launch_of(files, overrides=eight)).field("/training/micro_batch_size") == 2
    files["run.sh"] = beside
    with pytest.raises(LaunchError, match="holds no launch that is recognised"):
        read(launch_of(files, overrides=eight))


COUNTED = """
GPUS=$(( 8 * $(scontrol show hostnames | wc -l) ))
STEPS=$(yq .gradient_accumulation_steps config.yaml)
accelerate launch --config_file "$(pwd)/zero3.yaml" --num_machines $SLURM_NNODES \\
    --num_processes $GPUS --gradient_accumulation_steps $STEPS sft.py --config config.yaml
"""
ZERO3 = """
distributed_type: DEEPSPEED
deepspeed_config: {zero_stage: 3}
mixed_precision: bf16
num_processes: 8
"""


def test_numbers_that_the_script_looks_up_may_be_given_in_their_place() -> None:
    """accelerate's accumulation is a copy of the config's, which counts."""
    config = f"{SFT}gradient_accumulation_steps: 4\n"
    files = {"run.slurm": COUNTED, "config.yaml": config, "zero3.yaml": ZERO3}
    with pytest.raises(LaunchError, match=r"--num_processes: .* is not known"):
        read(launch_of(files))
    found = read(launch_of(files, overrides={"parallelism": {"num_gpus": 32}}))
    assert found.field("/parallelism/num_gpus") == 32
    assert found.field("/training/num_microbatches") == 4
    assert not found.unsupported
    told = {"--num_machines", "--num_processes", "--gradient_accumulation_steps"}
    assert told <= found.irrelevant


def test_of_the_path_of_a_file_that_was_sent_only_the_end_counts() -> None:
    script = "deepspeed --num_gpus 8 train.py --deepspeed `pwd`/ds.json --fsdp_config $X/f.json"
    files = {"run.sh": f"{script} {flags()}", "ds.json": '{"zero_optimization": {"stage": 2}}'}
    files["f.json"] = '{"limit_all_gathers": true}'
    found = read(launch_of(files))
    assert found.field("/framework/data_parallel_engine") == "deepspeed"
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "optim_grads"
    files["run.sh"] = files["run.sh"].replace("ds.json", "$X.json")
    with pytest.raises(LaunchError, match="send that file too"):
        read(launch_of(files))


def flags() -> str:
    return (
        "--model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2 "
        "--model_max_length 2048 --bf16 True --dtype bfloat16"
    )


@pytest.mark.parametrize("config", [LLAMA_FACTORY, AXOLOTL])
def test_rays_workers_have_a_gpu_each(config: str) -> None:
    found = read(launch_of({"config.yaml": f"{config}ray_num_workers: 4\n"}))
    assert found.field("/parallelism/num_gpus") == 4
    assert not found.unsupported
    eight = {"parallelism": {"num_gpus": 8}}
    found = read(launch_of({"config.yaml": f"{config}ray_num_workers: 4\n"}, overrides=eight))
    assert found.field("/parallelism/num_gpus") == 8


def test_a_script_that_starts_nothing_is_not_passed_over_for_a_file_beside_it() -> None:
    script = "for i in 1 2 3; do [ -f model.bin ] || exit 1; done\necho $1\n"
    with pytest.raises(LaunchError) as error:
        read(launch_of({"run.sh": script, "config.yaml": SFT}))
    assert "holds no launch that is recognised" in str(error.value)
    assert str(error.value).count("run.sh:1: the script may end here, before it trains") == 1


@pytest.mark.parametrize(
    ("tuning", "keys"),
    [
        ("full", {"model_name_or_path"}),
        ("lora", set()),
        ("full\nfreeze_vision_tower: true", {"freeze_vision_tower"}),
    ],
)
def test_llama_factory_freezes_a_tower_unless_told_otherwise(tuning: str, keys: set[str]) -> None:
    config = f"""
model_name_or_path: Qwen/Qwen3-VL-4B-Instruct
per_device_train_batch_size: 2
cutoff_len: 2048
stage: sft
finetuning_type: {tuning}
"""
    eight = {"parallelism": {"num_gpus": 8}}
    assert read(launch_of({"config.yaml": config}, overrides=eight)).unsupported == keys
    text_only = config.replace("Qwen3-VL-4B-Instruct", "Qwen3-8B")
    assert read(launch_of({"config.yaml": text_only}, overrides=eight)).unsupported == set()
