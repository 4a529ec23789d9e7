"""GET /v1/models and /v1/gpus: what is known by name."""

from dataclasses import dataclass
from functools import cache

from fastapi import APIRouter

from trainfit.api.kinds import INVALID_PARAMETER, OPERATION_PROBLEMS
from trainfit.api.openapi import problem_responses
from trainfit.api.operation import Operation
from trainfit.catalog.configs import Provenance, bundled_config, bundled_ids
from trainfit.catalog.gpus import Gpu, gpus

router = APIRouter(
    prefix="/v1",
    tags=["catalogues"],
    route_class=Operation,
    responses=problem_responses(*OPERATION_PROBLEMS, INVALID_PARAMETER),
)


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


@router.get(
    "/models",
    operation_id="listModels",
    summary="List the models that need no config",
    response_description="The models that hf_id may name.",
)
async def list_models() -> ModelList:
    """Models that are answered by their hf_id alone, without a network."""
    return bundled_models()


@router.get(
    "/gpus",
    operation_id="listGpus",
    summary="List the GPUs that are known by name",
    response_description="The cards that gpu may name.",
)
async def list_gpus() -> GpuList:
    """Cards with the memory that the driver reports, which is less than what is sold."""
    return GpuList(gpus())


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
