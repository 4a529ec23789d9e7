"""Model configs that ship with the package, so that a common `hf_id` needs no network.

A file holds what decides shapes, dtype and quantisation, a null where the published file has one;
tokenizer, generation and packaging keys are left out. Several ids share a file where their models
share an architecture (a base model and its fine-tunes, whose context length may differ).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Provenance = Literal["vendored", "reconstructed"]


@dataclass(frozen=True, slots=True)
class BundledConfig:
    """A config.json and where it is from.

    `hf_id` is the id that was asked for, in its canonical spelling; `config_of` is the id that the
    file belongs to, which differs where models share an architecture. `provenance` is "vendored"
    for a published file and "reconstructed" for one written from documented hyperparameters; `note`
    adds what should be checked before trusting it.
    """

    hf_id: str
    config_of: str
    config: dict[str, Any]
    provenance: Provenance
    note: str | None


def bundled_config(hf_id: str) -> BundledConfig | None:
    """The bundled config of this id, in any case; None if there is none. The caller owns it."""
    known = _spelling_and_owner().get(hf_id.casefold())
    if known is None:
        return None
    spelling, owner = known
    entry = _index()[owner]
    return BundledConfig(
        hf_id=spelling,
        config_of=owner,
        config=_read(f"{owner.replace('/', '__')}.json"),
        provenance=entry["provenance"],
        note=entry.get("note"),
    )


def bundled_by_name(name: str) -> str | None:
    """The id of the bundled model of this name, without the organisation and in any case; None
    where there is none, or where models of several shapes have it.
    """
    name = f"/{name.casefold()}"
    owners = {owner for key, (_, owner) in _spelling_and_owner().items() if key.endswith(name)}
    spelled = sorted(
        spelling for key, (spelling, _) in _spelling_and_owner().items() if key.endswith(name)
    )
    if len(owners) != 1:
        return None
    (owner,) = owners
    return owner if owner in spelled else spelled[0]


def bundled_ids() -> tuple[str, ...]:
    """Every id that `bundled_config` answers, sorted."""
    return tuple(sorted(spelling for spelling, _ in _spelling_and_owner().values()))


def close_bundled_ids(hf_id: str) -> tuple[str, ...]:
    """Bundled ids that nearly read like this one, closest first."""
    known = _spelling_and_owner()
    matches = get_close_matches(hf_id.casefold(), known, n=5, cutoff=0.7)
    return tuple(known[match][0] for match in matches)


@cache
def _spelling_and_owner() -> dict[str, tuple[str, str]]:
    return {
        hf_id.casefold(): (hf_id, owner)
        for owner, entry in _index().items()
        for hf_id in (owner, *entry.get("aliases", ()))
    }


@cache
def _index() -> dict[str, Any]:
    return _read("index.json")


def _read(name: str) -> dict[str, Any]:
    text = files("trainfit.catalog").joinpath("configs", name).read_text("utf-8")
    content: dict[str, Any] = json.loads(text)
    return content
