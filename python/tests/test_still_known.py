"""Answers to somebody who may be known no longer: every message is on its way to the client when it is asked again."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message

from leafgate.server.auth.still_known import ASK_AGAIN_SECONDS, WhileKnown

pytestmark = pytest.mark.anyio

STREAM: Message = {"type": "http.response.start", "status": 200, "headers": []}
WHOLE: Message = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]}
END: Message = {"type": "http.response.body", "body": b"", "more_body": False}


def part(text: str) -> Message:
    return {"type": "http.response.body", "body": text.encode(), "more_body": True}


class Client:
    """A client, the rules that it came in by, and what it was sent."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.rules: object = "as they were"
        self.now = 100.0
        self.known = True
        self.asked = 0
        self.answer = WhileKnown(({"type": "http"}, self.receive, self.send), self.present, self.refusal, self.clock)

    def present(self) -> object:
        return self.rules

    def clock(self) -> float:
        return self.now

    async def refusal(self) -> Response | None:
        self.asked += 1
        return None if self.known else PlainTextResponse("who are you?", 401)

    async def receive(self) -> Message:
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)


async def test_while_nothing_changes_nobody_asks() -> None:
    client = Client()
    client.known = False
    for message in (STREAM, part("a"), part("b"), END):
        await client.answer.send(message)
    assert client.sent == [STREAM, part("a"), part("b"), END]
    assert client.asked == 0


async def test_a_stream_ends_when_its_client_is_known_no_longer() -> None:
    client = Client()
    await client.answer.send(STREAM)
    client.rules, client.known = "other ones", False
    for text in ("a", "b"):
        await client.answer.send(part(text))
    assert client.sent == [STREAM, END]
    assert client.asked == 1


async def test_an_answer_that_has_not_begun_becomes_a_refusal() -> None:
    for starts in (STREAM, WHOLE):
        client = Client()
        client.rules, client.known = "other ones", False
        for message in (starts, part("late")):
            await client.answer.send(message)
        assert [message.get("status") for message in client.sent] == [401, None]
        assert client.sent[1]["body"] == b"who are you?"


async def test_a_body_of_known_length_is_not_cut() -> None:
    client = Client()
    await client.answer.send(WHOLE)
    client.rules, client.known = "other ones", False
    await client.answer.send(part("done"))
    assert client.sent == [WHOLE, part("done")]


async def test_time_alone_is_a_reason_to_ask() -> None:
    """A token can expire without anybody changing a rule."""
    client = Client()
    await client.answer.send(STREAM)
    client.now += ASK_AGAIN_SECONDS / 2
    await client.answer.send(part("a"))
    assert client.asked == 0
    client.now += ASK_AGAIN_SECONDS
    await client.answer.send(part("b"))
    await client.answer.send(part("c"))
    assert client.asked == 1
    client.now, client.known = client.now + ASK_AGAIN_SECONDS, False
    await client.answer.send(part("d"))
    assert client.sent == [STREAM, part("a"), part("b"), part("c"), END]


async def test_who_is_known_by_other_rules_too_goes_on() -> None:
    client = Client()
    await client.answer.send(STREAM)
    client.rules = "other ones"
    for text in ("a", "b"):
        await client.answer.send(part(text))
    assert client.sent == [STREAM, part("a"), part("b")]
    assert client.asked == 1
