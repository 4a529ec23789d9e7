"""What is known by name: the models and the cards of the package."""

from dataclasses import dataclass
from functools import cache

from trainfit.catalog.configs import Provenance, bundled_config, bundled_ids
from trainfit.catalog.gpus import Gpu


@dataclass(frozen=True, slots=True)
class BundledModel:
    """A model whose config.json ships with the service.

    `config_of` is the id that the file belongs to, another one where models share an architecture.
    A "vendored" file is as published, a "reconstructed" one written from documented dimensions;
    `note` says what to check before trusting it.
    """

    hf_id: str
    model_type: str
    config_of: str
    provenance: Provenance
    note: str | None


@dataclass(frozen=True, slots=True)
class ModelList:
    """Every bundled model, sorted by id."""

    models: list[BundledModel]


@dataclass(frozen=True, slots=True)
class GpuList:
    """Every card of the catalogue."""

    gpus: tuple[Gpu, ...]


@cache
def bundled_models() -> ModelList:
    """The list, read once from the bundled files."""
    return ModelList([_bundled_model(hf_id) for hf_id in bundled_ids()])


def _bundled_model(hf_id: str) -> BundledModel:
    bundled = bundled_config(hf_id)
    assert bundled is not None
    return BundledModel(
        hf_id=bundled.hf_id,
        model_type=bundled.config["model_type"],
        config_of=bundled.config_of,
        provenance=bundled.provenance,
        note=bundled.note,
    )
