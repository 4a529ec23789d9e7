"""slime: Megatron-LM's arguments, with what it sets itself and what its rollouts leave on the card.

Sources, of THUDM/slime: slime/utils/arguments.py, slime/backends/megatron_utils/arguments.py
(set_default_megatron_args), loss.py and actor.py, slime/utils/tensor_backper.py.
"""

from __future__ import annotations

from dataclasses import replace

from trainfit.launch.draft import Reading
from trainfit.launch.effects import Effect
from trainfit.launch.engines import asleep
from trainfit.launch.megatron.command_line import Arguments
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.values import size

WHOSE = "slime"
PROGRAMS = ("train.py", "train_async.py")
MARKS = ("--actor-num-gpus-per-node", "--rollout-function-path", "--hf-checkpoint")
NUM_GPUS = "/parallelism/num_gpus"
DEFAULTS = {
    "use_distributed_optimizer": True,
    "seq_length": 4096,
    "micro_batch_size": 1,
    "actor_num_nodes": 1,
    "actor_num_gpus_per_node": 8,
}
"""What slime sets, or has by default."""


def is_slime(program: TrainingProgram) -> bool:
    """By its program and by an option of its own."""
    given = {word.text.partition("=")[0] for word in program.arguments}
    return (program.name or "") in PROGRAMS and not given.isdisjoint(MARKS)


def with_defaults(arguments: Arguments) -> None:
    """Add what slime sets. A micro-batch of a dynamic size has as many tokens as a GPU may have,
    from every rank of context parallelism; its weights are in bf16 unless they are in fp16.
    """
    values = dict(DEFAULTS)
    if not arguments.values.get("fp16"):
        values["bf16"] = True
    for name, value in values.items():
        if name not in arguments.settings:
            _set(arguments, name, value, Setting(name, value, WHOSE, None, whose=WHOSE))
    _name_tokenizer(arguments)
    most = arguments.settings.get("max_tokens_per_gpu")
    if most is None or not arguments.values.get("use_dynamic_batch_size"):
        return
    if most.unknown is None:
        tokens = arguments.values["max_tokens_per_gpu"]
        tokens *= int(arguments.values.get("context_parallel_size") or 1)
        most = replace(most, value=tokens, written=most.value)
        arguments.values["seq_length"] = tokens
    arguments.settings["seq_length"] = most
    one = Setting("micro_batch_size", 1, WHOSE, None, whose=WHOSE)
    _set(arguments, "micro_batch_size", 1, one)


def _set(arguments: Arguments, name: str, value: object, setting: Setting) -> None:
    arguments.settings[name] = setting
    arguments.values[name] = value


def _name_tokenizer(arguments: Arguments) -> None:
    """The tokenizer is that of the checkpoint, unless another is named, or its rows are given."""
    checkpoint, known = arguments.settings.get("hf_checkpoint"), {"tokenizer_model", "vocab_size"}
    if checkpoint is not None and known.isdisjoint(arguments.settings):
        arguments.settings["tokenizer_model"] = checkpoint
        kind = Setting("tokenizer_type", "HuggingFaceTokenizer", WHOSE, None, whose=WHOSE)
        _set(arguments, "tokenizer_type", "HuggingFaceTokenizer", kind)


def put_actor(reading: Reading) -> None:
    """Set how many GPUs train, and bound what an engine beside them leaves on the card."""
    names = ("actor_num_nodes", "actor_num_gpus_per_node")
    unknown = [name for name in names if reading.is_unknown(name)]
    for name in unknown:
        reading.copy(name, NUM_GPUS)
    settings = [each for name in names if name not in unknown and (each := reading.get(name))]
    if not unknown:
        count = reading.value(names[0], 1, size) * reading.value(names[1], 8, size)
        reading.draft.put(NUM_GPUS, count, *settings)
    for name in ("use_dynamic_batch_size", "max_tokens_per_gpu"):
        reading.get(name)
    reading.pass_by("hf_checkpoint")
    _put_loss(reading)
    shares = reading.get("colocate")
    if shares is not None and reading.value("colocate"):
        reading.draft.leave_out(shares, ASLEEP)


ASLEEP = asleep("an engine of inference that sleeps on the same card")
LOSS, HEAT, ENTROPY = "loss_type", "rollout_temperature", "entropy_coef"


def _put_loss(reading: Reading) -> None:
    """Set how log-probabilities are computed, of samples to imitate too. An entropy whose
    coefficient is 0 is only told. Of a reference the weights take the place of the policy's before
    a step, and wait in host memory (tensor_backper.py).
    """
    draft, kind = reading.draft, reading.get(LOSS)
    if kind is not None:
        draft.put("/training/loss/objective", "policy", kind)
    else:
        draft.default("/training/loss/objective", "policy", WHOSE)
    heat, by = reading.get(HEAT), "/training/loss/log_probs_by"
    if heat is None:
        draft.default(by, "slime", WHOSE)
    else:
        draft.put(by, "slime" if reading.value(HEAT, 1.0, float) == 1 else "slime-divided", heat)
    learnt = reading.get(ENTROPY)
    if learnt is not None:
        asked = kind is None or kind.value == "policy_loss"
        whole = asked and reading.value(ENTROPY, 0.0, float) != 0
        draft.put("/training/loss/entropy", "whole" if whole else "none", learnt)


COPIES = 3
"""Of the logits in fp32 that releases before v0.3.1 made more: one for the entropy, with a softmax
that is kept, and one for the cross entropy (utils/ppo_utils.py: calculate_log_probs_and_entropy).
"""


def bound_logits(reading: Reading) -> None:
    """What an older slime makes of the logits of a micro-batch, s V / t in fp32."""
    draft = reading.draft
    names = ("/training/seq_length", "/model/spec/vocab_size")
    sizes = [draft.overridden(name) or draft.get(name) for name in names]
    given = reading.get(LOSS) or Setting(LOSS, "policy_loss", WHOSE, None)
    if not all(isinstance(each, int) for each in sizes):
        return
    ranks = draft.get("/parallelism/tp") or 1
    ranks *= draft.get("/parallelism/cp") or 1
    effect = Effect(
        "slime before v0.3.1 makes at most three more copies of the logits",
        "raises",
        "THUDM/slime v0.3.0: slime/utils/ppo_utils.py (calculate_log_probs_and_entropy)",
        bytes=COPIES * 4 * sizes[0] * sizes[1] // ranks,
    )
    draft.leave_out(given, effect)
