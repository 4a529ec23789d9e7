"""Kernels that a CUDA build picks, where a CPU build would pick others.

The choice of attention is that of `sdp_utils.cpp` on a recent card: flash takes half precision
without a mask, grouped heads included; the memory-efficient kernel takes masks and fp32, but only
as many key heads as query heads; the plain formula, which keeps the scores, takes the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.nn import functional

from tests.oracle.spec import Spec

FLASH_HEAD_DIM = 256
HALF = (torch.bfloat16, torch.float16)


@contextmanager
def cuda_kernels(spec: Spec) -> Iterator[None]:
    """Within, attention and dropout save what they save on CUDA."""
    with patch.object(functional, "dropout", dropout):
        if spec.attn == "cpu_sdpa":
            yield
        else:
            with patch.object(functional, "scaled_dot_product_attention", attention):
                yield


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """`scaled_dot_product_attention`; query is [b, heads, s, d]."""
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.get_autocast_dtype("cpu")
        query, key, value = (each.to(dtype) for each in (query, key, value))
    head_dims = {each.shape[-1] for each in (query, key, value)}
    if (
        attn_mask is None
        and query.dtype in HALF
        and len(head_dims) == 1
        and max(head_dims) <= FLASH_HEAD_DIM
    ):
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        return flash(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
    if key.shape[1] != query.shape[1]:
        plain = torch.ops.aten._scaled_dot_product_attention_math
        given = {"scale": scale, "enable_gqa": enable_gqa}
        return plain(query, key, value, attn_mask, dropout_p, is_causal, **given)[0]
    if attn_mask is not None:
        attn_mask = additive(attn_mask, query.dtype)
        attn_mask = attn_mask.expand(*query.shape[:3], key.shape[2])
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention
    log_sum_exp = torch.is_grad_enabled() and any(
        each.requires_grad for each in (query, key, value)
    )
    return efficient(query, key, value, attn_mask, log_sum_exp, dropout_p, is_causal, scale=scale)[
        0
    ]


def additive(mask: Any, dtype: Any) -> Any:
    """A mask to add to the scores."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask.logical_not(), float("-inf"))


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:  # noqa: ARG001
    """One kernel that saves a mask of one byte an element."""
    return torch.native_dropout(input, p, True)[0] if training and p > 0 else input
