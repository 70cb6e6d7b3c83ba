"""`leafgate context`, as people run it."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Ran, run_program
from context_sessions import prose

import leafgate
from leafgate.tokens.encoder import Encoder

EXAMPLE = Path(leafgate.__file__).parent / "demo" / "mcp_session.jsonl"


def run(*args: str, fails: bool = False) -> Ran:
    done = run_program("context", *args, folder=Path.cwd(), env=dict(os.environ))
    assert (done.code == 2) == fails, done.err
    return done


def test_a_prompt_and_what_was_left_out(count: Callable[[str], int]) -> None:
    args = ("build", str(EXAMPLE), "--phase", "answer", "--query", "invoice status", "--budget", "150")
    done = run(*args)
    prompt = done.out.removesuffix("\n")
    assert prompt.startswith("[policy]\nAmounts are in euros.")
    assert "What is the invoice status now?" in prompt
    assert count(prompt) <= 150
    assert f"{count(prompt)} of 150 tokens" in done.err
    assert "left out: " in done.err
    assert run(*args).out == done.out


def test_the_last_turn_is_the_question_unless_another_is_given() -> None:
    asked = json.loads(run("build", str(EXAMPLE), "--json").out)["query"]
    assert asked == "What is the invoice status now?"
    assert json.loads(run("build", str(EXAMPLE), "--query", "x", "--json").out)["query"] == "x"


def test_json_has_everything(qwen: Encoder) -> None:
    told = json.loads(run("build", str(EXAMPLE), "--query", "reminders", "--map", "qwen2", "--json").out)
    assert told["ids"] == qwen.encode(told["prompt"])
    assert told["tokens"] == len(told["ids"]) <= told["budget"] == 6000
    assert {item["id"] for item in told["items"] if item["taken"]} == {item["id"] for item in told["items"]}
    assert told["prompt"][: told["cache_breakpoint"]].endswith("[fact]\nThe customer's account number is 20-4711.\n\n")


def test_long_results_go_through_the_firewall(tmp_path: Path) -> None:
    text = "\n".join(prose(random.Random(n), 12).strip() for n in range(400))
    events: list[dict[str, Any]] = [
        {"id": "u", "type": "user_turn", "text": "what happened?"},
        {"id": "c", "type": "tool_call", "text": "log()", "parent_id": "u"},
        {"id": "r", "type": "tool_result", "text": text, "parent_id": "c", "metadata": {"tool_name": "log"}},
        {"id": "alone", "type": "tool_result", "text": text + "!"},
    ]
    file = tmp_path / "session.jsonl"
    file.write_text("\n".join(map(json.dumps, events)))
    told = json.loads(run("build", str(file), "--budget", "4000", "--json").out)
    taken = {item["id"]: item for item in told["items"] if item["taken"]}
    assert set(taken) == {"u", "c", "r", "alone"}
    assert [artifact.get("label") for artifact in told["artifacts"]] == ["log", None]
    assert taken["r"]["tokens"] < 1000


def test_a_replay_has_a_line_for_each_question() -> None:
    lines = run("replay", str(EXAMPLE), "--budget", "120").out.splitlines()
    assert lines[0].split()[:3] == ["events", "raw", "pack"]
    assert [line.split()[-1] for line in lines[1:]] == ["u1", "tr1", "u2", "tr2", "u3"]
    steps = [json.loads(line) for line in run("replay", str(EXAMPLE), "--budget", "120", "--json").out.splitlines()]
    assert [step["after"] for step in steps] == ["u1", "tr1", "u2", "tr2", "u3"]
    assert all(step["pack_tokens"] <= 120 for step in steps)
    assert len(run("replay", str(EXAMPLE), "--every", "2", "--json").out.splitlines()) == 2
    raw = [step["raw_tokens"] for step in steps]
    assert raw == sorted(raw)
    assert steps[-1]["pack_tokens"] < steps[-1]["raw_tokens"]


@pytest.mark.parametrize("command", ["build", "replay"])
def test_bad_lines_end_it_or_are_told(tmp_path: Path, command: str) -> None:
    file = tmp_path / "session.jsonl"
    file.write_text('{"id": "u", "type": "user_turn", "text": "hello"}\n{"id": "x"}\n')
    refused = run(command, str(file), fails=True)
    assert f"{file}, line 2: `type` is missing" in refused.err
    assert "Traceback" not in refused.err
    skipped = run(command, str(file), "--skip-bad-lines")
    assert "line 2: `type` is missing" in skipped.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nowhere.jsonl",), "not a file"),
        ((str(EXAMPLE), "--budget", "0"), "0 is not in the range"),
        ((str(EXAMPLE), "--phase", "sing"), "'sing' is not one of"),
        ((str(EXAMPLE), "--map", "no-such-map"), "no-such-map"),
        ((str(EXAMPLE), "--budget", "5"), "the policy items alone take"),
    ],
)
def test_mistakes_are_told(args: tuple[str, ...], said: str) -> None:
    refused = run("build", *args, fails=True)
    assert said in refused.err
    assert "Traceback" not in refused.err


@pytest.mark.parametrize("command", ["build", "replay"])
def test_an_id_that_is_used_twice_is_told_with_its_line(tmp_path: Path, command: str) -> None:
    file = tmp_path / "session.jsonl"
    event = '{"id": "u", "type": "user_turn", "text": "hello"}\n'
    file.write_text(f"{event}\n{event}")
    said = f"leafgate: {file}, line 3: there is already an item with the id 'u'"
    assert run(command, str(file), fails=True).err == f"{said}\n"
    skipped = run(command, str(file), "--skip-bad-lines")
    assert said in skipped.err
    assert "hello" in skipped.out or "u" in skipped.out.split()
