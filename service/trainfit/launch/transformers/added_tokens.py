"""Tokens that a tool adds to those of a model: rows of the embedding and of the head."""

from __future__ import annotations

from trainfit.launch.effects import Effect
from trainfit.launch.models import config_of
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.run import TrainerRun

MATRICES = 2
STATE_BYTES = 4 + 4 + 8 + 4
"""Of a parameter in fp32, its gradient, two moments and what the step borrows."""
LOGIT_BYTES = 4 + 4 + 4
"""Of a logit: as it is made, in fp32, and its gradient; each at its widest."""


def leave_out_added_tokens(run: TrainerRun, setting: Setting, number: int, source: str) -> None:
    """Note tokens that are added. Rows are there only where the embedding has none left, so that
    they raise the peak by n rows at most: 2 n h parameters and logits [b, s, n].
    """
    why = "rows that are added to the embedding"
    hidden = (config_of(run.draft) or {}).get("hidden_size")
    if not isinstance(hidden, int):
        run.draft.leave_out(setting, f"{why} are not modelled")
        return
    samples, length = (run.draft.get(f"/training/{name}") for name in SIZES)
    tokens = (samples or 1) * (length or 0)
    size = number * (MATRICES * hidden * STATE_BYTES + tokens * LOGIT_BYTES)
    run.draft.leave_out(setting, Effect(f"{why}: {number} at most", "raises", source, bytes=size))


SIZES = ("micro_batch_size", "seq_length")
