"""POST /v1/models:resolve: what a model id resolves to."""

from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from trainfit.api.examples import MODEL_EXAMPLES
from trainfit.api.json_body import JsonRoute
from trainfit.api.kinds import BODY_PROBLEMS, MODEL_PROBLEMS
from trainfit.api.models import HfToken, look_up
from trainfit.api.openapi import problem_responses
from trainfit.api.replies import model_reply
from trainfit.api.work import reply_from, sent
from trainfit.questions.model_summary import ModelSummary
from trainfit.specs.model import ModelRequest

router = APIRouter(prefix="/v1", tags=["catalogues"], route_class=JsonRoute)


@router.post(
    "/models:resolve",
    operation_id="resolveModel",
    summary="Show what a model resolves to: commit, dimensions, defaults",
    response_model=ModelSummary,
    response_description="The model as a job with it would be priced now.",
    responses=problem_responses(*BODY_PROBLEMS, *MODEL_PROBLEMS),
)
async def resolve_model(
    request: Request,
    question: Annotated[ModelRequest, Body(openapi_examples=MODEL_EXAMPLES)],
    hf_token: HfToken = None,
) -> Response:
    """The commit that the revision names, how long ago the Hub confirmed it, what the config.json
    was read as, and the keys that it leaves to its architecture. Whoever prices jobs of this model
    later may be answered from another commit; a commit as revision stays what it is.
    """
    find = await look_up(request, [question.model], hf_token)
    return sent(await reply_from(request, "quick", model_reply, question, find))
