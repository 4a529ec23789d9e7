"""Which of the files that were sent count, and what a command line says over them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.launch.launches import Read, launch_of, read
from trainfit.launch.errors import LaunchError

EIGHT = {"parallelism": {"num_gpus": 8}}
SFT = """
model_name_or_path: Qwen/Qwen3-8B
per_device_train_batch_size: 2
max_length: 2048
bf16: true
"""
LLAMA_FACTORY = """
model_name_or_path: Qwen/Qwen3-8B
stage: sft
finetuning_type: full
cutoff_len: 2048
template: qwen
per_device_train_batch_size: 2
"""
AXOLOTL = """
base_model: Qwen/Qwen3-8B
micro_batch_size: 2
sequence_len: 2048
"""
TORCHTITAN = """
[model]
name = "llama3"
flavor = "8B"
[training]
seq_len = 2048
"""
DEEPSPEED = json.dumps({"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}})
FSDP2 = """
distributed_type: FSDP
mixed_precision: bf16
fsdp_config: {fsdp_version: 2, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}
"""
ENGINE = "/framework/data_parallel_engine"
TRAINED = (
    "train.py --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2 "
    "--model_max_length 2048 --bf16 True"
)


def run(files: dict[str, str], command: str | None = None, **others: Any) -> Read:
    argv = None if command is None else command.split()
    return read(launch_of(files, argv, overrides=EIGHT, **others))


def refused(files: dict[str, str], command: str | None = None) -> str:
    with pytest.raises(LaunchError) as error:
        run(files, command)
    return str(error.value)


def test_a_config_of_trl_by_itself_says_nothing_of_who_shares_states_out() -> None:
    """What shares them out lowers what each rank needs, so that a verdict stands where it fits."""
    found = run({"sft.yaml": SFT + "packing: true\n"})
    (told,) = found.account.unsupported
    assert (told.key, told.direction) == ("accelerate", "lowers")
    files = {"sft.yaml": SFT + "packing: true\n"}
    assert not run({**files, "accelerate.yaml": "distributed_type: MULTI_GPU\n"}).unsupported
    assert not run(files, "torchrun --nproc_per_node 8 sft.py --config sft.yaml").unsupported
    alone = launch_of(files, overrides={"parallelism": {"num_gpus": 1}})
    alike = launch_of(files, overrides={**EIGHT, "framework": {"data_parallel_engine": "ddp"}})
    for launch in (alone, alike):
        assert not read(launch).unsupported


@pytest.mark.parametrize("program", ["llamafactory-cli train", "torchrun src/train.py"])
@pytest.mark.parametrize(
    ("words", "pointer", "value"),
    [
        ("cutoff_len=131072", "/training/seq_length", 131072),
        ("per_device_train_batch_size=7", "/training/micro_batch_size", 7),
        ("gradient_accumulation_steps=4", "/training/num_microbatches", 4),
        ("finetuning_type=lora lora_rank=64", "/training/peft/r", 64),
        ("finetuning_type=lora lora_target=[q_proj,v_proj]", "/training/peft/target_modules", 2),
        ("disable_gradient_checkpointing=true", "/training/recompute/granularity", None),
        ("flash_attn=fa2", "/training/attention/backend", "flash"),
        ("optim=adamw_8bit", "/training/optimizer/name", "adamw8bit"),
        ("pure_bf16=true", "/training/precision", "bf16-pure"),
        ("model_name_or_path=Qwen/Qwen3-4B", "/model/hf_id", "Qwen/Qwen3-4B"),
    ],
)
def test_llama_factory_takes_assignments_over_its_file(
    program: str, words: str, pointer: str, value: Any
) -> None:
    found = run({"l.yaml": LLAMA_FACTORY}, f"{program} l.yaml {words}")
    field = found.field(pointer)
    assert (len(field) if isinstance(field, list) else field) == value
    assert not found.unsupported


def test_every_key_over_a_file_of_llama_factory_is_as_good_as_in_it() -> None:
    lines = [line.partition(": ") for line in LLAMA_FACTORY.strip().split("\n")]
    given = run({"l.yaml": LLAMA_FACTORY}, "llamafactory-cli train l.yaml")
    for key, _, value in lines:
        left = "\n".join(f"{name}: {text}" for name, _, text in lines if name != key)
        moved = run({"l.yaml": left}, f"llamafactory-cli train l.yaml {key}={value}")
        assert moved.fields() == given.fields(), key


def test_llama_factory_takes_no_flags_over_its_file() -> None:
    message = refused({"l.yaml": LLAMA_FACTORY}, "llamafactory-cli train l.yaml --cutoff_len 4096")
    assert "LLaMA-Factory takes cutoff_len=.. without dashes" in message


def test_a_word_that_no_list_has_is_told() -> None:
    found = run({}, f"torchrun --nproc_per_node 8 {TRAINED.replace('train.py', 'train.py big')}")
    assert found.unsupported == {"big"}
    assert run({}, f"torchrun --nproc_per_node 8 {TRAINED}").unsupported == set()


@pytest.mark.parametrize(
    ("config", "command", "pointer", "value"),
    [
        (AXOLOTL, "axolotl train a.yaml --sequence-len 8192", "/training/seq_length", 8192),
        (AXOLOTL, "axolotl train a.yaml --sequence-len=8192", "/training/seq_length", 8192),
        (
            AXOLOTL,
            "accelerate launch -m axolotl.cli.train a.yaml --micro_batch_size 4",
            "/training/micro_batch_size",
            4,
        ),
        (SFT, "trl sft --config a.yaml --max_length 512", "/training/seq_length", 512),
        (SFT, "sft.py a.yaml --max_length=512", "/training/seq_length", 512),
    ],
)
def test_flags_count_before_a_file(config: str, command: str, pointer: str, value: int) -> None:
    found = run({"a.yaml": config}, command)
    assert found.field(pointer) == value


@pytest.mark.parametrize("config", [SFT, LLAMA_FACTORY, AXOLOTL])
def test_of_two_configs_none_is_chosen(config: str) -> None:
    longer = config.replace("2048", "4096")
    message = refused({"a.yaml": config, "b.yaml": longer})
    assert "which is meant, a.yaml or b.yaml?" in message


def test_of_two_configs_of_two_formats_none_is_chosen() -> None:
    message = refused({"a.toml": TORCHTITAN, "b.yaml": AXOLOTL})
    assert "which is meant, a.toml or b.yaml?" in message


@pytest.mark.parametrize(
    "command", ["llamafactory-cli train b.yaml", "torchrun src/train.py b.yaml"]
)
def test_a_command_says_which_of_two_configs_counts(command: str) -> None:
    files = {"a.yaml": LLAMA_FACTORY, "b.yaml": LLAMA_FACTORY.replace("2048", "4096")}
    assert run(files, command).field("/training/seq_length") == 4096


def test_a_command_names_one_file_of_arguments() -> None:
    files = {"a.yaml": SFT, "b.yaml": SFT}
    message = refused(files, "sft.py --config a.yaml --config b.yaml")
    assert "names more than one file of arguments: a.yaml, b.yaml" in message


def test_of_two_models_none_is_chosen() -> None:
    model = json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"]})
    unnamed = SFT.replace("model_name_or_path: Qwen/Qwen3-8B", "")
    message = refused({"a.yaml": unnamed, "x/config.json": model, "y/config.json": model})
    assert "which model is meant, x/config.json or y/config.json?" in message


def test_one_key_in_two_files_is_asked_about() -> None:
    message = refused({"a.yaml": SFT, "more.yaml": "max_length: 4096\n"})
    assert "a.yaml:4: max_length is said in more.yaml too" in message


@pytest.mark.parametrize("config", [SFT, LLAMA_FACTORY, AXOLOTL])
def test_the_bounds_span_a_config_of_deepspeed_that_nothing_names(config: str) -> None:
    alone = run({"a.yaml": config})
    beside = run({"a.yaml": config, "ds.json": DEEPSPEED})
    assert beside.fields() == alone.fields()
    named = run({"a.yaml": f"{config}deepspeed: configs/ds.json\n", "ds.json": DEEPSPEED})
    assert named.field(ENGINE) == "deepspeed"
    assert not named.unsupported
    assert not beside.unsupported
    (told,) = [each for each in beside.account.bounded if each.key == "deepspeed"]
    within = {each.pointer: each.value for each in told.within}
    assert told.direction == "either"
    pointers = named.fields().keys() | alone.fields().keys()
    assert within == {
        pointer: named.field(pointer)
        for pointer in pointers
        if alone.field(pointer) != named.field(pointer)
    }


EIGHT_BITS = f"{AXOLOTL}adapter: lora\nlora_r: 8\nlora_target_linear: true\nload_in_8bit: true\n"


def test_a_config_of_deepspeed_that_nothing_names_and_that_cannot_run_is_not_read() -> None:
    config = DEEPSPEED.replace("}}", '}, "sparse_attention": {"mode": "fixed"}}')
    assert run({"a.yaml": AXOLOTL, "ds.json": config}).unsupported == {"deepspeed"}


def test_what_only_the_unnamed_config_bounds_is_left_out_in_its_direction() -> None:
    beside = run({"a.yaml": EIGHT_BITS, "ds.json": DEEPSPEED})
    assert [(each.key, each.direction) for each in beside.account.unsupported] == [
        ("load_in_8bit", "raises")
    ]
    (told,) = beside.account.bounded
    # The type of the base is mixed precision's, which DeepSpeed does without.
    assert {"/training/peft/base_dtype": None}.items() <= {
        each.pointer: each.value for each in told.within
    }.items()


def test_matrices_of_eight_bits_are_shared_out_at_most() -> None:
    stages = {"": set(), "ds2.json": set(), "ds3.json": {"load_in_8bit"}}
    for name, bounded in stages.items():
        config = EIGHT_BITS + (f"deepspeed: {name}\n" if name else "")
        files = {"a.yaml": config, "ds2.json": DEEPSPEED.replace("3", "2"), "ds3.json": DEEPSPEED}
        sent = {path: text for path, text in files.items() if path in ("a.yaml", name)}
        found = run(sent)
        assert not found.unsupported
        assert found.bounded == bounded
        assert found.field("/training/peft/quantization") == "int8"


def test_of_two_configs_of_deepspeed_the_one_that_is_named_counts() -> None:
    files = {"z2.json": DEEPSPEED.replace("3", "2"), "z3.json": DEEPSPEED}
    sharding = "/parallelism/data_parallel_sharding_strategy"
    for stage, strategy in ((2, "optim_grads"), (3, "optim_grads_params")):
        named = run({"a.yaml": f"{SFT}deepspeed: z{stage}.json\n", **files})
        assert named.field(sharding) == strategy
    assert "which is meant, z2.json or z3.json?" in refused({"a.yaml": SFT, **files})


def test_a_command_that_names_no_config_reads_none() -> None:
    found = run({"ds.json": DEEPSPEED}, f"torchrun --nproc_per_node 8 {TRAINED}")
    assert found.field(ENGINE) == "ddp"
    found = run({"fsdp.yaml": FSDP2}, f"accelerate launch --num_processes 8 {TRAINED}")
    assert found.field(ENGINE) == "ddp"
    assert found.unsupported == {"config_file"}


def test_accelerate_reads_its_default_config() -> None:
    found = run({"default_config.yaml": FSDP2}, f"accelerate launch --num_processes 8 {TRAINED}")
    assert found.field(ENGINE) == "fsdp2"
    assert not found.unsupported


OWN = (
    "torchrun --nproc_per_node 8 {} --model_name_or_path meta-llama/Llama-3.1-8B --bf16 True "
    "--per_device_train_batch_size 2 --max_length 4096 --output_dir out {}"
)


@pytest.mark.parametrize(
    ("more", "widest", "narrow"),
    [
        ("", ("autocast-bf16", None), {"/training/precision": "bf16-pure"}),
        (
            "--use_lora True --lora_r 8 --lora_target_modules q_proj",
            ("autocast-bf16", "fp32"),
            {"/training/precision": "autocast-bf16", "/training/peft/base_dtype": "bf16"},
        ),
    ],
)
def test_a_script_of_anothers_loads_weights_in_its_own_way(
    more: str, widest: tuple[str, str | None], narrow: dict[str, str]
) -> None:
    found = read(launch_of(argv=OWN.format("train.py", more).split()))
    fields = [found.field(each) for each in ("/training/precision", "/training/peft/base_dtype")]
    assert tuple(fields) == widest
    (told,) = [each for each in found.account.bounded if each.key == "dtype"]
    assert {each.pointer: each.value for each in told.within} == narrow
    assert told.direction == "lowers"


@pytest.mark.parametrize(
    ("script", "more", "version"),
    [
        ("train.py", "--torch_dtype bfloat16", None),
        ("train.py", "", "transformers==4.57.1"),
        ("run_clm.py", "", None),
    ],
)
def test_what_is_said_of_weights_counts(script: str, more: str, version: str | None) -> None:
    command = OWN.format(script, more).split()
    found = read(launch_of(argv=command, framework_version=version))
    assert not found.left_out


@pytest.mark.parametrize("name", ["model_name", "model_path", "base_model"])
def test_scripts_have_other_names_for_the_model(name: str) -> None:
    words = OWN.format("train.py", "--torch_dtype bfloat16")
    found = read(launch_of(argv=words.replace("model_name_or_path", name).split()))
    assert found.field("/model/hf_id") == "meta-llama/Llama-3.1-8B"
    assert not found.left_out
    both = read(launch_of(argv=f"{words} --{name} Qwen/Qwen3-8B".split()))
    assert both.field("/model/hf_id") == "meta-llama/Llama-3.1-8B"
