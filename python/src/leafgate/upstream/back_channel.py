"""What a server asks and tells the clients behind its calls, and how many of its calls are under way at once.

A question may wait as long as a person does. The place of its call is free meanwhile, and so many questions may wait.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

import anyio
from mcp import types
from pydantic import BaseModel, ValidationError

from leafgate.model.errors import GatewayError, UpstreamFailure
from leafgate.model.request import ClientChannel
from leafgate.upstream.raw_session import MALFORMED

ANSWER_SECONDS: Final = 600.0  # for a person at a client to answer a question
MAX_QUESTIONS: Final = 16  # of one server that wait for the answers of one user

Answer = TypeVar("Answer", bound=BaseModel)


class Places:
    """The calls of a server that may be under way at once. Others wait, first come, first served."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = math.inf if limit is None else limit
        self._taken = 0
        self._calls = 0  # under way, also those that have given their place back
        self._lent = 0
        self._forgiven = 0  # places that were given back by calls that have ended
        self._queue: deque[anyio.Event] = deque()

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a place, and hold it inside this context."""
        await self._acquire()
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if self._lent > self._calls:  # this call has ended before its question was answered
                self._lent -= 1
                self._forgiven += 1
            else:
                self._release()

    @asynccontextmanager
    async def give_back(self) -> AsyncIterator[None]:
        """Inside this context the place of one call is free for another; at its end a place is waited for."""
        if self._lent >= self._calls:
            yield
            return
        self._lent += 1
        self._release()
        try:
            yield
        finally:
            if self._forgiven:
                self._forgiven -= 1
            else:
                await self._take_again()

    async def _take_again(self) -> None:
        try:
            await self._acquire(is_first=True)
        except BaseException:
            self._taken += 1  # its call has ended with it, and releases the place
            raise
        finally:
            self._lent -= 1

    async def _acquire(self, *, is_first: bool = False) -> None:
        if self._taken < self._limit and not self._queue:
            self._taken += 1
            return
        turn = anyio.Event()
        self._queue.appendleft(turn) if is_first else self._queue.append(turn)
        self._start_next()
        try:
            await turn.wait()
        except BaseException:
            if turn in self._queue:
                self._queue.remove(turn)
            else:
                self._release()
            raise

    def _release(self) -> None:
        self._taken -= 1
        self._start_next()

    def _start_next(self) -> None:
        while self._queue and self._taken < self._limit:
            self._taken += 1
            self._queue.popleft().set()


class BackChannel:
    """The clients with calls under way at one server, and the callbacks by which it asks them and sends log lines.

    In the handshake era a question (sampling, elicitation, roots) has no address. It goes to the one client with a call
    under way; with no client or several it is refused, because the question of one client must never reach another. So
    it is for a while after a call of another client was given up: the server may still work on it.
    In the stateless era the questions come as the result of the call.

    A log line has no address either, and may be about a call that ended long ago. Lines are passed on for as long as
    all calls on a connection were made by one user; then to the clients with calls under way.
    """

    def __init__(self, places: Places | None = None) -> None:
        self.places = places or Places()
        self._clients: list[ClientChannel] = []
        self._users: set[str] = set()
        self._waiting: Counter[str] = Counter()  # by user: the questions that are not answered yet
        self._scopes: dict[anyio.CancelScope, str] = {}  # of these questions, and the owners that are asked
        self._abandoned: dict[str, float] = {}  # by owner: until when a call that was given up may still ask

    def start(self) -> None:
        """A new connection, on which no call was made yet."""
        self._users = {client.user for client in self._clients}
        self._abandoned.clear()

    @contextmanager
    def open_to(self, client: ClientChannel | None) -> Iterator[None]:
        """The server may talk to this client inside this context."""
        if client is None:
            yield
            return
        self._clients.append(client)
        if len(self._users) < 2:
            self._users.add(client.user)
        try:
            yield
        except BaseException:
            self._abandoned[client.owner] = anyio.current_time() + ANSWER_SECONDS
            raise
        finally:
            self._clients.remove(client)
            if all(other.owner != client.owner for other in self._clients):
                for scope in [scope for scope, owner in self._scopes.items() if owner == client.owner]:
                    scope.cancel()  # no call of theirs waits any more

    async def sample(
        self, context: object, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.CreateMessageResultWithTools | types.ErrorData:
        kind = types.CreateMessageResultWithTools if params.tools else types.CreateMessageResult
        return await self._ask("sampling/createMessage", params, kind)

    async def elicit(self, context: object, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        return await self._ask("elicitation/create", params, types.ElicitResult)

    async def list_roots(self, context: object) -> types.ListRootsResult | types.ErrorData:
        return await self._ask("roots/list", None, types.ListRootsResult)

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        if len(self._users) > 1:
            return
        line = _as_json(params)
        for client in {client.owner: client for client in self._clients}.values():
            await client.log(line)

    async def _ask(self, method: str, params: BaseModel | None, kind: type[Answer]) -> Answer | types.ErrorData:
        now = anyio.current_time()
        self._abandoned = {owner: until for owner, until in self._abandoned.items() if until > now}
        owners = {client.owner for client in self._clients}
        if len(owners) != 1 or self._abandoned.keys() - owners:
            return types.ErrorData(code=types.INVALID_REQUEST, message="no single client can be asked")
        question = {} if params is None else _as_json(params)
        try:
            async with self.places.give_back():
                return kind.model_validate(await self._ask_in_time(self._clients[-1], method, question))
        except GatewayError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=error.body.message)

    async def answer_questions(self, raw: Mapping[str, Any], client: ClientChannel | None) -> dict[str, Any]:
        """Ask the client the questions of an `input_required` result; returns the params that answer them."""
        answers: dict[str, Any] = {}
        questions = raw.get("inputRequests")
        for key, question in (questions if isinstance(questions, Mapping) else {}).items():
            if client is None or not isinstance(question, Mapping):
                raise UpstreamFailure("UPSTREAM_ERROR", "the server needs input, and there is no client to ask")
            try:
                answers[str(key)] = await self._ask_in_time(
                    client, str(question.get("method")), question.get("params") or {}
                )
            except GatewayError as error:
                raise UpstreamFailure("UPSTREAM_ERROR", f"the client did not answer: {error}") from error
        state = {"requestState": raw["requestState"]} if isinstance(raw.get("requestState"), str) else {}
        return {"inputResponses": answers, **state}

    async def _ask_in_time(self, client: ClientChannel, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer of a client; GatewayError if it cannot be asked now, or does not answer for too long."""
        if self._waiting[client.user] >= MAX_QUESTIONS:
            raise GatewayError("RATE_LIMITED", "too many questions of this server wait for an answer")
        self._waiting[client.user] += 1
        scope = anyio.move_on_after(ANSWER_SECONDS)
        self._scopes[scope] = client.owner
        try:
            with scope:
                return await client.ask(method, params)
        finally:
            del self._scopes[scope]
            self._waiting -= Counter({client.user: 1})
        raise GatewayError("UPSTREAM_ERROR", f"the client did not answer {method} in time")


def _as_json(params: BaseModel) -> dict[str, Any]:
    return params.model_dump(by_alias=True, mode="json", exclude_none=True)


def questions_only(raw: Mapping[str, Any]) -> dict[str, Any]:
    """An `input_required` result without anything but its questions: it is not held to the budget of results."""
    questions = {key: raw[key] for key in ("resultType", "inputRequests", "requestState", "_meta") if key in raw}
    if not isinstance(questions.get("inputRequests", {}), Mapping) or questions.keys().isdisjoint(
        ("inputRequests", "requestState")
    ):
        raise UpstreamFailure("UPSTREAM_ERROR", "the server asks for input, and does not say for which")
    try:
        types.InputRequiredResult.model_validate(questions, by_name=False)
    except ValidationError as error:
        detail = f"questions that are not those of MCP: {error.error_count()} errors"
        raise UpstreamFailure("UPSTREAM_ERROR", detail, message=MALFORMED) from None
    return questions
