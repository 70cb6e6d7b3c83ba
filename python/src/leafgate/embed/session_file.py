"""Session files: events as JSON lines, or a recording. In: a path. Out: its items, one at a time. Touches the disk.

Nothing is held but the line at hand, so that a file may be larger than memory.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal, overload

from leafgate.context.session import LONGEST_LINE, read_session
from leafgate.model.context import BadLine, ContextError, ContextItem, SessionLineError

OnError = Literal["raise", "skip"]


class SessionItems(Sequence[ContextItem]):
    """The items of a file, read anew each time they are gone through. `len` and an index go through the file, too."""

    def __init__(self, path: Path, on_error: OnError) -> None:
        self.path = path
        self._on_error = on_error
        self._bad: list[BadLine] = []
        self.line = 0  # of the item that was given last

    @property
    def bad_lines(self) -> tuple[BadLine, ...]:
        """The lines that were skipped, as far as the file has been gone through."""
        return tuple(self._bad)

    def __iter__(self) -> Iterator[ContextItem]:
        """The items in order."""
        self._bad = []
        try:
            with self.path.open("rb") as file:
                for number, found in read_session(_lines(file)):
                    self.line = number
                    if isinstance(found, ContextItem):
                        yield found
                    else:
                        self.refuse(str(found))
        except OSError as error:
            raise ContextError(f"{self.path} cannot be read: {error.strerror}") from None

    def refuse(self, reason: str) -> None:
        """Calls the line at hand a bad one: SessionLineError, or one more of `bad_lines`."""
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
    """The items of a session file. A bad line raises SessionLineError when it is reached, or is skipped and kept."""
    if on_error not in ("raise", "skip"):
        raise ContextError(f"on_error is {on_error!r}; it must be 'raise' or 'skip'")
    found = Path(path)
    if not found.is_file():
        raise ContextError(f"{found} is no file")
    return SessionItems(found, on_error)


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers. Of one that is too long only the beginning is kept, and that is too long as well."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        part = line
        while len(part) > LONGEST_LINE and not part.endswith(b"\n"):
            part = file.readline(LONGEST_LINE + 1)
        yield number, (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).rstrip(b"\r\n")
