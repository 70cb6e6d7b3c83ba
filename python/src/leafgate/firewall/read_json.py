"""Pages of a JSON value. In: the value and a selector. Out: a View. Pure.

A page shows members of one array or object, whole ones only. A member that does not fit a page by itself is read into;
`within` says where the reading began, so that following `next` comes back from it and reads every part once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leafgate.firewall.fit import cut_line
from leafgate.firewall.outline import pointer_to
from leafgate.firewall.page import Limit, View
from leafgate.firewall.selectors import Selector, view_failed

_FIRST_GUESS: Final = 8
_LONGEST_POINTER: Final = 300
_LONGEST_STRING: Final = 120  # in an overview with `depth`
_NAMED: Final = 12  # members that are named where one was not found

Path = tuple[str | int, ...]


def read_json(selector: Selector, value: Any, limit: Limit) -> View:
    """A page of the value that the pointer leads to."""
    path = resolve(value, selector.pointer or "", limit.cleaner)
    within = path if selector.within is None else resolve(value, selector.within, limit.cleaner)
    if path[: len(within)] != within:
        within = path
    at, start = path, selector.start or 0
    reading = _Reading(value, selector, within, limit)
    length = _length(reading.here(at))
    if start > 0 and start >= length:
        view_failed(f"{_named(at)} has {length} members; {start} is beyond them")
    window = None if selector.end is None else max(selector.end - start, 1)
    while True:
        view = reading.page(at, start, window)
        if isinstance(view, View):
            return view
        at, start, window = view, 0, None


@dataclass(frozen=True)
class _Reading:
    """One reading of a value, from where it began."""

    root: Any
    selector: Selector
    within: Path
    limit: Limit

    def here(self, at: Path) -> Any:
        """What stands there, of an object only the members that were asked for."""
        found = _get(self.root, at)
        if isinstance(found, str) and at and isinstance(at[-1], str):  # a name tells whether the text is a secret
            found = next(iter(self.limit.cleaner.json({at[-1]: found}).value.values()))
        return self._projected(found) if at == self.within else found

    def page(self, at: Path, start: int, window: int | None) -> View | Path:
        """The page that begins there, or the way to the member that has to be read into first."""
        here = self.here(at)
        length = _length(here)
        if not length:
            text = here if isinstance(here, str) else _dump(here)
            whole = View(text, f"{_named(at)}: {_kind(here)}", self._after(at, 0))
            return whole if self.limit.fits(whole) else self._cut(whole)
        wanted = length - start if window is None else min(window, length - start)

        def render(taken: int) -> View:
            go_on = self._after(at, start + taken, window)
            shown = f"{_named(at)}: {_unit(here)} {start} to {start + taken - 1} of {length}"
            return View(self._shown(here, start, taken), shown, go_on)

        if isinstance(here, str):
            taken = self.limit.fullest(render, wanted, self.limit.budget * 2)
        else:
            taken = self.limit.fullest(render, min(wanted, self.limit.budget), _FIRST_GUESS)
        if taken:
            return render(taken)
        if isinstance(here, str):
            return render(1)
        step = start if isinstance(here, list) else list(here)[start]
        inner = here[step]
        longest = min(_LONGEST_POINTER, self.limit.budget)
        is_reading = self.selector.keys is None and self.selector.depth is None
        named = len(pointer_to((*at, step))) + len(pointer_to(self.within)) <= longest
        return (*at, step) if is_reading and named and _length(inner) else self._cut(render(1))

    def _cut(self, view: View) -> View:
        """What is not read into: a member of an overview, or one whose name is too long for a pointer."""
        size = self.limit.fullest(lambda n: View(view.text[:n] + "…", view.shown, view.next), len(view.text), 16)
        return View(view.text[:size] + "…", view.shown, view.next)

    def _shown(self, here: Any, start: int, taken: int) -> str:
        if isinstance(here, str):
            return here[start : start + taken]
        if isinstance(here, list):
            return _framed("[", [self._member(each) for each in here[start : start + taken]], "]")
        chosen = list(here.items())[start : start + taken]
        return _framed("{", [f"{_dump(key)}:{self._member(inner)}" for key, inner in chosen], "}")

    def _projected(self, value: Any) -> Any:
        if self.selector.keys is None or not isinstance(value, dict):
            return value
        return {key: value[key] for key in self.selector.keys if key in value}

    def _member(self, value: Any) -> str:
        value = self._projected(value) if isinstance(self.here(self.within), list) else value
        return _dump(value if self.selector.depth is None else _overview(value, self.selector.depth))

    def _after(self, at: Path, start: int, window: int | None = None) -> Selector | None:
        """What follows: the rest there, or what stands behind it on the way back to where the reading began."""
        here = self.here(at)
        while start >= _length(here):
            if at == self.within or not at:
                return None
            at, step = at[:-1], at[-1]
            here = _get(self.root, at)
            start = (step if isinstance(step, int) else list(here).index(step)) + 1
            window = None
        within = None if at == self.within else pointer_to(self.within)
        end = None if window is None else min(start + window, _length(here))
        return self.selector.at(pointer=pointer_to(at), start=start, end=end, within=within)


def resolve(value: Any, pointer: str, clean: Callable[[str], str]) -> Path:
    """The steps of a pointer, or VIEW_FAILED with what there is. A client knows names as they are when clean."""
    path: Path = ()
    here = value
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        step: str | int | None = None
        if isinstance(here, dict):
            step = name if name in here else next((key for key in here if clean(key) == name), None)
        elif isinstance(here, list) and name.lstrip("-").isascii() and name.lstrip("-").isdigit() and len(name) < 16:
            place = int(name) if not name.startswith("-") else len(here) + int(name)
            step = place if 0 <= place < len(here) else None
        if step is None:
            view_failed(f"{_named(path)} has no {cut_line(name, 60)!r}; {_what_there_is(here)}")
        path, here = (*path, step), here[step]
    return path


def _what_there_is(here: Any) -> str:
    if isinstance(here, dict):
        names = ", ".join(cut_line(str(key), 40) for key in list(here)[:_NAMED])
        return f"it has {len(here)} members: {names}" if here else "it is an empty object"
    return f"it is an array of {len(here)}" if isinstance(here, list) else f"it is a {_kind(here)}"


def _get(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | dict | str) else 0


def _named(path: Path) -> str:
    return cut_line(pointer_to(path), 120) or "the document"


def _unit(value: Any) -> str:
    return "characters" if isinstance(value, str) else "items" if isinstance(value, list) else "members"


def _kind(value: Any) -> str:
    return {str: "text", list: "array", dict: "object", bool: "boolean", type(None): "null"}.get(type(value), "number")


def _framed(opening: str, parts: Sequence[str], closing: str) -> str:
    return opening + ",\n".join(parts) + closing


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _overview(value: Any, depth: int) -> Any:
    """The value with what lies deeper told by its size."""
    if isinstance(value, str):
        return cut_line(value, _LONGEST_STRING)
    if not isinstance(value, list | dict) or not value:
        return value
    if depth == 0:
        return f"[…{len(value)} items]" if isinstance(value, list) else f"{{…{len(value)} members}}"
    if isinstance(value, list):
        return [_overview(each, depth - 1) for each in value]
    return {key: _overview(each, depth - 1) for key, each in value.items()}
