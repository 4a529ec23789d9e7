"""When CUDA loads kernels, which what is imported decides where no variable does."""

from __future__ import annotations

from trainfit.launch.transformers.changes import ASKS_FOR_A_GPU, LOADS_LAZILY
from trainfit.launch.transformers.run import TrainerRun

VARIABLE = "CUDA_MODULE_LOADING"
FIELD = "/framework/cuda_module_loading"


def put_module_loading(run: TrainerRun) -> None:
    """Set it as the environment says, else as a release of PyTorch that is named has it. Earlier
    ones than 2.5 load lazily unless CUDA was started before them, which scripts may do as well, or
    the variable is there, whatever it says (torch/cuda/__init__.py: _lazy_init).
    """
    draft, setting = run.draft, run.program.environment.get(VARIABLE)
    mode = "" if setting is None or setting.unknown is not None else str(setting.value).lower()
    torch = run.releases.named("torch")
    by_itself = "lazy" if torch is not None and torch >= LOADS_LAZILY.since else "eager"
    if setting is not None and mode in ("lazy", "eager"):
        draft.put(FIELD, mode, setting)
    elif setting is not None and mode == "default" and torch is not None:
        draft.put(FIELD, by_itself, setting)
    elif setting is not None or torch is None:
        return
    elif by_itself == "lazy":
        draft.default(FIELD, by_itself, "PyTorch with CUDA 12.4 or later")
    elif run.releases.has(ASKS_FOR_A_GPU) and _has_flash_attention(run):
        draft.default(FIELD, by_itself, "transformers since 4.48, with CUDA before 12.2")


def _has_flash_attention(run: TrainerRun) -> bool:
    """Whether flash-attn is installed, as what asks for it shows."""
    return bool(run.draft.get("/training/attention/backend") == "flash")
