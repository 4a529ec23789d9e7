"""Workspaces that PyTorch gives cuBLAS, which count as allocated.

Source: aten/src/ATen/cuda/CublasHandlePool.cpp.
"""

WORKSPACE_HOPPER = 33_554_432
"""Also what deterministic mode asks for: CUBLAS_WORKSPACE_CONFIG=:4096:8."""
WORKSPACE = 8_519_680
"""PyTorch's default elsewhere: 8 MiB and 128 KiB; measured on B200."""
HANDLES = 2
"""The forward thread and the autograd thread each keep one."""


def workspaces(compute_capability: str, *, deterministic: bool = False) -> int:
    """Bytes of all handles' workspaces; an unnamed GPU is taken as one of 9.0."""
    large = compute_capability in ("", "sm_90") or deterministic
    return HANDLES * (WORKSPACE_HOPPER if large else WORKSPACE)
