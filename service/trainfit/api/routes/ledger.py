"""POST /v1/ledger: what one pipeline rank holds and does."""

from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from trainfit.api.cost import lane_of, size_of
from trainfit.api.examples import LEDGER_EXAMPLES
from trainfit.api.json_body import JsonRoute
from trainfit.api.kinds import JOB_PROBLEMS
from trainfit.api.models import HfToken, look_up
from trainfit.api.openapi import problem_responses
from trainfit.api.replies import ledger_reply
from trainfit.api.work import reply_from, sent
from trainfit.questions.ledger import RankLedger
from trainfit.specs.ledger import LedgerRequest

router = APIRouter(prefix="/v1", tags=["estimates"], route_class=JsonRoute)


@router.post(
    "/ledger",
    operation_id="ledger",
    summary="Show the ledger of a pipeline rank: modules, tensors, passes",
    response_model=RankLedger,
    response_description="The rank's modules with their tensors, and the course of its step.",
    responses=problem_responses(*JOB_PROBLEMS),
)
async def ledger(
    request: Request,
    question: Annotated[LedgerRequest, Body(openapi_examples=LEDGER_EXAMPLES)],
    hf_token: HfToken = None,
) -> Response:
    """Every weight and operation that the estimate sums up, with shapes, symbols and sources; and
    the forwards and backwards of one step in order, with the activations that each leaves behind.
    """
    find = await look_up(request, [question.model], hf_token)
    lane = lane_of(size_of([question], find))
    return sent(await reply_from(request, lane, ledger_reply, question, find))
