"""Flow rules at work: what a caller reads from servers is remembered as fingerprints, and its calls are checked.

Everything that a server says counts as read: results, cached or not, views, resources, prompts, completions, results of
tasks, questions, log lines. Everything that goes to a server is checked: arguments, URIs, answers to its questions.
Without a rule nothing here runs. If the store fails, calls fail too: what cannot be checked does not pass.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

from cachetools import LRUCache, TTLCache

from leafgate.admission.flow_text import (
    BREAK,
    MAX_TEXT,
    Tail,
    continue_fields,
    fold_arguments,
    fold_result,
    walk_strings,
)
from leafgate.admission.flows import (
    LEAST,
    LEAST_OF_LONG,
    LONG,
    Fingerprinter,
    Flow,
    FlowPolicy,
    FlowRule,
    Grams,
    Interval,
    TextPrint,
    adds_up,
    match_text,
    read_pieces,
    strongest,
    write_pieces,
)
from leafgate.clean import redact
from leafgate.clean.redact import RedactPolicy, find_redacted, redact_json
from leafgate.gateway.deliver import Delivery
from leafgate.gateway.dispatch import ObservedUpstream, OuterChannel
from leafgate.gateway.serving import note
from leafgate.gateway.workload import estimate_size, run_sized
from leafgate.model.errors import GatewayError, StoreError
from leafgate.model.request import SERVING, ClientChannel, Request
from leafgate.ports import FlowRecord, FlowRecords, Upstream

log = logging.getLogger("leafgate.gateway")

CACHE_BYTES: Final = 64 * 1024 * 1024  # of fingerprints that are ready for searches, of all callers
MAX_TAILS: Final = 2_000  # callers and servers whose last calls are joined
TAIL_SECONDS: Final = 600.0
_ID_CHARS: Final = 32
# Requests that send data to a server, beside calls of tools; the others only read.
_WRITING: Final = ("tasks/update",)

Value = TypeVar("Value")


@dataclass(frozen=True)
class Flows:
    """The flow rules of a gateway, and what callers have read."""

    policy: FlowPolicy
    store: FlowRecords
    redact: RedactPolicy = redact.DEFAULT
    _prints: list[Fingerprinter] = field(default_factory=list, repr=False)  # one, once its key is known
    _texts: LRUCache[tuple[str, str], TextPrint] = field(
        default_factory=lambda: LRUCache(CACHE_BYTES, getsizeof=lambda text: text.size + 256), repr=False
    )

    # What callers sent, letter by letter, is only in the memory of this process.
    _tails: TTLCache[tuple[str, str], dict[str, Tail]] = field(
        default_factory=lambda: TTLCache(MAX_TAILS, TAIL_SECONDS), repr=False
    )

    def watch(self, request: Request, server: str) -> Request:
        """The request, with a client to which and from which this server's messages are followed."""
        if request.client is None or isinstance(request.client, WatchedClient):
            return request
        return replace(request, client=WatchedClient(request.client, self, request, server))

    async def note_read(self, request: Request, server: str, value: Any, own: Any = None) -> None:
        """Remember that the caller read this from a server. `own` is what the caller had sent for it."""
        keeps_text, keeps_secrets = self.policy.keeps_text(server), self.policy.keeps_secrets(server)
        if not keeps_text and not keeps_secrets:
            return
        prints = await self._fingerprinter()

        def work() -> tuple[bytes, bytes]:
            folded = fold_result(value) if keeps_text else ""
            text = prints.text(folded, (fold_arguments(own) or "")[:MAX_TEXT]) if len(folded) >= LEAST else None
            digests = prints.secrets(self._find_secrets(value)) if keeps_secrets else b""
            return b"" if text is None or not text.any() else text.astype("<u4").tobytes(), digests

        text, digests = await run_sized(estimate_size(value), work)
        for kind, data in (("text", text), ("secret", digests)):
            if data:
                id = hashlib.blake2b(f"{kind}:{server}:".encode() + data, key=prints.key, digest_size=16).hexdigest()
                await _reach(self.store.add(request.owner, FlowRecord(id, kind, server, data)))  # type: ignore[arg-type]

    def _find_secrets(self, value: Any) -> list[str]:
        texts, size = [], 0
        for text, name in walk_strings(value):
            texts.append({name: text[: MAX_TEXT - size]})  # the name helps to tell a secret
            size += len(text)
            if size >= MAX_TEXT:
                break
        return find_redacted(texts, redact_json(texts, self.redact).value)

    async def check(
        self,
        request: Request,
        server: str,
        value: Any,
        *,
        has_side_effects: bool,
        path: str = "",
        is_rehearsal: bool = False,
    ) -> tuple[Flow, ...]:
        """The flows in what would go to a server. Raises GatewayError where a rule denies one.

        The report and the envelope of the request state them. A rehearsal does not count the pieces that it has.
        """
        rules = self.policy.rules_for(server, request.principal, has_side_effects=has_side_effects)
        if not rules:
            return ()
        records = [each for each in await _reach(self.store.list(request.owner)) if each.kind != "sent"]
        sources = {each.server for each in records if any(rule.fits(each.server, server) for rule in rules)}
        if not sources:
            return ()
        folded = await run_sized(estimate_size(value), partial(fold_arguments, value))
        kinds: list[tuple[str, str | None]] = [(source, None) for source in sorted(sources)]
        if folded is not None:
            call = await self._make_call(request, server, folded, records, is_rehearsal=is_rehearsal)
            kinds = await self._find_sent(call, rules) or await self._find_continued(call, rules, value)
        flows = tuple(_make_flow(source, server, kind, rules) for source, kind in kinds)
        _report(flows)
        denied = next((flow for flow in flows if flow.effect == "deny"), None)
        if denied is not None:
            note(denied_by="flows")
            raise GatewayError(
                "PERMISSION_DENIED",
                f"the operator's flow policy does not allow this call: {denied.describe()}",
                path=path,
                details={"flow": denied.as_json()},
            )
        return flows

    async def _make_call(
        self, request: Request, server: str, folded: str, records: Sequence[FlowRecord], *, is_rehearsal: bool
    ) -> _Call:
        grams = await run_sized(len(folded), partial((await self._fingerprinter()).grams, folded))
        return _Call(request, server, folded, grams, records, is_rehearsal)

    async def _find_sent(self, call: _Call, rules: Sequence[FlowRule]) -> list[tuple[str, str | None]]:
        """What the call carries: sources and kinds."""
        secrets = await self._find_sent_secrets(call, rules)
        texts = await self._find_sent_texts(call, rules)
        return [*((source, "secret") for source in sorted(secrets)), *((each, "untrusted") for each in sorted(texts))]

    async def _find_continued(self, call: _Call, rules: Sequence[FlowRule], value: Any) -> list[tuple[str, str | None]]:
        """What the call carries together with earlier ones in the same fields; what those carried alone is over."""
        key = call.request.owner, call.server
        before = self._tails.get(key, {})
        after = continue_fields(before, value)
        names = [name for name in before if name in after and after[name] != before[name]]
        kinds: list[tuple[str, str | None]] = []
        for tails in (after, before) if names else ():
            joined = BREAK.join(fold_arguments(tails[name].carried) or "" for name in names)
            made = await self._make_call(call.request, call.server, joined, call.records, is_rehearsal=True)
            found = await self._find_sent(made, rules)
            if not found:
                break
            kinds = found if tails is after else []
            after = before if tails is after else continue_fields({}, value)
        if not call.is_rehearsal:
            self._tails[key] = after
        return kinds

    async def _find_sent_secrets(self, call: _Call, rules: Sequence[FlowRule]) -> set[str]:
        stored = call.select("secret", [rule for rule in rules if rule.follows("secret")])
        data = await _reach(self.store.load(call.request.owner, [each.id for each in stored]))
        by_source: dict[str, bytes] = {}
        for each in stored:
            by_source[each.server] = by_source.get(each.server, b"") + data.get(each.id, b"")
        prints = await self._fingerprinter()
        return {source for source, rows in by_source.items() if prints.has_secret(call.folded, call.grams, rows)}

    async def _find_sent_texts(self, call: _Call, rules: Sequence[FlowRule]) -> set[str]:
        stored = call.select("text", [rule for rule in rules if rule.follows("untrusted")])
        known = [each for each in call.records if each.kind == "text" and each.server == call.server]
        texts = await self._load_texts(call.request, [*stored, *known])
        own = [texts[each.id] for each in known if each.id in texts]
        prints = [(each, texts[each.id]) for each in stored if each.id in texts]
        # Every record costs a search in the arguments, and large arguments take a while.
        cost = len(call.grams) * len(prints) // 8
        least = LEAST_OF_LONG if len(call.folded.partition(BREAK)[0]) > LONG else LEAST
        matches = await run_sized(cost, lambda: [match_text(call.grams, text, own, least=least) for _, text in prints])
        carried = {each.server for (each, _), match in zip(prints, matches, strict=True) if match.is_whole}
        pieces = {
            each.id: (each.server, match.pieces)
            for (each, _), match in zip(prints, matches, strict=True)
            if match.pieces
        }
        if pieces:
            carried |= await self._add_pieces(call, {id: each for id, each in pieces.items() if each[0] not in carried})
        return carried

    async def _add_pieces(self, call: _Call, pieces: Mapping[str, tuple[str, tuple[Interval, ...]]]) -> set[str]:
        """The sources of which this call and earlier ones to the same server, together, carry a text.

        The pieces are stored before the others are read: of two calls at once, one sees both.
        """
        store, owner = self.store, call.request.owner
        if not call.is_rehearsal:
            for id, (_, intervals) in pieces.items():
                record = FlowRecord(secrets.token_hex(16), "sent", call.server, id.encode() + write_pieces(intervals))
                await _reach(store.add(owner, record))
        sent = [
            each.id for each in await _reach(store.list(owner)) if (each.kind, each.server) == ("sent", call.server)
        ]
        earlier: dict[str, list[Interval]] = {id: [] for id in pieces}
        for data in (await _reach(store.load(owner, sent))).values():
            id = data[:_ID_CHARS].decode("ascii", "replace")
            if id in earlier:
                earlier[id] += read_pieces(data[_ID_CHARS:])
        return {source for id, (source, intervals) in pieces.items() if adds_up(intervals, earlier[id])}

    async def _load_texts(self, request: Request, stored: Sequence[FlowRecord]) -> dict[str, TextPrint]:
        owner = request.owner
        missing = [each.id for each in stored if (owner, each.id) not in self._texts]
        data = await _reach(self.store.load(owner, missing)) if missing else {}
        texts = {each.id: self._texts[owner, each.id] for each in stored if (owner, each.id) in self._texts}
        for id, grams in data.items():
            texts[id] = await run_sized(len(grams), partial(TextPrint.read, grams))
            if texts[id].size + 256 <= CACHE_BYTES:
                self._texts[owner, id] = texts[id]
        return texts

    async def _fingerprinter(self) -> Fingerprinter:
        if not self._prints:
            self._prints.append(Fingerprinter(await _reach(self.store.key())))
        return self._prints[0]


@dataclass(frozen=True, eq=False)
class _Call:
    """Arguments on their way to a server, ready for searches, and the records of what their caller has read."""

    request: Request
    server: str
    folded: str
    grams: Grams
    records: Sequence[FlowRecord]
    is_rehearsal: bool

    def select(self, kind: str, rules: Sequence[FlowRule]) -> list[FlowRecord]:
        """The records of a kind that one of the rules is about."""
        return [
            each for each in self.records if each.kind == kind and any(r.fits(each.server, self.server) for r in rules)
        ]


def _make_flow(source: str, destination: str, kind: Any, rules: Sequence[FlowRule]) -> Flow:
    fitting = [r.effect for r in rules if r.fits(source, destination) and (kind is None or r.follows(kind))]
    return Flow(source, destination, kind, strongest(fitting) or "flag")


def _report(flows: Sequence[Flow]) -> None:
    """State the flows in the log, the report and the envelope of the current request."""
    current = SERVING.get()
    if not flows or current is None:
        return
    stated = [flow.as_json() for flow in flows]
    note(flows=(*current.flows, *(each for each in stated if each not in current.flows)))
    for flow in flows:
        log.warning("flow policy: %s (%s)", flow.describe(), flow.effect)


async def _reach(answer: Awaitable[Value]) -> Value:
    """The answer of the store. What cannot be remembered or checked does not pass."""
    try:
        return await answer
    except StoreError as error:
        log.error("the flow records cannot be reached: %s", error)
        raise GatewayError("STORE_UNAVAILABLE", "the flow policy cannot be checked now") from error


def raise_unapproved(flows: Sequence[Flow]) -> None:
    """Refuse what needs approval where only calls of tools can be approved."""
    for flow in flows:
        if flow.effect == "require_approval":
            note(denied_by="flows")
            message = f"the flow policy requires approval, which only calls of tools can get: {flow.describe()}"
            raise GatewayError("PERMISSION_DENIED", message, details={"flow": flow.as_json()})


class WatchedUpstream(ObservedUpstream):
    """An Upstream for one request: what goes to servers is checked, and what they answer counts as read.

    For everything but calls of tools, which `execute` checks and the runtime notes itself.
    """

    def __init__(self, inner: Upstream, delivery: Delivery, flows: Flows, request: Request) -> None:
        super().__init__(inner, delivery)
        self._flows = flows
        self._request = request

    async def request(
        self, server: str, method: str, params: Mapping[str, Any], client: ClientChannel | None = None
    ) -> Mapping[str, Any]:
        flows, is_writing = self._flows, method in _WRITING
        sent = [params, {} if client is None else client.resume.get("inputResponses")]
        raise_unapproved(await flows.check(self._request, server, sent, has_side_effects=is_writing))
        watched = flows.watch(replace(self._request, client=client), server).client
        raw = await super().request(server, method, params, watched)
        await flows.note_read(self._request, server, raw, own=params)
        return raw


class WatchedClient(OuterChannel):
    """A ClientChannel around another: what the server says to the client counts as read, and answers are checked."""

    def __init__(self, inner: ClientChannel, flows: Flows, request: Request, server: str) -> None:
        super().__init__(inner)
        self._flows = flows
        self._request = request
        self._server = server

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        if message is not None:
            await self._flows.note_read(self._request, self._server, message)
        await self._inner.progress(progress, total, message)

    async def log(self, params: Mapping[str, Any]) -> None:
        await self._flows.note_read(self._request, self._server, params)
        await self._inner.log(params)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        await self._flows.note_read(self._request, self._server, params)
        answer = await self._inner.ask(method, params)
        raise_unapproved(await self._flows.check(self._request, self._server, answer, has_side_effects=True))
        return answer
