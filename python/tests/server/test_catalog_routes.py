"""The catalog over HTTP: the same cards in the same order as tool_browse, and no trace of having looked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conftest import MAPS
from starlette.applications import Starlette
from starlette.testclient import TestClient

from leafgate.clean.cleaner import Cleaner
from leafgate.gateway.execute import Controls
from leafgate.gateway.runtime import GatewayParts, GatewayRuntime
from leafgate.model.request import Request
from leafgate.model.rights import EVERY_CAPABILITY, CapabilityPolicy, Principal, Rights, Rule, Visibility
from leafgate.server.auth.capabilities import KnownUser
from leafgate.server.front import OTHERS, Access, Front
from leafgate.server.routes import MAX_QUESTION, catalog_routes
from leafgate.state.memory import MemoryArtifactStore
from leafgate.telemetry.metrics import Metrics
from leafgate.upstream.library import StubUpstream

pytestmark = pytest.mark.anyio

HOSTILE = "Weigh a parcel. <img src=x onerror=alert(1)><script>alert(2)</script>"
TOOLS = [
    {"name": name, "description": description, "inputSchema": {"type": "object"}}
    for name, description in {
        "read_file": "Read a file from disk.",
        "write_file": "Write a text to a file on disk.",
        "delete_file": "Delete a file.",
        "send_mail": "Send an e-mail to somebody.",
        "list_mail": "List the e-mails of a mailbox.",
        "weigh_parcel": HOSTILE,
    }.items()
]
QUERIES = ["read a file", "mail", "delete_file", "e-mail somebody", "parcel", "quantum chromodynamics"]
OPS = Principal("ops", EVERY_CAPABILITY)


class Rig:
    """A runtime over a stub, and the routes for one who asks."""

    def __init__(self, rights: Rights | None = None, **parts: Any) -> None:
        cl100k = MAPS.load("openai/cl100k_base")
        self.metrics = Metrics(lambda: "today")
        self.rights = rights or Rights()
        self.count: Callable[[str], int] = lambda text: len(cl100k.encode(text))
        self.upstream = StubUpstream(TOOLS, answers={}, server="disk")
        self.runtime = GatewayRuntime(
            GatewayParts(
                upstream=self.upstream,
                artifacts=MemoryArtifactStore(),
                recorder=self.metrics,
                clean=Cleaner(),
                count=self.count,
                encoder_of=MAPS.prepare,
                **parts,
            )
        )

    async def started(self) -> Rig:
        self.runtime.adopt(self.runtime.prepare(await self.upstream.list_offers()))
        return self

    def get(self, **question: Any) -> Any:
        app = Starlette(routes=catalog_routes(self.runtime, self.count, Front(Access(rights={OTHERS: self.rights}))))

        async def known(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "user": KnownUser(OPS)}, receive, send)

        return TestClient(known).get("/api/catalog", params=question)

    async def browse(self, **args: Any) -> dict[str, Any]:
        return (await self.runtime.browse(args, Request("model", OPS.name, self.rights))).as_mcp()


def names(answer: Any) -> set[str]:
    return {card["name"] for card in answer.json()["cards"]}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("top_k", [1, 3, 50])
async def test_a_query_finds_what_a_model_finds(query: str, top_k: int) -> None:
    rig = await Rig().started()
    told, seen = rig.get(query=query, top_k=top_k).json(), await rig.browse(query=query, top_k=top_k)
    page = seen["_meta"]["leafgate/browse"]
    assert told["text"] == seen["content"][0]["text"]
    assert (told["signal"], told["confidence"]) == (page["signal"], page["confidence"])
    assert [{name: card[name] for name in page["cards"][0]} for card in told["cards"]] == page["cards"]


@pytest.mark.parametrize("path", ["/", "/disk", "/*"])
async def test_a_path_lists_what_a_model_is_listed(path: str) -> None:
    rig = await Rig().started()
    told, seen = rig.get(path=path).json(), await rig.browse(path=path)
    assert told["cards"]
    assert told["text"] == seen["content"][0]["text"]


async def test_each_card_has_the_line_that_a_model_reads_and_its_weight() -> None:
    rig = await Rig().started()
    told = rig.get(query="mail").json()
    *lines, schema = told["text"].splitlines()
    assert lines[-len(told["cards"]) :] == [card["line"] for card in told["cards"]]
    assert schema.startswith(f"args of {told['cards'][0]['id']}: ")
    assert [card["tokens"] for card in told["cards"]] == [rig.count(card["line"]) for card in told["cards"]]


async def test_top_k_is_that_of_a_model_where_none_is_given() -> None:
    rig = await Rig().started()
    assert rig.get(query="file").json()["text"] == (await rig.browse(query="file"))["content"][0]["text"]


async def test_foreign_words_come_as_words() -> None:
    rig = await Rig().started()
    answer = rig.get(query="weigh a parcel")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.json()["cards"][0]["line"] in (await rig.browse(query="weigh a parcel"))["content"][0]["text"]


async def test_to_look_is_not_to_work() -> None:
    rig = await Rig().started()
    before = rig.metrics.as_json()
    rig.get(query="mail")
    rig.get(path="/nowhere")
    rig.get(query="")
    assert rig.metrics.as_json() == before


async def test_what_is_hidden_from_the_one_who_asks_is_not_there() -> None:
    rig = await Rig(Rights(visibility=Visibility(exclude=("disk:*_mail",)))).started()
    assert names(rig.get(query="mail", top_k=50)).isdisjoint({"send_mail", "list_mail"})
    assert "send_mail" not in rig.get(path="/disk").text


async def test_what_the_policy_denies_is_not_offered() -> None:
    denying = CapabilityPolicy((Rule("deny", tool="disk:delete_file"), Rule("allow")))
    rig = await Rig(controls=Controls(policy=denying)).started()
    assert "delete_file" not in names(rig.get(query="delete a file", top_k=50))
    assert "read_file" in names(rig.get(query="read a file", top_k=50))


@pytest.mark.parametrize(
    "question",
    [
        {},
        {"query": ""},
        {"query": "   "},
        {"query": "mail", "path": "/"},
        {"query": "x" * (MAX_QUESTION + 1)},
        {"path": "no slash"},
        {"path": ""},
        {"path": "/" + "x" * MAX_QUESTION},
        {"query": "mail", "top_k": "0"},
        {"query": "mail", "top_k": "51"},
        {"query": "mail", "top_k": "-1"},
        {"query": "mail", "top_k": "many"},
        {"query": "mail", "top_k": ""},
        {"query": "mail", "top_k": "٣"},
        {"query": "mail", "top_k": "9" * 4_000},
        {"query": "mail", "limit": "3"},
    ],
)
async def test_a_wrong_question_is_refused_with_what_is_wrong(question: dict[str, str]) -> None:
    answer = (await Rig().started()).get(**question)
    assert answer.status_code == 400
    assert answer.json()["error"] in ("ARGS_INVALID", "PATH_INVALID")
    assert answer.json()["message"]
    assert answer.headers["cache-control"] == "no-store"


async def test_a_path_that_is_not_there_names_the_nearest() -> None:
    answer = (await Rig().started()).get(path="/dusk")
    assert answer.status_code == 404
    assert "/disk" in answer.json()["message"]


async def test_nothing_is_changed_through_it() -> None:
    rig = await Rig().started()
    app = Starlette(routes=catalog_routes(rig.runtime, rig.count, Front()))
    assert TestClient(app).post("/api/catalog").status_code == 405
