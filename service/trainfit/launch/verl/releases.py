"""Of which releases of verl a launch can be, by its keys.

Hydra refuses a key that the config of a release does not have, unless it is added with +. Keys that
v0.7.0 no longer has, and some that v0.1 had not, stand in `releases.json` with the first and the
last release that has each: leaves of trainer/config/ppo_trainer.yaml, composed where it has
defaults, and of sft_trainer.yaml at the tag of each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files

from trainfit.launch.draft import Draft
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.settings import Setting
from trainfit.launch.verl.keys import ACTOR, ALWAYS_ENTROPY, FIRST, LATER, LATEST, PADS, RELEASES

ALIKE = (
    (LATEST,),
    tuple(each for each in PADS if each not in ALWAYS_ENTROPY),
    tuple(each for each in ALWAYS_ENTROPY if each != FIRST),
    (FIRST,),
)
"""Releases whose defaults are the same, the latest first."""


def release_of(
    settings: Mapping[str, Setting],
    added: Iterable[str],
    draft: Draft,
    alike: Sequence[Sequence[str]] = ALIKE,
    together: str = f"{ACTOR}.ppo_micro_batch_size",
) -> str | None:
    """In turn the releases that have every key of a config that is not `added` to it, one for all
    that are `alike`. None where that may be the latest, or none has them all; the first, where
    micro-batches are counted as only that one's examples and forks do, all GPUs `together`.
    """
    possible = _possible(settings.keys() - set(added))
    if FIRST in possible and _counts(settings, together):
        return FIRST
    found = [known for each in alike if (known := [name for name in each if name in possible])]
    if not found or LATEST in possible:
        return None
    chosen = draft.fork.choose(found)
    draft.releases = f"verl {chosen[0]}" + (f" to {chosen[-1]}" if len(chosen) > 1 else "")
    return chosen[-1]


def release_named(version: str) -> str:
    """A release by its name. Raises LaunchError for one that is not known."""
    named = f"v{version.removeprefix('v')}".partition(".post")[0]
    known = (*RELEASES, *LATER)
    if named not in known:
        raise LaunchError(Complaint(f"framework_version: of verl {', '.join(known)} are known"))
    return named


def _possible(keys: Iterable[str]) -> list[str]:
    """The releases that have all of these keys."""
    first, last = 0, len(RELEASES) - 1
    for key in keys:
        since, until = _known().get(key, (0, len(RELEASES) - 1))
        first, last = max(first, since), min(last, until)
    return list(RELEASES[first : last + 1])


@cache
def _known() -> Mapping[str, tuple[int, int]]:
    """The numbers of the first and the last release of keys that not every one has."""
    rows = json.loads((files(__package__) / "releases.json").read_text("utf-8"))
    return {
        key: (RELEASES.index(row["since"]), RELEASES.index(row["until"]))
        for row in rows
        for line in row["keys"]
        for key in line.split()
    }


def _counts(settings: Mapping[str, Setting], together: str) -> bool:
    """Whether micro-batches are of all GPUs together, and none is of one."""
    whole, each = (settings.get(name) for name in (together, f"{together}_per_gpu"))
    return whole is not None and whole.value is not None and (not each or each.value is None)
