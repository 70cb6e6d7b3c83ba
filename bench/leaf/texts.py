"""The texts that are measured, as tools return them: prose, code, JSON, CJK.

Prose and code come from Python's own manual and library, which exist wherever this runs; random numbers have a fixed
seed. One version of Python makes the same texts every time. Little is repeated: repetition favours compression.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Final

KINDS: Final = ("prose", "code", "json", "cjk")
# A text this large holds all kinds: four texts of a megabyte would take four times as long for the same figures.
MIXED_FROM: Final = 512 * 1024

_MODULES: Final = ("argparse", "inspect", "typing", "tarfile", "subprocess", "ast", "doctest", "difflib", "mailbox")
_BLOCK: Final = 40  # lines of code that stay together

# Words that make sentences: who, when, does what, to what.
_CJK: Final = (
    ("我们", "客户", "服务器", "会议", "数据库", "研究人员", "这家公司", "彼らは", "利用者は", "システムは", "우리는"),
    (
        "今天",
        "昨天下午",
        "上个月",
        "凌晨两点",
        "明日の朝",
        "先週",
        "来年の春に",
        "오늘 오후",
        "지난주에",
        "明年",
        "刚才",
    ),
    (
        "检查了",
        "更新了",
        "删除了",
        "重新启动",
        "发送了",
        "記録した",
        "確認しました",
        "変更する",
        "보냈습니다",
        "찾았다",
        "讨论",
    ),
    (
        "报告",
        "日志文件",
        "销售数据",
        "索引",
        "合同",
        "天気予報",
        "注文番号",
        "検索結果",
        "자료",
        "배송",
        "花园",
        "预算",
    ),
    (
        "没有发现错误",
        "需要人工处理",
        "已经完成",
        "問題はありません",
        "更新が必要です",
        "문제가 없습니다",
        "比预期更快",
        "待确认",
    ),
)


@dataclass(frozen=True)
class Sources:
    """Paragraphs and blocks of code."""

    prose: Sequence[str]
    code: Sequence[str]


def read_sources() -> Sources:
    """Read the files of the standard library."""
    library = Path(os.__file__).parent
    lines = [line for name in _MODULES for line in (library / f"{name}.py").read_text(encoding="utf-8").split("\n")]
    blocks = ["\n".join(lines[at : at + _BLOCK]) + "\n" for at in range(0, len(lines), _BLOCK)]
    paragraphs = dict.fromkeys(f"{part}\n\n" for topic in topics.values() for part in topic.split("\n\n"))
    return Sources([*paragraphs], blocks)


def make_texts(sizes: Sequence[int], sources: Sources) -> dict[int, dict[str, str]]:
    """Return the texts by name for each size, one of each kind."""
    return {size: {f"{kind}-{size}": make_text(kind, size, sources) for kind in _kinds(size)} for size in sizes}


def make_text(kind: str, size: int, sources: Sources) -> str:
    """Return a text of exactly `size` bytes of UTF-8."""
    if kind == "mixed":
        return _cut((make_text(each, size // len(KINDS), sources) for each in KINDS), size)
    return _cut(_PARTS[kind](random.Random(f"{kind} {size}"), sources), size)


def _kinds(size: int) -> Sequence[str]:
    return ("mixed",) if size >= MIXED_FROM else KINDS


def _cut(parts: Iterator[str], size: int) -> str:
    """Join parts up to a size; full stops fill the place of a character that does not fit."""
    raw = bytearray()
    for part in parts:
        raw += part.encode()
        if len(raw) >= size:
            break
    text = bytes(raw[:size]).decode("utf-8", "ignore")
    return text + "." * (size - len(text.encode()))


def _shuffle(chance: random.Random, parts: Sequence[str]) -> Iterator[str]:
    """Yield all parts in random order before any is repeated."""
    while True:
        yield from chance.sample(parts, len(parts))


def _prose(chance: random.Random, sources: Sources) -> Iterator[str]:
    return _shuffle(chance, sources.prose)


def _code(chance: random.Random, sources: Sources) -> Iterator[str]:
    return _shuffle(chance, sources.code)


def _json(chance: random.Random, sources: Sources) -> Iterator[str]:
    words = sorted({word for part in sources.prose for word in part.split() if word.isalpha()})
    while True:
        number = chance.randrange(10**6)
        row = {
            "id": f"{chance.getrandbits(32):08x}",
            "at": f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}T{chance.randrange(24):02}:15:00Z",
            "ok": chance.random() < 0.9,
            "size": number,
            "load": round(chance.random(), 4),
            "path": f"/srv/{chance.choice(words)}/{chance.choice(words)}-{number}.parquet",
            "note": " ".join(chance.choices(words, k=8)),
        }
        yield json.dumps(row, ensure_ascii=False) + "\n"


def _cjk(chance: random.Random, sources: Sources) -> Iterator[str]:
    while True:
        who, when, does, what, so = (chance.choice(words) for words in _CJK)
        first, second = chance.sample((who, when), 2)
        yield f"{first}，{second}{does}{what}{chance.choice(('', f'（{chance.randrange(10_000)}）'))}，{so}。"


_PARTS: Final[Mapping[str, Callable[[random.Random, Sources], Iterator[str]]]] = {
    "prose": _prose,
    "code": _code,
    "json": _json,
    "cjk": _cjk,
}
