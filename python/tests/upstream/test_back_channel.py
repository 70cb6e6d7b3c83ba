"""Questions of servers to the clients behind their calls, and the places of these calls."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import anyio
import pytest
from mcp.types import ErrorData

from leafgate.model.errors import UpstreamFailure
from leafgate.model.request import ClientChannel
from leafgate.upstream.back_channel import MAX_QUESTIONS, BackChannel, Places, questions_only

pytestmark = pytest.mark.anyio

PATIENCE = 20


class Person:
    """A client that answers when it is told to."""

    def __init__(self, name: str = "me") -> None:
        self.owner = self.user = name
        self.asked = 0
        self.answers = anyio.Event()

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked += 1
        await self.answers.wait()
        return {"roots": []}

    @property
    def channel(self) -> ClientChannel:
        return cast(ClientChannel, self)


async def settle() -> None:
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


async def test_the_place_of_a_call_is_free_while_its_client_is_asked() -> None:
    places = Places(1)
    back, person, steps = BackChannel(places), Person(), list[str]()

    async def call(name: str, asks: bool) -> None:
        async with places.take():
            steps.append(f"{name} begins")
            if asks:
                await back.list_roots(None)
            steps.append(f"{name} ends")

    with anyio.fail_after(PATIENCE), back.open_to(person.channel):
        async with anyio.create_task_group() as group:
            group.start_soon(call, "first", True)
            await settle()
            group.start_soon(call, "second", False)
            await settle()
            assert steps == ["first begins", "second begins", "second ends"]
            person.answers.set()
    assert steps[-1] == "first ends"
    async with places.take():
        pass


async def test_an_answer_waits_for_a_place_before_others_get_it() -> None:
    places, order, answered = Places(1), list[str](), anyio.Event()

    async def asking() -> None:
        async with places.take():
            async with places.give_back():
                await answered.wait()
            order.append("asking")

    async def call(name: str, until: anyio.Event) -> None:
        async with places.take():
            order.append(name)
            await until.wait()

    first, second = anyio.Event(), anyio.Event()
    second.set()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(asking)
            await settle()
            group.start_soon(call, "first", first)
            await settle()
            group.start_soon(call, "second", second)
            await settle()
            answered.set()
            await settle()
            assert order == ["first"]
            first.set()
    assert order == ["first", "asking", "second"]


@pytest.mark.parametrize("ends_first", ["call", "question", "both"])
async def test_no_place_is_lost_whichever_ends_first(ends_first: str) -> None:
    places = Places(2)

    async def question(scope: anyio.CancelScope, until: anyio.Event) -> None:
        with scope:
            async with places.give_back():
                await until.wait()

    with anyio.fail_after(PATIENCE):
        for _ in range(5):
            scope, answered, ended = anyio.CancelScope(), anyio.Event(), anyio.Event()
            async with anyio.create_task_group() as group:

                async def call(until: anyio.Event = ended) -> None:
                    async with places.take():
                        await until.wait()

                group.start_soon(call)
                await settle()
                group.start_soon(question, scope, answered)
                await settle()
                if ends_first != "question":
                    ended.set()
                if ends_first == "both":
                    scope.cancel()
                await settle()
                answered.set()
                await settle()
                ended.set()
        async with places.take(), places.take():
            with anyio.move_on_after(0.01) as third:
                async with places.take():
                    raise AssertionError
            assert third.cancelled_caught


async def test_so_many_questions_wait_for_one_user_and_end_with_their_calls() -> None:
    back, person, answers = BackChannel(), Person(), list[Any]()

    async def ask() -> None:
        answers.append(await back.list_roots(None))

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            with back.open_to(person.channel):
                for _ in range(MAX_QUESTIONS + 5):
                    group.start_soon(ask)
                await settle()
                assert person.asked == MAX_QUESTIONS
                assert len(answers) == 5
    assert len(answers) == MAX_QUESTIONS + 5
    assert all(isinstance(answer, ErrorData) for answer in answers)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"inputRequests": 5},
        {"inputRequests": {"a": 5}},
        {"inputRequests": {"a": {"method": 5}}},
        {"inputRequests": {"a": {"method": "elicitation/create", "params": {"message": 5}}}},
        {"requestState": {"a": 1}},
    ],
)
def test_questions_that_no_client_can_read_are_an_error_of_the_server(wrong: dict[str, Any]) -> None:
    with pytest.raises(UpstreamFailure):
        questions_only({"resultType": "input_required", **wrong})


async def test_a_question_after_a_call_was_given_up_reaches_no_other_client() -> None:
    back, ann, bob = BackChannel(), Person("ann"), Person("bob")
    ann.answers.set()
    bob.answers.set()
    with suppress(TimeoutError), back.open_to(ann.channel):
        raise TimeoutError
    with back.open_to(bob.channel):
        assert isinstance(await back.list_roots(None), ErrorData)
    with back.open_to(ann.channel):
        assert not isinstance(await back.list_roots(None), ErrorData)
    back.start()
    with back.open_to(bob.channel):
        assert not isinstance(await back.list_roots(None), ErrorData)
