"""Recipes of NeMo 2, by name and in scripts: jobs derived by hand from NeMo's source."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import Read, launch_of
from tests.launch.launches import read as read_files
from tests.launch.mutations import check_every_key
from trainfit.launch.errors import LaunchError
from trainfit.launch.nemo.recipes import recipes

LLAMA3_8B: dict[str, Any] = {
    # Llama3Config8B and Llama3Config
    "num_layers": 32,
    "hidden_size": 4096,
    "ffn_hidden_size": 14336,
    "num_attention_heads": 32,
    "num_query_groups": 8,
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "add_bias_linear": False,
    "untie_embeddings_and_output_weights": True,
    # silu behind a gate
    "swiglu": True,
}
SCRIPT = """
import nemo_run as run
from nemo.collections import llm

NODES = 2

def recipe(profile: bool = False):
    pretrain = llm.llama3_8b.pretrain_recipe(
        dir="/checkpoints", name="run", num_nodes=NODES, num_gpus_per_node=8
    )
    tp = 4
    pretrain.trainer.max_steps = 100
    pretrain.trainer.strategy.tensor_model_parallel_size = tp
    pretrain.trainer.strategy.context_parallel_size = 1
    pretrain.trainer.strategy.sequence_parallel = True
    pretrain.data.micro_batch_size = 2
    pretrain.log.ckpt = None
    if profile:
        pretrain.trainer.callbacks.append(run.Config(SomeCallback))
    pretrain.trainer.callbacks.append(run.Config(TimingCallback))
    return pretrain

if __name__ == "__main__":
    run.cli.main(llm.pretrain, default_factory=recipe)
"""


def command(words: str, **others: Any) -> Read:
    return read_files(launch_of({}, words.split(" "), **others))


def script(old: str = "", new: str = "", **others: Any) -> Read:
    assert old in SCRIPT
    text = SCRIPT.replace(old, new) if old else SCRIPT
    return read_files(launch_of({"pretrain.py": text}, others.pop("argv", None), **others))


def test_a_recipe_becomes_this_job() -> None:
    found = command("nemo llm pretrain --factory llama3_8b")
    assert found.fields() == {
        # data that is made up has the tokenizer of GPT-2
        "/model": {"spec": {**LLAMA3_8B, "vocab_size": 50257}},
        # trainer()
        "/parallelism/num_gpus": 8,
        "/parallelism/cp": 2,
        "/parallelism/sequence_parallel": False,
        "/framework/overlap_grad_reduce": True,
        "/framework/overlap_param_gather": True,
        # distributed_fused_adam_with_cosine_annealing, bf16_mixed
        "/parallelism/data_parallel_sharding_strategy": "optim",
        "/training/precision": "bf16",
        # MockDataModule
        "/training/micro_batch_size": 1,
        "/training/global_batch_size": 512,
        "/training/seq_length": 8192,
        "/training/attention/dropout": 0.0,
        "/training/hidden_dropout": 0.0,
        # defaults of the dataclasses
        "/framework/name": "megatron",
        "/framework/transformer_impl": "transformer_engine",
        "/framework/create_attention_mask_in_dataloader": False,
        "/speed/stack": "megatron-bridge",
    }
    assert not found.left_out


def test_arguments_and_overrides_count_over_the_recipe() -> None:
    found = command(
        "nemo llm pretrain --factory llama3_70b(num_nodes=16,name='x') -y trainer.max_steps=20 "
        "trainer.strategy.context_parallel_size=1 data.global_batch_size=256"
    )
    assert found.field("/parallelism/num_gpus") == 128
    assert found.field("/parallelism/cp") == 1
    assert found.field("/training/global_batch_size") == 256
    # tp 4, pp 4 in five chunks
    sizes = [found.field(f"/parallelism/{name}") for name in ("tp", "pp", "vpp")]
    assert sizes == [4, 4, 5]
    assert not found.left_out


def test_finetuning_trains_adapters_unless_it_is_told_not_to() -> None:
    found = command("nemo llm finetune --factory llama3_8b")
    peft = {name: value for name, value in found.fields().items() if "/peft/" in name}
    assert peft == {
        "/training/peft/method": "lora",
        "/training/peft/r": 8,
        "/training/peft/dropout": 0.0,
        "/training/peft/target_modules": [
            "linear_qkv",
            "linear_proj",
            "linear_fc1",
            "linear_fc2",
        ],
    }
    # the vocabulary of meta-llama/Meta-Llama-3-8B, whose weights it starts from
    assert found.field("/model/spec/vocab_size") == 128256
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "no_shard"
    assert found.field("/training/seq_length") == 2048
    whole = command('nemo llm finetune --factory llama3_8b(peft_scheme="none",seq_length=4096)')
    assert whole.field("/training/peft") is None
    assert whole.field("/parallelism/tp") == 2
    assert whole.field("/parallelism/data_parallel_sharding_strategy") == "optim"
    assert whole.field("/training/seq_length") == 4096
    packed = command("nemo llm finetune --factory llama3_8b(packed_sequence=True)")
    assert packed.field("/training/seq_length") == 4096
    assert packed.field("/training/global_batch_size") == 8
    other = command("nemo llm finetune --factory llama3_8b(peft_scheme='dora')")
    assert "peft._" in other.unsupported


def test_performance_mode_is_what_the_recipe_makes_of_it() -> None:
    found = command("nemo llm pretrain --factory mixtral_8x7b(performance_mode=True)")
    # pretrain_performance_optimizations: tp 8 with sequence parallelism, ep 1, tokens are dropped
    assert found.field("/parallelism/tp") == 8
    assert found.field("/parallelism/sequence_parallel") is True
    assert found.field("/parallelism/ep") in (None, 1)
    assert found.field("/training/moe/expert_capacity_factor") == 1.0
    assert found.field("/training/precision/gradients") == "bf16"
    old = command(
        "nemo llm pretrain --factory mixtral_8x7b(performance_mode=True)", framework_version="2.0"
    )
    assert old.field("/training/precision") == "bf16"


def test_a_script_is_read_as_syntax() -> None:
    found = script()
    assert found.field("/model/spec") == {**LLAMA3_8B, "vocab_size": 50257}
    assert found.field("/parallelism/num_gpus") == 16
    assert found.field("/parallelism/tp") == 4
    assert found.field("/parallelism/cp") == 1
    assert found.field("/parallelism/sequence_parallel") is True
    assert found.field("/training/micro_batch_size") == 2
    assert not found.left_out
    assert (
        script(argv=["python", "pretrain.py", "data.micro_batch_size=4"]).field(
            "/training/micro_batch_size"
        )
        == 4
    )


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("    tp = 4\n", "    tp = 4\n    change(pretrain)\n", "change(pretrain)"),
        ("profile: bool = False", "profile: bool = True", "trainer.callbacks.SomeCallback._"),
        ("pretrain.log.ckpt = None", "pretrain.model.config.some = 1", "model.config.some"),
        (
            "pretrain.log.ckpt = None",
            "pretrain.trainer.strategy.fsdp = 'own'",
            "trainer.strategy.fsdp",
        ),
        ("num_nodes=NODES", "num_nodes=NODES, other=1", "other"),
        (
            "pretrain.log.ckpt = None",
            "pretrain.model.config.cpu_offloading = True",
            "model.config.cpu_offloading",
        ),
    ],
)
def test_what_is_not_modelled_is_told(old: str, new: str, key: str) -> None:
    assert key in script(old, new).left_out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    tp = 4\n", "    tp = args.tp\n", "worked out by the script"),
        ("    tp = 4\n", "    tp = 4\n    if x:\n        tp = 8\n", "worked out by the script"),
        (
            "    pretrain.data.micro_batch_size = 2\n",
            "    if x:\n        pretrain.data.micro_batch_size = 2\n",
            "whether the script gets there",
        ),
        (
            "llama3_8b.pretrain",
            "own_8b.pretrain",
            "no recipe of NeMo 2 to pretrain own_8b is known",
        ),
        ("num_nodes=NODES", "num_nodes=0", "must be 1 or more"),
        ("def recipe", "def recipe(:", "is no Python"),
        (
            "    tp = 4\n",
            "    tp = 4\n    if " + "not " * 900 + "x:\n        tp = 8\n",
            "is no Python",
        ),
    ],
)
def test_what_a_script_works_out_is_asked_for(old: str, new: str, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        script(old, new)


CALLED = """
import nemo_run as run
from nemo.collections import llm

def configure(nodes: int = 1, gpus: int = 2):
    recipe = llm.llama3_8b.pretrain_recipe(num_nodes=nodes, num_gpus_per_node=gpus)
    recipe.trainer.val_check_interval = 100
    return recipe

def main():
    recipe = configure(4, gpus=8)
    executor = local_executor(nodes=recipe.trainer.num_nodes, devices=recipe.trainer.devices)
    recipe.trainer.strategy.context_parallel_size = 1
    with run.Experiment("x") as exp:
        recipe.data.micro_batch_size = 2
        exp.add(recipe, executor=executor)
    run.run(recipe, executor=executor)

if __name__ == "__main__":
    main()
"""


def test_a_recipe_is_followed_to_where_it_is_run() -> None:
    found = read_files(launch_of({"pretrain.py": CALLED}))
    assert found.field("/parallelism/num_gpus") == 32
    assert found.field("/parallelism/cp") == 1
    assert found.field("/training/micro_batch_size") == 2
    assert not found.left_out
    twice = CALLED.replace("    run.run(", "    configure(2)\n    run.run(")
    with pytest.raises(LaunchError, match="worked out by the script"):
        read_files(launch_of({"pretrain.py": twice}))


def test_no_override_that_decides_goes_unnoticed() -> None:
    words = (
        "nemo llm pretrain --factory llama3_70b trainer.num_nodes=8 data.micro_batch_size=2 "
        "trainer.strategy.tensor_model_parallel_size=8 data.seq_length=4096"
    )
    assert check_every_key(launch_of({}, words.split(" "))) == 4


@pytest.mark.parametrize(
    "key",
    [
        "trainer.strategy.tensor_model_parallel_size",
        "trainer.strategy.context_parallel_size",
        "trainer.strategy.sequence_parallel",
        "data.micro_batch_size",
    ],
)
def test_no_statement_that_decides_goes_unnoticed(key: str) -> None:
    before = script()
    (line,) = (line for line in SCRIPT.splitlines(keepends=True) if f"pretrain.{key} =" in line)
    assert script(line, "").fields() != before.fields()
    assert f"{key}_renamed" in script(f"pretrain.{key} =", f"pretrain.{key}_renamed =").unsupported


def test_of_several_recipes_the_one_that_is_named_counts() -> None:
    other = SCRIPT.replace("def recipe", "def second").replace(
        "data.micro_batch_size = 2", "x.y = 1"
    )
    both = other.partition("if __name__")[0] + SCRIPT
    files = {"pretrain.py": both}
    assert read_files(launch_of(files)).field("/training/micro_batch_size") == 2
    named = read_files(launch_of(files, ["python", "pretrain.py", "--factory", "second"]))
    assert named.field("/training/micro_batch_size") == 1
    with pytest.raises(LaunchError, match="name one with --factory"):
        read_files(launch_of({"pretrain.py": both.replace("default_factory=recipe", "")}))


def test_parts_that_are_replaced_lose_what_they_had() -> None:
    new = (
        "pretrain.trainer.strategy.ddp = run.Config(\n"
        "        DistributedDataParallelConfig, overlap_grad_reduce=False)\n"
        "    pretrain.trainer.plugins = bf16_with_fp8_mixed()\n"
    )
    found = script("pretrain.log.ckpt = None\n", new)
    assert found.field("/framework/overlap_grad_reduce") is False
    assert not found.field("/framework/overlap_param_gather")
    assert found.field("/training/precision/fp8_recipe") == "delayed"
    assert found.field("/training/precision/fp8_param_gather") is True


def test_the_helper_for_benchmarks_is_known() -> None:
    new = (
        'pretrain = set_primary_perf_configs(pretrain, "pre_train", num_nodes=4,\n'
        "        num_gpus_per_node=4, mbs=1, gbs=64, max_steps=9, tp_size=2, pp_size=1,\n"
        '        cp_size=1, vp_size=1, ep_size=1, compute_dtype="bf16", use_mcore_fsdp=True)\n'
    )
    found = script("pretrain.log.ckpt = None\n", new)
    assert found.field("/parallelism/num_gpus") == 16
    assert found.field("/parallelism/tp") == 2
    assert found.field("/parallelism/sequence_parallel") is True
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "optim_grads_params"
    assert found.field("/training/precision/gradients") == "bf16"
    assert found.field("/training/optimizer/precision_aware") is True
    assert found.field("/training/global_batch_size") == 64
    fp8 = script(
        "pretrain.log.ckpt = None\n",
        new.replace('"bf16", use_mcore_fsdp=True', '"fp8", fp8_recipe="cs", recompute_layers=3'),
    )
    assert fp8.field("/training/precision/fp8_recipe") == "tensorwise"
    assert fp8.field("/training/recompute/num_layers") == 3
    by_place = new.replace("num_nodes=4", "4").replace("num_gpus_per_node=4", "4")
    placed = script("pretrain.log.ckpt = None\n", by_place.replace("mbs=1", "3"))
    assert placed.field("/parallelism/num_gpus") == 16
    assert placed.field("/training/micro_batch_size") == 3
    odd = script("pretrain.log.ckpt = None\n", new.replace("vp_size=1", "some_size=1"))
    assert "set_primary_perf_configs.some_size" in odd.unsupported


ARGUED = """
import os
import nemo_run as nr
from nemo.collections import llm

def configure(fresh=False):
    recipe = llm.nemotron3_4b.pretrain_recipe(
        name="n", tensor_parallelism=4, num_nodes=1, num_gpus_per_node=8, max_steps=100,
        micro_batch_size=1, seq_length=2048, min_lr=1e-5)
    if recipe.trainer.callbacks is None:
        recipe.trainer.callbacks = []
    return recipe

def main():
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    try:
        recipe = configure(fresh=args.fresh)
        recipe.trainer.strategy.sequence_parallel = True
        logger.info(f"{recipe.optim.config.lr}")
        nr.run(recipe, executor=nr.LocalExecutor())
    except Exception as e:
        logger.error(e)

main()
"""


def test_arguments_of_a_recipe_are_settings_of_it() -> None:
    found = read_files(launch_of({"pretrain.py": ARGUED}))
    fields = {
        "/parallelism/num_gpus": 8,
        "/parallelism/tp": 4,
        "/parallelism/sequence_parallel": True,
        "/training/micro_batch_size": 1,
        "/training/seq_length": 2048,
        # os.environ
        "/framework/expandable_segments": True,
    }
    assert {pointer: found.field(pointer) for pointer in fields} == fields
    assert not found.left_out
    other = ARGUED.replace("min_lr=1e-5", "precision='32'")
    assert "precision" in read_files(launch_of({"a.py": other})).unsupported


def test_a_recipe_may_be_imported_by_itself() -> None:
    text = SCRIPT.replace("from nemo.collections import llm", IMPORT).replace("llm.llama3_8b.", "")
    text = text.replace('dir="/checkpoints", name="run", num_nodes=NODES, ', '"/c", "run", NODES, ')
    text += "\ncompare(pretrain_recipe(), recipe())\n"
    found = read_files(launch_of({"pretrain.py": text}))
    assert found.fields() == script().fields()


IMPORT = "from nemo.collections.llm.recipes.llama3_8b import pretrain_recipe"


def test_a_tokenizer_that_is_made_up_says_its_size() -> None:
    new = (
        "if profile and other:\n        pretrain.data = None\n    pretrain.data.tokenizer = "
        'run.Config(get_nmt_tokenizer, library="null", vocab_size=1000)\n'
    )
    found = script("pretrain.log.ckpt = None\n", new)
    assert found.field("/model/spec/vocab_size") == 1000
    assert not found.left_out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nemo llm pretrain", "names no recipe"),
        ("nemo llm pretrain --factory own", "no recipe of NeMo 2 to pretrain own is known"),
        ("nemo llm pretrain --factory llama3_8b(1)", "is no call of a recipe"),
        ("nemo llm pretrain --factory llama3_8b trainer.devices*=2", "write a value"),
        ("nemo llm pretrain --factory llama3_8b trainer=x", "do not both say a number"),
    ],
)
def test_what_names_no_recipe_is_refused(words: str, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        command(words)


def test_releases_are_named() -> None:
    with pytest.raises(LaunchError, match="known of NeMo"):
        command("nemo llm pretrain --factory llama3_8b", framework_version="1.0")
    assert "--own" in command("nemo llm pretrain --factory llama3_8b --own").unsupported
    assert "some.key" in command("nemo llm pretrain --factory llama3_8b some.key=1").unsupported


def test_every_recipe_says_its_model() -> None:
    for (kind, name), known in recipes().items():
        for recipe in known:
            assert recipe.settings["model.config.num_layers"], (kind, name)
            assert recipe.settings["trainer.devices"], (kind, name)
            assert recipe.releases, (kind, name)
