"""Whose speed a launch means, where its format tells that it is not Megatron-LM's own."""

from __future__ import annotations

from trainfit.launch.draft import Draft
from trainfit.specs.speed import StackName

STACK = "/speed/stack"
OF_BRIDGES: tuple[tuple[tuple[int, int], StackName], ...] = (
    ((0, 3), "megatron-bridge-25"),
    ((0, 5), "megatron-bridge"),
)
"""Releases before these, and the containers that have them: 25.09 and 25.11, 26.02 and 26.04.
Source: Megatron-Bridge docs/releases/software-versions.md."""
LATEST_BRIDGE: StackName = "megatron-bridge-26.06"
NEMO: StackName = "megatron-bridge"
MEGATRON_DEEPSPEED: StackName = "megatron-2023"


def bridges(release: str | None) -> StackName:
    """That of a release of Megatron-Bridge; of none that reads as one, the latest."""
    number = (release or "").removeprefix("v").split(".")
    if len(number) < 2 or not (number[0].isdecimal() and number[1].isdecimal()):
        return LATEST_BRIDGE
    found = (int(number[0]), int(number[1]))
    return next((stack for before, stack in OF_BRIDGES if found < before), LATEST_BRIDGE)


def put_stack(draft: Draft, stack: StackName, whose: str) -> None:
    """Set whose kernels, launches and overlap the time of a step rests on."""
    draft.default(STACK, stack, whose)
