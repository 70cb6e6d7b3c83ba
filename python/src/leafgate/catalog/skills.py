"""Skills of servers (SEP-2640): which entries are used, their files as resources, and the directories of those files.

A skill is a directory of resources, addressed by the URI of its SKILL.md. A server's claims are checked here: an entry
whose directory is not named after the skill, or that lists files outside its directory, is not used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

SKILLS: Final = "io.modelcontextprotocol/skills"
# The setting of a server that lists directories itself, as `Upstream.servers_with` spells it.
DIRECTORY_READ: Final = f"{SKILLS}#directoryRead"
# Every host must load 512 files (SEP-2640); an entry with many more costs memory and helps no host.
MAX_FILES: Final = 4_096

_MAIN: Final = "/SKILL.md"
_NAME: Final = re.compile(r"[\w.-]{1,64}")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\x00-\x1f\x7f]{1,2000}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class SkillFile:
    """One file of a skill, with the sha256 and the length of its bytes."""

    uri: str
    digest: str
    size: int


@dataclass(frozen=True)
class Skill:
    """An entry of `skills/list`. `files` is None where the server makes the content anew for each request."""

    uri: str
    name: str
    description: str
    frontmatter: Mapping[str, Any]
    files: tuple[SkillFile, ...] | None

    @property
    def root(self) -> str:
        """The URI of the directory."""
        return self.uri.removesuffix(_MAIN)

    def as_json(self, frontmatter: Mapping[str, Any], write_uri: Callable[[str], str]) -> dict[str, Any]:
        """The entry with this frontmatter, and with its URIs as `write_uri` writes them."""
        files = self.files
        return {
            "uri": write_uri(self.uri),
            "frontmatter": {**frontmatter, "name": self.name},
            "resources": "dynamic"
            if files is None
            else [{"uri": write_uri(file.uri), "digest": file.digest, "size": file.size} for file in files],
        }

    def resources(self) -> Iterator[dict[str, Any]]:
        """Definitions of its files as resources: the SKILL.md first."""
        yield {"uri": self.uri, "name": self.name, "description": self.description, "mimeType": "text/markdown"}
        for file in self.files or ():
            if file.uri != self.uri:
                path = file.uri.removeprefix(f"{self.root}/")
                described = {"name": f"{self.name}/{path}", "description": f"{path}, a file of the skill {self.name}"}
                yield {"uri": file.uri, **described, "size": file.size}

    def children(self, directory: str) -> list[dict[str, Any]]:
        """The direct children of a directory in it, as `resources/directory/read` lists them."""
        children: dict[str, dict[str, Any]] = {}
        for file in self.files or ():
            name, deeper, _ = file.uri.removeprefix(f"{directory}/").partition("/")
            if file.uri.startswith(f"{directory}/"):
                kind = {"mimeType": "inode/directory"} if deeper else {"size": file.size}
                children.setdefault(name, {"uri": f"{directory}/{name}", "name": name, **kind})
        return list(children.values())


def read_skill(entry: object) -> Skill | None:
    """A skill as a server describes it; None if the entry breaks the rules of SEP-2640."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("frontmatter"), Mapping):
        return None
    uri, frontmatter, resources = entry.get("uri"), entry["frontmatter"], entry.get("resources")
    name, description = frontmatter.get("name"), frontmatter.get("description")
    if not isinstance(name, str) or not isinstance(description, str) or not _NAME.fullmatch(name):
        return None
    if not isinstance(uri, str) or not _URI.fullmatch(uri) or not uri.endswith(f"/{name}{_MAIN}"):
        return None
    files = None if resources == "dynamic" else _read_files(resources, uri.removesuffix("SKILL.md"))
    if files is None and resources != "dynamic":
        return None
    if files is not None and uri not in (file.uri for file in files):
        return None
    return Skill(uri, name, description, frontmatter, files)


def _read_files(resources: object, directory: str) -> tuple[SkillFile, ...] | None:
    if not isinstance(resources, list) or len(resources) > MAX_FILES:
        return None
    files: list[SkillFile] = []
    for each in resources:
        fields = each if isinstance(each, Mapping) else {}
        uri, digest, size = fields.get("uri"), fields.get("digest"), fields.get("size")
        if not isinstance(uri, str) or not _URI.fullmatch(uri) or not _is_below(uri, directory):
            return None
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest) or type(size) is not int or size < 0:
            return None
        files.append(SkillFile(uri, digest, size))
    return tuple(files)


def _is_below(uri: str, directory: str) -> bool:
    return uri.startswith(directory) and ".." not in uri.removeprefix(directory).split("/")


def parents(uri: str) -> Iterator[str]:
    """The URI itself, and the directories above it, the nearest first."""
    scheme, separator, path = uri.partition("://")
    parts = path.split("/")
    for count in range(len(parts), 0, -1):
        yield f"{scheme}{separator}{'/'.join(parts[:count])}"
