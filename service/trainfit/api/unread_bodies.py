"""What becomes of a body that nobody wants to read: too long, too slow, or sent to no operation.

The server would read it to its end, however long that takes, to take the next request from the same
connection. Closing at once would cost the client the answer (RFC 9112, 9.6).
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trainfit.api.connection import ARRIVED

ARRIVAL_SECONDS = 0.1
"""For a body that is on its way to arrive, after which the connection can be used again."""
LINGER_SECONDS = 2.0
"""For a client that is still sending to get to the answer."""


class UnreadBodies:
    """Ends the connection of a request that was answered before its body was there, a moment after
    the answer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or ARRIVED in scope.get("state", {}):
            return await self.app(scope, receive, send)
        headers = dict(scope["headers"])
        unread = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"

        async def receive_noting_end() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and message.get("more_body", False)
            return message

        async def read_on(seconds: float) -> None:
            try:
                async with asyncio.timeout(seconds):
                    while unread:
                        await receive_noting_end()
            except TimeoutError:
                pass

        async def send_and_linger(message: Message) -> None:
            if unread and message["type"] == "http.response.start":
                if b"expect" not in headers:  # reading would ask for the body to be sent
                    await read_on(ARRIVAL_SECONDS)
                if unread:
                    message["headers"] = [*message["headers"], (b"connection", b"close")]
            elif unread and not message.get("more_body", False):
                await send({**message, "more_body": True})
                await read_on(LINGER_SECONDS)
                message = {"type": "http.response.body"}
            await send(message)

        await self.app(scope, receive_noting_end, send_and_linger)
