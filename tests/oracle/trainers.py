"""Losses as TRL's own trainers compute them: their code is run as it is, without what surrounds it.

TRL is in no lock: rows that need it are made where it is installed beside the oracle's own
environment, and `make oracle` leaves them out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch

from tests.oracle.models import AUTOCAST, Model
from tests.oracle.spec import Spec


def loss_of_trainer(run: Any, ids: Any, spec: Spec) -> tuple[Any, Any]:
    """(loss, what the caller may keep) of a batch of samples, the chosen ones first. No sample is
    shorter than another, so that nothing has to be masked.
    """
    from trl import RewardTrainer

    prepare(spec, run)
    trainer = stub(RewardTrainer, args=SimpleNamespace(center_rewards_coefficient=None))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return trainer.compute_loss(without_mask(run), inputs), None


def loss_of_preferences(model: Model, run: Any, ids: Any, spec: Spec) -> tuple[Any, Any]:
    """The same of DPO, whose releases before 0.29 concatenate pairs themselves. All but the first
    token of a sample has a loss. It rests on values: such rows are made with real data.
    """
    import trl

    if not trl.__version__.startswith(spec.trl):
        raise ValueError(f"this row is of TRL {spec.trl}, not of {trl.__version__}")
    if hasattr(trl.trainer.utils, FUSED):
        tile(run, model.reference)
    prepare(spec, run, model.reference)
    inputs = batch_of(ids)
    if spec.trainer == "KTOTrainer":
        return loss_of_samples(run, model.reference, ids, spec), None
    if spec.trainer != "DPOTrainer":
        return loss_without_reference(run, inputs, spec), None
    trainer = stub(trl.DPOTrainer, **settings_of(run, model.reference, spec))
    before = ("chosen_logps", "rejected_logps")
    if spec.reference is None:
        inputs |= {f"ref_{name}": torch.zeros(len(ids) // 2) for name in before}
        inputs |= {f"reference_{name}": torch.zeros(len(ids) // 2) for name in before}
    if hasattr(trl.DPOTrainer, "concatenated_forward"):
        with all_ones(run, model.reference):
            return trainer.get_batch_loss_metrics(run, inputs)[0], None
    names = {"input_ids", "attention_mask", "completion_mask", *(f"ref_{name}" for name in before)}
    with all_ones(run, model.reference):
        read = {name: inputs[name] for name in names & inputs.keys()}
        return trainer._compute_loss(run, read, False), None


def loss_without_reference(run: Any, inputs: dict[str, Any], spec: Spec) -> Any:
    """The loss of ORPO or CPO, whose trainers are experimental since 0.26."""
    for name in ("chosen", "rejected"):
        inputs[f"{name}_input_ids"] = inputs["input_ids"].chunk(2)[name == "rejected"]
        inputs[f"{name}_labels"] = inputs[f"{name}_input_ids"]
        inputs[f"{name}_attention_mask"] = torch.ones_like(inputs[f"{name}_labels"])
    settings = settings_of(run, None, spec) | {"loss_type": "sigmoid", "cpo_alpha": 1.0}
    settings |= {"padding_value": 0, "label_pad_token_id": -100, "alpha": 0.0}
    with all_ones(run):
        return stub(class_of(spec), **settings).get_batch_loss_metrics(run, inputs)[0]


def loss_of_samples(run: Any, reference: Any, ids: Any, spec: Spec) -> Any:
    """The loss of KTO, by the names of every release. The first half is desirable; samples stand
    for the mismatched ones as well.
    """
    settings = settings_of(run, reference, spec) | {"loss_type": "kto", "label_pad_token_id": -100}
    settings |= {"calculate_KL": True, "desirable_weight": 1.0, "undesirable_weight": 1.0}
    settings |= {"is_peft_model": spec.lora is not None, "use_liger_kernel": False}
    trainer = stub(class_of(spec), **settings)
    labels = [number < len(ids) // 2 for number in range(len(ids))]
    by_metrics, before = hasattr(trainer, "get_batch_loss_metrics"), torch.zeros(len(ids))
    read = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    masked = {"labels": ids} if by_metrics else {"completion_mask": torch.ones_like(ids)}
    prefix = "" if tuple(map(int, spec.trl.split("."))) >= (1, 8) else "completion_"
    batch = {f"{kind}{prefix}{name}": each for kind in ("", "KL_") for name, each in read.items()}
    prefix = "completion_" if by_metrics else ""
    batch |= {
        f"{kind}{prefix}{name}": each for kind in ("", "KL_") for name, each in masked.items()
    }
    if by_metrics and spec.reference is None:
        batch |= {"reference_logps": before, "reference_KL_logps": before}
    elif not by_metrics:
        batch |= {"ref_logps": before, "ref_KL_logps": before}
    with all_ones(run, reference):
        if by_metrics:
            return trainer.get_batch_loss_metrics(run, batch | {"label": labels})[0]
        return trainer._compute_loss(run, batch | {"label": torch.tensor(labels)}, False)


def loss_of_policy(run: Any, ids: Any, spec: Spec) -> tuple[Any, Any]:
    """The loss of GRPO over the last tokens of samples, which a policy of the step before made,
    with the defaults of GRPOConfig. Log-probabilities by others were computed when these were made.
    """
    import trl

    if not trl.__version__.startswith(spec.trl):
        raise ValueError(f"this row is of TRL {spec.trl}, not of {trl.__version__}")
    if hasattr(trl.trainer.utils, FUSED):
        tile(run)
    prepare(spec, run)
    settings = {
        "args": SimpleNamespace(delta=None, use_bias_correction_kl=False, report_to=[]),
        "beta": 0.0,
        "temperature": 1.0,
        "num_iterations": 1,
        "epsilon_low": 0.2,
        "epsilon_high": 0.2,
        "loss_type": "grpo",
        "importance_sampling_level": "token",
        "top_entropy_quantile": 1.0,
        "off_policy_mask_threshold": None,
        "model_kwarg_keys": {"logits_to_keep"},
        "use_vllm": False,
        "use_liger_kernel": False,
        "use_liger_loss": False,
        "aux_loss_enabled": False,
        "_entropy_bonus_enabled": False,
        "current_gradient_accumulation_steps": 1,
        "control": SimpleNamespace(should_evaluate=False),
    }
    trainer = stub(trl.GRPOTrainer, **settings)
    ones, start = torch.ones_like(ids), spec.seq - spec.logits_to_keep
    batch = {"prompt_ids": ids[:, :start], "prompt_mask": ones[:, :start]}
    batch |= {"completion_ids": ids[:, start:], "completion_mask": ones[:, start:]}
    with all_ones(run):
        return trainer.compute_loss(run, batch | {"advantages": torch.zeros(len(ids))}), None


def class_of(spec: Spec) -> Any:
    """A trainer, which is experimental in some releases."""
    import trl

    kind = getattr(trl, spec.trainer, None)
    if kind is None:
        name = spec.trainer.removesuffix("Trainer").lower()
        kind = getattr(import_module(f"trl.experimental.{name}"), spec.trainer)
    return kind


def prepare(spec: Spec, *modules: Any) -> None:
    """Have models run under autocast and answer in fp32, as accelerate's prepare_model has them:
    what autocast has narrowed goes when a model's forward returns, before the loss.
    """
    if spec.dtype not in AUTOCAST:
        return
    answering_in_fp32 = import_module("accelerate.utils").convert_outputs_to_fp32
    for each in modules:
        if each is not None and not getattr(each, "is_prepared", False):
            under = torch.autocast("cpu", dtype=AUTOCAST[spec.dtype])
            each.forward = answering_in_fp32(under(each.forward))
            each.is_prepared = True


FUSED = "add_fused_lm_head"


def tile(*modules: Any) -> None:
    """Give models the head that DPO gives them since 1.15, whose tiles are of tokens with a loss as
    on CUDA. Its Triton kernels work in place: nothing stands in for them, in backward too, nor for
    products that add up in fp32 as they are.
    """
    from trl.kernels import chunked_logprob
    from trl.trainer import utils

    for each in modules:
        plain = getattr(each, "base_model", each) if hasattr(each, "peft_config") else each
        plain = plain.model if hasattr(each, "peft_config") else plain
        if plain is not None and "forward" not in vars(plain):
            utils.add_fused_lm_head(
                plain, outputs=("log_probs", "entropy", "mean_logits", "is_top1")
            )
    for name in ("_forward_tile", "_backward_tile", "_addmm_fp32"):
        setattr(chunked_logprob, name, nothing)
    utils._use_triton = lambda _device: True


def nothing(*_given: Any, **_named: Any) -> None:
    """Asks for no memory."""


def batch_of(ids: Any) -> dict[str, Any]:
    """Samples of which the first half is chosen, by the names of every release."""
    ones, half = torch.ones_like(ids), len(ids) // 2
    behind = ones.clone()
    behind[:, 0] = 0
    batch = {"input_ids": ids, "attention_mask": ones, "completion_mask": behind}
    batch |= {"prompt_input_ids": ids[:half, :1], "prompt_attention_mask": ones[:half, :1]}
    for name, part in (("chosen", slice(half)), ("rejected", slice(half, None))):
        batch |= {f"{name}_input_ids": ids[part, 1:], f"{name}_attention_mask": ones[part, 1:]}
    return batch


def settings_of(run: Any, reference: Any, spec: Spec) -> dict[str, Any]:
    """What the loss reads of a trainer with the defaults of DPOConfig."""
    return {
        "model": run,
        "ref_model": reference,
        "args": SimpleNamespace(
            rpo_alpha=None,
            ld_alpha=None,
            use_liger_loss=False,
            use_liger_kernel=False,
            gradient_checkpointing_kwargs={"use_reentrant": False},
        ),
        "aux_loss_enabled": False,
        "use_weighting": False,
        "is_encoder_decoder": False,
        "is_vision_model": False,
        "padding_free": False,
        "use_logits_to_keep": False,
        "precompute_ref_logps": spec.reference is None,
        "precompute_ref_log_probs": spec.reference is None,
        "_peft_has_been_casted_to_bf16": False,
        "reference_free": False,
        "ref_adapter_name": None,
        "model_adapter_name": None,
        "ld_alpha": None,
        "pad_token_id": 0,
        "max_length": None,
        "beta": 0.1,
        "label_smoothing": 0.0,
        "loss_type": ["sigmoid"],
        "loss_types": ["sigmoid"],
        "loss_weights": [1.0],
        "f_divergence_type": "reverse_kl",
    }


@contextmanager
def all_ones(*modules: Any) -> Iterator[None]:
    """Within, modules are sent no mask, as where no token is padding."""
    hooks = [
        each.register_forward_pre_hook(_dropping_mask, with_kwargs=True)
        for each in modules
        if each is not None
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _dropping_mask(_module: Any, given: Any, named: dict[str, Any]) -> Any:
    return given, {name: each for name, each in named.items() if name != "attention_mask"}


def stub(kind: type, **given: Any) -> Any:
    """A trainer that nobody has set up, on one device."""
    trainer: Any = object.__new__(kind)
    alone = SimpleNamespace(
        device=torch.device("cpu"),
        gather=same,
        gather_for_metrics=same,
        unwrap_model=same,
        reduce=same,
        num_processes=1,
        autocast=nullcontext,
        is_main_process=False,
    )
    settings = {
        "model": SimpleNamespace(training=True),
        "accelerator": alone,
        "_total_train_tokens": 0,
        "_tp_size": 1,
        "_metrics": {"train": defaultdict(list)},
    }
    trainer.__dict__.update(settings | given)
    return trainer


def same(value: Any, **_named: Any) -> Any:
    return value


def without_mask(run: Any) -> Any:
    """The model, sent no mask."""

    def called(**inputs: Any) -> Any:
        return run(**{name: each for name, each in inputs.items() if name != "attention_mask"})

    return called
