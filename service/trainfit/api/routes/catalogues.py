"""GET /v1/models and /v1/gpus: what is known by name."""

from fastapi import APIRouter

from trainfit.api.kinds import INVALID_PARAMETER, OPERATION_PROBLEMS
from trainfit.api.openapi import problem_responses
from trainfit.api.operation import OperationRoute
from trainfit.catalog.gpus import gpus
from trainfit.questions.catalogues import GpuList, ModelList, bundled_models

router = APIRouter(
    prefix="/v1",
    tags=["catalogues"],
    route_class=OperationRoute,
    responses=problem_responses(*OPERATION_PROBLEMS, INVALID_PARAMETER),
)


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
