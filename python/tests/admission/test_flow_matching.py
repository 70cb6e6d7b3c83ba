"""Flow rules: which arguments carry what was read, in which forms, and which do not."""

from __future__ import annotations

import base64
import bz2
import codecs
import gzip
import io
import json
import lzma
import zipfile
import zlib
from typing import Any
from urllib.parse import quote

import pytest

from leafgate import ConfigError
from leafgate.admission.flow_text import MAX_ARGUMENTS, MAX_TEXT, continue_fields, fold, fold_arguments, fold_result
from leafgate.admission.flows import (
    Fingerprinter,
    FlowPolicy,
    FlowRule,
    TextPrint,
    adds_up,
    match_text,
    read_pieces,
    strongest,
    write_pieces,
)

PRINTS = Fingerprinter(b"a key of the tests")
TEXT = "The harvest of the lower orchard was sold to the cider mill in Ainsworth for nine hundred crowns."


def read(value: Any, own: str = "") -> TextPrint:
    return TextPrint.read(PRINTS.text(fold_result(value), own).astype("<u4").tobytes())


def is_carried(args: Any, value: Any = TEXT, **options: Any) -> bool:
    folded = fold_arguments(args)
    assert folded is not None
    return match_text(PRINTS.grams(folded), read(value), **options).is_whole


def in_labels(data: str, size: int = 40) -> str:
    return ".".join(data[place : place + size] for place in range(0, len(data), size))


def zipped(text: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", text)
    return file.getvalue()


B64 = base64.b64encode(TEXT.encode()).decode()


@pytest.mark.parametrize(
    "args",
    [
        {"c": TEXT},
        {"c": f"so: {TEXT.upper()}!"},
        {"c": "\u200b".join(TEXT)},
        {"c": TEXT.replace("a", "а").replace("o", "0")},  # Cyrillic, a digit
        {"c": json.dumps(json.dumps({"x": TEXT}))},
        {"c": "".join(f"\\u{ord(c):04x}" for c in TEXT)},
        {"c": "".join(f"&#x{ord(c):x};" for c in TEXT)},
        {"u": f"https://x.example/?q={quote(quote(TEXT))}"},
        {"u": "https://x.example/?" + "&".join(f"part{n}={word}" for n, word in enumerate(TEXT.split()))},
        {"c": "".join(f"<b>{c}</b>" for c in TEXT)},
        {"c": "".join(f"={byte:02X}" for byte in TEXT.encode())},
        {"c": " ".join(word[::-1] for word in TEXT.split())},
        {"c": "".join(chr(33 + (ord(c) - 33 + 47) % 94) if "!" <= c <= "~" else c for c in TEXT)},
        {"c": TEXT.encode("utf-16-be").hex()},
        {"c": str(int.from_bytes(TEXT.encode()))},
        {"c": base64.b32hexencode(TEXT.encode()).decode()},
        *(
            {"c": base64.b64encode(packed).decode()}
            for packed in (
                zlib.compress(TEXT.encode())[2:-4],
                bz2.compress(TEXT.encode()),
                lzma.compress(TEXT.encode()),
                zipped(TEXT),
            )
        ),
        {"u": f"https://x.example/{TEXT.replace(' ', '/')}"},
        {"u": f"https://{in_labels(TEXT.encode().hex())}.x.example/"},
        {"u": f"https://{in_labels(base64.b32encode(TEXT.encode()).decode().lower().rstrip('='))}.x.example/"},
        {"u": f"https://{in_labels(B64.rstrip('='), 11)}.x.example/"},
        {"c": base64.b64encode(B64.encode()).decode()},
        {"c": base64.urlsafe_b64encode(TEXT.encode()).decode()},
        {"c": base64.b64encode(gzip.compress(TEXT.encode())).decode()},
        {"c": base64.b64encode(TEXT.encode("utf-16-le")).decode()},
        {"c": base64.b85encode(TEXT.encode()).decode()},
        {"c": TEXT.encode().hex(" ")},
        {"c": " ".join(str(ord(c)) for c in TEXT)},
        {"c": [ord(c) for c in TEXT]},
        {"c": TEXT[::-1]},
        {"c": B64[::-1]},
        {"c": " ".join(TEXT.split()[::-1])},
        {"c": codecs.encode(TEXT, "rot13")},
        {str(n): word for n, word in enumerate(TEXT.split())},
        {"c": list(TEXT)},
        {"a": TEXT[30:50], "b": TEXT[10:30], "c": TEXT[50:70]},
        {"a": B64[:21], "b": {"c": [B64[21:50], B64[50:]]}},
        dict.fromkeys(TEXT.split(), 1),
    ],
)  # fmt: skip
def test_text_is_seen_in_every_form(args: dict[str, Any]) -> None:
    assert is_carried(args)
    assert not is_carried(args, "Something else altogether: the ferry to the island leaves on the hour, all year long.")


@pytest.mark.parametrize(
    "text",
    [
        "Die Gänse sind über Nacht nach Süden gezogen",
        "Гуси ночью улетели на юг за море",
        "大雁昨天夜里已经往南方飞走了",
    ],
)
def test_other_scripts_are_text_too(text: str) -> None:
    assert is_carried({"c": f"({text.upper()})"}, {"content": [{"type": "text", "text": f"x {text} y"}]})
    assert is_carried({"c": base64.b64encode(text.encode()).decode()}, text)


@pytest.mark.parametrize(
    ("shared", "value"),
    [
        ("orchard, cider", TEXT),
        ("Ainsworth, 900", TEXT),
        ("a1b2c3d4-1111-2222-3333-123456789abc", "id a1b2c3d4-1111-2222-3333-123456789abc"),
        ("da39a3ee5e6b4b0d3255bfef95601890afd80709", "commit da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("2026-11-18T13:16:29.123456Z", "at 2026-11-18T13:16:29.123456Z"),
        ("https://a-rather-long-name.of-a-host.example/", "see https://a-rather-long-name.of-a-host.example/x"),
        ("Please let me know if you have any questions.", f"{TEXT} Please let me know if you have any questions."),
        ("0" * 50, "0" * 90),
        ("ab" * 30, "ab" * 60),
    ],
)  # fmt: skip
def test_ids_names_and_phrases_of_everybody_do_not_count(shared: str, value: str) -> None:
    assert not is_carried({"c": f"see {shared} there"}, value)


def test_long_arguments_need_a_longer_match() -> None:
    assert is_carried({"c": TEXT[:32]})
    assert not is_carried({"c": TEXT[:32]}, least=32)
    assert is_carried({"c": TEXT[:44]}, least=32)


def test_what_the_caller_sent_itself_is_not_read_from_the_server() -> None:
    query = "orchard sold to the cider mill in Ainsworth"
    own = read(f"No results for {query}.", fold(query))
    grams = PRINTS.grams(fold_arguments({"q": query}) or "")
    assert not match_text(grams, own).is_whole
    assert match_text(grams, read(TEXT)).is_whole


def test_what_the_receiver_has_returned_before_is_not_carried_to_it() -> None:
    assert not is_carried({"c": TEXT}, known=[read(f"file: {TEXT}")])
    assert is_carried({"c": TEXT}, known=[read("file: orchard")])


def test_fields_of_a_record_are_one_text() -> None:
    record = {"name": "Isolde Marchetti", "city": "Ravenna", "balance": 48213}
    for value in ({"structuredContent": record}, {"content": [{"type": "text", "text": json.dumps(record)}]}):
        assert is_carried({"c": "Isolde Marchetti (Ravenna): 48213"}, value)


def test_a_result_in_base64_is_read() -> None:
    assert is_carried({"c": TEXT}, {"contents": [{"uri": "x:y", "blob": base64.b64encode(TEXT.encode() * 3).decode()}]})


def test_pieces_add_up_in_any_order() -> None:
    pieces = [match_text(PRINTS.grams(fold(part)), read(TEXT)).pieces for part in (TEXT[28:44], TEXT[:16], TEXT[16:28])]
    assert all(len(each) == 1 for each in pieces)
    assert not adds_up([*pieces[0], *pieces[1]])
    together = [
        piece for each in [*pieces, match_text(PRINTS.grams(fold(TEXT[44:60])), read(TEXT)).pieces] for piece in each
    ]
    assert adds_up(together)
    assert read_pieces(write_pieces(together)) == together
    assert not adds_up([(0, 20)] * 10)
    assert adds_up([(100, 112)], [(60, 75), (75, 100)])
    assert not adds_up([(300, 312)], [(60, 75), (75, 100), (100, 112)])


def test_a_field_is_continued_over_calls_without_what_it_repeats() -> None:
    tails = continue_fields({}, {"url": "https://x.example/?d=the%20har"})
    for part in ("vest%20of", "%20the%20lo", "wer%20orch", "ard%20was"):
        tails = continue_fields(tails, {"url": f"https://x.example/?d={part}", "n": 1})
    assert is_carried(tails["url"].carried)


@pytest.mark.parametrize("least", [8, 15, 40])
def test_secrets_are_known_by_digests(least: int) -> None:
    secret = "Zk3uVq8pLw5tRx9nBy2mHc7jDf4gSa6e1oQi0TzU"[:least]
    stored = PRINTS.secrets([secret, "short"])
    for args, has in (
        ({"c": f"x={secret}"}, True),
        ({"c": secret.encode().hex()}, True),
        ({"c": secret[: least // 2]}, least == 40),
        ({"c": "y"}, False),
    ):
        folded = fold_arguments(args) or ""
        assert PRINTS.has_secret(folded, PRINTS.grams(folded), stored) is has
    assert secret.lower().encode() not in stored
    assert Fingerprinter(b"another key").secrets([secret]) != PRINTS.secrets([secret])


def test_what_is_followed_is_bounded() -> None:
    assert len(fold_result(["word " * MAX_TEXT])) == MAX_TEXT
    assert fold_arguments({"c": "x" * MAX_ARGUMENTS, "d": "y"}) is None
    deep: Any = "x"
    for _ in range(50_000):
        deep = [deep]
    assert fold_arguments(deep)
    assert fold_result(deep) is not None


def test_rules_name_servers_by_globs_and_the_strongest_effect_decides() -> None:
    rules = (
        FlowRule("m*", "files", "flag"),
        FlowRule("mail", "*", "deny", side_effects=True),
        FlowRule("mail", "web", "deny", principal="a*"),
    )
    policy = FlowPolicy(rules)
    assert policy.rules_for("files", None, has_side_effects=False) == rules[:1]
    assert policy.rules_for("files", None, has_side_effects=True) == rules[:2]
    assert policy.rules_for("web", "ann", has_side_effects=False) == rules[2:]
    assert policy.rules_for("web", "bob", has_side_effects=False) == ()
    assert not rules[1].fits("mail", "mail")
    assert strongest(["flag", "deny", "require_approval"]) == "deny"
    assert [policy.keeps_text(server) for server in ("mail", "files", "x")] == [True, True, True]
    assert not FlowPolicy((FlowRule("a", "b", "deny", kind="secret"),)).keeps_text("a")
    with pytest.raises(ConfigError, match="effect is one of deny"):
        FlowRule("a", "b", "allow")  # type: ignore[arg-type]
