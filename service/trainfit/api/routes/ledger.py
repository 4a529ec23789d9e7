"""POST /v1/ledger: what one pipeline rank holds and does."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Body, Request
from fastapi.concurrency import run_in_threadpool

from trainfit.api.examples import LEDGER_EXAMPLES
from trainfit.api.failures import ProblemError
from trainfit.api.jobs import answered
from trainfit.api.json_body import JsonRoute
from trainfit.api.models import HfToken, look_up
from trainfit.api.openapi import problem_responses
from trainfit.api.problems import JOB_PROBLEMS, Problem
from trainfit.rank_ledger import RankLedger, rank_ledger
from trainfit.specs.ledger import LedgerRequest

router = APIRouter(prefix="/v1", tags=["estimates"], route_class=JsonRoute)


@router.post(
    "/ledger",
    operation_id="ledger",
    summary="Show the ledger of a pipeline rank: modules, tensors, passes",
    response_description="The rank's modules with their tensors, and the course of its step.",
    responses=problem_responses(*JOB_PROBLEMS),
)
async def ledger(
    request: Request,
    question: Annotated[LedgerRequest, Body(openapi_examples=LEDGER_EXAMPLES)],
    hf_token: HfToken = None,
) -> RankLedger:
    """Every weight and operation that the estimate sums up, with shapes, symbols and sources; and
    the forwards and backwards of one step in order, with the activations that each leaves behind.
    """
    find = await look_up(request, [question.model], hf_token)
    # In a thread, so that the service answers others meanwhile.
    result = await run_in_threadpool(answered, question, partial(rank_ledger, find=find))
    if isinstance(result, Problem):
        raise ProblemError(result)
    return result
