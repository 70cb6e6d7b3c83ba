"""Servers that write nonsense: around their answers, as their answers, and in their errors. Nothing of it does harm."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from faulty_gateway import Faulty, Gate, faulty, gateway, text_of, until

from leafgate.upstream.raw_session import MALFORMED

pytestmark = pytest.mark.anyio

HOST = "db-7.internal.example"
PATH = "/srv/billing/secrets.yaml"
PASSWORD = "hunter2-Zx81"
LEAK = f"postgres://admin:{PASSWORD}@{HOST}:5432 from {PATH}"

NOISE = [
    "words",
    "truncated",
    "huge",
    "bytes",
    "nul",
    "values",
    "unknown-ids",
    "text-ids",
    "unknown-methods",
    "both",
]

# What is left of a result of the wrong shape. None: it is refused, as the upstream's error.
SHAPES: dict[str, str | None] = {
    "content-is-text": "",
    "content-is-object": "",
    "content-is-null": "",
    "no-content": "",
    "blocks-are-not-objects": "still readable",
    "unknown-type": "still readable",
    "no-type": "still readable",
    "text-is-missing": "still readable",
    "text-is-number": "still readable",
    "image-without-data": "still readable",
    "image-not-base64": "still readable",
    "resource-is-text": "still readable",
    "resource-without-uri": "still readable",
    "link-without-uri": "still readable",
    "meta-is-list": "still readable",
    "annotations-odd": "still readable",
    "leaf-odd": "still readable",
    "is-error-is-text": "still readable",
    "structured-is-list": "still readable",
    "input-required-without-questions": None,
    "deep": None,
    "surrogate": "half \ufffd of a pair\nstill readable",
    "result-is-list": None,
    "result-is-null": None,
    "neither": None,
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Faulty:
    return faulty(tmp_path_factory.mktemp("garbage"), env={"FAULTY_LEAK": LEAK}, timeout=10)


@pytest.fixture(scope="module")
async def gate(anyio_backend: str, server: Faulty) -> AsyncIterator[Gate]:
    """One gateway for all: what goes wrong in one test must not be felt in the next."""
    async with gateway(server.folder.parent, server) as gate:
        yield gate


@pytest.fixture(autouse=True)
async def the_same_server_answers_before_and_after(gate: Gate, server: Faulty) -> AsyncIterator[None]:
    yield
    assert await gate.answer("echo", text="and now?") == "and now?"
    assert server.starts == 1


@pytest.mark.parametrize("kind", NOISE)
async def test_noise_before_the_answer_is_passed_over(gate: Gate, kind: str) -> None:
    assert await gate.answer("garbage", kind=kind) == "the answer"


async def test_of_two_answers_the_first_counts(gate: Gate) -> None:
    assert await gate.answer("garbage", kind="duplicate") == "first answer"


@pytest.mark.parametrize("kind", SHAPES)
async def test_results_of_the_wrong_shape(gate: Gate, kind: str) -> None:
    expected = SHAPES[kind]
    if expected is None:
        assert (await gate.error("shape", kind=kind))["error"] == "UPSTREAM_ERROR"
        return
    result = await gate.call("shape", kind=kind)
    assert not result.is_error, text_of(result)
    assert expected in text_of(result)


@pytest.mark.parametrize("kind", ["leak", "params", "lines", "timeout", "odd"])
async def test_errors_of_the_protocol_tell_the_model_nothing_of_the_server(gate: Gate, kind: str) -> None:
    result = await gate.call("fail", kind=kind)
    shown = result.model_dump_json()
    for secret in (HOST, PATH, PASSWORD, "postgres", "\\u001b", "\\u202e"):
        assert secret not in shown
    body = await gate.error("fail", kind=kind)
    assert body["error"] == "UPSTREAM_ERROR"
    assert "\n" not in body["message"]
    assert len(body["message"]) < 200


@pytest.mark.parametrize("kind", ["bytes", "deep", "digits", "id-last"])
async def test_an_answer_that_cannot_be_read_fails_its_request_at_once(gate: Gate, kind: str) -> None:
    """The server says nothing more: without that the request would end as UPSTREAM_TIMEOUT."""
    body = await gate.error("malformed", kind=kind)
    assert (body["error"], body["message"]) == ("UPSTREAM_ERROR", MALFORMED)


async def test_the_log_has_no_words_of_a_server_and_the_correlation_id(gate: Gate) -> None:
    body = await gate.error("fail", kind="leak")

    def lines() -> list[str]:
        return [line for line in gate.log.read_text().splitlines() if body["details"]["correlation_id"] in line]

    await until(lambda: bool(lines()))
    (line,) = lines()
    assert "UPSTREAM_ERROR" in line
    assert HOST not in gate.log.read_text()
    assert PATH not in gate.log.read_text()
