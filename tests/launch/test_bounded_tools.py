"""What tools do besides a step of training, and what a script leaves unsaid: bounded."""

from __future__ import annotations

import pytest

from tests.launch.launches import Read, launch_of, read

LLAMA = "meta-llama/Llama-2-7b-hf"


def of_file(path: str, text: str, num_gpus: int = 8) -> Read:
    return read(launch_of({path: text}, overrides={"parallelism": {"num_gpus": num_gpus}}))


def of_command(words: str) -> Read:
    return read(launch_of(argv=words.split()))


def test_weights_of_a_script_that_does_not_say_their_type_are_no_wider_than_fp32() -> None:
    text = f"model_name_or_path: {LLAMA}\nlearning_rate: 1e-5\ndataset_name: imdb\n"
    training = {"micro_batch_size": 1, "seq_length": 512}
    overrides = {"parallelism": {"num_gpus": 8}, "training": training}
    found = read(launch_of({"config.yaml": text}, overrides=overrides))
    assert found.defaulted["/training/precision"] == "fp32"
    (told,) = found.account.bounded
    assert told.direction == "lowers"
    assert [(each.pointer, each.value) for each in told.within] == [
        ("/training/precision", "bf16-pure")
    ]


def test_longlora_trains_all_weights_where_it_is_told() -> None:
    words = (
        f"torchrun --nproc_per_node 8 fine-tune.py --model_name_or_path {LLAMA} --bf16 True "
        "--model_max_length 8192 --use_flash_attn True --per_device_train_batch_size 1 "
    )
    found = of_command(f"{words} --low_rank_training False")
    fields = {name: value for name, value in found.fields().items() if "/training" in name}
    assert fields == {
        "/training/micro_batch_size": 1,
        "/training/seq_length": 8192,
        "/training/optimizer/name": "adam",
        "/training/optimizer/implementation": "foreach",
        # model.gradient_checkpointing_enable()
        "/training/recompute/granularity": "full",
        "/training/attention/backend": "flash",
        # torch_dtype=torch.bfloat16, under autocast
        "/training/precision": "bf16-pure",
    }
    assert found.bounded == {"use_flash_attn"}
    assert "low_rank_training" in of_command(words + "--low_rank_training True").unsupported


def test_deepspeed_chat_makes_its_own_config() -> None:
    found = of_command(
        "deepspeed --num_gpus 8 main.py --model_name_or_path facebook/opt-1.3b --zero_stage 3 "
        "--per_device_train_batch_size 4 --per_device_eval_batch_size 4 --max_seq_len 512 "
        "--gradient_checkpointing --offload --deepspeed --data_split 2,4,4 --lora_dim 0"
    )
    assert not found.left_out
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "optim_grads_params"
    zero = "/framework/deepspeed"
    assert found.field(f"{zero}/offload_optimizer") is True
    assert found.field(f"{zero}/stage3_prefetch_bucket_size") == 30_000_000
    # --dtype is fp16 where nothing says otherwise
    assert found.field("/training/precision/compute") == "fp16"


MIXTRAL = """
base_model: mistralai/Mixtral-8x7B-v0.1
sequence_len: 4096
micro_batch_size: 2
bf16: true
model_config: {output_router_logits: true}
"""


def test_logits_of_all_routers_are_counted() -> None:
    (told,) = [
        each
        for each in of_file("mixtral.yml", MIXTRAL).account.bounded
        if each.key.endswith("output_router_logits")
    ]
    # 32 layers, 2 x 4096 tokens, 8 experts: 12 bytes, and 12 for each of 2 that are chosen
    assert (told.direction, told.bytes) == ("raises", 32 * 2 * 4096 * 8 * (12 + 2 * 12))


FACTORY = """
model_name_or_path: Qwen/Qwen2-1.5B-Instruct
finetuning_type: full
stage: sft
template: qwen
cutoff_len: 2048
bf16: true
"""


def test_llama_factorys_muon_keeps_one_moment_of_matrices() -> None:
    found = of_file("muon.yaml", FACTORY + "use_muon: true\n")
    assert found.field("/training/optimizer/name") == "muon"
    assert not found.left_out


@pytest.mark.parametrize(
    ("more", "reference"),
    [
        ("finetuning_type: lora", "base"),
        ("finetuning_type: full\npref_loss: simpo", None),
        ("finetuning_type: full", "copy"),
        ("finetuning_type: lora\nref_model: other", "copy"),
    ],
)
def test_preferences_have_the_reference_that_is_loaded(more: str, reference: str | None) -> None:
    text = FACTORY.replace("finetuning_type: full\nstage: sft", f"{more}\nstage: dpo")
    found = of_file("dpo.yaml", text)
    assert found.field("/training/loss/objective") == "preference"
    assert found.field("/training/loss/reference") == reference
    assert found.field("/training/loss/log_probs_by") == "llama-factory"
    assert found.unsupported == ({"ref_model"} if "ref_model" in more else set())
    assert not found.bounded


NEMO = """
trainer: {devices: 8, num_nodes: 2, precision: bf16}
model:
  micro_batch_size: 1
  global_batch_size: 64
  tensor_model_parallel_size: 4
  encoder_seq_length: 4096
  max_position_embeddings: 4096
  num_layers: 4
  hidden_size: 1024
  num_attention_heads: 8
  megatron_amp_O2: true
  optim: {name: distributed_fused_adam, bucket_cap_mb: 125}
"""


def test_apexs_optimizer_is_bounded_on_both_sides() -> None:
    overrides = {"model": {"spec": {"vocab_size": 32000}}}
    found = read(launch_of({"nemo.yaml": NEMO}, overrides=overrides))
    (told,) = [each for each in found.account.bounded if each.key == "model.optim.name"]
    assert (told.direction, told.bytes) == ("either", 4 * 400 * 2**20)


def test_buckets_of_megatrons_optimizer_in_nemo_are_known() -> None:
    optim = "name: mcore_distributed_optim, bucket_cap_mb: 400, ddp_bucket_size: 134217728"
    text = NEMO.replace("name: distributed_fused_adam, bucket_cap_mb: 125", optim)
    overrides = {"model": {"spec": {"vocab_size": 32000}}}
    found = read(
        launch_of(
            {"nemo.yaml": f"{text}  async_grad_allreduce: false\n"}, None, overrides=overrides
        )
    )
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "optim"
    assert not found.left_out


OPENRLHF = {
    "/framework/data_parallel_engine": "deepspeed",
    "/parallelism/num_gpus": 8,
    "/training/micro_batch_size": 2,
    # 256 samples over 8 ranks of 2
    "/training/num_microbatches": 16,
    "/training/seq_length": 2048,
    "/training/precision": "bf16",
    "/training/optimizer/name": "adam",
    "/training/recompute/granularity": "full",
    "/training/attention/backend": "flash",
}


@pytest.mark.parametrize(
    ("words", "fields", "told"),
    [
        (
            "--data.max_len 2048 --train.batch_size 256 --train.micro_batch_size 2 --adam.lr 5e-6 "
            "--ds.zero_stage 2 --model.model_name_or_path meta-llama/Llama-3.1-8B "
            "--model.gradient_checkpointing_enable",
            {
                "/parallelism/data_parallel_sharding_strategy": "optim_grads",
                "/training/peft": None,
            },
            "data.max_len",
        ),
        (
            "--max_len 2048 --train_batch_size 256 --micro_train_batch_size 2 --bf16 --flash_attn "
            "--zero_stage 3 --pretrain meta-llama/Llama-3.1-8B --gradient_checkpointing "
            "--lora_rank 16 --adam_offload",
            {
                "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
                "/framework/deepspeed/offload_optimizer": True,
                "/training/peft/r": 16,
                "/training/peft/target_modules": "all-linear",
            },
            "max_len",
        ),
    ],
)
def test_openrlhf_is_read_by_its_newer_and_older_names(
    words: str, fields: dict[str, object], told: str
) -> None:
    found = of_command(f"deepspeed --num_gpus 8 --module openrlhf.cli.train_sft {words}")
    expected = OPENRLHF | fields
    assert {pointer: found.field(pointer) for pointer in expected} == expected
    assert found.left_out == {told}


def test_what_openrlhf_does_besides_is_unsupported() -> None:
    words = (
        "deepspeed --num_gpus 8 --module openrlhf.cli.train_sft --ds.zero_stage 2 --optim muon "
        "--model.model_name_or_path meta-llama/Llama-3.1-8B --ds.ring_attn_size 2"
    )
    assert of_command(words).unsupported == {"optim", "ds.ring_attn_size"}


def test_deepspeed_chats_own_adapters_train_the_embedding_too() -> None:
    words = (
        "deepspeed --num_gpus 8 main.py --model_name_or_path facebook/opt-1.3b --zero_stage 2 "
        "--max_seq_len 512 --lora_dim 128 --lora_module_name decoder.layers. --deepspeed"
    )
    found = of_command(words)
    assert found.field("/training/peft/r") == 128
    assert found.field("/training/peft/target_modules") == "all-linear"
    assert found.field("/training/peft/modules_to_save") == ["embed_tokens"]
    assert [each.bytes for each in found.account.bounded] == [2**30]
    alone = of_command(f"{words} --only_optimize_lora")
    assert alone.field("/training/peft/modules_to_save") is None
    assert not alone.left_out


def test_a_head_that_is_a_unit_of_its_own_lowers_the_peak() -> None:
    text = "loss: {_component_: torchtune.modules.loss.CEWithChunkedOutputLoss}\n"
    text += "model: {_component_: torchtune.models.llama3.llama3_70b}\nbatch_size: 1\n"
    text += "tokenizer: {max_seq_len: 2048}\ncustom_sharded_layers: [tok_embeddings, output]\n"
    (told,) = [
        each
        for each in of_file("full.yaml", text).account.unsupported
        if each.key == "custom_sharded_layers"
    ]
    assert told.direction == "lowers"


def test_rows_that_axolotl_adds_are_bounded() -> None:
    text = f"base_model: {LLAMA}\nmicro_batch_size: 2\nsequence_len: 1024\n"
    found = of_file("tokens.yaml", text + "tokens: ['[A]', '[B]', '[C]']\n")
    (told,) = [each for each in found.account.bounded if each.key == "tokens"]
    assert (told.direction, told.bytes) == ("raises", 3 * (2 * 4096 * 20 + 2 * 1024 * 12))


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("train_dpo", "--data.max_len 4096 --model.beta 0.1 --train.micro_batch_size 1"),
        ("train_dpo", "--max_len 4096 --beta 0.1 --micro_train_batch_size 1 --bf16"),
        ("train_rm", "--data.max_len 4096 --train.micro_batch_size 1"),
    ],
)
def test_openrlhf_counts_pairs(script: str, words: str) -> None:
    older = "--bf16" in words
    model = "--pretrain" if older else "--model.model_name_or_path"
    stage = "--zero_stage 3" if older else "--ds.zero_stage 3"
    found = of_command(
        f"deepspeed --num_gpus 8 --module openrlhf.cli.{script} {words} {stage} {model} "
        "meta-llama/Llama-3.1-8B"
    )
    # 128 pairs over 8 ranks
    assert found.field("/training/micro_batch_size") == 2
    assert found.field("/training/num_microbatches") == 16
    assert found.field("/training/seq_length") == 4096
    assert not found.left_out
    loss = [found.field(f"/training/loss/{each}") for each in ("reference", "log_probs_by")]
    assert loss == (["copy", "openrlhf"] if script == "train_dpo" else [None, None])


@pytest.mark.parametrize(
    "words",
    [
        "--ref.offload --train.micro_batch_size 1 --ds.zero_stage 3 --model.model_name_or_path",
        "--ref_offload --micro_train_batch_size 1 --zero_stage 3 --bf16 --pretrain",
    ],
)
def test_openrlhfs_reference_may_wait_on_the_host(words: str) -> None:
    command = "deepspeed --num_gpus 8 --module openrlhf.cli.train_dpo"
    (told,) = of_command(f"{command} {words} meta-llama/Llama-3.1-8B").account.bounded
    assert (told.key, told.direction) == (words.split()[0].removeprefix("--"), "lowers")
