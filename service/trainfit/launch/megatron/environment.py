"""Variables that PyTorch, TransformerEngine, NCCL and cuBLAS read on every rank."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trainfit.launch.allocator import VARIABLES, read_allocator
from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.settings import Setting

IRRELEVANT = frozenset(
    {
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "CUDA_VISIBLE_DEVICES",
        "NVTE_ALLOW_NONDETERMINISTIC_ALGO",
        "NVTE_APPLY_QK_LAYER_SCALING",
        "NVTE_BWD_LAYERNORM_SM_MARGIN",
        "NVTE_CPU_OFFLOAD_V1",
        "NVTE_DEBUG",
        "NVTE_DEBUG_LEVEL",
        "NVTE_FWD_LAYERNORM_SM_MARGIN",
        "NVTE_NORM_BWD_USE_CUDNN",
        "NVTE_NORM_FWD_USE_CUDNN",
    }
)
UNSUPPORTED = {
    "NCCL_BUFFSIZE": "buffers of NCCL of one's own size are not modelled",
    "NCCL_MAX_NCHANNELS": "buffers of NCCL by its channels are not modelled",
    "NCCL_MIN_NCHANNELS": "buffers of NCCL by its channels are not modelled",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "PyTorch without its caching allocator is not modelled",
}
CUBLAS = "CUBLAS_WORKSPACE_CONFIG"
PREFIXES = ("NVTE_", "NCCL_", CUBLAS, *UNSUPPORTED, *IRRELEVANT)
"""What else stands in an environment is not read by what trains."""
KERNELS = ("NVTE_FLASH_ATTN", "NVTE_FUSED_ATTN", "NVTE_UNFUSED_ATTN")
"""TransformerEngine's kernels in the order in which it tries them; 0 takes one out."""


def read_environment(environment: Mapping[str, Setting], draft: Draft) -> None:
    """Put what variables decide into a draft, once the arguments are there."""
    read_allocator(environment, draft)
    _put_kernel(environment, draft)
    for name, setting in environment.items():
        if name in (*VARIABLES, *KERNELS) or not name.startswith(PREFIXES):
            continue
        if name == CUBLAS:
            draft.leave_out(setting, _workspaces(str(setting.value)))
        elif name in UNSUPPORTED:
            draft.leave_out(setting, UNSUPPORTED[name])
        elif name in IRRELEVANT or name.startswith("NCCL_"):
            draft.ignore(setting)
        else:
            draft.leave_out(setting, "no list has this variable of TransformerEngine")


STREAMS = 4
"""Streams on which a rank multiplies matrices: its own, and those of communication beside it."""


def _workspaces(value: str) -> Effect:
    """Buffers of so many KiB, `:SIZE:COUNT` one after the other, for every handle and stream."""
    why = "workspaces of cuBLAS of one's own size are not modelled"
    pairs = re.findall(r":(\d{1,9}):(\d{1,4})", value)
    if not pairs or "".join(f":{size}:{count}" for size, count in pairs) != value:
        return Effect(why)
    total = sum(int(size) * int(count) * 1024 for size, count in pairs)
    source = "aten/src/ATen/cuda/CublasHandlePool.cpp: parseChosenWorkspaceSize"
    return Effect(why, "raises", source, bytes=STREAMS * total)


def _put_kernel(environment: Mapping[str, Setting], draft: Draft) -> None:
    """The attention kernel that is left where others are taken out by variables."""
    backend = "/training/attention/backend"
    settings = [environment[name] for name in KERNELS if name in environment]
    left = [name for name in KERNELS if str(_value(environment, name)) != "0"]
    chosen = draft.get(backend) not in (None, "auto")
    if len(left) < len(KERNELS) and left and not chosen:
        kernel = left[0].removeprefix("NVTE_").removesuffix("_ATTN").casefold()
        draft.put(backend, kernel, *settings)
    else:
        for setting in settings:
            draft.recognise(setting)


def _value(environment: Mapping[str, Setting], name: str) -> object:
    return environment[name].value if name in environment else None
