"""The one way by which foreign content leaves: a raw result, or a view of what was withheld, for a model to read.

In this order: clean it, shorten it (what is withheld is stored), check what is left of it for instructions, give its
texts ids. Everything that needs the cleaner or the output check happens in the first step, before any id is made.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from time import thread_time
from typing import Any, Final

from anyio import lowlevel

from leafgate.clean.cleaner import Cleaner
from leafgate.clean.result import NO_CHANGES, Cleaned, CleaningReport, CleaningTimeout, all_strings
from leafgate.codec.leaf import Ledger, OneLevel, is_text_block, read_blocks, strip_everywhere, without_payload
from leafgate.digest.digest import NotKept
from leafgate.digest.instance import FindViolations, Shortened
from leafgate.digest.screen import DEFAULT_BUDGET, DEFAULT_INLINE, ScreenedResult, Withheld, screen
from leafgate.digest.size import total
from leafgate.digest.views import show
from leafgate.gateway.clean_process import CleanProcesses, LimitedCleaner
from leafgate.gateway.instructions import (
    FLAGGED,
    InstructionCheck,
    notice_of,
    notice_of_quarantine,
    notice_of_question,
    text_of,
)
from leafgate.gateway.leaf_checks import LeafChecks
from leafgate.gateway.result import Delivered
from leafgate.gateway.serving import UNTRACED, note, note_cleaning, note_tokens_out
from leafgate.gateway.snapshot import Snapshot
from leafgate.gateway.workload import THREAD_FROM, ServerShare, Workload, estimate_size, max_bytes, run_sized
from leafgate.model.envelope import Artifact, ArtifactRef, Origin
from leafgate.model.errors import GatewayError, StoreError, UpstreamFailure
from leafgate.model.request import SERVING, Request
from leafgate.model.rights import CapabilityPolicy
from leafgate.ports import ArtifactStore, LeafReport, Recorder, Tracer
from leafgate.tokens.encoder import Encoder

log = logging.getLogger("leafgate.gateway")

# A result may have ten thousand blocks: other requests get their turn while so many of them are reported.
REPORTS_AT_ONCE: Final = 200
SUMMARY_CHARS: Final = 500

# Keys in the `_meta` of a server's result that are not for the gateway's client: of the protocol, which is another one
# on this side, and those that the gateway itself sets.
OWN_META_PREFIXES: Final = ("io.modelcontextprotocol/", "leafgate/")

SKILL_SCHEME: Final = "skill://"
BYTES: Final = ("blob", "data")  # keys of MCP under which bytes are, in base64

Block = Mapping[str, Any]
Count = Callable[[str], int]
NoteRead = Callable[[Request, str, Any], Awaitable[None]]  # the caller reads this from a server


async def ignore_read(request: Request, server: str, value: Any) -> None:
    """For a gateway without flow rules."""


CheckQuestion = Callable[[object, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What delivering needs: the ports, the cleaner, the counter, the budget, and the encoder of a digest.

    Servers with their own policy have their cleaner in `clean_for`.
    """

    artifacts: ArtifactStore
    recorder: Recorder
    clean: Cleaner
    count: Count
    encoder_of: Callable[[str], Awaitable[Encoder]]
    budget: int = DEFAULT_BUDGET
    checks: LeafChecks = field(default_factory=LeafChecks)
    inline_bytes: int = DEFAULT_INLINE
    clean_for: Mapping[str, Cleaner] = field(default_factory=dict)
    instructions: InstructionCheck = field(default_factory=InstructionCheck)
    tracer: Tracer = UNTRACED
    workload: Workload = field(default_factory=Workload)
    note_read: NoteRead = ignore_read
    clean_processes: CleanProcesses | None = None  # None: large texts are cleaned here, for as long as it takes
    _cleaners: dict[tuple[str, str], Cleaner] = field(default_factory=dict, init=False, repr=False, compare=False)

    def cleaner(self, server: str) -> Cleaner:
        """The cleaner for what this server sends. Texts of the gateway itself are under the name ""."""
        return self.clean_for.get(server, self.clean)

    async def cleaner_for(self, server: str, reader_map: str | None, *, is_short: bool = False) -> Cleaner:
        """The cleaner for what this server sends to a model of this map, whose special tokens are markers to it.

        Large texts of a server are cleaned in a process, with a limit on its time; with `is_short` there are none.
        """
        cleaner = await self._cleaner_of_map(server, reader_map)
        if self.clean_processes is None or not server or is_short:
            return cleaner
        return self.clean_processes.limit(server, cleaner)

    async def cleaning_for(self, server: str, reader_map: str | None) -> ServerCleaning:
        """How values of a server are cleaned that go out whole to a model of this map."""
        cleaner, share = await self.cleaner_for(server, reader_map), self.workload.share_of(server)
        return ServerCleaning(cleaner, share, partial(check_question, self, server))

    async def _cleaner_of_map(self, server: str, reader_map: str | None) -> Cleaner:
        cleaner = self.cleaner(server)
        if reader_map is None:
            return cleaner
        key = server if server in self.clean_for else "", reader_map
        if key not in self._cleaners:
            try:
                self._cleaners[key] = cleaner.for_tokens((await self.encoder_of(reader_map)).map.specials)
            except GatewayError:
                return cleaner
        return self._cleaners[key]

    async def encoder(self, request: Request) -> Encoder | None:
        """The encoder of the client's map; None for a client that gets no ids.

        A map that was there when the call began may be gone by now. The answer is worth more than its ids.
        """
        if request.map_digest is None:
            return None
        try:
            return request.encoder or await self.encoder_of(request.map_digest)
        except GatewayError:
            return None

    def ledger(self, encoder: Encoder | None, server: str = "", *, packed: bool = False) -> Ledger | None:
        """Where the ids of the texts of a server's result are kept; None without an encoder."""
        if encoder is None:
            return None
        # The clock of this thread alone: what other threads do is not its cost.
        return Ledger(encoder, self.checks.plan_for(server), thread_time, packed=packed)

    def counter(self, ledger: Ledger | None) -> Count:
        """Counts as the receiving model does, where its map is known."""
        return self.count if ledger is None else ledger.count


@dataclass(frozen=True)
class _Clean:
    """A raw result after the first step.

    `is_broken`: its structured content, whole when the server sent it, breaks the schema since it was cleaned.
    """

    screening: ScreenedResult
    ledger: Ledger | None
    is_broken: bool
    server_meta: Mapping[str, Any]


async def deliver_result(
    delivery: Delivery,
    request: Request,
    origin: Origin,
    raw: Mapping[str, Any],
    *,
    provenance: Mapping[str, Any] | None = None,
    find_violations: FindViolations | None = None,
    may_have_leaves: bool = True,
) -> Delivered:
    """A server's result, cleaned, shortened, and with ids of the client's map.

    `provenance` is added to the envelope's. With `find_violations`, for a plain client that knows the tool's output
    schema, structured content and the server's `_meta` go along; where cleaning broke the structured content, the
    envelope says that it was not the server. Resources and prompts come as such results too; they have no leaves that
    a server could have sent.
    """
    share = delivery.workload.share_of(origin.server)
    size = estimate_size(raw.get("content"), raw.get("structuredContent"))
    async with nullcontext() if size < THREAD_FROM else share.reserve(raw):
        encoder = await delivery.encoder(request)
        with delivery.tracer.stage("screen"):
            takes_any = request.client is None or request.client.takes_any_json
            if not takes_any and not isinstance(raw.get("structuredContent", {}), Mapping):
                find_violations = None  # it becomes a text
            wants: dict[str, Any] = {"find_violations": find_violations, "may_have_leaves": may_have_leaves}
            wants |= {"with_facts": request.envelope == "full", "packed": request.is_packed}
            cleaner = await delivery.cleaner_for(origin.server, request.reader_map, is_short=size < THREAD_FROM)
            clean = await share.run(size, partial(_clean_result, delivery, origin, raw, encoder, cleaner, **wants))
            screening, ledger = clean.screening, clean.ledger
        with delivery.tracer.stage("store"):
            blocks, own, refs = await _store(delivery, request, origin, clean)
        structured = screening.structured
        beside = (None if structured is None else structured.value, clean.server_meta, screening.facts)
        checked = await check_parts(delivery, request, origin, blocks, beside=beside, make_part=_text_block)
        if checked.is_flagged:
            own = {at for at in own if checked.parts[at] is blocks[at]} | checked.own
            blocks, refs = [*checked.parts], [*refs, *checked.refs]
        own = own if may_have_leaves else set(range(len(blocks)))
        with delivery.tracer.stage("ids"):
            content, reports, own_reports = await share.run(size, partial(_add_ids, blocks, own, ledger, request))
        source = {"server": origin.server, "tool": origin.tool, **(provenance or {}), **screening.provenance}
        if ledger is not None:
            source |= {"map_id": request.map_digest, "codec": _count_outcomes(reports)}
        if checked.is_flagged:
            source["flagged"] = [*source.get("flagged", ()), {"kind": FLAGGED, "count": 1}]
        if (served := SERVING.get()) is not None and served.flows:
            source["flows"] = [dict(flow) for flow in served.flows]
        if clean.is_broken:
            source["output_check"] = "broken_by_cleaning"
        for number, report in enumerate(reports, 1):
            delivery.recorder.leaf(origin, request.map_digest or "", report)
            if number % REPORTS_AT_ONCE == 0:
                await lowlevel.checkpoint()
        for report in own_reports:
            delivery.recorder.own_text(request.map_digest or "", report.tokens, report.tokenize_seconds)
        largest = max((ref for ref in refs if ref.lines), key=lambda ref: ref.bytes, default=None)
        handle = None if largest is None else largest.handle
        note_cleaning(screening.report)
        withheld = [slot for slot in screening.slots if isinstance(slot, Withheld)]
        if withheld:
            note(cut={"parts": len(withheld), "bytes": sum(len(slot.content) for slot in withheld)})
        if ledger is not None:
            note_tokens_out(sum(report.tokens for report in (*reports, *own_reports)))
        summary = "\n".join(block["text"] for block in blocks if is_text_block(block)) if refs else ""
        # A client that knows the output schema accepts a result without structured content only as an error.
        is_error = raw.get("isError") is True or (checked.is_withheld and find_violations is not None)
        if checked.is_withheld:
            structured = None
        return Delivered(
            "error" if is_error else "ok",
            summary=cleaner.recheck(summary[:SUMMARY_CHARS]) if summary else "",
            facts=() if checked.is_withheld else screening.facts,
            artifacts=tuple(refs),
            provenance=source,
            content=tuple(content),
            structured_content=None if structured is None else structured.with_note(handle),
            has_structured=structured is not None,
            server_meta={} if checked.is_withheld else clean.server_meta,
        )


async def deliver_text(
    delivery: Delivery, request: Request, text: str, *, is_notice: bool = False
) -> tuple[Block, ...]:
    """The content of a text that the gateway wrote itself, of clean parts: cards, schemas, views, errors.

    A notice begins with a marker, which is inert in every other text.
    """
    if not is_notice:
        text = (await delivery.cleaner_for("", request.reader_map)).recheck(text)
    block: Block = {"type": "text", "text": text}
    encoder = await delivery.encoder(request)
    if encoder is None:
        return (block,)
    annotated, entry = await run_sized(
        max_bytes(text),
        lambda: Ledger(encoder, OneLevel("trust"), thread_time, packed=request.is_packed).annotate(block, request.form),
    )
    delivery.recorder.own_text(request.map_digest or "", len(entry.ids or ()), entry.tokenize_seconds)
    note_tokens_out(len(entry.ids or ()))
    return (annotated,)


async def view(
    delivery: Delivery,
    request: Request,
    handle: object,
    selector: object,
    *,
    visible: Snapshot | None = None,
    policy: CapabilityPolicy | None = None,
) -> Delivered:
    """tool_view: the selected part of what was withheld. Its last line says what it is a part of and how to go on.

    A handle of another owner, a forged one and an expired one look alike. A view is subject to the policy of the call
    that made the artifact: what is denied now cannot be read on. `visible` is the part of the catalog that the caller
    may know of; None where neither it nor a policy limits a view.
    """
    if not isinstance(handle, str):
        raise GatewayError("ARGS_INVALID", "handle is a text")
    artifact = await delivery.artifacts.get(request.owner, handle)
    if artifact is None:
        raise GatewayError("VIEW_FAILED", "this handle is unknown or has expired", path=handle[:64])
    if artifact.origin is not None:
        note(server=artifact.origin.server, tool=artifact.origin.tool)
    check_access(artifact.origin, request, visible, policy)
    count = delivery.counter(delivery.ledger(await delivery.encoder(request)))
    origin = artifact.origin or Origin("", "")
    cleaner = await delivery.cleaner_for(origin.server, request.reader_map)
    work = partial(show, selector, artifact, cleaner, count, delivery.budget)
    page = await delivery.workload.share_of(origin.server).run(len(artifact.content), work)
    texts = [page.text, "" if page.block is None else text_of(page.block)]
    notices: tuple[Block, ...] = ()
    if await _is_flagged(delivery, origin.server, texts):
        if delivery.instructions.mode_for(origin.server) == "quarantine" and not delivery.instructions.may_view:
            message = (
                "this part reads like instructions to a model; the operator can allow to view it (view_quarantined)"
            )
            raise GatewayError("PERMISSION_DENIED", message, path=handle[:64])
        notices = await deliver_text(delivery, request, notice_of(origin.server), is_notice=True)
    if artifact.origin is not None:
        await delivery.note_read(request, origin.server, page.text)
    text = await deliver_text(delivery, request, page.text)
    return Delivered("ok", content=(*(() if page.block is None else (page.block,)), *text, *notices))


def check_access(
    origin: Origin | None, request: Request, visible: Snapshot | None, policy: CapabilityPolicy | None
) -> None:
    """Raise PERMISSION_DENIED where the caller may no longer see what a tool answered earlier."""
    if origin is None or visible is None:
        return
    every = (item for shelf in visible.shelves for item in shelf.catalog)
    items = [item for item in every if (item.server, item.upstream_name) == (origin.server, origin.tool)]
    tools = [item for item in items if item.kind == "tool"]
    is_denied = policy is not None and any(policy.judge(item, request.principal) == "deny" for item in tools)
    if not items or is_denied:
        note(denied_by="policy")
        raise GatewayError("PERMISSION_DENIED", "the operator's policy does not allow this view")


@dataclass(frozen=True)
class CheckedParts:
    """The parts of an answer after the check for instructions; `own` are the places of the gateway's own parts.

    A notice is the last part. `is_withheld`: flagged parts were replaced, and what belongs to them must not leave.
    """

    parts: Sequence[Block]
    own: frozenset[int] = frozenset()
    refs: tuple[ArtifactRef, ...] = ()
    is_flagged: bool = False
    is_withheld: bool = False


async def check_parts(
    delivery: Delivery,
    request: Request,
    origin: Origin,
    parts: Sequence[Block],
    *,
    beside: Sequence[Any] = (),
    make_part: Callable[[str], Block],
) -> CheckedParts:
    """Check clean parts that a model reads, and the JSON `beside` them: flag them, or store and replace them."""
    check = delivery.instructions
    mode = check.mode_for(origin.server)
    # The files of a skill are instructions, which is what their reader wants: a notice would say nothing.
    if mode == "off" or (mode == "flag" and origin.tool.startswith(SKILL_SCHEME)):
        return CheckedParts(parts)

    def work() -> tuple[list[int], bool]:
        return check.find([text_of(part) for part in parts]), any(check.is_flagged(value) for value in beside)

    places, is_beside = await delivery.workload.share_of(origin.server).run(estimate_size([*parts], [*beside]), work)
    if not places and not is_beside:
        return CheckedParts(parts)
    _report_instructions(delivery, origin.server, is_withheld=mode == "quarantine")
    if mode == "flag":
        return CheckedParts((*parts, make_part(notice_of(origin.server))), frozenset({len(parts)}), is_flagged=True)
    result, refs = [*parts], []
    for at in places:
        content = text_of(parts[at]).encode("utf-8", "replace")
        label = f"{origin.server}:{origin.tool}"
        handle, _ = await _put(delivery, request, Artifact(content, "text/plain", label, origin))
        result[at] = make_part(notice_of_quarantine(origin.server, handle, may_view=check.may_view))
        refs += [] if handle is None else [ArtifactRef(handle, "text/plain", len(content))]
    if not places:  # only what is beside the parts
        result = [make_part(notice_of_quarantine(origin.server, None, may_view=False))]
        places = [0]
    return CheckedParts(result, frozenset(places), tuple(refs), is_flagged=True, is_withheld=True)


async def check_question(
    delivery: Delivery, server: str, method: object, params: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Check a server's clean question to a person. A notice precedes its message; a quarantined one is not asked."""
    if method != "elicitation/create" or not await _is_flagged(delivery, server, [*all_strings(params).items]):
        return params
    is_withheld = delivery.instructions.mode_for(server) == "quarantine"
    _report_instructions(delivery, server, is_withheld=is_withheld)
    if is_withheld:
        raise GatewayError("PERMISSION_DENIED", "the server's question reads like instructions, and was withheld")
    return {**params, "message": f"{notice_of_question(server)}\n\n{params.get('message', '')}"}


async def _is_flagged(delivery: Delivery, server: str, texts: Sequence[str]) -> bool:
    check = delivery.instructions
    if check.mode_for(server) == "off":
        return False
    share = delivery.workload.share_of(server)
    return bool(await share.run(estimate_size([*texts]), partial(check.find, texts)))


def _report_instructions(delivery: Delivery, server: str, *, is_withheld: bool) -> None:
    delivery.recorder.instructed(server, "quarantined" if is_withheld else "flagged")
    note_cleaning(CleaningReport(flagged={FLAGGED: 1}))


def _text_block(text: str) -> Block:
    return {"type": "text", "text": text}


@dataclass(frozen=True)
class ServerCleaning:
    """The cleaner for what one server sends, and the server's share, in whose threads large values are cleaned.

    `check_question` looks for instructions in the clean questions that the server asks.
    """

    cleaner: Cleaner
    share: ServerShare = field(default_factory=ServerShare)
    check_question: CheckQuestion | None = None


async def clean_value(
    raw: Mapping[str, Any], cleaning: ServerCleaning, *, keep: tuple[str, ...] = ()
) -> dict[str, Any]:
    """JSON of a server that goes out whole, without ids. Texts under the keys `keep` are opaque: addresses, states, and
    bytes, which are cleaned if they are a text.

    UpstreamFailure if it takes too long to clean.
    """

    def work() -> Cleaned[dict[str, Any]]:
        stripped = strip_everywhere(raw)  # ids spell texts, and nothing checks them here
        clean = cleaning.cleaner.json(stripped)
        reports = [clean.report]
        value = _restore(clean.value, stripped, frozenset(keep), cleaning.cleaner, reports)
        return Cleaned(value if isinstance(value, dict) else {}, sum(reports, NO_CHANGES))

    try:
        result = await cleaning.share.run(estimate_size(raw), work)
    except CleaningTimeout as error:
        message = "the server's answer is not shown: it takes too long to clean"
        raise UpstreamFailure("UPSTREAM_ERROR", str(error), message=message) from error
    note_cleaning(result.report)
    return result.value


async def clean_text(text: str, cleaning: ServerCleaning) -> str:
    """A text of a server that goes out whole. UpstreamFailure if it takes too long to clean."""
    clean: str = (await clean_value({"text": text}, cleaning))["text"]
    return clean


def _clean_result(
    delivery: Delivery,
    origin: Origin,
    raw: Mapping[str, Any],
    encoder: Encoder | None,
    cleaner: Cleaner,
    *,
    find_violations: FindViolations | None,
    may_have_leaves: bool,
    with_facts: bool,
    packed: bool,
) -> _Clean:
    ledger = delivery.ledger(encoder, origin.server, packed=packed)
    blocks, unwritten = read_blocks(raw, may_have_leaves=may_have_leaves and ledger is not None)
    if ledger is not None:
        ledger.add_claims(blocks)
    structured = whole = raw.get("structuredContent")
    if unwritten is not None or find_violations is not None:
        structured = strip_everywhere(whole) if unwritten is None else unwritten
    options: dict[str, Any] = {
        "count": delivery.counter(ledger),
        "budget": delivery.budget,
        "inline": delivery.inline_bytes,
        "is_written": unwritten is None,
        "find_violations": find_violations,
        "with_facts": with_facts,
    }
    if isinstance(cleaner, LimitedCleaner):
        screening = cleaner.screen(blocks, structured, **options)
    else:
        screening = screen(blocks, structured, cleaner, **options)
    if find_violations is None:
        return _Clean(screening, ledger, is_broken=False, server_meta={})
    if whole is None and "structuredContent" in raw:  # null is a value too
        screening = replace(screening, structured=Shortened(None))
    shown = screening.structured
    is_broken = shown is not None and shown.value != whole and bool(find_violations(shown.value))
    return _Clean(screening, ledger, is_broken, _clean_meta(raw.get("_meta"), cleaner, delivery.inline_bytes))


def _clean_meta(meta: Any, cleaner: Cleaner, limit: int) -> Mapping[str, Any]:
    """What a plain client gets of the `_meta` of a server's result; nothing if it is larger than `limit` bytes."""
    if not isinstance(meta, Mapping):
        return {}
    foreign = {key: each for key, each in meta.items() if not str(key).startswith(OWN_META_PREFIXES)}
    if not foreign or estimate_size(foreign, limit=limit) >= limit:
        return {}
    clean = cleaner.json(strip_everywhere(foreign)).value
    return clean if isinstance(clean, dict) else {}


async def _store(
    delivery: Delivery, request: Request, origin: Origin, clean: _Clean
) -> tuple[list[Block], set[int], list[ArtifactRef]]:
    """Store what is withheld; its handle completes the block in its place, which is the gateway's own."""
    blocks: list[Block] = []
    own: set[int] = set()
    refs: list[ArtifactRef] = []
    for slot in clean.screening.slots:
        if not isinstance(slot, Withheld):
            blocks.append(slot)
            continue
        label = f"{origin.server}:{origin.tool}"
        is_text = slot.size is not None or not slot.is_clean
        artifact = Artifact(slot.content, slot.media_type, label, origin, is_text, slot.is_clean)
        handle, why_not = await _put(delivery, request, artifact)
        block = slot.block(handle, why_not)
        if handle is not None:
            refs.append(_ref(handle, slot))
        if block is not None:
            own.add(len(blocks))
            blocks.append(block)
        if slot.size is not None and slot.digest is not None:
            count = total(delivery.counter(clean.ledger))
            delivery.recorder.shortened(origin, slot.size.tokens, count(slot.digest.text(handle, why_not)))
    return blocks, own, refs


async def _put(delivery: Delivery, request: Request, artifact: Artifact) -> tuple[str | None, NotKept]:
    """The handle, if there is one. A store that fails costs the rest of a result, and not what is shown of it."""
    try:
        return await delivery.artifacts.put(request.owner, artifact), "too large to be kept"
    except StoreError as error:
        log.error("an artifact of %s cannot be kept: %s", artifact.label, error)
        return None, "not kept: the gateway's store fails"


def _ref(handle: str, slot: Withheld) -> ArtifactRef:
    resource = slot.piece.block.get("resource")
    uri = str(resource.get("uri", "")) if isinstance(resource, Mapping) else ""
    ref = ArtifactRef(handle, slot.media_type, len(slot.content), uri=uri, not_cleaned=not slot.is_clean)
    size = slot.size
    return ref if size is None else replace(ref, tokens=size.tokens, lines=size.lines, tokens_estimated=size.estimated)


def _add_ids(
    blocks: Sequence[Block], own: set[int], ledger: Ledger | None, request: Request
) -> tuple[list[Block], list[LeafReport], list[LeafReport]]:
    """The blocks with ids, and reports on the texts: the tool's, and those that the gateway wrote in their place."""
    content: list[Block] = []
    reports: list[LeafReport] = []
    own_reports: list[LeafReport] = []
    for index, block in enumerate(blocks):
        if not is_text_block(block):
            content.append(block)
        elif ledger is None:
            content.append(without_payload(block))
        else:
            annotated, entry = ledger.annotate(block, request.form)
            content.append(annotated)
            (own_reports if index in own else reports).append(entry.report)
    return content, reports, own_reports


def _count_outcomes(reports: Sequence[LeafReport]) -> dict[str, Any]:
    outcomes = Counter(report.outcome for report in reports)
    rejected = Counter(report.rejected for report in reports if report.rejected is not None)
    body: dict[str, Any] = {"leafBypasses": outcomes["leaf"], "tokenizeCalls": outcomes["shim"]}
    return body | ({"rejected": dict(rejected)} if rejected else {})


def _restore(clean: Any, raw: Any, keep: frozenset[str], cleaner: Cleaner, reports: list[CleaningReport]) -> Any:
    """The clean value, with the texts under the keys `keep` as they were, and with clean bytes."""
    if isinstance(clean, dict) and isinstance(raw, Mapping) and len(clean) == len(raw):
        value: dict[str, Any] = {}
        for (key, part), (name, source) in zip(clean.items(), raw.items(), strict=True):
            if name not in keep or not isinstance(source, str):
                value[key] = _restore(part, source, keep, cleaner, reports)
            elif name in BYTES:
                result = cleaner.base64(source, str(raw.get("mimeType") or ""))
                reports.append(result.report)
                value[key] = result.value
            else:
                value[key] = source
        return value
    if isinstance(clean, list) and isinstance(raw, list):
        return [_restore(value, source, keep, cleaner, reports) for value, source in zip(clean, raw, strict=False)]
    return clean
