"""Generated names: both languages make the same ids of them, or refuse the same. Seeded, so they are the same names
every time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
from implementations import IMPLEMENTATIONS, as_line, at_once
from nasty_texts import nasty_texts

SEED = 20261117
COUNT = 2000

WORDS = ("get", "create", "issue", "File", "HTTP", "user", "x", "v2", "2024", "list", "sign", "quiz", "fjord", "naïve")
SEPARATORS = ("_", "_", ".", "/", "-", " ", "__", "::", "@", "#", "~", "\n", "\u2028", "\r")
STRANGE = (
    "é", "ß", "İ", "\u212a", "\u017f", "天気", "ｂ", "\uff5e", "😀", "👩‍👩‍👧‍👦", "\U0001d49c", "\U0010ffff",
    "\x00", "\x7f", "\x80", "\xa0", "\ufeff", "\u0301", '"', "\\", "\t", "٣",
)  # fmt: skip
SURROGATES = ("\ud800", "\udbff", "\udc00", "\udfff", "\ud83d", "\ude00\ud83d")
SERVERS = (
    None, "", "github", "GitHub Enterprise", "--My__Server!!--", "365", "天気", "😀", "\u212aelvin", "İ", "a" * 64,
    "a" * 65, "zqxj" * 9, "office-word", "constructor", "__proto__", "a.b/c", "x-", "-", "_", "a\n", "E" * 300 + "_-",
)  # fmt: skip
VERSIONS = (None, None, "1", "1.4.0", "2024-05", "", "1.0+x", "a1b2c3d4e5f6", "v" * 32, "é", "1\n", "zqxjzqxjzq", 7,
            True, ["1"], {"v": 1})  # fmt: skip


def words(r: random.Random) -> str:
    chosen = [r.choice((word, word, word.upper(), word.title())) for word in r.choices(WORDS, k=r.randint(1, 6))]
    return "".join(word + r.choice(SEPARATORS) for word in chosen[:-1]) + chosen[-1]


def three_segments(r: random.Random) -> str:
    separator = r.choice("_./")
    return separator.join(r.choice((*WORDS, "", r.choice(STRANGE))) for _ in range(3))


def strange(r: random.Random) -> str:
    return "".join(
        r.choice((r.choice(STRANGE), r.choice(WORDS), r.choice(SEPARATORS))) for _ in range(r.randint(1, 12))
    )


def long(r: random.Random) -> str:
    unit = r.choice(
        (r.choice("aeEzXq17_-./ "), r.choice(WORDS) + "_", r.choice(WORDS), r.choice(STRANGE), "e1", "ab7Z")
    )
    return r.choice(("", "x", "7", "get.", "a_b_")) + unit * (r.choice((200, 1023, 1024, 1025)) // len(unit) + 1) + "Qe"


def any_points(r: random.Random) -> str:
    points = [r.choice((r.randint(0, 0x7F), r.randint(0x80, 0xD7FF), r.randint(0xE000, 0x10FFFF))) for _ in range(12)]
    return "".join(map(chr, points[: r.randint(1, 12)]))


def lone(r: random.Random) -> str:
    return r.choice((words, strange))(r) + r.choice(SURROGATES) + r.choice(("", "x", ".y", "_a_b"))


MAKERS: tuple[Callable[[random.Random], str], ...] = (words, words, three_segments, strange, long, any_points, lone)


def generated_names() -> list[str]:
    r = random.Random(SEED)
    # Only the first 1024 characters are read: characters, not units.
    edges = [unit * times + "abc" for unit in ("é", "😀") for times in (511, 512, 1021, 1022, 1023, 1024)]
    written = [*edges, *nasty_texts(SEED, 200), ""]
    return [*written, *(r.choice(MAKERS)(r) for _ in range(COUNT - len(written)))]


NAMES = generated_names()


def is_lone(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


WELL_FORMED = [name for name in NAMES if not is_lone(name)]


def schema(r: random.Random) -> Any:
    pool = [r.choice((*WORDS, *STRANGE, *SURROGATES, r.choice(NAMES)[:20], "__proto__", "10", "9")) for _ in range(6)]
    properties: Any = {name: {} for name in pool[: r.randint(0, 6)]}
    required: Any = [*r.choices(pool, k=r.randint(0, 3)), *r.choice(([], [1, None, {}, True]))]
    whole = {"type": "object", "properties": properties, "required": required}
    return r.choice((whole, whole, whole, {"properties": pool}, {"required": "a"}, {}, None, 5, "x", [whole]))


def same(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Python's answers, after comparing Node's with them."""
    asked = [as_line(line) for line in lines]
    python, node = at_once(*(partial(each.answer, "tool-id", asked) for each in IMPLEMENTATIONS))
    different = [
        (line[:400], ours, theirs)
        for line, ours, theirs in zip(asked, python, node, strict=True)
        if {**ours, "message": ""} != {**theirs, "message": ""}
    ]
    assert different[:3] == [], f"{len(different)} of {len(asked)} answers differ"
    assert all(answer.get("error") != "bad-line" for answer in python)
    answers: list[dict[str, Any]] = python
    return answers


def test_the_names_are_what_they_should_be() -> None:
    kinds = Counter(
        {
            "upper case": sum(any("A" <= char <= "Z" for char in name) for name in NAMES),
            "spaces": sum(" " in name for name in NAMES),
            "non-ASCII": sum(not name.isascii() for name in NAMES),
            "astral": sum(any(char > "\uffff" for char in name) for name in NAMES),
            "three segments": sum(max(map(name.count, "_./")) >= 2 for name in NAMES),
            "long": sum(len(name) >= 200 for name in NAMES),
            "lone surrogates": sum(map(is_lone, NAMES)),
        }
    )
    assert len(NAMES) == COUNT
    assert min(kinds.values()) >= 200, kinds


def test_tools() -> None:
    """Every name without a server and with two; the ids parse in both languages, and alike."""
    r = random.Random(SEED)
    lines = [
        {"ask": "tool-id", "name": name, "input_schema": schema(r), "server": server, "version": r.choice(VERSIONS)}
        for name in NAMES
        for server in (None, *r.sample(SERVERS[1:], 2))
    ]
    answers = same(lines)
    for line, answer in zip(lines, answers, strict=True):
        refused = line["name"] == "" or is_lone(line["name"])
        assert answer.get("error") == ("no-usable-name" if refused else None), line
    ids = [answer["id"] for answer in answers if "id" in answer]
    parsed = same({"ask": "parse-tool-id", "id": made} for made in ids)
    assert [joined(fields) for fields in parsed] == ids


def joined(fields: dict[str, Any]) -> str:
    version, hash8 = fields["version"], fields["hash8"]
    return (
        f"{fields['namespace']}:{fields['name']}" + (f"@{version}" if version else "") + (f"#{hash8}" if hash8 else "")
    )


def test_resources_and_prompts() -> None:
    r = random.Random(SEED)
    lines: list[dict[str, Any]] = []
    for name in NAMES:
        server = r.choice(SERVERS)
        uri = r.choice((name, f"file:///docs/{name}", f"GIT+ssh://{name}/", "a/b\nc/d", f"urn:{name}"))
        names = [*r.choices((*STRANGE, *SURROGATES, *WORDS), k=r.randint(0, 5)), *r.choice(([], [None, 7]))]
        lines.append({"ask": "resource-id", "uri": uri, "name": r.choice((name, "")), "server": server})
        lines.append({"ask": "prompt-id", "name": name, "arguments": names, "server": server})
    ids = [answer["id"] for answer in same(lines) if "id" in answer]
    assert len(ids) > COUNT
    kinds = Counter(answer["kind"] for answer in same({"ask": "parse-primitive-id", "id": made} for made in ids))
    assert set(kinds) == {"resource", "prompt"}


def test_namespaces_and_hashes() -> None:
    r = random.Random(SEED)
    infer = [{"ask": "infer-namespace", "name": name} for name in WELL_FORMED]
    normalize = [{"ask": "normalize-namespace", "server": server} for server in [*WELL_FORMED, *SERVERS[1:]]]
    assert all("namespace" in answer for answer in same(infer + normalize))
    hashes = same({"ask": "hash8", "name": name, "input_schema": schema(r)} for name in WELL_FORMED)
    assert all(answer["shape"].isascii() for answer in hashes)


def test_texts_that_are_hardly_ids() -> None:
    """The names themselves, and right ids with one small harm."""
    r = random.Random(SEED)
    right = (
        "a:b",
        "github:create_issue@1.4.0#12345678",
        "resource::fs:readme#ab12cd34",
        "prompt::gh:x#deadbeef",
        "a:b~2",
    )
    harms = (*":@#~ \n\r\u2028\x00Aé.-_0", "", "::", "😀", "\ud800", "a" * 70, "resource::", "tool::")
    texts = list(NAMES)
    for _ in range(COUNT):
        text = r.choice(right)
        at = r.randint(0, len(text))
        texts.append(text[:at] + r.choice(harms) + text[at + r.randint(0, 1) :])
    answers = same({"ask": ask, "id": text} for text in texts for ask in ("parse-tool-id", "parse-primitive-id"))
    refused = sum(answer.get("error") == "not-a-tool-id" for answer in answers)
    assert len(texts) < refused < len(answers)


def test_collisions() -> None:
    r = random.Random(SEED)
    pool = ("a:x", "a:x~2", "a:x~3", "a:x~2~2", "a:y", "constructor", "__proto__", "")
    found = same({"ask": "resolve-collisions", "ids": r.choices(pool, k=r.randint(0, 12))} for _ in range(500))
    assert all(len(set(answer["keys"])) == len(answer["keys"]) for answer in found)


def test_servers_with_lone_surrogates() -> None:
    same({"ask": "normalize-namespace", "server": server} for server in NAMES if is_lone(server))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS, ids=lambda i: i.name)
def test_lines_that_ask_nothing(implementation: Any) -> None:
    lines: list[dict[str, Any]] = [
        {},
        {"ask": 1},
        {"ask": "toString"},
        {"ask": "tool-id"},
        {"ask": "tool-id", "name": 5},
        {"ask": "tool-id", "name": "x", "server": 5},
        {"ask": "tool-id", "name": "x", "server": False},
        {"ask": "parse-tool-id", "id": ["a:b"]},
        {"ask": "parse-primitive-id"},
        {"ask": "resource-id", "uri": "a:b"},
        {"ask": "prompt-id", "name": "x", "arguments": {}},
        {"ask": "resolve-collisions", "ids": ["a:b", 1]},
        {"ask": "resolve-collisions", "ids": "ab"},
        {"ask": "normalize-namespace", "server": None},
        {"ask": "infer-namespace", "name": None},
        {"ask": "hash8"},
    ]
    answers = implementation.answer("tool-id", [as_line(line) for line in lines])
    assert [answer.get("error") for answer in answers] == ["bad-line"] * len(lines)
