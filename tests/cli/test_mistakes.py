"""What people type who come from other tools: either it is understood, or the answer says what to
type, and typing that works.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Run

QWEN = "estimate Qwen/Qwen3-8B"
SMALL = "--num-layers 2 --hidden-size 512 --num-attention-heads 8 --vocab-size 1000"
SCRIPT = "deploy/ci/example-pretrain.sh"

UNDERSTOOD = [
    (f"{QWEN} --gpus 8", f"{QWEN} --num-gpus 8"),
    (f"{QWEN} --mbs 2", f"{QWEN} --micro-batch-size 2"),
    (f"{QWEN} --gpus 8 --gbs 64", f"{QWEN} --num-gpus 8 --global-batch-size 64"),
    (f"{QWEN} --seq-len 8k", f"{QWEN} --seq-length 8192"),
    (f"{QWEN} --max-seq-length=128k", f"{QWEN} --seq-length 131072"),
    (f"{QWEN} --tensor-parallel-size 2", f"{QWEN} --tp 2"),
    (f"{QWEN} --bf16", f"{QWEN} --precision bf16"),
    (f"{QWEN} --gradient-accumulation-steps 4", f"{QWEN} --num-microbatches 4"),
    ("estimate Qwen3-8B", QWEN),
    ("estimate qwen3-8b", QWEN),
    ("estimate --model Qwen/Qwen3-8B", QWEN),
    (
        f"{QWEN} --gpus 8 --zero 3",
        f"{QWEN} --num-gpus 8 --framework transformers --data-parallel-engine deepspeed "
        "--data-parallel-sharding-strategy optim_grads_params",
    ),
    (
        f"{QWEN} --gpus 8 --framework megatron --zero 3",
        f"{QWEN} --num-gpus 8 --framework megatron "
        "--data-parallel-sharding-strategy optim_grads_params",
    ),
    (
        f"{QWEN} --gpus 8 --framework transformers --zero 2 --qlora",
        f"{QWEN} --num-gpus 8 --framework transformers --data-parallel-engine deepspeed "
        "--data-parallel-sharding-strategy optim_grads --peft lora --peft-quantization nf4",
    ),
    (
        f"{QWEN} --gpus 8 --zero 2 --qlora",
        f"{QWEN} --num-gpus 8 --framework transformers --data-parallel-engine deepspeed "
        "--data-parallel-sharding-strategy optim_grads --peft lora --peft-quantization nf4",
    ),
    (
        f"{QWEN} --framework transformers --lora 16",
        f"{QWEN} --framework transformers --peft lora --lora-r 16",
    ),
    (
        f"{QWEN} --lora --framework transformers --lora-rank 64",
        f"{QWEN} --framework transformers --peft lora --lora-r 64",
    ),
    (
        f"{QWEN} --gpus 8 --fsdp",
        f"{QWEN} --num-gpus 8 --framework transformers --data-parallel-engine fsdp2 "
        "--data-parallel-sharding-strategy optim_grads_params",
    ),
    (
        f"{QWEN} --gpus 8 --fsdp shard_grad_op --gradient-checkpointing",
        f"{QWEN} --num-gpus 8 --framework transformers --data-parallel-engine fsdp2 "
        "--data-parallel-sharding-strategy optim_grads --recompute-granularity full",
    ),
    (
        f"{QWEN} --gradient-checkpointing",
        f"{QWEN} --recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
    ),
    (
        f"{QWEN} --qlora",
        f"{QWEN} --framework transformers --peft lora --peft-quantization nf4",
    ),
    (
        f"{QWEN} --recompute-granularity selective --recompute-modules core_attn,mlp",
        f"{QWEN} --recompute-granularity selective --recompute-modules core_attn mlp",
    ),
    (
        f"{QWEN} --gpus 8 --zero 2 --deepspeed-reduce-bucket-size 5e8",
        f"{QWEN} --num-gpus 8 --framework transformers --data-parallel-engine deepspeed "
        "--data-parallel-sharding-strategy optim_grads --deepspeed-reduce-bucket-size 500000000",
    ),
]

ANSWERED = [
    ("Qwen/Qwen3-8B --tp 2", "use trainfit estimate Qwen/Qwen3-8B --tp 2", f"{QWEN} --tp 2"),
    ("Qwen3-8B", "use trainfit estimate Qwen3-8B", "estimate Qwen3-8B"),
    (
        f"{SCRIPT} --gpu B200",
        f"use trainfit fit-check {SCRIPT} --gpu B200",
        f"fit-check {SCRIPT} --gpu B200",
    ),
    ("estimat Qwen/Qwen3-8B", 'Did you mean "estimate"?', QWEN),
    ("estimate", "trainfit estimate Qwen/Qwen3-8B --num-gpus 8 --gpu H100-80GB", QWEN),
    (f"{QWEN} --gpu 80", "use --gpu A100-80GB-SXM", f"{QWEN} --gpu A100-80GB-SXM"),
    (f"{QWEN} --gpu 80GB", "H100-80GB-SXM", f"{QWEN} --gpu H100-80GB-SXM"),
    (f"{QWEN} --gpu H1000", "use --gpu H100-80GB-SXM", f"{QWEN} --gpu H100-80GB-SXM"),
    (f"{QWEN} --tp 3", "use --tp 2", f"{QWEN} --tp 2"),
    (f"{QWEN} --tp two", "use one, as in --tp 8", f"{QWEN} --tp 8"),
    (f"{QWEN} --seq-length 4kb", "--seq-length 4k", f"{QWEN} --seq-length 4k"),
    (f"{QWEN} --batch-size 4", "--micro-batch-size", f"{QWEN} --micro-batch-size 4"),
    (f"{QWEN} --dp 8", "use --num-gpus", f"{QWEN} --num-gpus 8"),
    (f"{QWEN} --nodes 2", "--num-gpus 16", f"{QWEN} --num-gpus 16"),
    (f"{QWEN} --zero 4", "use --zero with 0, 1, 2 or 3", f"{QWEN} --zero 3 --gpus 8"),
    (f"{QWEN} --tpp 2", "Did you mean --tp?", f"{QWEN} --tp 2"),
    (f"{QWEN} --precision bfloat16", 'Did you mean "bf16"?', f"{QWEN} --precision bf16"),
    (f"{QWEN} --num-layers 8", "leave out --num-layers", QWEN),
    ("estimate --num-layers 8 --hidden-size 512", "--num-attention-heads", "estimate gpt2"),
    (
        f"estimate {SMALL}",
        "or name --position-embedding-type",
        f"estimate {SMALL} --position-embedding-type rope",
    ),
    ("models list deepseek", "see trainfit models --help", "models deepseek"),
    ("gpus 5090 ti", "none is called 5090 ti", "gpus 5090"),
    ("estimate qwen3-8", "use Qwen/Qwen3-8B", QWEN),
    ("estimate qwen/qwen3-88", "use Qwen/Qwen3-8B", QWEN),
    (
        "fit-check Qwen/Qwen3-8B --gpu B200",
        "use trainfit estimate Qwen/Qwen3-8B --gpu",
        f"{QWEN} --gpu B200",
    ),
    (
        f"{QWEN} --recompute-method uniform",
        "add --recompute-granularity full",
        f"{QWEN} --recompute-method uniform --recompute-granularity full",
    ),
    (
        f"{QWEN} --num-gpus 4 --global-batch-size 7",
        "use --global-batch-size 8",
        f"{QWEN} --num-gpus 4 --global-batch-size 8",
    ),
]


def without_title(out: str) -> list[str]:
    """The lines of a report but those of the model, which may be named in several ways."""
    return [line for line in out.splitlines() if not line.startswith("Model ")]


@pytest.mark.parametrize(("typed", "meant"), UNDERSTOOD)
def test_what_is_understood_is_answered_as_what_was_meant(run: Run, typed: str, meant: str) -> None:
    answer, expected = run(typed), run(meant)
    assert (answer.code, expected.code, expected.err) == (0, 0, "")
    assert without_title(answer.out) == without_title(expected.out)


@pytest.mark.parametrize("typed", [each for each, _ in UNDERSTOOD if "--zero" in each])
def test_more_than_another_name_is_told(run: Run, typed: str) -> None:
    assert "is read as --" in run(typed).err


@pytest.mark.parametrize(("typed", "advice", "better"), ANSWERED)
def test_the_answer_says_what_to_type_and_typing_it_works(
    run: Run, typed: str, advice: str, better: str
) -> None:
    refused = run(typed)
    assert refused.code == 2
    assert advice in refused.err + refused.out
    assert "Traceback" not in refused.err
    assert " /parallelism" not in refused.err
    assert " /training" not in refused.err
    assert run(better).code in (0, 1)


def test_a_suggestion_is_flags_that_work(run: Run) -> None:
    line = f"fit-check {SCRIPT} --gpu H100-80GB"
    told = run(line)
    assert told.code == 1
    first = next(each for each in told.out.splitlines() if "- use --" in each)
    flags = first.partition("use ")[2].partition(":")[0]
    assert run(f"{line} {flags}").code == 0


def test_an_architecture_in_megatrons_names(run: Run) -> None:
    flags = (
        "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --num-query-groups 8 "
        "--ffn-hidden-size 14336 --vocab-size 128256 --swiglu --normalization RMSNorm "
        "--disable-bias-linear --position-embedding-type rope "
        "--untie-embeddings-and-output-weights"
    )
    assert "8.03 B total" in run(f"estimate {flags}").out


def test_a_config_that_is_typed_or_piped_in(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "model_type": "llama",
                "hidden_size": 512,
                "intermediate_size": 1024,
                "num_hidden_layers": 2,
                "num_attention_heads": 8,
                "vocab_size": 1000,
            }
        ),
        "utf-8",
    )
    expected = without_title(run(f"estimate {config}").out)
    typed = config.read_text("utf-8").replace(" ", "")
    assert without_title(run(f"estimate {typed} ").out) == expected
    with config.open("rb") as piped:
        monkeypatch.setattr("sys.stdin", type("Piped", (), {"buffer": piped}))
        assert without_title(run("estimate -").out) == expected
    job = json.dumps({"model": {"hf_config": json.loads(typed)}}).replace(" ", "")
    assert without_title(run(f"estimate {job}").out) == expected
    assert "trainfit: MODEL: " in run("estimate {").err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("job.json", '{"model": {"hf_id": "Qwen/Qwen3-8B"}, "parallelism": {"num_gpus": 8}}'),
        ("job.yaml", "model: {hf_id: Qwen/Qwen3-8B}\nparallelism: {num_gpus: 8}\n"),
        ("job.toml", '[model]\nhf_id = "Qwen/Qwen3-8B"\n[parallelism]\nnum_gpus = 8\n'),
    ],
)
def test_a_job_may_stand_in_the_place_of_a_model(
    run: Run, tmp_path: Path, name: str, text: str
) -> None:
    job = tmp_path / name
    job.write_text(text, "utf-8")
    expected = run(f"estimate --job {job} --tp 2")
    found = run(f"estimate {job} --tp 2")
    assert (found.code, found.err) == (0, "")
    assert found.out == expected.out
    log = tmp_path / "train.log"
    log.write_text("[Rank 0] (after 9 iterations) memory (MB) | max allocated: 40000.0", "utf-8")
    assert "39.1" in run(f"reconcile {job} {log}").out


def test_without_a_word_there_are_examples_that_work(run: Run) -> None:
    examples = [each for each in run("").out.splitlines() if each.startswith("trainfit ")]
    assert len(examples) == 4
    for example in (examples[0], examples[2]):
        assert run(shlex.join(shlex.split(example)[1:])).code == 0
