"""A plain MCP server for the embedded default: notes with small, large and structured results, without ids.

Run as `python -m leafgate.demo.notes`. It does not import leafgate; the notes are generated, always the same.
"""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

READ_ONLY = ToolAnnotations(read_only_hint=True)
TOPICS = ("garden", "release", "meeting", "recipe", "travel", "reading", "budget", "workshop")
VERBS = ("planned", "finished", "postponed", "reviewed", "measured", "discussed", "repaired", "ordered")
THINGS = ("the north bed", "version two", "the agenda", "a rye loaf", "the night train", "chapter nine", "the estimate")

server = MCPServer("notes", instructions="Notes of an imaginary household: search, read, export, count.")


class Note(BaseModel):
    """One note."""

    number: int
    topic: str
    text: str


class Counts(BaseModel):
    """How many notes there are."""

    total: int
    by_topic: dict[str, int]


def _note(number: int) -> Note:
    topic = TOPICS[number % len(TOPICS)]
    text = (
        f"On day {number} we {VERBS[number * 7 % len(VERBS)]} {THINGS[number * 3 % len(THINGS)]} "
        f"and wrote {number * 37 % 101} lines about the {topic}."
    )
    return Note(number=number, topic=topic, text=text)


NOTES = tuple(_note(number) for number in range(1, 2001))


@server.tool(annotations=READ_ONLY)
def search_notes(
    query: Annotated[str, Field(description="Words that the note must hold.")],
    limit: Annotated[int, Field(description="How many notes at most.", ge=1, le=50)] = 3,
) -> str:
    """Search the notes for words and return the first few that match, one per line."""
    words = query.casefold().split()
    hits = [note for note in NOTES if all(word in note.text.casefold() for word in words)][:limit]
    return "\n".join(f"{note.number}: {note.text}" for note in hits) or "No note matches."


@server.tool(annotations=READ_ONLY, structured_output=True)
def read_note(number: Annotated[int, Field(description="The note's number.", ge=1, le=len(NOTES))]) -> Note:
    """Read one note by its number, as a structured record."""
    return NOTES[number - 1]


@server.tool(annotations=READ_ONLY)
def export_notes(topic: Annotated[str, Field(description="Only this topic; empty for all.")] = "") -> str:
    """Export all notes, or all of one topic, as plain text. The result is long."""
    return "\n".join(f"{note.number}\t{note.topic}\t{note.text}" for note in NOTES if topic in ("", note.topic))


@server.tool(annotations=READ_ONLY, structured_output=True)
def count_notes() -> Counts:
    """Count the notes in total and by topic."""
    return Counts(total=len(NOTES), by_topic={t: sum(note.topic == t for note in NOTES) for t in TOPICS})


if __name__ == "__main__":
    server.run("stdio")
