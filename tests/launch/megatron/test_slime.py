"""slime's launches: Megatron-LM's arguments, and what slime sets itself."""

from __future__ import annotations

from tests.launch.launches import Read, launch_of
from tests.launch.launches import read as read_files
from trainfit.launch.read import read_launch

MODEL = (
    "--swiglu --num-layers 36 --hidden-size 2560 --ffn-hidden-size 9728 --num-attention-heads 32 "
    "--group-query-attention --num-query-groups 8 --use-rotary-position-embeddings "
    "--disable-bias-linear --normalization RMSNorm --kv-channels 128 --qk-layernorm "
    "--vocab-size 151936"
)
STEP = (
    "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "
    "--global-batch-size 128 --attention-dropout 0.0 --hidden-dropout 0.0 "
    "--accumulate-allreduce-grads-in-fp32 --attention-backend flash"
)


def read(words: str) -> Read:
    command = f"python3 train_async.py --hf-checkpoint /models/m {MODEL} {STEP} {words}"
    return read_files(launch_of(argv=command.split()))


def test_a_job_derived_by_hand_from_slimes_source() -> None:
    found = read(
        "--actor-num-nodes 2 --actor-num-gpus-per-node 8 --tensor-model-parallel-size 2 "
        "--context-parallel-size 2 --sequence-parallel --use-dynamic-batch-size "
        "--max-tokens-per-gpu 9216 --debug-train-only --loss-type sft_loss"
    )
    fields = {
        name: value
        for name, value in found.fields().items()
        if name.startswith(("/parallelism", "/training"))
    }
    assert fields == {
        "/parallelism/num_gpus": 16,
        "/parallelism/tp": 2,
        "/parallelism/cp": 2,
        "/parallelism/sequence_parallel": True,
        # args.use_distributed_optimizer = True
        "/parallelism/data_parallel_sharding_strategy": "optim",
        # a micro-batch of samples behind one another, of the tokens that both ranks may have
        "/training/micro_batch_size": 1,
        "/training/seq_length": 2 * 9216,
        "/training/global_batch_size": 128,
        # args.bf16 = not args.fp16
        "/training/precision": "bf16",
        "/training/recompute/granularity": "full",
        "/training/recompute/method": "uniform",
        "/training/recompute/num_layers": 1,
        "/training/attention/backend": "flash",
        "/training/attention/dropout": 0.0,
        "/training/hidden_dropout": 0.0,
        # loss.py: sft_loss_function takes the same log-probabilities as a policy's loss
        "/training/loss/objective": "policy",
        "/training/loss/log_probs_by": "slime",
    }
    (logits,) = found.account.bounded
    assert logits.bytes == 3 * 4 * 2 * 9216 * 151936 // 4
    assert not found.unsupported


def test_without_dynamic_batches_megatrons_own_sizes_count() -> None:
    found = read("--micro-batch-size 4 --seq-length 2048 --max-tokens-per-gpu 9216")
    assert found.field("/training/micro_batch_size") == 4
    assert found.field("/training/seq_length") == 2048
    assert found.field("/parallelism/num_gpus") == 8


def test_an_engine_on_the_same_cards_is_bounded() -> None:
    found = read("--colocate --sglang-mem-fraction-static 0.7")
    assert found.bounded == {"--colocate", "loss_type"}
    assert "--sglang-mem-fraction-static" in found.irrelevant


def test_what_is_made_of_logits_depends_on_temperature_and_entropy() -> None:
    """get_log_probs_and_entropy: logits over a temperature other than 1 are others; an entropy is
    told, and learnt where it has a coefficient. Chunks of logits are kept as one would be.
    """
    by, entropy = "/training/loss/log_probs_by", "/training/loss/entropy"
    plain = read("--rollout-temperature 1 --entropy-coef 0.00 --log-probs-chunk-size 1024")
    assert (plain.field(by), plain.field(entropy)) == ("slime", "none")
    assert "--log-probs-chunk-size" in plain.irrelevant
    learnt = read("--rollout-temperature 0.8 --entropy-coef 1e-3")
    assert (learnt.field(by), learnt.field(entropy)) == ("slime-divided", "whole")
    assert not learnt.unsupported


def test_a_checkpoint_somewhere_does_not_matter_where_the_model_is_spelt_out() -> None:
    script = f"python3 train.py --hf-checkpoint ${{BASE_DIR}}/Qwen3-4B {MODEL} {STEP}"
    assert read_files(launch_of({"run.sh": script})).field("/model/spec/vocab_size") == 151_936


def test_a_critic_is_not_modelled() -> None:
    assert read("--advantage-estimator ppo").unsupported == {"--advantage-estimator"}
    assert not read("--advantage-estimator grpo").unsupported


def test_a_model_in_a_file_that_is_sourced_beside_the_script() -> None:
    script = (
        'HERE="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &>/dev/null && pwd)"\n'
        'source "${HERE}/models/m.sh"\n'
        f"ray job submit -- python3 train.py --actor-num-gpus-per-node 8 ${{MODEL[@]}} {STEP}"
    )
    files = {"run.sh": script, "models/m.sh": f"MODEL=({MODEL})"}
    reading = read_launch(launch_of(files))
    assert reading.job["model"]["spec"]["num_layers"] == 36
