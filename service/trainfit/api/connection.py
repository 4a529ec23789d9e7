"""A connection of a client, up to the head of each request. From there on the app bounds what a
request may take.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import FastAPI
from uvicorn import Config
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

MAX_HEAD_BYTES = 65_536
"""Of a head that arrives in parts."""

ARRIVED = "arrived"
"""In the state of a request that is there to the end of its body."""


class Connection(HttpToolsProtocol):
    """Hangs up where the head of a request does not arrive in time, be it that nothing was sent,
    or is too long, and where an answer is not taken. uvicorn itself hangs up where nothing follows
    an answer. What follows a body (trailers) is not read: nobody asks for it.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        assert isinstance(config.app, FastAPI)
        self._seconds: float = config.app.state.settings.body_timeout_seconds
        self._hanging_up: asyncio.TimerHandle | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._answered: RequestResponseCycle | None = None
        self._is_in_head = True
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answered is not None:
            self._answered.disconnected = True  # uvicorn tells the request that came last
        self._expect_no_head()
        self._expect_no_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing() or not self._is_in_head:
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            self.send_400_response("The head of the request is too long.")
        elif self._hanging_up is None and not self._is_answering():
            self._expect_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._expect_no_head()
        self._is_in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_head = True
        self._head_bytes = 0
        self.scope["state"][ARRIVED] = True
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reader()

    def resume_writing(self) -> None:
        self._expect_no_reader()
        super().resume_writing()

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # none before the first request
        return not (cycle is None or cycle.response_complete)

    def _expect_head(self) -> None:
        self._hanging_up = self.loop.call_later(self._seconds, self.timeout_keep_alive_handler)

    def _expect_no_head(self) -> None:
        if self._hanging_up is not None:
            self._hanging_up.cancel()
            self._hanging_up = None

    def _expect_reader(self) -> None:
        """Give up, unless half of what waits to be sent is taken by then, however long it is."""
        size = self.transport.get_write_buffer_size()

        def give_up() -> None:
            if self.transport.get_write_buffer_size() > size // 2:
                self.transport.abort()
            else:
                self._expect_reader()

        self._giving_up = self.loop.call_later(self._seconds, give_up)

    def _expect_no_reader(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
