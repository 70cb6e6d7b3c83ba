"""ContextManager: the session of a program, and prompts that are built from it; outputs of tools, and session files."""

from __future__ import annotations

import base64
import codecs
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, overload

from anyio import to_thread
from cachetools import LRUCache
from pydantic import BaseModel

from leafgate.clean.cleaner import Cleaner, is_text_type
from leafgate.context.holdings import MOST_ID_CHARS, Holdings, id_problem
from leafgate.context.pack import build_pack
from leafgate.context.session import LONGEST_LINE, is_blocks, read_content, read_session
from leafgate.digest.screen import DEFAULT_BUDGET, Withheld, screen
from leafgate.digest.views import show
from leafgate.embed import shared_maps
from leafgate.embed.session_rank import SessionRanker
from leafgate.maps.files import CARD_MAP
from leafgate.model.context import BadLine, ContextError, ContextItem, ContextPack, ItemKind, Phase, SessionLineError
from leafgate.model.envelope import HANDLE_CHARS, Artifact, ArtifactRef
from leafgate.model.leaf import LEVELS, Level

DEFAULT_CAPACITY: Final = 256 * 1024 * 1024


class SessionArtifacts:
    """Withheld results in memory, bounded: the least recently used is dropped first. Implements the port ArtifactStore.

    Unlike the handles of a gateway, these are computed from the content, so that the same session gives the same pack
    in every process. They are for the sessions of one program, not for clients, who could guess them. Sessions in
    several threads may share one store.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._artifacts: LRUCache[tuple[str, str], Artifact] = LRUCache(capacity, lambda each: len(each.content))
        self._busy = threading.Lock()

    def keep(self, owner: str, artifact: Artifact) -> str | None:
        """Store an artifact and return its handle; None if the artifact alone exceeds the capacity."""
        if len(artifact.content) > self._artifacts.maxsize:
            return None
        prefix = f"{artifact.media_type}\n{artifact.label}\n".encode("utf-8", "replace")
        handle = hashlib.sha256(prefix + artifact.content).hexdigest()[:HANDLE_CHARS]
        with self._busy:
            self._artifacts[owner, handle] = artifact
        return handle

    def find(self, owner: str, handle: str) -> Artifact | None:
        with self._busy:
            return self._artifacts.get((owner, handle))

    async def put(self, owner: str, artifact: Artifact) -> str | None:
        return self.keep(owner, artifact)

    async def get(self, owner: str, handle: str) -> Artifact | None:
        return self.find(owner, handle)


ToolOutput = str | bytes | Mapping[str, Any] | Sequence[Any] | BaseModel

RESULT_URI: Final = "result:"
BINARY: Final = "application/octet-stream"


@dataclass(frozen=True)
class Output:
    """The blocks of an output, and whether the tool failed."""

    blocks: tuple[Mapping[str, Any], ...]
    failed: bool = False


def read_output(raw: ToolOutput, media_type: str | None) -> Output:
    """The output of a tool as MCP content blocks. Raises ContextError for other values.

    Tools of a program return texts, bytes and objects; MCP clients return results, whose blocks may have leaves.
    A media type applies to texts and bytes.
    """
    if isinstance(raw, str | bytes | bytearray | memoryview):
        return Output((_block(raw if isinstance(raw, str) else bytes(raw), media_type),))
    if isinstance(raw, BaseModel):
        raw = raw.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(raw, Mapping) and isinstance(raw.get("content"), list) and is_blocks(raw["content"]):
        structured = raw.get("structuredContent")
        has_content = raw["content"] or structured is None
        return Output(tuple(raw["content"]) if has_content else (_json(structured),), raw.get("isError") is True)
    if isinstance(raw, list) and raw and is_blocks(raw):
        return Output(tuple(raw))
    return Output((_json(raw),))


def _json(value: Any) -> dict[str, Any]:
    try:
        return _block(json.dumps(value, ensure_ascii=False), "application/json")
    except (TypeError, ValueError, RecursionError):
        kind = type(value).__name__
        raise ContextError(f"a {kind} is not the output of a tool; text, bytes, JSON and MCP results are") from None


def _block(value: str | bytes, media_type: str | None) -> dict[str, Any]:
    """Bytes are a text if their media type says so; without one, if they are valid UTF-8."""
    if isinstance(value, bytes) and media_type is None:
        try:
            value = value.decode()
        except UnicodeDecodeError:
            media_type = BINARY
    elif isinstance(value, bytes) and media_type is not None and is_text_type(media_type):
        value = value.decode("utf-8", "replace")
    part = {"text": value} if isinstance(value, str) else {"blob": base64.b64encode(value).decode()}
    if media_type is None:
        return {"type": "text", **part}
    return {"type": "resource", "resource": {"uri": RESULT_URI, "mimeType": media_type, **part}}


OnError = Literal["raise", "skip"]


class SessionItems(Sequence[ContextItem]):
    """The items of a session file: events as JSON lines, or a recording. A file may be larger than memory: it is read
    line by line, and again for each iteration, for `len` and for an index."""

    def __init__(self, path: Path, on_error: OnError) -> None:
        self.path = path
        self._on_error = on_error
        self._bad: list[BadLine] = []
        self.line = 0  # the line of the last item

    @property
    def bad_lines(self) -> tuple[BadLine, ...]:
        """The lines that were skipped so far."""
        return tuple(self._bad)

    def __iter__(self) -> Iterator[ContextItem]:
        self._bad = []
        try:
            with self.path.open("rb") as file:
                for number, item in read_session(_lines(file)):
                    self.line = number
                    if isinstance(item, ContextItem):
                        yield item
                    else:
                        self.refuse(str(item))
        except OSError as error:
            raise ContextError(f"{self.path} cannot be read: {error.strerror}") from None

    def refuse(self, reason: str) -> None:
        """Report the current line as bad: raise SessionLineError, or add it to `bad_lines`."""
        if self._on_error == "raise":
            raise SessionLineError(str(self.path), self.line, reason) from None
        self._bad.append(BadLine(str(self.path), self.line, reason))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @overload
    def __getitem__(self, index: int) -> ContextItem: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ContextItem]: ...

    def __getitem__(self, index: int | slice) -> ContextItem | Sequence[ContextItem]:
        if isinstance(index, slice) or index < 0:
            return list(self)[index]
        for item in islice(self, index, None):
            return item
        raise IndexError(index)


def load_mcp_session_jsonl(path: str | Path, *, on_error: OnError = "raise") -> SessionItems:
    """The items of a session file. A bad line raises SessionLineError when it is read, or is skipped and listed."""
    if on_error not in ("raise", "skip"):
        raise ContextError(f"on_error is {on_error!r}; it must be 'raise' or 'skip'")
    file = Path(path)
    if not file.is_file():
        raise ContextError(f"{file} is not a file")
    return SessionItems(file, on_error)


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers. A line that is too long is cut, but still longer than the limit."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        part = line
        while len(part) > LONGEST_LINE and not part.endswith(b"\n"):
            part = file.readline(LONGEST_LINE + 1)
        yield number, (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).rstrip(b"\r\n")


OWNER: Final = "session"
WHOLE: Final[Mapping[str, Any]] = {"type": "head"}
LONG_RESULT: Final = 2_000  # characters; longer results of a session file go through the firewall
UNRECORDED: Final = "(its arguments were not recorded)"


class ContextManager:
    """One session. Safe to use from several threads."""

    def __init__(
        self,
        *,
        map: str | None = None,
        check: Level = "canonical",
        result_budget: int = DEFAULT_BUDGET,
        clean: Cleaner | None = None,
        artifacts: SessionArtifacts | None = None,
        owner: str = OWNER,
    ) -> None:
        """`map` is the tokenizer map of the packs: they are counted in its tokens and have its ids. Without a map they
        are counted in cl100k_base and have no ids. `check` is how leaves are verified: "decode" is for trusted ids."""
        if check not in LEVELS:
            raise ContextError(f"check is {check!r}; there are {', '.join(LEVELS)}")
        self.artifacts = SessionArtifacts() if artifacts is None else artifacts
        self._with_ids = map is not None
        self._encoder = shared_maps().load(CARD_MAP if map is None else map)
        self._result_budget = result_budget
        self._clean = Cleaner() if clean is None else clean
        self._owner = owner
        self._holdings = Holdings(self._encoder, check)
        self._ranker = SessionRanker()
        self._busy = threading.RLock()

    def __len__(self) -> int:
        return len(self._holdings)

    def ingest(self, item: ContextItem) -> ContextItem:
        """Add an item as it is. Raises ContextError if its id is in use."""
        if not isinstance(item, ContextItem):
            raise ContextError(f"a {type(item).__name__} is not a ContextItem")
        with self._busy:
            self._add(item)
        return item

    def ingest_tool_result(
        self,
        tool_call_id: str,
        raw_output: ToolOutput,
        tool_name: str = "",
        media_type: str | None = None,
        *,
        item_id: str | None = None,
    ) -> ContextItem:
        """Add a result through the firewall: cleaned, and as a digest if it is long. The whole text is behind the
        handles of the item's `artifacts`. If the session has no such call yet, a stand-in for the call is added.

        The output is a text, bytes, any JSON, or an MCP result, whose leaves stay where its text stays.
        """
        output = read_output(raw_output, media_type)
        metadata = ({"tool_name": tool_name} if tool_name else {}) | ({"is_error": True} if output.failed else {})
        with self._busy:
            if problem := id_problem(tool_call_id):
                raise ContextError(f"tool_call_id {problem}")
            id = item_id or self._free_id(f"{tool_call_id[: MOST_ID_CHARS - 20]}:result")
            item = self._screen(ContextItem(id, ItemKind.tool_result, "", tool_call_id, metadata), output)
            self._holdings.check(item)
            if self._holdings.place_of(tool_call_id) is None:
                call = f"{tool_name or 'a tool'} {UNRECORDED}"
                self._add(ContextItem(tool_call_id, ItemKind.tool_call, call), stand_in=True)
            self._add(item)
        return item

    def ingest_session(self, items: SessionItems) -> int:
        """Add the items of a session file, and return their number. An event whose id is in use is a bad line."""
        return sum(1 for _ in self.ingesting(items))

    def ingesting(self, items: SessionItems) -> Iterator[ContextItem]:
        """Like `ingest_session`, but yields each item after it was added. Long results go through the firewall."""
        for item in items:
            try:
                is_long = item.kind is ItemKind.tool_result and len(item.text) > LONG_RESULT
                short = self._screen(item, read_output(item.text, None)) if is_long else item
                new = self.ingest(item if short.text == item.text else short)
            except ContextError as error:
                items.refuse(str(error))
            else:
                yield new

    def view(self, handle: str, selector: Mapping[str, Any] = WHOLE) -> str:
        """A part of a withheld result (spec 4.5). Raises GatewayError VIEW_FAILED if the selector is invalid."""
        artifact = self.artifacts.find(self._owner, handle)
        if artifact is None:
            raise ContextError(f"there is nothing behind the handle {handle!r}, or it was dropped")
        return show(selector, artifact, self._clean, self.count, self._result_budget).text

    def build_sync(self, phase: Phase, query: str = "", budget: int | None = None) -> ContextPack:
        """Build a pack. Raises BudgetError if the policies alone exceed the budget, in tokens of the map."""
        if not isinstance(query, str):
            raise ContextError(f"the query is a {type(query).__name__}, and must be a text")
        try:
            phase = Phase(phase)
        except ValueError:
            names = ", ".join(phase.value for phase in Phase)
            raise ContextError(f"{phase!r} is not a phase; there are {names}") from None
        with self._busy:
            relevance = self._ranker.relevance(query)
            return build_pack(self._holdings, relevance, phase, query, budget, with_ids=self._with_ids)

    async def build(self, phase: Phase, query: str = "", budget: int | None = None) -> ContextPack:
        """Like `build_sync`, in a thread."""
        return await to_thread.run_sync(partial(self.build_sync, phase, query, budget))

    def count(self, text: str) -> int:
        """The tokens of a text under the map of this session."""
        return len(self._encoder.encode(text))

    def _screen(self, item: ContextItem, output: Output) -> ContextItem:
        """The item with the text that a model reads of an output; the rest is stored as artifacts."""
        label = item.metadata.get("tool_name")
        tool_name = label if isinstance(label, str) else ""
        screening = screen(output.blocks, None, self._clean, count=self.count, budget=self._result_budget, inline=0)
        blocks: list[Mapping[str, Any] | None] = []
        refs: list[ArtifactRef] = []
        for slot in screening.slots:
            if not isinstance(slot, Withheld):
                blocks.append(slot)
                continue
            size, kind = slot.size, slot.media_type
            handle = self.artifacts.keep(self._owner, Artifact(slot.content, kind, tool_name, is_text=size is not None))
            blocks.append(slot.block(handle))
            if handle is not None and size is None:
                refs.append(ArtifactRef(handle, kind, len(slot.content), label=tool_name))
            elif handle is not None and size is not None:
                refs.append(ArtifactRef(handle, kind, size.bytes, size.tokens, size.lines, size.estimated, tool_name))
        read = read_content([block for block in blocks if block is not None])
        return replace(item, text=read.text, leaves=read.leaves, artifacts=tuple(refs))

    def _add(self, item: ContextItem, *, stand_in: bool = False) -> None:
        self._ranker.put(self._holdings.add(item, stand_in=stand_in), item.text)

    def _free_id(self, base: str) -> str:
        number, id = 1, base
        while self._holdings.place_of(id) is not None:
            number += 1
            id = f"{base}-{number}"
        return id
