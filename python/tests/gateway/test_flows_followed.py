"""Flow rules in a gateway: what counts as read, what is checked, and what each effect does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from leafgate import (
    CachePolicy,
    Delivered,
    FlowPolicy,
    FlowRule,
    GatewayError,
    MultiplexPrimitiveUpstream,
    MultiplexUpstream,
    ProxyRuntime,
    StubPrimitiveUpstream,
    StubUpstream,
    ToolResultCache,
)
from leafgate.gateway.flows import Flows
from leafgate.model.errors import StoreError
from leafgate.model.request import Request
from leafgate.ports import FlowRecord
from leafgate.state.memory import MemoryFlowRecords

pytestmark = pytest.mark.anyio

NEWS = "The lighthouse keeper found the missing logbook behind the third stair on Friday evening."
KEY = "AKIA" + "Q3ZXVN5T7WLMRB2K"
DENY = FlowRule("mail", "files", "deny")


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


def tool(name: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": read_only}}


class Rig:
    """A mail server and a file server behind one gateway."""

    def __init__(self, *rules: FlowRule, mail: str = NEWS, **options: Any) -> None:
        self.mail = StubUpstream([tool("read", read_only=True)], answers={"read": text(mail)}, server="mail")
        self.files = StubUpstream(
            [tool("write"), tool("find", read_only=True)],
            answers={"write": text("ok"), "find": text("nothing")},
            server="files",
        )
        primitives = [
            StubPrimitiveUpstream(
                resources=[{"uri": "mail://1", "name": "letter"}],
                contents={"mail://1": NEWS},
                prompts=[{"name": "quote"}],
                renderings={"quote": NEWS},
                server="mail",
            ),
            StubPrimitiveUpstream(
                prompts=[{"name": "ask", "arguments": [{"name": "about"}]}], renderings={"ask": "?"}, server="files"
            ),
        ]
        self.runtime = ProxyRuntime(
            MultiplexUpstream([self.mail, self.files]),
            primitives=MultiplexPrimitiveUpstream(primitives),
            flows=FlowPolicy(rules) if rules else None,
            **options,
        )

    async def started(self) -> Rig:
        await self.runtime.refresh_catalog()
        snapshot = self.runtime.gateway.snapshot
        self.ids = {item.upstream_name: item.id for shelf in snapshot.shelves for item in shelf.catalog}
        return self

    async def call(self, name: str, runtime: ProxyRuntime | None = None, **args: Any) -> Delivered:
        return await (runtime or self.runtime).execute(self.ids[name], args)

    async def is_refused(self, name: str = "write", runtime: ProxyRuntime | None = None, **args: Any) -> bool:
        try:
            await self.call(name, runtime, **(args or {"text": NEWS}))
        except GatewayError as error:
            return error.code == "PERMISSION_DENIED" and bool(error.body.details["flow"]["from"] == "mail")
        return False


async def test_text_that_was_read_is_refused_elsewhere_and_the_server_sees_nothing() -> None:
    rig = await Rig(DENY).started()
    assert not await rig.is_refused()
    rig.files.calls.clear()
    await rig.call("read")
    with pytest.raises(GatewayError, match="text that was read from mail would go to files") as refused:
        await rig.call("write", text=f"Look: {NEWS}")
    assert refused.value.body.details == {
        "flow": {"from": "mail", "to": "files", "kind": "untrusted", "effect": "deny"}
    }
    assert refused.value.body.path == rig.ids["write"]
    assert rig.files.calls == []
    assert not await rig.is_refused(text="An own text about something else, which takes some more words.")


@pytest.mark.parametrize("surface", ["resource", "prompt", "cached", "view"])
async def test_every_surface_counts_as_read(surface: str) -> None:
    options: dict[str, Any] = {}
    if surface == "cached":
        options = {"cache": ToolResultCache(), "cache_policy": CachePolicy(read_only=True)}
    if surface == "view":
        options = {"mail": "\n".join(f"line {n}: nothing to see here at all" for n in range(20_000)) + f"\n{NEWS}"}
    rig = await Rig(DENY, **options).started()
    if surface == "resource":
        await rig.runtime.read_resource(rig.ids["mail://1"])
    elif surface == "prompt":
        await rig.runtime.get_prompt(rig.ids["quote"])
    elif surface == "cached":
        await rig.call("read", rig.runtime.acting_as("someone else"))
        assert not await rig.is_refused()
        assert (await rig.call("read")).provenance["cache_hit"] is True
    else:
        handle = (await rig.call("read")).artifacts[0].handle
        assert not await rig.is_refused()  # it is beyond what is followed of one result
        await rig.runtime.view(handle, {"type": "lines", "start": 20_001, "end": 20_001})
    assert await rig.is_refused()


async def test_prompts_are_checked_too_and_a_dry_run_as_well() -> None:
    rig = await Rig(DENY).started()
    await rig.call("read")
    with pytest.raises(GatewayError, match="flow policy"):
        await rig.runtime.get_prompt(rig.ids["ask"], {"about": NEWS})
    with pytest.raises(GatewayError, match="flow policy"):
        await rig.runtime.execute(rig.ids["write"], {"text": NEWS}, dry_run=True)
    report = await rig.runtime.execute(rig.ids["write"], {"text": "mine"}, dry_run=True)
    assert {"name": "flows", "status": "pass"} in report["checks"]


async def test_side_effects_spare_tools_that_are_declared_read_only() -> None:
    rig = await Rig(FlowRule("mail", "files", "deny", side_effects=True)).started()
    await rig.call("read")
    assert not await rig.is_refused("find")
    assert await rig.is_refused("write")


async def test_a_flag_is_stated_in_the_envelope_and_counted() -> None:
    rig = await Rig(FlowRule("ma*", "*", "flag")).started()
    await rig.call("read")
    delivered = await rig.call("write", text=NEWS)
    flow = {"from": "mail", "to": "files", "kind": "untrusted", "effect": "flag"}
    assert delivered.provenance["flows"] == [flow]
    assert delivered.as_mcp("lean")["_meta"]["leafgate/envelope"]["flows"] == [flow]
    assert rig.runtime.status()["flows"] == [{**flow, "times": 1}]
    assert "flows" not in (await rig.call("write", text="mine")).provenance


async def test_a_person_is_asked_with_the_reason() -> None:
    rig = await Rig(FlowRule("mail", "files", "require_approval")).started()
    questions: list[str] = []
    answers = [True, False]

    async def ask(question: str) -> bool | None:
        questions.append(question)
        return answers.pop(0)

    user = rig.runtime.acting_as("me", ask=ask)
    await rig.call("read", user)
    assert (await rig.call("write", user, text=NEWS)).text == "ok"
    assert "because text that was read from mail would go to files" in questions[0]
    with pytest.raises(GatewayError, match="approval of this call was refused"):
        await rig.call("write", user, text=NEWS)
    await rig.call("write", user, text="mine")
    assert len(questions) == 2
    with pytest.raises(GatewayError, match="only calls of tools"):
        await user.get_prompt(rig.ids["ask"], {"about": NEWS})


async def test_owners_do_not_share_what_they_read() -> None:
    rig = await Rig(DENY).started()
    await rig.call("read", rig.runtime.acting_as("ann"))
    assert not await rig.is_refused(runtime=rig.runtime.acting_as("bob"))
    assert await rig.is_refused(runtime=rig.runtime.acting_as("ann"))


async def test_secrets_that_were_redacted_are_followed_by_digests() -> None:
    rig = await Rig(FlowRule("mail", "files", "deny", kind="secret"), mail=f"the key is {KEY}").started()
    assert KEY not in (await rig.call("read")).text
    assert await rig.is_refused(text=f"bucket {KEY}")
    assert not await rig.is_refused(text="the key is [redacted:aws-access-key-id]")
    store = rig.runtime.gateway._parts.controls.flows.store  # type: ignore[union-attr]
    data = await store.load("local", [each.id for each in await store.list("local")])
    assert data
    assert not any(KEY.lower().encode() in each.lower() for each in data.values())


async def test_pieces_over_calls_add_up_and_letters_do_too() -> None:
    for size in (16, 5):
        rig = await Rig(DENY).started()
        await rig.call("read")
        parts = [NEWS[place : place + size] for place in range(0, len(NEWS), size)]
        results = [await rig.is_refused(text=part) for part in parts]
        assert not results[0]
        assert any(results)


async def test_arguments_that_are_too_large_to_check_count_as_a_flow_once_something_was_read() -> None:
    rig = await Rig(DENY).started()
    assert not await rig.is_refused(text="x" * 1_100_000)
    await rig.call("read")
    with pytest.raises(GatewayError, match="too large to check"):
        await rig.call("write", text="x" * 1_100_000)


async def test_nothing_is_kept_without_a_rule_and_nothing_of_servers_that_no_rule_names() -> None:
    rig = await Rig(FlowRule("calendar", "chat", "deny")).started()
    await rig.call("read")
    store = rig.runtime.gateway._parts.controls.flows.store  # type: ignore[union-attr]
    assert [*await store.list("local")] == []
    assert (await Rig().started()).runtime.gateway._parts.controls.flows is None


class BrokenRecords(MemoryFlowRecords):
    """A store that fails."""

    async def list(self, owner: str) -> Sequence[FlowRecord]:
        raise StoreError("gone")

    async def load(self, owner: str, ids: Sequence[str]) -> Mapping[str, bytes]:
        raise StoreError("gone")


async def test_a_store_that_fails_lets_nothing_pass() -> None:
    flows = Flows(FlowPolicy((DENY,)), BrokenRecords())
    with pytest.raises(GatewayError, match="STORE_UNAVAILABLE"):
        await flows.check(Request(), "files", {"text": NEWS}, has_side_effects=True)
    assert await flows.check(Request(), "other", {"text": NEWS}, has_side_effects=True) == ()


class Channel:
    """A client whose model answers a server's question with what it read."""

    owner, user, log_level = "local", "local", None
    takes_input_requests = takes_any_json = False
    resume: Mapping[str, Any] = {}
    capabilities: Mapping[str, Any] = {}
    meta: Mapping[str, Any] = {}

    async def progress(self, progress: float, total: float | None, message: str | None) -> None: ...

    async def log(self, params: Mapping[str, Any]) -> None: ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"content": {"type": "text", "text": f"I read that {NEWS}"}}


async def test_what_a_server_says_during_a_call_is_read_and_answers_to_it_are_checked() -> None:
    flows = Flows(FlowPolicy((DENY,)), MemoryFlowRecords())
    request = Request(client=Channel())
    mail, files = flows.watch(request, "mail").client, flows.watch(request, "files").client
    assert mail is not None
    assert files is not None
    await files.ask("sampling/createMessage", {"text": "?"})
    await mail.log({"level": "info", "data": NEWS})
    with pytest.raises(GatewayError, match="text that was read from mail would go to files"):
        await files.ask("sampling/createMessage", {"text": "?"})
    await mail.ask("sampling/createMessage", {"text": "?"})
