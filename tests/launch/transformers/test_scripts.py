"""Scripts of Trainer with arguments of their own: what each becomes, derived from its source."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any, NamedTuple

import pytest

from tests.launch.launches import Read, launch_of, read
from tests.launch.mutations import check_every_key
from trainfit.launch.errors import LaunchError
from trainfit.specs.job import Job

COMMON = (
    "--model_name_or_path meta-llama/Llama-2-7b-hf --output_dir out --num_train_epochs 1 "
    "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 --learning_rate 1e-4"
)
PEFT = "/training/peft"


class Case(NamedTuple):
    """A command line, and the fields of the job that it is."""

    command: str
    fields: dict[str, Any]


CASES = {
    "awsome-distributed-training, a model of its own under FSDP2": Case(
        "torchrun --nproc_per_node 8 /fsdp/train.py --max_context_width=8192 "
        "--num_key_value_heads=8 --intermediate_size=14336 --hidden_width=4096 --num_layers=32 "
        "--num_heads=32 --model_type=llama_v3 --train_batch_size=1 --val_batch_size=1 "
        "--sharding_strategy=full --max_steps=50",
        {
            "/model/hf_config/hidden_size": 4096,
            "/model/hf_config/num_key_value_heads": 8,
            # vocab_size by default, whatever the tokenizer
            "/model/hf_config/vocab_size": 50432,
            "/framework/data_parallel_engine": "fsdp2",
            # create_streaming_dataloader's own, whatever max_context_width says
            "/training/seq_length": 4096,
            "/training/micro_batch_size": 1,
            # MixedPrecisionPolicy over fp32 weights
            "/training/precision": "bf16",
            "/training/recompute/granularity": "full",
            "/training/optimizer/implementation": "foreach",
        },
    ),
    "llama-cookbook, all weights under FSDP": Case(
        "torchrun --nproc_per_node 8 finetuning.py --enable_fsdp --low_cpu_fsdp "
        "--model_name meta-llama/Llama-3.1-8B --batch_size_training 2 --context_length 2048 "
        "--fsdp_config.pure_bf16 --dist_checkpoint_folder out",
        {
            "/framework/data_parallel_engine": "fsdp1",
            "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
            # fsdp_activation_checkpointing is on by default
            "/training/recompute/granularity": "full",
            "/training/micro_batch_size": 2,
            "/training/num_microbatches": 1,
            "/training/seq_length": 2048,
            # optim.AdamW without another word
            "/training/optimizer/implementation": "foreach",
            # torch_dtype="auto" of a checkpoint in bf16
            "/training/precision": "bf16-pure",
            f"{PEFT}/method": None,
        },
    ),
    "llama-cookbook, adapters on one card": Case(
        "python llama_recipes/finetuning.py --use_peft --peft_method lora --quantization 8bit "
        "--model_name meta-llama/Llama-3.1-8B --use_fast_kernels",
        {
            "/framework/data_parallel_engine": "ddp",
            "/parallelism/num_gpus": 1,
            f"{PEFT}/method": "lora",
            f"{PEFT}/r": 8,
            f"{PEFT}/dropout": 0.05,
            f"{PEFT}/target_modules": ["q_proj", "v_proj"],
            f"{PEFT}/quantization": "int8",
            "/training/micro_batch_size": 4,
            "/training/seq_length": 4096,
            "/training/attention/backend": "sdpa",
            # its checkpointing goes with FSDP
            "/training/recompute/granularity": None,
        },
    ),
    "open-instruct, adapters": Case(
        "torchrun --nproc_per_node 8 open_instruct/finetune.py "
        "--model_name_or_path meta-llama/Llama-2-7b-hf --dataset_mixer_list a/b 1.0 --add_bos "
        "--use_lora --lora_rank 32 --max_seq_length 4096 --per_device_train_batch_size 1 "
        "--gradient_accumulation_steps 4 --gradient_checkpointing",
        {
            f"{PEFT}/method": "lora",
            f"{PEFT}/r": 32,
            f"{PEFT}/dropout": 0.1,
            "/training/seq_length": 4096,
            "/training/micro_batch_size": 1,
            "/training/num_microbatches": 4,
            "/training/attention/backend": "flash",
            "/training/recompute/granularity": "full",
            "/training/optimizer/implementation": "fused",
            # from_pretrained(dtype=torch.bfloat16), and torchrun mixes nothing
            "/training/precision": "bf16-pure",
        },
    ),
    "FastChat, adapters by default": Case(
        f"torchrun --nproc_per_node 4 fastchat/train/train_lora.py {COMMON} --bf16 True "
        "--model_max_length 1024 --q_lora False --flash_attn True --lazy_preprocess True",
        {
            f"{PEFT}/method": "lora",
            f"{PEFT}/r": 8,
            f"{PEFT}/dropout": 0.05,
            f"{PEFT}/target_modules": ["q_proj", "v_proj"],
            f"{PEFT}/quantization": None,
            "/training/attention/backend": "flash",
            "/training/seq_length": 1024,
            "/training/micro_batch_size": 2,
        },
    ),
    "FastChat, quantised": Case(
        f"torchrun --nproc_per_node 4 fastchat/train/train_lora.py {COMMON} --bf16 True "
        "--q_lora True --lora_r 32",
        {
            f"{PEFT}/r": 32,
            f"{PEFT}/quantization": "nf4",
            f"{PEFT}/double_quantization": True,
            "/training/attention/backend": None,
            "/training/seq_length": 512,
        },
    ),
    "MedicalGPT": Case(
        f"torchrun --nproc_per_node 2 training/pretraining.py {COMMON} --bf16 --packing True "
        "--train_file_dir data --lora_rank 16 --torch_dtype bfloat16",
        {
            f"{PEFT}/method": "lora",
            f"{PEFT}/r": 16,
            f"{PEFT}/target_modules": "all-linear",
            "/training/loss/cross_entropy": None,
            "/training/seq_length": 1024,
        },
    ),
    "MedicalGPT, whole": Case(
        f"torchrun --nproc_per_node 2 training/pretraining.py {COMMON} --bf16 "
        "--train_file_dir data --use_peft False --torch_dtype bfloat16 --block_size 256",
        {PEFT: None, "/training/seq_length": 256},
    ),
    "qlora": Case(
        "python qlora.py --model_name_or_path meta-llama/Llama-2-7b-hf --output_dir out --bf16 "
        "--bits 4 --source_max_len 16 --target_max_len 512 --lora_modules all --do_mmlu_eval",
        {
            f"{PEFT}/r": 64,
            f"{PEFT}/dropout": 0.0,
            f"{PEFT}/target_modules": "all-linear",
            f"{PEFT}/quantization": "nf4",
            f"{PEFT}/double_quantization": True,
            "/training/seq_length": 528,
            "/training/micro_batch_size": 1,
            "/training/num_microbatches": 16,
            "/training/optimizer/paged": True,
            "/training/recompute/granularity": "full",
            "/parallelism/num_gpus": 1,
        },
    ),
    "qlora, eight bits": Case(
        "python qlora.py --model_name_or_path meta-llama/Llama-2-7b-hf --output_dir out --bf16 "
        "--bits 8 --target_max_len 1000 --lora_r 8",
        {f"{PEFT}/quantization": "int8", f"{PEFT}/r": 8, "/training/seq_length": 2024},
    ),
    "Chinese-LLaMA-Alpaca": Case(
        f"torchrun --nproc_per_node 1 run_clm_pt_with_peft.py {COMMON} --fp16 --block_size 512 "
        "--lora_rank 64 --trainable q_proj,v_proj --modules_to_save embed_tokens,lm_head "
        "--load_in_kbits 16 --torch_dtype float16 --dataset_dir data",
        {
            f"{PEFT}/r": 64,
            f"{PEFT}/dropout": 0.1,
            f"{PEFT}/target_modules": ["q_proj", "v_proj"],
            f"{PEFT}/modules_to_save": ["embed_tokens", "lm_head"],
            "/training/seq_length": 512,
        },
    ),
    "LMFlow": Case(
        f"torchrun --nproc_per_node 8 examples/finetune.py {COMMON} --bf16 --block_size 256 "
        "--dataset_path data --conversation_template llama2 --use_lora 1 --torch_dtype bfloat16",
        {
            f"{PEFT}/r": 8,
            f"{PEFT}/dropout": 0.1,
            f"{PEFT}/target_modules": ["q_proj", "v_proj"],
            "/training/seq_length": 256,
        },
    ),
    "ms-swift": Case(
        "NPROC_PER_NODE=2 swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type lora "
        "--dataset a b --torch_dtype bfloat16 --max_length 2048 --lora_rank 4 --deepspeed zero3",
        {
            "/model/hf_id": "Qwen/Qwen2.5-7B-Instruct",
            f"{PEFT}/r": 4,
            f"{PEFT}/dropout": 0.05,
            f"{PEFT}/target_modules": "all-linear",
            "/parallelism/num_gpus": 2,
            "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
            "/training/recompute/granularity": "full",
            "/training/loss/cross_entropy": None,
            "/training/micro_batch_size": 1,
        },
    ),
    "ms-swift, whole": Case(
        "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B-Instruct --train_type full "
        "--dataset a --torch_dtype bfloat16 --max_length 4096 --deepspeed zero2 "
        "--gradient_checkpointing false --attn_impl flash_attention_2",
        {
            PEFT: None,
            "/parallelism/data_parallel_sharding_strategy": "optim_grads",
            "/training/recompute/granularity": None,
            "/training/attention/backend": "flash",
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_script_becomes_this_job(name: str) -> None:
    command, fields = CASES[name]
    found = read(launch_of({"run.sh": command}))
    assert {pointer: found.field(pointer) for pointer in fields} == fields
    assert not found.left_out
    Job.model_validate(found.job)


@pytest.mark.parametrize("name", CASES)
def test_no_key_goes_unnoticed(name: str) -> None:
    words = re.sub(r"torchrun --nproc_per_node \d+|NPROC_PER_NODE=\d+", "", CASES[name].command)
    swift = words.split()[0] == "swift"
    argv = words.split() if swift else ["python", *words.removeprefix("python").split()]
    assert check_every_key(launch_of(argv=argv, overrides={"parallelism": {"num_gpus": 1}})) > 3


def test_the_account_says_what_is_written_and_who_has_a_default() -> None:
    account = read(launch_of({"run.sh": CASES["qlora"].command})).account
    said = {each.key: (each.file, each.value) for each in account.recognised}
    assert said["bits"] == ("run.sh", "4")
    assert said["source_max_len"] == ("run.sh", "16")
    defaulted = {each.pointer: (each.value, each.whose) for each in account.defaulted}
    assert defaulted[f"{PEFT}/r"] == (64, "artidoro/qlora qlora.py")


RLHF = (
    "swift rlhf --rlhf_type TYPE --model Qwen/Qwen2.5-7B-Instruct --torch_dtype bfloat16 "
    "--per_device_train_batch_size 1 --max_length 2048 --deepspeed zero2"
)


def rlhf(kind: str, more: str) -> Any:
    text = f"NPROC_PER_NODE=2 {RLHF.replace('TYPE', kind)} {more}"
    return read(launch_of({"run.sh": text}))


def test_pairs_of_swift_have_their_own_base_as_reference() -> None:
    adapted = rlhf("dpo", "--tuner_type lora")
    assert adapted.field("/training/micro_batch_size") == 2
    assert adapted.field("/training/loss/reference") == "base"
    (loss,) = adapted.account.bounded
    assert (loss.key, loss.line, loss.direction) == ("rlhf_type", 1, "lowers")
    assert rlhf("dpo", "--tuner_type full").field("/training/loss/reference") == "copy"
    assert "rlhf_type" in rlhf("gkd", "").unsupported


def test_what_swift_calls_its_own_is_read() -> None:
    found = rlhf("dpo", '--attn_impl flash_attn --padding_free true --columns {"a":"b"}')
    assert found.field("/training/attention/backend") == "flash"
    assert not found.unsupported
    text = RLHF.replace("TYPE", "dpo").replace("zero2", "zero3_offload")
    away = read(launch_of({"run.sh": f"NPROC_PER_NODE=2 {text}"}))
    assert away.field("/framework/deepspeed/offload_optimizer") is True
    assert away.field("/framework/deepspeed/offload_param") is True


def test_swift_generates_behind_a_prompt_of_max_length() -> None:
    more = "--tuner_type full --use_vllm true --vllm_mode colocate --max_completion_length 1024"
    found = rlhf("grpo", f"{more} --sleep_level 1 --beta 0 --num_generations 8")
    assert found.field("/training/seq_length") == 3072
    assert found.field("/training/loss/objective") == "policy"
    assert found.field("/training/loss/logits_to_keep") == 1024
    assert found.field("/training/loss/log_probs_by") == "trl-grpo-1.0"
    assert found.field("/training/loss/reference") == "none"
    assert found.bounded == {"vllm_mode"}
    awake = rlhf("grpo", f"{more} --num_generations 8")
    assert [each.share for each in awake.account.bounded] == [0.9]
    assert awake.field("/training/loss/reference") == "copy"
    assert "reward_model" in rlhf("grpo", f"{more} --reward_model a/b").unsupported


MASON = """python mason.py --cluster a/b --num_nodes 2 --gpus 8 -- accelerate launch \\
    --mixed_precision bf16 --num_processes 8 --use_deepspeed \\
    --deepspeed_config_file configs/ds_configs/stageSTAGE_no_offloading_accelerate.conf \\
    open_instruct/finetune.py --model_name_or_path Qwen/Qwen3-0.6B --max_seq_length 4096 \\
    --per_device_train_batch_size 1 --dataset_mixer_list a 100 --sequence_parallel_size 4
"""


def test_a_config_that_comes_with_a_script_need_not_be_sent() -> None:
    found = read(launch_of({"run.sh": MASON.replace("STAGE", "3")}))
    fields = {
        "/parallelism/num_gpus": 16,
        "/parallelism/cp": 4,
        "/parallelism/cp_comm_type": "a2a",
        "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
        "/framework/data_parallel_engine": "deepspeed",
        "/training/precision": "bf16",
    }
    assert {pointer: found.field(pointer) for pointer in fields} == fields
    assert not found.left_out
    config = json.dumps({"zero_optimization": {"stage": 1}, "bf16": {"enabled": True}})
    path = "configs/ds_configs/stage3_no_offloading_accelerate.conf"
    sent = read(launch_of({"run.sh": MASON.replace("STAGE", "3"), path: config}))
    assert sent.field("/parallelism/data_parallel_sharding_strategy") == "optim"
    with pytest.raises(LaunchError, match=r"stage7_no_offloading_accelerate.conf; send that file"):
        read(launch_of({"run.sh": MASON.replace("STAGE", "7")}))


PAIRS = MASON.replace("finetune.py", "dpo_tune_cache.py").replace(
    "--dataset_mixer_list a 100 --sequence_parallel_size 4",
    "--mixer_list a 1.0 --loss_type dpo_norm --beta 5 --gradient_checkpointing",
)


def test_open_instructs_pairs_have_no_second_model() -> None:
    found = read(launch_of({"run.sh": PAIRS.replace("STAGE", "3")}))
    fields = {
        "/parallelism/num_gpus": 16,
        "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
        # one pair
        "/training/micro_batch_size": 2,
        "/training/seq_length": 4096,
        "/training/precision": "bf16",
        "/training/optimizer/implementation": "fused",
        "/training/recompute/granularity": "full",
        "/framework/deepspeed/reduce_bucket_size": "auto",
        "/training/peft": None,
    }
    assert {pointer: found.field(pointer) for pointer in fields} == fields
    # the log-probabilities of the reference are worked out before; those of the loss are bounded
    assert found.left_out == found.bounded == {"dpo_tune_cache.py"}


@pytest.mark.parametrize(
    ("said", "strategy", "left_out"),
    [
        # the script makes a config of its own, whatever accelerate names
        ("--zero_stage 2", "optim_grads", set()),
        ("--zero_stage 1 --offload_optimizer", "optim", set()),
        # eight ranks of a node hold shards of their own by default
        ("--zero_stage 3", "optim_grads_params", {"zero_stage"}),
        ("--zero_stage 3 --zero_hpz_partition_size 1", "optim_grads_params", set()),
        ("--zero_hpz_partition_size 8", "optim_grads_params", set()),
        ("--optimizer_type muon", "optim_grads_params", {"optimizer_type"}),
        ("--dpo_use_paged_optimizer", "optim_grads_params", set()),
    ],
)
def test_open_instructs_pairs_make_their_own_config(
    said: str, strategy: str, left_out: set[str]
) -> None:
    text = PAIRS.replace("STAGE", "3").rstrip() + f" {said}\n"
    found = read(launch_of({"run.sh": text}))
    assert found.field("/parallelism/data_parallel_sharding_strategy") == strategy
    assert found.left_out == left_out | {"dpo_tune_cache.py"}
    assert "zero_stage" not in found.unsupported
    offloads = found.field("/framework/deepspeed/offload_optimizer")
    assert bool(offloads) is ("offload" in said)


def test_a_budget_of_activations_makes_layers_again() -> None:
    text = PAIRS.replace("STAGE", "2").replace(" --gradient_checkpointing", "")
    assert read(launch_of({"run.sh": text})).field("/training/recompute") is None
    less = text.rstrip() + " --activation_memory_budget 0.5 --attn_implementation torch\n"
    found = read(launch_of({"run.sh": less}))
    assert found.field("/training/recompute/granularity") == "full"
    assert found.field("/training/attention/backend") == "sdpa"


SUPER = """DIR=$(dirname "$0")
cat > $DIR/ds.json <<EOF
{"train_batch_size": ${2:-4}, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
 "zero_optimization": {"stage": 3, "offload_optimizer":
  {"device": "cpu", "ratio": 0.8, "super_offload": true}}}
EOF
deepspeed --num_gpus=1 finetune_zero3.py --deepspeed_config=$DIR/ds.json --lr 1e-5 --batch_size 4 \\
  --model_name meta-llama/Llama-3.1-8B --max_length 4096 --output_dir out \\
  --dataset_percentage 10.0 --bench_steps 10 --activation_checkpointing
"""


def test_what_superoffload_keeps_on_the_card_is_at_most_all() -> None:
    found = read(launch_of({"run.sh": SUPER}, argv=[]))
    fields = {
        "/parallelism/num_gpus": 1,
        "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
        "/training/micro_batch_size": 4,
        "/training/num_microbatches": 1,
        "/training/seq_length": 4096,
        "/training/precision": "bf16",
        "/training/recompute/granularity": "full",
        "/training/attention/backend": "flash",
        "/framework/deepspeed/offload_optimizer": True,
    }
    assert {pointer: found.field(pointer) for pointer in fields} == fields
    offload = "zero_optimization.offload_optimizer"
    assert found.bounded == {f"{offload}.ratio", f"{offload}.super_offload"}
    assert not found.unsupported


@pytest.mark.parametrize(
    ("name", "more", "key"),
    [
        ("open-instruct, adapters", "--reduce_loss sum", "reduce_loss"),
        ("qlora", "--bits 3", "bits"),
        ("ms-swift", "--quant_method hqq", "quant_method"),
        ("ms-swift, whole", "--tuner_type adalora", "tuner_type"),
        ("FastChat, quantised", "--magic 1", "magic"),
    ],
)
def test_what_is_not_known_of_a_script_is_unsupported(name: str, more: str, key: str) -> None:
    command = CASES[name].command.replace("--train_type full ", "")
    assert key in read(launch_of({"run.sh": f"{command} {more}"})).unsupported


def test_another_script_of_that_name_is_not_taken_for_it() -> None:
    command = f"torchrun --nproc_per_node 2 finetune.py {COMMON} --bf16 --model_max_length 512"
    assert not any(
        "LMFlow" in each.file for each in read(launch_of({"a.sh": command})).account.recognised
    )


def test_rows_say_who_says_so_and_tell_scripts_apart() -> None:
    rows = json.loads((files("trainfit.launch.transformers") / "scripts.json").read_text("utf-8"))
    for row in rows["scripts"]:
        assert "/" in row["source"]
        assert row.get("marks") or row.get("command"), row["program"]
        for part in row.get("sums", {}).values():
            assert set(part) <= row["defaults"].keys()


LEARNERS = """python mason.py --cluster a/b --num_nodes 3 --gpus 8 -- \\
    source configs/beaker_configs/ray_node_setup.sh \\&\\& python open_instruct/grpo_fast.py \\
    --model_name_or_path Qwen/Qwen2.5-7B --num_unique_prompts_rollout 32 --response_length 4096 \\
    --num_samples_per_prompt_rollout 16 --pack_length 20480 --deepspeed_stage 3 \\
    --num_learners_per_node 8 4 --vllm_num_engines 8 --beta 0.0"""
NODE_SETUP = """
if [ "$BEAKER_REPLICA_RANK" != "0" ]; then
  cleanup() { exit 0; }
  trap cleanup EXIT
  while true; do
    if ! ray status; then cleanup; fi
    sleep 5
  done
fi
"""


def learned(words: str = "", **files: str) -> Read:
    sent = {"run.sh": f"{LEARNERS} {words}"}
    return read(
        launch_of(sent | {f"configs/beaker_configs/{name}.sh": files[name] for name in files})
    )


def test_open_instructs_learners_train_on_packs() -> None:
    """grpo_fast.py (PolicyTrainerRayProcess.from_pretrained), utils.py (get_train_ds_config)."""
    found = learned()
    fields = {name: value for name, value in found.fields().items() if name != "/model"}
    assert fields == {
        "/framework/name": "transformers",
        "/framework/data_parallel_engine": "deepspeed",
        "/parallelism/num_gpus": 12,
        "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
        "/training/micro_batch_size": 1,
        "/training/seq_length": 20480,
        "/training/precision": "bf16",
        "/training/optimizer/name": "adam",
        "/training/optimizer/implementation": "fused",
        "/training/recompute/granularity": "full",
        "/training/attention/backend": "flash",
    }
    assert not found.unsupported
    parameters = 7_615_616_512
    bounded = {each.key: each for each in found.account.bounded}
    assert bounded["pack_length"].direction == "lowers"
    # a reference in bf16 and gradients two bytes wider, of 12 ranks; a second shard, of 8
    for key, bytes_ in (
        ("grpo_fast.py", 2 * parameters / 12),
        ("deepspeed_stage", 2 * parameters / 12),
        ("deepspeed_zpg", 2 * parameters / 8),
    ):
        assert bytes_ <= bounded[key].bytes < 1.02 * bytes_
    assert len(bounded) == 4


def test_open_instructs_learners_below_stage_3_have_whole_weights() -> None:
    found = learned("--deepspeed_stage 2 --load_ref_policy false --num_learners_per_node 6")
    assert found.field("/parallelism/num_gpus") == 6
    assert found.bounded == {"pack_length", "deepspeed_stage"}
    kept = learned("--deepspeed_stage 0 --num_learners_per_node 2")
    sizes = {each.key: each.bytes for each in kept.account.bounded}
    assert sizes["deepspeed_stage"] == sizes["grpo_fast.py"] > 15e9


def test_one_card_for_all_has_an_engine_awake() -> None:
    assert learned("--single_gpu_mode").unsupported == {"vllm_num_engines"}


def test_a_script_that_prepares_a_node_starts_no_training() -> None:
    assert learned(ray_node_setup=NODE_SETUP).job == learned().job


def test_a_module_of_swift_is_its_command() -> None:
    """torchrun is given what `swift rlhf` would start, which is read the same."""
    more = (
        "--max_length 4096 --use_vllm true --vllm_mode colocate --vllm_gpu_memory_utilization 0.8"
    )
    command = RLHF.replace("TYPE", "grpo")
    plain = rlhf("grpo", more)
    text = (
        f"torchrun --nproc_per_node=2 {command.replace('swift rlhf', '-m swift.cli.rlhf')} {more}"
    )
    found = read(launch_of({"run.sh": text}))
    assert found.job == plain.job
    assert found.bounded == plain.bounded
