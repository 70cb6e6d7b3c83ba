"""The parts of the benchmark that talk to processes, with a real gateway and real Node servers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from leaf.gateways import (
    BUDGET,
    CANONICAL,
    DECODE,
    FAST_CANONICAL,
    FAST_PACKED_SHIM,
    FAST_SAMPLED,
    FAST_SHIM,
    NO_IDS,
    SHIM,
    TRUST,
    WAYS,
    Connection,
    Gateway,
    Way,
    ask_for_ids,
    cpu_seconds,
    servers_of,
    settings,
    start_gateway,
    ways_with,
)
from leaf.measure import FORMATS, FORMS, Bench, calls_of, problem_of, weigh_answers
from leaf.run import find_program, installed_tokenizers

from leafgate.config.document import document_of
from leafgate.config.load import config_of
from leafgate.maps.files import MapFiles
from leafgate.model.errors import LeafgateError
from leafgate.tokens.encoder import Encoder

TEXTS = {
    "prose-60": "It is currently 14:30 UTC, and the garden is quiet. " + "." * 8,
    "cjk-60": "今天的会议改到下午三点。",
}
SIZES = {60: TEXTS}


@pytest.fixture(scope="module")
def qwen() -> Encoder:
    return MapFiles().load("qwen/qwen2")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    file = tmp_path_factory.mktemp("bench") / "texts.json"
    file.write_text(json.dumps(TEXTS), encoding="utf-8")
    with start_gateway("tiktoken", find_program(), file) as found:
        yield found


def test_every_server_has_its_process(gateway: Gateway) -> None:
    assert {*gateway.servers} == {"canonical", "decode", "trust", "packed", "sampled", "plain"}
    assert len({gateway.pid, *gateway.servers.values()}) == 7


def test_a_process_uses_more_cpu_when_it_is_asked(gateway: Gateway) -> None:
    used = cpu_seconds(gateway.pid)
    with Connection(gateway.url) as connection:
        connection.call("plain", "prose-60", {})
    assert used < cpu_seconds(gateway.pid) < used + 60


def test_a_process_that_is_not_there_has_no_clock() -> None:
    with pytest.raises(LeafgateError, match="is gone"):
        cpu_seconds(2**22 + 1)


def test_equal_questions_have_equal_answers_and_ids_only_where_asked_for(gateway: Gateway, qwen: Encoder) -> None:
    with Connection(gateway.url) as connection:
        plain = [connection.call("decode", "cjk-60", {}).body for _ in range(2)]
        both = connection.call("decode", "cjk-60", ask_for_ids(qwen.map.digest, "both")).body
    assert plain[0] == plain[1]
    assert b"ai.codec" not in plain[0]
    assert json.loads(both)["result"]["content"][0]["_meta"]["ai.codec/leaf-tokenization"]["ids"]


def test_a_gateway_that_refuses_or_is_gone_is_an_error_of_ours(gateway: Gateway) -> None:
    with Connection(gateway.url) as connection, pytest.raises(LeafgateError, match="HTTP 4"):
        connection.call("nobody", "x", {}, accept="text/html")
    with Connection("http://127.0.0.1:9") as nobody, pytest.raises(LeafgateError, match="did not answer"):
        nobody.status()


def test_each_way_is_checked_and_sampled(gateway: Gateway, qwen: Encoder) -> None:
    ways = ways_with(frozenset({"tiktoken"}))
    bench = Bench({"tiktoken": gateway}, ways, SIZES, qwen)
    said: list[str] = []
    bench.warm_up("prose-60", said.append)
    samples = bench.round(0)
    assert [sample.way for sample in samples] == [way.key for way in ways]
    assert [sample.way for sample in bench.round(1)] == [way.key for way in reversed(ways)]
    assert len(said) == len(ways)
    for sample in samples:
        assert sample.gateway_cpu > 0
        assert sample.server_cpu > 0
        assert sample.latency > 0
        assert (sample.codec > 0) == (sample.way not in ("no-ids", "leaf-unasked", "leaf-none-wanted"))


def test_a_way_whose_ids_come_otherwise_is_not_measured(gateway: Gateway, qwen: Encoder) -> None:
    wrong = Way("wrong", "a shim that is a leaf", "tiktoken", "decode", "shim")
    with pytest.raises(LeafgateError, match="came by leaf"):
        Bench({"tiktoken": gateway}, [wrong], SIZES, qwen).warm_up("prose-60", str)


def test_a_text_that_the_gateway_changes_is_not_measured(gateway: Gateway, qwen: Encoder) -> None:
    other = {60: {"prose-60": "another text than the server's"}}
    with pytest.raises(LeafgateError, match="changed or shortened"):
        Bench({"tiktoken": gateway}, [NO_IDS], other, qwen).warm_up("prose-60", str)


def test_answers_are_weighed_in_every_form_and_format(gateway: Gateway, qwen: Encoder) -> None:
    weights = weigh_answers(gateway, SIZES, qwen.map.digest)
    assert len(weights) == len(TEXTS) * len(FORMS) * len(FORMATS)
    found = {(weight.kind, weight.form, weight.format): weight.bytes for weight in weights}
    for kind in ("prose", "cjk"):
        assert found[kind, "both", "json"] > found[kind, "ids", "json"]
        assert found[kind, "both", "json"] > found[kind, "text", "json"] > found[kind, "text", "msgpack"]
        assert found[kind, "both", "json+gzip"] < found[kind, "both", "json"]


def answer(**changes: Any) -> dict[str, Any]:
    """A right answer of leaf-decode, but for the changes."""
    payload = changes.get("payload", {"map_id": "m", "ids": [1]})
    block = {"type": "text", "text": changes.get("text", "a")}
    block |= {} if payload is None else {"_meta": {"ai.codec/leaf-tokenization": payload}}
    codec = {"leafBypasses": changes.get("leaves", 1), "tokenizeCalls": 0}
    meta = {"leafgate/envelope": {"provenance": {"codec": codec}}}
    blocks = changes.get("blocks", [block])
    return {"result": {"content": blocks, "isError": changes.get("is_error", False), "_meta": meta}}


RIGHT = {"map_id": "m", "ids": [1]}


@pytest.mark.parametrize("way", [DECODE, CANONICAL, TRUST])
def test_a_right_answer_has_no_problem(way: Way) -> None:
    assert problem_of(answer(), way, "a", RIGHT) is None
    assert problem_of(answer(payload=None), NO_IDS, "a", RIGHT) is None
    assert problem_of(answer(leaves=0), SHIM, "a", RIGHT) is None


@pytest.mark.parametrize(
    ("wrong", "way", "words"),
    [
        ({"error": {"code": -32603, "message": "no"}}, DECODE, "not a result"),
        (answer(is_error=True), DECODE, "not a result"),
        (answer(blocks=[]), DECODE, "not a result"),
        (answer(text="b"), DECODE, "changed or shortened"),
        (answer(payload=None), DECODE, "not those"),
        (answer(payload={"map_id": "m", "ids": [2]}), DECODE, "not those"),
        (answer(payload={"map_id": "other", "ids": [1]}), DECODE, "not those"),
        (answer(leaves=0), DECODE, "came by shim"),
        (answer(), SHIM, "came by leaf"),
        (answer(), NO_IDS, "the client did not ask for"),
    ],
)
def test_a_wrong_answer_is_named(wrong: dict[str, Any], way: Way, words: str) -> None:
    assert words in str(problem_of(wrong, way, "a", RIGHT))


@pytest.mark.parametrize(("size", "calls"), [(1, 40), (1024, 40), (1025, 24), (32_768, 8), (102_400, 4), (1 << 20, 1)])
def test_larger_texts_are_asked_for_less_often(size: int, calls: int) -> None:
    assert calls_of(size) == calls


def test_the_settings_are_a_configuration_that_shortens_nothing(tmp_path: Path) -> None:
    for name in ("tiktoken", "accelerated"):
        text = json.dumps(settings(name, find_program(), tmp_path / "texts.json"))  # type: ignore[arg-type]
        config = config_of(document_of(tmp_path / "c.json", "json", text), {})
        assert config.budget == BUDGET > 4 * 1024 * 1024


def test_what_is_missing_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LeafgateError, match="not built; run `just setup`"):
        find_program(tmp_path)
    (tmp_path / "typescript" / "dist" / "src").mkdir(parents=True)
    (tmp_path / "typescript" / "dist" / "src" / "index.js").touch()
    with pytest.raises(LeafgateError, match="not installed; run `just setup`"):
        find_program(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LeafgateError, match=r"Node\.js 20"):
        find_program(tmp_path)


def test_the_reference_tokenizer_is_always_at_hand() -> None:
    assert "tiktoken" in installed_tokenizers()


def test_every_way_has_a_name_of_its_own() -> None:
    assert len({way.key for way in WAYS}) == len({way.title for way in WAYS}) == len(WAYS)


def test_without_the_faster_tokenizer_its_ways_are_left_out() -> None:
    assert {*WAYS} - {*ways_with(frozenset({"tiktoken"}))} == {
        FAST_SHIM,
        FAST_PACKED_SHIM,
        FAST_CANONICAL,
        FAST_SAMPLED,
    }
    assert ways_with(frozenset({"tiktoken", "accelerated"})) == WAYS


def test_each_gateway_has_the_servers_of_its_ways_once() -> None:
    assert sorted(servers_of("tiktoken")) == ["canonical", "decode", "packed", "plain", "sampled", "trust"]
    assert sorted(servers_of("accelerated")) == ["canonical", "plain", "sampled"]
