"""Reads a query. In: what a user or model typed. Out: Query, its words and the names it may quote. May touch: nothing.

Owns the rule of what may be corrected: never a path, a URL, an id or anything in quotes; those are arguments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from leafgate.browse.words import identifier_run, prose_run

MAX_CHARACTERS: Final = 4_000  # of a longer query only the beginning is read
MAX_WORDS: Final = 64
FIXED_WEIGHT: Final = 0.5

_CHUNK: Final = re.compile(
    r"""
      `(?P<code>[^`\n]{1,200})`
    | "(?P<double>[^"\n]{1,200})"
    | (?<!\w)'(?P<single>[^'\n]{1,200})'(?!\w)
    | (?P<bare>[^\s"`]+)
    | (?P<odd>["`])
    """,
    re.VERBOSE,
)
_URL: Final = re.compile(r"\w{2,8}://\S|www\.\w")
_FILE: Final = re.compile(r"^(?:\S*/)?[\w.\-]*\w\.(?P<extension>[A-Za-z][A-Za-z0-9]{1,4})$")
_DOMAINS: Final = frozenset(("com", "org", "net", "io", "dev"))
_RUN: Final = re.compile(r"[^\W_]+")
_EDGES: Final = " \t\r\n.,;:!?()[]{}<>\"'`"

# Function words and courtesies. They say nothing about a tool, yet are rare enough in descriptions to look telling.
_STOP: Final = """
a an the this that these those there here it its he she they them his her their theirs our ours we us i me my mine
you your yours u ur who whom whose what which when where why how is are was were be been being am do does did doing
done has have had having will would shall should can could may might must of in on at by for from to into onto with
within without about as than then so such and or but nor not no if else while because until also too very just only
some any each every all both either neither much many more most other another same own again once ever never
please pls plz kindly thanks thank thx hi hey hello ok okay umm um uh well like want wants wanted need needs wish
let lets let's i'd i'm i've i'll it's what's whats that's dont don't doesnt isn't gonna wanna gimme lemme could've
s t d m re ve ll don doesn didn isn aren wasn couldn wouldn shouldn haven hasn via per etc teh
"""
STOP_WORDS: Final = frozenset(_STOP.split())


# What people in software write short. General knowledge of the trade, not of any one server.
SHORT_FORMS: Final = {
    "pr": "pull request", "prs": "pull requests", "mr": "merge request", "mrs": "merge requests",
    "repo": "repository", "repos": "repositories", "db": "database", "dbs": "databases", "k8s": "kubernetes",
    "dir": "directory", "dirs": "directories", "config": "configuration", "env": "environment",
    "auth": "authentication",
    "docs": "documentation", "doc": "document", "msg": "message", "msgs": "messages", "dm": "direct message",
    "img": "image", "pic": "picture", "pics": "pictures", "js": "javascript", "ts": "typescript", "py": "python",
    "info": "information", "perms": "permissions", "params": "parameters", "vars": "variables", "tz": "timezone",
    "ci": "build pipeline", "vm": "virtual machine", "vms": "virtual machines", "cal": "calendar", "app": "application",
    "docx": "word document", "xlsx": "excel spreadsheet", "pptx": "powerpoint presentation", "png": "image",
    "jpg": "image", "jpeg": "image", "gif": "image", "mp3": "audio", "mp4": "video", "yml": "yaml", "md": "markdown",
}  # fmt: skip


@dataclass(frozen=True)
class QueryWord:
    """`fixed` words stand in a path, URL, id or quotation: an argument rather than a wish, and never corrected.

    Of a tool, which takes arguments, they say little, and numbers nothing. Texts that hold arguments are asked for by
    them: `sought` words count fully there.
    """

    text: str
    fixed: bool = False
    sought: bool = False

    @property
    def tells(self) -> bool:
        """Whether the word says anything about what is looked for."""
        return not (self.text in STOP_WORDS or (self.text.isdigit() and not self.sought))

    @property
    def weight(self) -> float:
        return FIXED_WEIGHT if self.fixed and not self.sought else 1.0


@dataclass(frozen=True)
class Query:
    text: str
    words: tuple[QueryWord, ...]
    mentions: tuple[str, ...]  # tokens as they stand, for exact names and ids
    quoted: tuple[str, ...]


def parse_query(text: str) -> Query:
    text = text[:MAX_CHARACTERS]
    words: list[QueryWord] = []
    mentions: list[str] = []
    quoted: list[str] = []
    for chunk in _CHUNK.finditer(text):
        kind, value = str(chunk.lastgroup), chunk.group(chunk.lastgroup or 0)
        if kind in ("code", "double", "single"):
            quoted.append(value.strip())
            words += [QueryWord(word, fixed=True) for word in _words(value)]
        elif kind == "bare" and (bare := value.strip(_EDGES)):
            mentions.append(bare)
            words += _bare_words(bare)
    return Query(text, tuple(dict.fromkeys(words))[:MAX_WORDS], tuple(mentions[:MAX_WORDS]), tuple(quoted))


def parse_search(text: str) -> Query:
    """A query for texts rather than tools: paths, URLs and numbers are words like any other, as they stand."""
    text = text[:MAX_CHARACTERS]
    words = [
        QueryWord(word, fixed=any(map(str.isdigit, word)) or "_" in chunk, sought=True)
        for chunk in text.split()
        for word in _words(chunk)
    ]
    return Query(text, tuple(dict.fromkeys(words))[:MAX_WORDS], (), ())


def _bare_words(bare: str) -> list[QueryWord]:
    """A URL counts as the word url, a file as the word file and its extension; their spelling is theirs."""
    file = _FILE.match(bare)
    extension = file["extension"].lower() if file else ""
    if _URL.search(bare) or extension in _DOMAINS:
        return [QueryWord("url", fixed=True)]
    if file or bare.startswith(("/", "./", "../", "~/")) or bare.count("/") > 1:
        parts = _words(bare[: file.start("extension")] if file else bare)
        return [QueryWord(word, fixed=True) for word in ("file", *parts, extension) if word]
    fixed = any(c.isdigit() for c in bare) or "_" in bare or "::" in bare or bare.startswith(("#", "@", "-"))
    return [QueryWord(word, fixed) for word in _words(bare)]


def _words(text: str) -> list[str]:
    split = identifier_run if "_" in text else prose_run
    return [word for run in _RUN.findall(text) for word in split(run)]
