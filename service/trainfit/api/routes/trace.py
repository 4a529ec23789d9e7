"""POST /v1/trace and /v1/trace:snapshot: what a rank asks of PyTorch's allocator, replayed."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from trainfit.api.examples import TRACE_EXAMPLES
from trainfit.api.json_body import JsonRoute
from trainfit.api.kinds import JOB_PROBLEMS
from trainfit.api.models import HfToken, look_up
from trainfit.api.openapi import problem_responses
from trainfit.api.replies import snapshot_reply, trace_reply
from trainfit.api.work import reply_from, sent
from trainfit.questions.trace import RankTrace
from trainfit.specs.ledger import TraceRequest

router = APIRouter(prefix="/v1", tags=["estimates"], route_class=JsonRoute)

PICKLE = "application/octet-stream"
SNAPSHOT: dict[int | str, dict[str, Any]] = {
    200: {"content": {PICKLE: {"schema": {"type": "string", "format": "binary"}}}}
}
Asked = Annotated[TraceRequest, Body(openapi_examples=TRACE_EXAMPLES)]


@router.post(
    "/trace",
    operation_id="trace",
    summary="Replay what a pipeline rank asks of the allocator",
    response_model=RankTrace,
    response_description="What is allocated and reserved from moment to moment, and at the peak.",
    responses=problem_responses(*JOB_PROBLEMS),
)
async def trace(request: Request, question: Asked, hf_token: HfToken = None) -> Response:
    """The model is loaded, a first step makes the optimizer's states, and each later step is as the
    next: what PyTorch's caching allocator holds meanwhile, and the tensors and segments at the
    request that makes the most allocated.
    """
    find = await look_up(request, [question.model], hf_token)
    return sent(await reply_from(request, "pricing", trace_reply, question, find))


@router.post(
    "/trace:snapshot",
    operation_id="traceSnapshot",
    summary="Write the same as a memory snapshot of PyTorch",
    response_class=Response,
    response_description="A pickle of plain data, for pytorch.org/memory_viz.",
    responses=SNAPSHOT | problem_responses(*JOB_PROBLEMS),
)
async def snapshot(request: Request, question: Asked, hf_token: HfToken = None) -> Response:
    """What `torch.cuda.memory._dump_snapshot` would write of such a rank, with every request named
    by its tensor and moment: PyTorch's own viewer draws it beside a recorded one.
    """
    find = await look_up(request, [question.model], hf_token)
    reply = await reply_from(request, "pricing", snapshot_reply, question, find)
    headers = {"content-disposition": 'attachment; filename="predicted.pickle"'}
    return Response(reply.document, headers=headers, media_type=PICKLE)
