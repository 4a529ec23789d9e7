"""Answers that were given, so that the same question is neither read nor worked out twice.

What is asked follows from the bytes that were sent, and the answer from that and from what a Hub id
in it stands for. The latter may change: an answer is given again for the same source only.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from fastapi import Response
from starlette.types import Message, Receive, Scope, Send

from trainfit.api.compression import accepts_gzip, compressed
from trainfit.api.connection import ARRIVED
from trainfit.api.json_body import JsonRequest, JsonRoute, is_json
from trainfit.api.metrics import metrics_of
from trainfit.api.models import TOKEN_HEADER
from trainfit.api.replies import Reply
from trainfit.api.work import sent
from trainfit.questions.dimensions import Find, ResolvedModel
from trainfit.questions.lookup import Lookup
from trainfit.resolve.plan import ModelSource
from trainfit.specs.model import Model

TOKEN = TOKEN_HEADER.lower().encode()
QUESTION_BYTES = 8_192
QUESTION_BYTES_PER_BYTE = 8
"""What a job takes in memory: as objects, and more for each byte of the config.json in it."""


BODY_BYTES_PER_GZIP_BYTE = 3
"""Or more."""


class RequestKey(NamedTuple):
    """The bytes of a request that decide what is asked, and as what it is answered."""

    operation: str
    query: bytes
    body: bytes
    accept: bytes = b""


@dataclass(slots=True)
class Answer:
    """A response, which nobody changes; the model that it is about and what that was resolved to;
    and how to count that it is given again. It is kept in gzip as well once somebody accepts that.
    """

    response: Response
    model: Model
    source: ModelSource
    count: Callable[[], None]
    in_gzip: Response | None = None

    def for_who_sends(self, headers: Mapping[bytes, bytes]) -> Response:
        """The response as these headers of a request accept it."""
        if not accepts_gzip(headers):
            return self.response
        if self.in_gzip is None:
            self.in_gzip = compressed(self.response)
        return self.in_gzip


class Answers:
    """Remembers the answers that were asked for last, in about so many bytes. Only the event loop
    comes here.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._answers: OrderedDict[RequestKey, Answer] = OrderedDict()

    def size_bytes(self) -> int:
        """What is remembered takes about so many."""
        return self._bytes

    def get(self, sent: RequestKey) -> Answer | None:
        """What was answered to these bytes, if it is remembered."""
        answer = self._answers.get(sent)
        if answer is not None:
            self._answers.move_to_end(sent)
        return answer

    def add(self, sent: RequestKey, answer: Answer) -> None:
        """Remember an answer, in the place of any other to these bytes, and forget as many of those
        that were not asked for longest as that takes.
        """
        if (before := self._answers.pop(sent, None)) is not None:
            self._bytes -= _size(sent, before)
        self._answers[sent] = answer
        self._bytes += _size(sent, answer)
        while self._bytes > self._max_bytes:
            self._bytes -= _size(*self._answers.popitem(last=False))


class RememberingRoute(JsonRoute):
    """An operation whose answers are given again to the same bytes: on the spot where these have
    arrived, without all that a request takes that has to be read and answered.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        answering = self.app

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if ARRIVED not in scope["state"]:
                return await answering(scope, receive, send)
            message = await receive()
            known = self.known(scope, message.get("body", b""))
            await (known or answering)(scope, _again(message, receive), send)

        self.app = answer

    def known(self, scope: Scope, body: bytes) -> Response | None:
        """The answer that was given before, while its model still stands for the same."""
        headers = dict(scope["headers"])
        if TOKEN in headers or not is_json(headers):
            return None
        answers: Answers = scope["app"].state.answers
        answer = answers.get(_sent(scope, body))
        if answer is None or not _still_holds(scope, answer):
            return None
        answer.count()
        return answer.for_who_sends(headers)


def _again(message: Message, receive: Receive) -> Receive:
    """Receives a message that was looked at, and then what follows."""
    waiting = [message]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again


async def remembered(request: JsonRequest, reply: Reply, model: Model, find: Find) -> Response:
    """The response that carries a reply about a model, which is given again to the same bytes
    unless it was a token of the caller that opened the model.
    """
    response = sent(reply)
    if TOKEN_HEADER not in request.headers:
        answers: Answers = request.app.state.answers
        repeated = metrics_of(request).answer_repeated
        count = partial(repeated, reply.tallies, reply.launch)
        answer = Answer(response, model, find(model).source, count)
        answers.add(_sent(request.scope, await request.body()), answer)
    return response


def _still_holds(scope: Scope, answer: Answer) -> bool:
    """Whether the model is known to stand for what it did. One that the request describes always
    does.
    """
    if answer.model.hf_id is None:
        return True
    lookup: Lookup = scope["app"].state.lookup
    now = lookup.at_hand(answer.model)
    return isinstance(now, ResolvedModel) and now.source == answer.source


def _sent(scope: Scope, body: bytes) -> RequestKey:
    accepted = b",".join([value for name, value in scope["headers"] if name == b"accept"])
    return RequestKey(scope["route"].operation_id, scope["query_string"], body, accepted)


def _size(sent: RequestKey, answer: Answer) -> int:
    question = QUESTION_BYTES + QUESTION_BYTES_PER_BYTE * len(sent.body)
    body = len(answer.response.body)
    said = len(sent.query) + len(sent.accept)
    return said + question + body + body // BODY_BYTES_PER_GZIP_BYTE
