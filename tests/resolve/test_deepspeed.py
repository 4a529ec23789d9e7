"""DeepSpeed's buffers, and what of it is refused."""

from typing import Any

import pytest

from trainfit.questions.estimate import answer
from trainfit.specs.job import Job

HIDDEN = 4096


def job(strategy: str, **deepspeed: Any) -> Job:
    return Job.model_validate(
        {
            "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
            "parallelism": {"num_gpus": 8, "data_parallel_sharding_strategy": strategy},
            "training": {"seq_length": 128},
            "framework": {
                "name": "transformers",
                "data_parallel_engine": "deepspeed",
                "deepspeed": deepspeed,
            },
        }
    )


@pytest.mark.parametrize("strategy", ["optim_grads", "optim_grads_params"])
def test_auto_is_made_of_the_hidden_size(strategy: str) -> None:
    auto = job(strategy, reduce_bucket_size="auto", stage3_prefetch_bucket_size="auto")
    numbers = job(
        strategy,
        reduce_bucket_size=HIDDEN**2,
        stage3_prefetch_bucket_size=int(0.9 * HIDDEN**2),
    )
    assert answer(auto).stages == answer(numbers).stages
    large = job(strategy, reduce_bucket_size=5_000_000_000)
    assert answer(auto).stages != answer(large).stages


def test_small_parameters_are_whole_all_the_time() -> None:
    """A threshold above the largest matrices of a layer keeps all layers whole."""

    def buffers(threshold: int | str) -> int:
        sizes = {"stage3_max_live_parameters": 0, "stage3_prefetch_bucket_size": 0}
        asked = job("optim_grads_params", stage3_param_persistence_threshold=threshold, **sizes)
        return answer(asked).stages[0].components[5].bytes

    norms = 2 * 32 * HIDDEN
    assert buffers(HIDDEN) - buffers(0) == 2 * norms
    assert buffers("auto") == buffers(HIDDEN)
    layers = 32 * (2 * HIDDEN**2 + 2 * 1024 * HIDDEN + 3 * 14336 * HIDDEN) + norms
    assert buffers(2 * 14336 * HIDDEN) - buffers(0) == 2 * layers
