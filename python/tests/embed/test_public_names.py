"""The public names are frozen here: taking one away, or moving it, breaks somebody's import."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import leafgate

NAMES = """
BreakerPolicy BudgetError CODEC_META_KEY CachePolicy Capabilities CapabilityError CapabilityPolicy Cards Catalog
CatalogError ChoiceCard CodecMetaMapMismatchError ConfigError ContextError ContextItem ContextManager ContextPack
Delivered ExposureMode FlowPolicy FlowRule GatewayError HydrationResult IRValidationError ItemKind LeafgateError Limit
McpClientPrimitiveUpstream McpClientUpstream McpGatewayServer McpProxyServer MultiplexPrimitiveUpstream
MultiplexUpstream Phase ProxyRuntime RateLimiter RateLimits ResultEnvelope RetryPolicy RouteError RouteResult Router
Rule SchemaLimits SelectableItem SessionLineError StubPrimitiveUpstream StubUpstream ToolResultCache ToolSpec
UpstreamFailure bind bound build_meta_block call_tool find_codec_meta format_tool_id has_codec_meta infer_namespace
load_catalog_file load_encoder load_mcp_session_jsonl make_choice_cards mcp_result_to_envelope mcp_tool_to_selectable
parse_tool_id read_codec_meta selection_schema strip_codec_meta take_ids validate_selection verify_codec_meta
wrap_tool_call
"""
FROZEN = NAMES.split()


def test_the_list_is_frozen() -> None:
    assert sorted(set(leafgate.__all__) - {"__version__"}) == sorted(FROZEN)


@pytest.mark.parametrize("name", FROZEN)
def test_every_name_can_be_imported(name: str) -> None:
    assert getattr(leafgate, name) is not None


def test_type_checkers_see_the_same_names() -> None:
    stub = ast.parse(Path(leafgate.__file__).with_suffix(".pyi").read_text("utf-8"))
    names = [alias.asname for line in stub.body if isinstance(line, ast.ImportFrom) for alias in line.names]
    assert sorted(names) == sorted([*FROZEN, "__version__"])


def test_a_name_that_is_none_says_so() -> None:
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = leafgate.nothing_here  # type: ignore[attr-defined]


def test_the_root_alone_does_not_load_the_sdk() -> None:
    program = "import leafgate, sys; leafgate.wrap_tool_call; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
