"""What a run evaluates between steps of training.

Source: transformers' trainer.py (prediction_step), training_args.py.
"""

from __future__ import annotations

from typing import Any

from trainfit.launch.effects import evaluation
from trainfit.launch.transformers.run import IN_PAIRS, TrainerRun
from trainfit.launch.transformers.source import as_bool, as_int

TRAINERS_BATCH = 8
"""Of TrainingArguments, to train and to evaluate."""


def check_evaluation(run: TrainerRun, size: int | None) -> None:
    """Evaluation keeps no gradients, so that it needs less than training on the same batch; on a
    larger one it may need more, which is not modelled.
    """
    strategy = run.arguments.get("eval_strategy")
    evaluates = strategy is not None and as_bool(strategy.value) is not False
    evaluates = evaluates and strategy is not None and str(strategy.value) != "no"
    switch = run.arguments.get("do_eval")
    if run.arguments.is_on("do_eval"):
        evaluates, strategy = True, strategy or switch
    given = run.arguments.get("per_device_eval_batch_size")
    batch: Any = TRAINERS_BATCH if given is None else as_int(given.value)
    setting = given or strategy
    if not evaluates or setting is None:
        return
    if size is None or batch is None:
        words = f"evaluates {batch} samples at once and trains {size}: not modelled"
        run.draft.leave_out(setting, words)
    elif batch > size:
        source = "transformers/trainer.py (prediction_step, under no_grad)"
        # Of preferences a sample is a pair, and the reference may run on it as well.
        pairs = 2 if run.trainer.kind in ("kto", "own_kto") else 1
        samples = batch * (4 if run.trainer.kind in IN_PAIRS else pairs)
        run.draft.leave_out(setting, evaluation(samples, source))
