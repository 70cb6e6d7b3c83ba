"""ContextManager: a session kept by a program, and prompts made of it. In: items, queries. Out: ContextPacks.

Fills the ports of the pure room context: the ranker of browse, the firewall, artifacts, an exact encoder. Touches the
maps and the bundled model on disk, once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from anyio import to_thread

from leafgate.context.content import read_content
from leafgate.context.holdings import MOST_ID_CHARS, Holdings, id_problem
from leafgate.context.pack import build_pack
from leafgate.embed.cards import shared_maps
from leafgate.embed.session_artifacts import SessionArtifacts
from leafgate.embed.session_file import SessionItems
from leafgate.embed.session_rank import SessionRanker
from leafgate.embed.tool_output import Output, ToolOutput, read_output
from leafgate.firewall.cleaner import Cleaner, make_cleaner
from leafgate.firewall.screen import DEFAULT_BUDGET, Withheld, screen
from leafgate.firewall.views import show
from leafgate.model.context import ContextError, ContextItem, ContextPack, ItemKind, Phase
from leafgate.model.envelope import Artifact, ArtifactRef
from leafgate.model.leaf import LEVELS, Level
from leafgate.storage.map_files import CARD_MAP

OWNER: Final = "session"
WHOLE: Final[Mapping[str, Any]] = {"type": "head"}
LONG_RESULT: Final = 2_000  # characters from which on a result of a session file goes through the firewall
UNRECORDED: Final = "(its arguments were not recorded)"


class ContextManager:
    """One session. Safe to use from several threads: they wait for each other."""

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
        """`map` is the tokenizer map that packs are counted in and have ids of; without one, they are counted in
        cl100k_base and have none. `check` says how leaves are judged: "decode" is for ids of one's own making."""
        if check not in LEVELS:
            raise ContextError(f"check is {check!r}; there are {', '.join(LEVELS)}")
        self.artifacts = SessionArtifacts() if artifacts is None else artifacts
        self._with_ids = map is not None
        self._encoder = shared_maps().load(CARD_MAP if map is None else map)
        self._result_budget = result_budget
        self._clean = make_cleaner() if clean is None else clean
        self._owner = owner
        self._holdings = Holdings(self._encoder, check)
        self._ranker = SessionRanker()
        self._busy = threading.RLock()

    def __len__(self) -> int:
        return len(self._holdings)

    def ingest(self, item: ContextItem) -> ContextItem:
        """Takes an item in as it is. ContextError where its id is taken."""
        if not isinstance(item, ContextItem):
            raise ContextError(f"a {type(item).__name__} is no ContextItem")
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
        """Takes a result in through the firewall: cleaned, and a digest of it where it is long. The whole text is
        behind the handles of the item's `artifacts`. If its call is not known by then, a stand-in is put in its place.

        The output is a text, bytes, any JSON, or an MCP result, whose leaves are kept where its text is.
        """
        output = read_output(raw_output, media_type)
        metadata = ({"tool_name": tool_name} if tool_name else {}) | ({"is_error": True} if output.failed else {})
        with self._busy:
            problem = id_problem(tool_call_id)
            if problem:
                raise ContextError(f"tool_call_id {problem}")
            id = item_id or self._free_id(f"{tool_call_id[: MOST_ID_CHARS - 20]}:result")
            item = self._screened(ContextItem(id, ItemKind.tool_result, "", tool_call_id, metadata), output)
            self._holdings.check(item)
            if self._holdings.place_of(tool_call_id) is None:
                call = f"{tool_name or 'a tool'} {UNRECORDED}"
                self._add(ContextItem(tool_call_id, ItemKind.tool_call, call), stand_in=True)
            self._add(item)
        return item

    def ingest_session(self, items: SessionItems) -> int:
        """Takes a session file in, long results through the firewall. Out: the number of items.

        An event that cannot be held, because its id is taken, is a bad line of the file like any other.
        """
        return sum(1 for _ in self.ingesting(items))

    def ingesting(self, items: SessionItems) -> Iterator[ContextItem]:
        """The same, one event at a time, each given once it is in."""
        for item in items:
            try:
                taken = self.ingest(self._shortened(item))
            except ContextError as error:
                items.refuse(str(error))
            else:
                yield taken

    def view(self, handle: str, selector: Mapping[str, Any] = WHOLE) -> str:
        """A part of a result that was withheld (spec 4.5). GatewayError VIEW_FAILED where the selector is wrong."""
        artifact = self.artifacts.find(self._owner, handle)
        if artifact is None:
            raise ContextError(f"there is nothing behind the handle {handle!r}, or not any more")
        return show(selector, artifact, self._clean, self.count, self._result_budget).text

    def build_sync(self, phase: Phase, query: str = "", budget: int | None = None) -> ContextPack:
        """A pack for what comes next. BudgetError where the policies alone exceed the budget, in tokens of the map."""
        if not isinstance(query, str):
            raise ContextError(f"the query is a {type(query).__name__}, and must be a text")
        with self._busy:
            return build_pack(
                self._holdings,
                self._ranker.relevance(query),
                phase=_phase(phase),
                query=query,
                budget=budget,
                with_ids=self._with_ids,
            )

    async def build(self, phase: Phase, query: str = "", budget: int | None = None) -> ContextPack:
        """The same, off the event loop."""
        return await to_thread.run_sync(partial(self.build_sync, phase, query, budget))

    def count(self, text: str) -> int:
        """The tokens of a text under the map of this session."""
        return len(self._encoder.encode(text))

    def _shortened(self, item: ContextItem) -> ContextItem:
        if item.kind is not ItemKind.tool_result or len(item.text) <= LONG_RESULT:
            return item
        screened = self._screened(item, read_output(item.text, None))
        return item if screened.text == item.text else screened

    def _screened(self, item: ContextItem, output: Output) -> ContextItem:
        """The item with what a model reads of an output; what it does not is kept."""
        named = item.metadata.get("tool_name")
        tool_name = named if isinstance(named, str) else ""
        screened = screen(output.blocks, None, self._clean, count=self.count, budget=self._result_budget, inline=0)
        shown: list[Mapping[str, Any]] = []
        refs: list[ArtifactRef] = []
        for slot in screened.slots:
            block: Mapping[str, Any] | None
            if isinstance(slot, Withheld):
                artifact = Artifact(slot.content, slot.media_type, tool_name, is_text=slot.size is not None)
                handle = self.artifacts.keep(self._owner, artifact)
                block = slot.block(handle)
                if handle is not None:
                    refs.append(_ref(handle, slot, tool_name))
            else:
                block = slot
            if block is not None:
                shown.append(block)
        read = read_content(shown)
        return replace(item, text=read.text, leaves=read.leaves, artifacts=tuple(refs))

    def _add(self, item: ContextItem, *, stand_in: bool = False) -> None:
        self._ranker.put(self._holdings.add(item, stand_in=stand_in), item.text)

    def _free_id(self, wanted: str) -> str:
        number, id = 1, wanted
        while self._holdings.place_of(id) is not None:
            number += 1
            id = f"{wanted}-{number}"
        return id


def _phase(given: object) -> Phase:
    try:
        return Phase(given)
    except ValueError:
        known = ", ".join(phase.value for phase in Phase)
        raise ContextError(f"{given!r} is no phase; there are {known}") from None


def _ref(handle: str, slot: Withheld, tool_name: str) -> ArtifactRef:
    if slot.size is None:
        return ArtifactRef(handle, slot.media_type, len(slot.content), label=tool_name)
    size = slot.size
    return ArtifactRef(handle, slot.media_type, size.bytes, size.tokens, size.lines, size.estimated, tool_name)
