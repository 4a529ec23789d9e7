"""Objects in a container that Megatron-Bridge saved: a function, a type or a choice that stands
there as {_target_: torch.nn.functional.silu, _call_: false}.

Source: megatron/training/config (yaml_utils.py, instantiate_utils.py) of Megatron-LM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainfit.launch.draft import Draft
from trainfit.launch.settings import Setting

TARGET = "_target_"
ABOUT_THE_CALL = frozenset((TARGET, "_call_", "_partial_", "_args_", "_recursive_", "_convert_"))
CHOICES: Mapping[str, Mapping[Any, str]] = {
    "AttnBackend": {1: "flash", 2: "fused", 3: "unfused", 4: "local", 5: "auto"},
}
"""Names of the members of an enumeration by their values (megatron/core/transformer/enums.py)."""


def folded(settings: Mapping[str, Setting], draft: Draft) -> dict[str, Setting]:
    """Settings with each such object as one, whose value is what it names: the full name of a
    function or a type, the member of an enumeration. One that holds fields besides, a section for
    one, stays as it is; what a function is to be called with later says nothing here.
    """
    found = dict(settings)
    for key in settings:
        parent, _, last = key.rpartition(".")
        if last != TARGET or not parent:
            continue
        below = {name: found[name] for name in settings if name.startswith(f"{parent}.")}
        about = {name.removeprefix(f"{parent}."): each.value for name, each in below.items()}
        if not about.get("_partial_") and not about.keys() <= ABOUT_THE_CALL:
            continue
        if "." not in parent and "_call_" not in about:
            continue
        for name, setting in below.items():
            del found[name]
            if name != key:
                draft.ignore(setting)
        found[parent] = replace(settings[key], key=parent, value=_meant(about))
    return found


def _meant(about: Mapping[str, Any]) -> str:
    target, arguments = str(about[TARGET]), about.get("_args_")
    choices = CHOICES.get(target.rpartition(".")[2])
    if choices is None or not isinstance(arguments, list) or len(arguments) != 1:
        return target
    return choices.get(arguments[0], f"{target}({arguments[0]})")
