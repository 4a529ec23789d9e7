"""Which layout: what is kept, what is sought, and what is answered."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit import QuestionError, fit_check, search
from trainfit.questions.wire import to_json

LLAMA: dict[str, Any] = {
    "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
    "parallelism": {"num_gpus": 8},
    "training": {"global_batch_size": 64, "seq_length": 4096},
    "gpu": "H100-80GB",
}


def test_what_is_given_is_kept_and_every_job_found_fits_as_it_was_said() -> None:
    job = {**LLAMA, "parallelism": {"num_gpus": 8, "tp": 2}}
    found = search(job, best=3)
    assert len(found.best) == 3
    assert found.best[0].tie
    assert found.tried.jobs <= found.tried.layouts * 16
    paces = [each.tokens_per_second or 0 for each in found.best]
    assert paces == sorted(paces, reverse=True)
    for each in found.best:
        assert each.job["parallelism"]["tp"] == 2
        assert each.job["training"]["global_batch_size"] == 64
        checked = fit_check(each.job)
        assert checked.verdict == each.verdict == "fits"
        assert checked.binding is not None
        assert checked.binding.device_bytes == each.device_bytes
        assert each.launch is not None
        assert "--tensor-model-parallel-size" in each.launch.arguments


def test_a_layout_of_the_front_ties_with_the_best_and_not_with_itself() -> None:
    found = search(LLAMA, best=20)
    paces = {each.tie: each.tokens_per_second or 0 for each in found.pareto}
    assert set(paces) == {True, False}
    ties = {str(each.job): each.tie for each in found.best}
    for each in found.pareto:
        assert each.tie == ties.get(str(each.job), each.tie)


def test_equal_questions_have_equal_answers() -> None:
    assert to_json(search(LLAMA, best=2)) == to_json(search(LLAMA, best=2))


def test_a_floor_of_tokens_takes_more_gpus() -> None:
    job = {**LLAMA, "parallelism": {}, "training": {"global_batch_size": 48, "seq_length": 4096}}
    [few] = search(job, "fewest_gpus", best=1).best
    [floored] = search(
        job, "fewest_gpus", best=1, min_tokens_per_second=3 * (few.tokens_per_second or 0)
    ).best
    assert few.num_gpus < floored.num_gpus


def test_micro_batches_that_do_not_divide_the_global_batch_leave_nothing_and_say_why() -> None:
    training = {"global_batch_size": 64, "seq_length": 4096, "micro_batch_size": 65536}
    found = search({**LLAMA, "training": training})
    assert not found.best
    [reason] = {each.example for each in found.tried.fell if each.why == "refused"}
    assert reason is not None
    assert "64 samples do not divide into micro-batches of 65536 over" in reason


def test_a_larger_value_than_the_largest_found_does_not_fit() -> None:
    job = {**LLAMA, "parallelism": {"num_gpus": 1}, "gpu": "H200"}
    [longest] = search(job, "longest_sequence", best=1).best
    length = longest.job["training"]["seq_length"]
    longer = {**longest.job, "training": {**longest.job["training"], "seq_length": length + 1}}
    assert fit_check(longest.job).verdict == "fits"
    assert fit_check(longer).verdict != "fits"
    [largest] = search(job, "largest_micro_batch", best=1).best
    assert largest.job["training"]["micro_batch_size"] > 1


def test_cards_are_chosen_by_their_price() -> None:
    job = {name: value for name, value in LLAMA.items() if name != "gpu"}
    prices = {"H100-80GB": 2.0, "H200": 20.0}
    found = search(job, "cheapest", gpus=["H100-80GB", "H200"], price_per_gpu_hour=prices, best=2)
    assert {each.gpu for each in found.best} == {"H100-80GB-SXM"}
    assert found.best[0].cost_per_million_tokens


def test_listed_values_are_tried_and_no_others() -> None:
    alternatives = {"/training/seq_length": [2048, 8192]}
    job = {**LLAMA, "parallelism": {"num_gpus": 8, "tp": 1, "pp": 1, "cp": 1}}
    found = search(job, "most_headroom", alternatives=alternatives, best=8)
    assert {each.job["training"]["seq_length"] for each in found.best} == {2048, 8192}


@pytest.mark.parametrize(
    ("question", "options", "pointer", "words"),
    [
        ({"training": {}}, {}, "/training/global_batch_size", "how many samples"),
        ({"gpu": {"memory_bytes": 2**36}}, {}, "/gpu", "links between GPUs are not known"),
        ({}, {"objective": "cheapest"}, "", "needs a price"),
        ({}, {"alternatives": {"/training/nothing": [1]}}, "/alternatives", "nothing"),
        ({"gpu": None}, {}, "", "name the GPU"),
        (
            {"parallelism": {}},
            {"alternatives": {"/training/seq_length": list(range(1, 17))}, "max_gpus": 131_072},
            "/alternatives",
            "at most 256",
        ),
    ],
)
def test_what_cannot_be_told_is_refused_at_its_place(
    question: dict[str, Any], options: dict[str, Any], pointer: str, words: str
) -> None:
    with pytest.raises(QuestionError, match=words) as refused:
        search({**LLAMA, **question}, **options)
    assert refused.value.errors[0].pointer == pointer


SCRIPT = """
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 \\
  --num-attention-heads 32 --group-query-attention --num-query-groups 8 --ffn-hidden-size 14336 \\
  --swiglu --untie-embeddings-and-output-weights --disable-bias-linear --normalization RMSNorm \\
  --position-embedding-type rope --max-position-embeddings 8192 --vocab-size 128256 \\
  --seq-length 8192 --micro-batch-size 1 --global-batch-size 64 --bf16 \\
  --tensor-model-parallel-size 8 --recompute-granularity full --recompute-method uniform \\
  --recompute-num-layers 1 --use-distributed-optimizer --overlap-grad-reduce \\
  --transformer-impl transformer_engine --sequence-parallel --optimizer adam --lr 1e-4
"""


def launched(overrides: dict[str, Any], **options: Any) -> Any:
    launch = {"files": [{"path": "train.sh", "content": SCRIPT}], "gpu": "H100-80GB"}
    return search({"launch": launch | {"overrides": overrides}}, **options)


def test_the_layout_of_a_launch_is_sought_and_its_task_is_kept() -> None:
    found = launched({}, best=3)
    assert found.launch is not None
    assert found.launch.format == "megatron"
    best = found.best[0]
    assert best.job["training"]["seq_length"] == 8192
    assert best.job["training"]["global_batch_size"] == 64
    assert best.num_gpus == 8
    assert best.job["parallelism"]["tp"] < 8  # which its exchanges make slow
    assert best.launch is not None
    assert "--global-batch-size" in best.launch.arguments


def test_what_is_said_over_a_launch_is_kept() -> None:
    found = launched({"parallelism": {"tp": 4}, "training": {"micro_batch_size": 2}})
    assert {each.job["parallelism"]["tp"] for each in found.best} == {4}
    assert {each.job["training"]["micro_batch_size"] for each in found.best} == {2}


def test_the_fewest_gpus_may_be_fewer_than_a_launch_has() -> None:
    assert launched({}, objective="fewest_gpus", best=1).best[0].num_gpus < 8


def test_what_a_launch_says_and_nobody_models_leaves_no_layout_that_surely_fits() -> None:
    launch = {
        "files": [{"path": "train.sh", "content": SCRIPT.rstrip() + " --moe-use-upcycling\n"}],
        "gpu": "H100-80GB",
    }
    found = search({"launch": launch})
    assert not found.best
    [why] = [each for each in found.tried.fell if each.why == "unknown"]
    assert "--moe-use-upcycling" in (why.example or "")
