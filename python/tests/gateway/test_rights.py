"""What one principal has instead of what everybody has, through the gateway's own operations."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import MAPS

from leafgate.admission.policy import Limit, RateLimits
from leafgate.clean.cleaner import Cleaner
from leafgate.gateway.execute import Controls
from leafgate.gateway.result import Delivered, Failure, InputRequired
from leafgate.gateway.runtime import GatewayParts, GatewayRuntime
from leafgate.model.request import Request
from leafgate.model.rights import CapabilityPolicy, Rights, Rule, Visibility
from leafgate.ports import Offers, ToolListing
from leafgate.state.memory import MemoryArtifactStore, RateLimiter
from leafgate.telemetry.metrics import Metrics
from leafgate.upstream.library import StubUpstream

pytestmark = pytest.mark.anyio

TOOLS = [{"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}} for name in ("read", "mail")]
LONG = "\n".join(f"line {number} of a long text" for number in range(2_000))
READS_ONLY = Visibility(include=("disk:read",))


async def runtime(policy: CapabilityPolicy | None = None, limits: RateLimits | None = None) -> GatewayRuntime:
    cl100k = MAPS.load("openai/cl100k_base")
    answer = {"content": [{"type": "text", "text": LONG}]}
    page, hidden = ({"name": name, "uri": f"page://{name}"} for name in ("open", "hidden"))
    greet = {"name": "greet"}
    quotas = None if limits is None else RateLimiter(limits)
    made = GatewayRuntime(
        GatewayParts(
            upstream=StubUpstream(
                TOOLS,
                answers={"read": answer, "mail": answer},
                resources=[page, hidden],
                prompts=[greet],
                contents={"page://open": "o", "page://hidden": "h"},
                renderings={"greet": "hi"},
                server="disk",
            ),
            artifacts=MemoryArtifactStore(),
            recorder=Metrics(lambda: "today"),
            clean=Cleaner(),
            count=lambda text: len(cl100k.encode(text)),
            encoder_of=MAPS.load,
            controls=Controls(policy=policy, quotas=quotas),
        )
    )
    offers = Offers(
        tools=[ToolListing("disk", tool) for tool in TOOLS],
        resources=[ToolListing("disk", each) for each in (page, hidden)],
        prompts=[ToolListing("disk", greet)],
    )
    made.adopt(made.prepare(offers))
    return made


def somebody(name: str | None = "ann", **rights: Any) -> Request:
    return Request(f"principal:{name}", name, Rights(**rights))


def id_of(gateway: GatewayRuntime, name: str) -> str:
    shelves = (gateway.snapshot.tools, gateway.snapshot.resources, gateway.snapshot.prompts)
    return next(item.id for shelf in shelves for item in shelf.catalog if item.name == name)


def text_of(result: Delivered | InputRequired) -> str:
    return str(result.as_mcp()["content"][0]["text"])


def error_of(result: Delivered | InputRequired) -> str | None:
    return result.error.error if isinstance(result, Failure) else None


async def test_what_is_not_seen_is_unknown_everywhere() -> None:
    gateway = await runtime()
    ann = somebody(visibility=Visibility(include=("disk:read", "disk:open")))
    assert "mail" not in text_of(await gateway.browse({"query": "mail"}, ann))
    assert "1 tool:" in text_of(await gateway.browse({"path": "/"}, ann))
    mail = {"tool_id": id_of(gateway, "mail")}
    assert error_of(await gateway.hydrate(mail, ann)) == "HYDRATE_FAILED"
    assert error_of(await gateway.execute(mail, ann)) == "HYDRATE_FAILED"
    assert error_of(await gateway.execute(mail | {"dry_run": True}, ann)) == "HYDRATE_FAILED"
    assert error_of(await gateway.call_native("mail", {}, ann)) == "HYDRATE_FAILED"
    assert error_of(await gateway.call_native("read", {}, ann)) is None
    hidden = {"resource_id": id_of(gateway, "hidden")}
    assert error_of(await gateway.read_resource(hidden, ann)) == "RESOURCE_NOT_FOUND"
    assert error_of(await gateway.read_resource({"resource_id": id_of(gateway, "open")}, ann)) is None
    assert error_of(await gateway.get_prompt({"prompt_id": id_of(gateway, "greet")}, ann)) == "PROMPT_NOT_FOUND"
    assert "hidden" not in text_of(await gateway.browse_resources({"path": "/disk"}, ann))
    assert error_of(await gateway.execute(mail, Request("me"))) is None


async def test_a_denied_tool_is_not_offered_and_a_call_of_it_is_refused_aloud() -> None:
    gateway = await runtime(CapabilityPolicy((Rule("deny", tool="mail", principal="b*"), Rule("allow"))))
    ann, ben = somebody("ann"), somebody("ben")
    assert "mail" in text_of(await gateway.browse({"path": "/disk"}, ann))
    assert "mail" not in text_of(await gateway.browse({"path": "/disk"}, ben))
    mail = {"tool_id": id_of(gateway, "mail")}
    assert error_of(await gateway.execute(mail, ben)) == "PERMISSION_DENIED"
    assert error_of(await gateway.execute(mail, ann)) is None


async def test_ones_own_policy_counts_instead_of_everybodys() -> None:
    gateway = await runtime(CapabilityPolicy((Rule("deny"),)))
    trusted = somebody(policy=CapabilityPolicy((Rule("allow", tool="read"),)))
    assert error_of(await gateway.execute({"tool_id": id_of(gateway, "read")}, trusted)) is None
    assert error_of(await gateway.execute({"tool_id": id_of(gateway, "mail")}, trusted)) == "PERMISSION_DENIED"
    assert error_of(await gateway.execute({"tool_id": id_of(gateway, "read")}, somebody())) == "PERMISSION_DENIED"
    page = text_of(await gateway.browse({"path": "/disk"}, trusted))
    assert "read" in page
    assert "mail" not in page


async def test_ones_own_limits_count_instead_of_everybodys() -> None:
    gateway = await runtime(limits=RateLimits({"tool_browse": Limit(max_calls_per_minute=1)}))
    generous = somebody(quotas=RateLimiter(RateLimits({"tool_browse": Limit(max_calls_per_minute=3)})))
    mean = somebody(quotas=RateLimiter(RateLimits({"tool_browse": Limit(max_calls_per_minute=0)})))
    look = {"path": "/"}
    assert [error_of(await gateway.browse(look, generous)) for _ in range(4)] == [
        None,
        None,
        None,
        "RATE_LIMITED",
    ]
    assert error_of(await gateway.browse(look, mean)) == "RATE_LIMITED"
    assert [error_of(await gateway.browse(look, somebody())) for _ in range(2)] == [None, "RATE_LIMITED"]


async def test_what_was_kept_is_not_shown_to_one_who_no_longer_sees_its_tool() -> None:
    gateway = await runtime()
    before = somebody()
    made = (await gateway.execute({"tool_id": id_of(gateway, "mail")}, before)).as_mcp()
    (kept,) = made["_meta"]["leafgate/envelope"]["artifacts"]
    view = {"handle": kept["handle"], "selector": {"type": "head"}}
    assert error_of(await gateway.view(view, before)) is None
    after = somebody(visibility=READS_ONLY)
    assert error_of(await gateway.view(view, after)) == "PERMISSION_DENIED"


async def test_a_new_catalog_is_seen_by_those_who_may() -> None:
    gateway = await runtime()
    ann = somebody(visibility=READS_ONLY)
    assert "1 tool:" in text_of(await gateway.browse({"path": "/"}, ann))
    more = [{**tool, "description": "Changed."} for tool in TOOLS]
    gateway.adopt(gateway.prepare(Offers(tools=[ToolListing("disk", tool) for tool in more])))
    page = text_of(await gateway.browse({"path": "/disk"}, ann))
    assert "Changed." in page
    assert "mail" not in page
