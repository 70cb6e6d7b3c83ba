"""The tools that ask the client: its user by a form, its model, its roots. Written once for both eras (asking.py)."""

from __future__ import annotations

import json
from typing import Any, Final

from mcp.types import CallToolResult, ElicitResult, InputRequest, ListRootsRequest

from reference.asking import ask, can_answer, form, require, sampling
from reference.call import Call, ReferenceTool, is_modern, text_result

NAME: Final = {"name": {"type": "string"}}
CONFIRM: Final = form("Please confirm", {"ok": {"type": "boolean"}})

_DEFAULTS: Final[dict[str, Any]] = {
    "name": {"type": "string", "description": "User name", "default": "John Doe"},
    "age": {"type": "integer", "description": "User age", "default": 30},
    "score": {"type": "number", "description": "User score", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "description": "Verified or not", "default": True},
}
_OPTIONS: Final = ["option1", "option2", "option3"]
_VALUES: Final = ["value1", "value2", "value3"]


def _titled(titles: list[str]) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in zip(_VALUES, titles, strict=True)]


_ENUMS: Final[dict[str, Any]] = {
    "untitledSingle": {"type": "string", "enum": _OPTIONS},
    "titledSingle": {"type": "string", "oneOf": _titled(["First Option", "Second Option", "Third Option"])},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": _titled(["First Choice", "Second Choice", "Third Choice"])}},
}


async def _sampling(call: Call) -> CallToolResult:
    answers = await ask(call, {"response": sampling(call.arguments["prompt"], 100)})
    return text_result(f"LLM response: {_sampled(answers['response'])}")


async def _elicitation(call: Call) -> CallToolResult:
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    answers = await ask(call, {"response": form(call.arguments["message"], fields)})
    return text_result(f"User response: {_said(answers['response'])}")


async def _elicitation_defaults(call: Call) -> CallToolResult:
    answers = await ask(call, {"response": form("Please review these values", _DEFAULTS, required=[])})
    return text_result(f"Elicitation completed: {_said(answers['response'])}")


async def _elicitation_enums(call: Call) -> CallToolResult:
    answers = await ask(call, {"response": form("Please choose", _ENUMS, required=[])})
    return text_result(f"Elicitation completed: {_said(answers['response'])}")


async def _missing_capability(call: Call) -> CallToolResult:
    require(call, sampling("Not sent", 1))
    return text_result("The client takes sampling requests.")


async def _input_elicitation(call: Call) -> CallToolResult:
    answers = await ask(call, {"user_name": form("What is your name?", NAME)})
    return text_result(f"Hello, {_field(answers['user_name'], 'name')}!")


async def _input_sampling(call: Call) -> CallToolResult:
    answers = await ask(call, {"capital_question": sampling("What is the capital of France?", 100)})
    return text_result(_sampled(answers["capital_question"]))


async def _input_roots(call: Call) -> CallToolResult:
    answers = await ask(call, {"client_roots": ListRootsRequest()})
    return text_result(f"Roots: {_roots(answers['client_roots'])}")


async def _input_state(call: Call) -> CallToolResult:
    await ask(call, {"confirm": CONFIRM}, state="asked to confirm")
    return text_result("state-ok")


async def _input_multiple(call: Call) -> CallToolResult:
    requests: dict[str, InputRequest] = {
        "user_name": form("What is your name?", NAME),
        "greeting": sampling("Generate a greeting", 50),
        "client_roots": ListRootsRequest(),
    }
    answers = await ask(call, requests, state="asked for all three")
    name, greeting = _field(answers["user_name"], "name"), _sampled(answers["greeting"])
    return text_result(f"{greeting} {name}, with roots {_roots(answers['client_roots'])}")


async def _input_multi_round(call: Call) -> CallToolResult:
    """Two questions, one after the other; the state carries the first answer over the second round."""
    carried = json.loads(call.params.request_state or "{}") if is_modern(call.ctx) else {}
    name = carried.get("name")
    if name is None:
        first = await ask(call, {"step1": form("Step 1: What is your name?", NAME)}, state=json.dumps({"step": 1}))
        name = _field(first["step1"], "name")
    colour = form("Step 2: What is your favorite color?", {"color": {"type": "string"}})
    second = await ask(call, {"step2": colour}, state=json.dumps({"step": 2, "name": name}))
    return text_result(f"{name} likes {_field(second['step2'], 'color')}.")


async def _input_capabilities(call: Call) -> CallToolResult:
    """Asks only what this client has declared that it can answer."""
    requests: dict[str, InputRequest] = {
        "user_name": form("What is your name?", NAME),
        "greeting": sampling("Generate a greeting", 50),
        "client_roots": ListRootsRequest(),
    }
    possible = {key: request for key, request in requests.items() if can_answer(call, request)}
    if not possible:
        return text_result("This client can be asked nothing.")
    answers = await ask(call, possible)
    return text_result(f"Answered: {', '.join(answers)}")


def _said(answer: ElicitResult) -> str:
    return f"action={answer.action}, content={json.dumps(answer.content)}"


def _field(answer: ElicitResult, name: str) -> str:
    """A field of a form; a user who does not accept has none."""
    return str((answer.content or {}).get(name, f"({answer.action})"))


def _sampled(answer: Any) -> str:
    return answer.content.text if answer.content.type == "text" else f"({answer.content.type})"


def _roots(answer: Any) -> str:
    return ", ".join(str(root.uri) for root in answer.roots) or "none"


def _one_text(name: str, description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": description}},
        "required": [name],
        "additionalProperties": False,
    }


ASKING_TOOLS: Final = (
    ReferenceTool("test_sampling", "Asks the client's model.", _sampling, _one_text("prompt", "What to ask.")),
    ReferenceTool("test_elicitation", "Asks the user.", _elicitation, _one_text("message", "What to show the user.")),
    ReferenceTool("test_elicitation_sep1034_defaults", "Asks with default values.", _elicitation_defaults),
    ReferenceTool("test_elicitation_sep1330_enums", "Asks with choices of all kinds.", _elicitation_enums),
    ReferenceTool("test_missing_capability", "Needs a client that takes sampling requests.", _missing_capability),
    ReferenceTool("test_streaming_elicitation", "Asks the user, without any argument.", _input_elicitation),
    ReferenceTool("test_input_required_result_elicitation", "Asks the user for a name.", _input_elicitation),
    ReferenceTool("test_input_required_result_sampling", "Asks the model for a capital.", _input_sampling),
    ReferenceTool("test_input_required_result_list_roots", "Asks for the roots.", _input_roots),
    ReferenceTool("test_input_required_result_request_state", "Asks, and wants its state back.", _input_state),
    ReferenceTool("test_input_required_result_multiple_inputs", "Asks three things at once.", _input_multiple),
    ReferenceTool("test_input_required_result_multi_round", "Asks twice, in two rounds.", _input_multi_round),
    ReferenceTool("test_input_required_result_tampered_state", "Refuses a state it did not write.", _input_state),
    ReferenceTool("test_input_required_result_capabilities", "Asks what the client can answer.", _input_capabilities),
)
