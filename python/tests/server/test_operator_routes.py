"""What a gateway tells over HTTP, asked over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from leafgate.model.errors import StoreError
from leafgate.ports import Approval
from leafgate.server.routes import approval_routes, card_routes, operator_routes
from leafgate.state.memory import MemoryApprovals

pytestmark = pytest.mark.anyio


class Gateway:
    """What is told."""

    def __init__(self) -> None:
        self.missing: list[str] = []

    def page(self, accept: str) -> tuple[bytes, str]:
        return accept.encode(), "text/plain; version=0.0.4"

    def app(self, **parts: Any) -> Starlette:
        return Starlette(routes=operator_routes(lambda: {"tools": 3}, missing=lambda: self.missing, **parts))


def client(app: Starlette) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1")


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


async def recent(since: float) -> dict[str, Any]:
    return {"since": since}


@pytest.fixture
async def asked(gateway: Gateway) -> AsyncIterator[httpx2.AsyncClient]:
    async with client(gateway.app(page=gateway.page, recent=recent)) as found:
        yield found


async def test_health_is_that_the_process_answers(gateway: Gateway, asked: httpx2.AsyncClient) -> None:
    gateway.missing = ["everything"]
    answer = await asked.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_ready_says_what_is_missing(gateway: Gateway, asked: httpx2.AsyncClient) -> None:
    gateway.missing = ["the catalog"]
    answer = await asked.get("/ready")
    assert (answer.status_code, answer.json()) == (503, {"status": "starting", "missing": ["the catalog"]})
    gateway.missing = []
    answer = await asked.get("/ready")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready", "missing": []})


async def test_a_gateway_stays_ready(gateway: Gateway, asked: httpx2.AsyncClient) -> None:
    assert (await asked.get("/ready")).status_code == 200
    gateway.missing = ["the catalog"]
    assert (await asked.get("/ready")).status_code == 200


async def test_status_is_never_kept_by_a_cache(asked: httpx2.AsyncClient) -> None:
    answer = await asked.get("/status")
    assert answer.json() == {"tools": 3}
    assert answer.headers["cache-control"] == "no-store"


async def test_metrics_are_negotiated(asked: httpx2.AsyncClient) -> None:
    answer = await asked.get("/metrics", headers={"accept": "application/openmetrics-text"})
    assert answer.text == "application/openmetrics-text"
    assert answer.headers["content-type"] == "text/plain; version=0.0.4"
    assert answer.headers["vary"] == "Accept"


@pytest.mark.parametrize(("query", "since"), [("", 0), ("?since=0", 0), ("?since=1794805061.5", 1794805061.5)])
async def test_recent_starts_where_the_reader_wants(asked: httpx2.AsyncClient, query: str, since: float) -> None:
    assert (await asked.get(f"/api/metrics{query}")).json() == {"since": since}


@pytest.mark.parametrize("since", ["yesterday", "", "nan", "inf", "-inf", "1e999", "0x10"])
async def test_other_moments_are_refused(asked: httpx2.AsyncClient, since: str) -> None:
    answer = await asked.get(f"/api/metrics?since={since}")
    assert answer.status_code == 400
    assert "since" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/metrics", "/api/metrics"])
async def test_what_is_not_given_is_not_there(gateway: Gateway, path: str) -> None:
    async with client(gateway.app()) as found:
        assert (await found.get(path)).status_code == 404
        assert (await found.get("/ready")).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/ready", "/status", "/metrics", "/api/metrics"])
async def test_nothing_is_changed_through_them(asked: httpx2.AsyncClient, path: str) -> None:
    assert (await asked.post(path)).status_code == 405


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("mcp.example.com", "com.example.mcp/leafgate"),
        ("localhost:8808", "localhost/leafgate"),
        ("127.0.0.1:8808", "localhost/leafgate"),
        ("[::1]:8808", "localhost/leafgate"),
    ],
)
async def test_a_server_card_has_the_name_and_the_address_of_its_host(host: str, name: str) -> None:
    app = Starlette(routes=card_routes(lambda scope: f"http://{host}/mcp", "/mcp", needs_token=False))
    async with client(app) as asked:
        card = (await asked.get("/mcp/server-card")).json()
    assert card["name"] == name
    assert card["remotes"][0]["url"] == f"http://{host}/mcp"
    assert "headers" not in card["remotes"][0]


async def test_there_is_no_card_for_a_host_without_a_name() -> None:
    async with client(Starlette(routes=card_routes(lambda scope: None, "/mcp", needs_token=False))) as asked:
        assert (await asked.get("/mcp/server-card")).status_code == 404


# Approvals


async def test_approvals_are_listed_and_answered() -> None:
    store = MemoryApprovals()
    await store.add("ada", Approval("p1", "pending", about={"tool": "write", "created": 0.0}), 60)
    await store.add("ada", Approval("a1", "asked", "digest"), 60)
    async with client(Starlette(routes=approval_routes(store))) as asked:
        (listed,) = (await asked.get("/api/approvals")).json()["approvals"]
        assert (listed["id"], listed["tool"]) == ("p1", "write")
        assert listed["age_seconds"] > 0
        for id, status in (("a1", 404), ("\u00fc", 404), ("p1", 200), ("p1", 404)):
            assert (await asked.post(f"/api/approvals/{id}", json={"approve": True})).status_code == status
    assert [(await store.take(id)) for id in ("p1", "a1")] == [
        Approval("p1", "approved", about={"tool": "write", "created": 0.0}),
        Approval("a1", "asked", "digest"),
    ]


async def test_a_store_that_fails_is_reported_without_its_words() -> None:
    class Broken(MemoryApprovals):
        async def list_pending(self) -> list[Approval]:
            raise StoreError("redis://db: gone")

        async def decide(self, id: str, *, approve: bool) -> Approval | None:
            raise StoreError("redis://db: gone")

    async with client(Starlette(routes=approval_routes(Broken()))) as asked:
        for answer in (await asked.get("/api/approvals"), await asked.post("/api/approvals/x", json={"approve": True})):
            assert (answer.status_code, answer.json()["error"]) == (503, "STORE_UNAVAILABLE")
            assert "redis" not in answer.text
