"""Which linears adapters are targeted at: names, ends of paths, or a pattern of whole paths.

Source: peft's tuners_utils.py (check_target_module_exists).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from trainfit.estimator.legend import OTHER_NAMES
from trainfit.launch.draft import Draft
from trainfit.launch.settings import Setting

PATTERN = re.compile(r"[\\(){}|*^$+?\[\]]")
"""Signs that no name has."""
LISTS = (
    "layers",
    "model.layers",
    "model.language_model.layers",
    "model.text_model.layers",
    "language_model.model.layers",
    "transformer.h",
)
"""Paths of the layers of a decoder, alone or within a model of several."""
PARENTS = (
    "",
    "self_attn.",
    "cross_attn.",
    "attn.",
    "attention.",
    "linear_attn.",
    "mlp.",
    "mlp.experts.0.",
    "mlp.shared_expert.",
    "mlp.shared_experts.",
    "feed_forward.",
    "block_sparse_moe.experts.0.",
)
"""Modules in which linears of decoder layers stand, by the classes of transformers."""
LINEARS = tuple(
    dict.fromkeys(
        (
            *chain.from_iterable((name, *others) for name, others in OTHER_NAMES.items()),
            *("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"),
            *("in_proj_qkvz", "in_proj_ba", "in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b"),
            *("in_proj", "x_proj", "dt_proj"),
        )
    )
)
LAYERS = (0, 1, 2, 3, 15, 31)
"""Numbers of which a pattern that picks layers picks one."""
UNKNOWN = "which linears this pattern names is not known"


def put_linears(draft: Draft, pointer: str, words: Sequence[str], setting: Setting) -> None:
    """Set which linears get an adapter."""
    names = linears_of(words)
    if names is None:
        draft.leave_out(setting, UNKNOWN)
    else:
        draft.put(pointer, names, setting)


def linears_of(given: Sequence[str]) -> list[str] | None:
    """The names of linears that words name, of a path its end; None where a pattern matches none
    that is known.
    """
    found: dict[str, None] = {}
    for word in given:
        names = _matched(word) if PATTERN.search(word) else [word.rpartition(".")[2]]
        if not names:
            return None
        found |= dict.fromkeys(names)
    return list(found)


def _matched(pattern: str) -> list[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return []
    return [name for name in LINEARS if any(map(compiled.fullmatch, _paths(name)))]


def _paths(name: str) -> list[str]:
    """Where a linear of this name may stand, in the layers that a pattern may pick."""
    return [
        f"{layers}.{number}.{parent}{name}"
        for layers in LISTS
        for number in LAYERS
        for parent in PARENTS
    ]
