"""leafgate: an MCP gateway that keeps a model's context small, clean and already tokenized.

The public names. They are loaded when they are first used, because the MCP SDK behind some of them takes a second.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from leafgate.version import __version__

if TYPE_CHECKING:
    from leafgate.admission.breaker import BreakerPolicy as BreakerPolicy
    from leafgate.admission.cacheable import CachePolicy as CachePolicy
    from leafgate.admission.capability import CapabilityPolicy as CapabilityPolicy
    from leafgate.admission.capability import Rule as Rule
    from leafgate.admission.quota import Limit as Limit
    from leafgate.admission.quota import RateLimits as RateLimits
    from leafgate.admission.retry import RetryPolicy as RetryPolicy
    from leafgate.browse.rank import Router as Router
    from leafgate.browse.rank import RouteResult as RouteResult
    from leafgate.browse.selection import selection_schema as selection_schema
    from leafgate.browse.selection import validate_selection as validate_selection
    from leafgate.catalog.catalog import Catalog as Catalog
    from leafgate.catalog.intake import mcp_tool_to_selectable as mcp_tool_to_selectable
    from leafgate.catalog.schema_trust import SchemaLimits as SchemaLimits
    from leafgate.catalog.snapshot_file import load_catalog_file as load_catalog_file
    from leafgate.codec.read_leaf import find_codec_meta as find_codec_meta
    from leafgate.codec.read_leaf import has_codec_meta as has_codec_meta
    from leafgate.codec.read_leaf import read_codec_meta as read_codec_meta
    from leafgate.codec.read_leaf import strip_codec_meta as strip_codec_meta
    from leafgate.codec.read_leaf import take_ids as take_ids
    from leafgate.codec.verify_leaf import verify_codec_meta as verify_codec_meta
    from leafgate.codec.write_leaf import build_meta_block as build_meta_block
    from leafgate.codec.write_leaf import wrap_tool_call as wrap_tool_call
    from leafgate.embed.answers import Cards as Cards
    from leafgate.embed.answers import Delivered as Delivered
    from leafgate.embed.cards import make_choice_cards as make_choice_cards
    from leafgate.embed.context import ContextManager as ContextManager
    from leafgate.embed.runtime import ProxyRuntime as ProxyRuntime
    from leafgate.embed.servers import McpGatewayServer as McpGatewayServer
    from leafgate.embed.servers import McpProxyServer as McpProxyServer
    from leafgate.embed.session_file import load_mcp_session_jsonl as load_mcp_session_jsonl
    from leafgate.firewall.envelope import mcp_result_to_envelope as mcp_result_to_envelope
    from leafgate.gateway.guarded import Capabilities as Capabilities
    from leafgate.gateway.guarded import ToolSpec as ToolSpec
    from leafgate.gateway.guarded import bind as bind
    from leafgate.gateway.guarded import bound as bound
    from leafgate.gateway.guarded import call_tool as call_tool
    from leafgate.model.card import ChoiceCard as ChoiceCard
    from leafgate.model.context import BudgetError as BudgetError
    from leafgate.model.context import ContextError as ContextError
    from leafgate.model.context import ContextItem as ContextItem
    from leafgate.model.context import ContextPack as ContextPack
    from leafgate.model.context import ItemKind as ItemKind
    from leafgate.model.context import Phase as Phase
    from leafgate.model.context import SessionLineError as SessionLineError
    from leafgate.model.envelope import ResultEnvelope as ResultEnvelope
    from leafgate.model.errors import CapabilityError as CapabilityError
    from leafgate.model.errors import CatalogError as CatalogError
    from leafgate.model.errors import CodecMetaMapMismatchError as CodecMetaMapMismatchError
    from leafgate.model.errors import ConfigError as ConfigError
    from leafgate.model.errors import GatewayError as GatewayError
    from leafgate.model.errors import IRValidationError as IRValidationError
    from leafgate.model.errors import LeafgateError as LeafgateError
    from leafgate.model.errors import RouteError as RouteError
    from leafgate.model.errors import UpstreamFailure as UpstreamFailure
    from leafgate.model.leaf import CODEC_META_KEY as CODEC_META_KEY
    from leafgate.model.mode import ExposureMode as ExposureMode
    from leafgate.model.tool import HydrationResult as HydrationResult
    from leafgate.model.tool import SelectableItem as SelectableItem
    from leafgate.model.tool_id import format_tool_id as format_tool_id
    from leafgate.model.tool_id import infer_namespace as infer_namespace
    from leafgate.model.tool_id import parse_tool_id as parse_tool_id
    from leafgate.storage.map_fetch import load_encoder as load_encoder
    from leafgate.storage.quotas import RateLimiter as RateLimiter
    from leafgate.storage.result_cache import ToolResultCache as ToolResultCache
    from leafgate.upstream.client import McpClientPrimitiveUpstream as McpClientPrimitiveUpstream
    from leafgate.upstream.client import McpClientUpstream as McpClientUpstream
    from leafgate.upstream.multiplex import MultiplexPrimitiveUpstream as MultiplexPrimitiveUpstream
    from leafgate.upstream.multiplex import MultiplexUpstream as MultiplexUpstream
    from leafgate.upstream.primitives import StubPrimitiveUpstream as StubPrimitiveUpstream
    from leafgate.upstream.stub import StubUpstream as StubUpstream

_HOME = {
    "BreakerPolicy": "admission.breaker",
    "BudgetError": "model.context",
    "CODEC_META_KEY": "model.leaf",
    "CachePolicy": "admission.cacheable",
    "Capabilities": "gateway.guarded",
    "CapabilityError": "model.errors",
    "CapabilityPolicy": "admission.capability",
    "Cards": "embed.answers",
    "Catalog": "catalog.catalog",
    "CatalogError": "model.errors",
    "ChoiceCard": "model.card",
    "CodecMetaMapMismatchError": "model.errors",
    "ConfigError": "model.errors",
    "ContextError": "model.context",
    "ContextItem": "model.context",
    "ContextManager": "embed.context",
    "ContextPack": "model.context",
    "Delivered": "embed.answers",
    "ExposureMode": "model.mode",
    "GatewayError": "model.errors",
    "HydrationResult": "model.tool",
    "IRValidationError": "model.errors",
    "ItemKind": "model.context",
    "LeafgateError": "model.errors",
    "Limit": "admission.quota",
    "McpClientPrimitiveUpstream": "upstream.client",
    "McpClientUpstream": "upstream.client",
    "McpGatewayServer": "embed.servers",
    "McpProxyServer": "embed.servers",
    "MultiplexPrimitiveUpstream": "upstream.multiplex",
    "MultiplexUpstream": "upstream.multiplex",
    "Phase": "model.context",
    "ProxyRuntime": "embed.runtime",
    "RateLimiter": "storage.quotas",
    "RateLimits": "admission.quota",
    "ResultEnvelope": "model.envelope",
    "RetryPolicy": "admission.retry",
    "RouteError": "model.errors",
    "RouteResult": "browse.rank",
    "Router": "browse.rank",
    "Rule": "admission.capability",
    "SchemaLimits": "catalog.schema_trust",
    "SelectableItem": "model.tool",
    "SessionLineError": "model.context",
    "StubPrimitiveUpstream": "upstream.primitives",
    "StubUpstream": "upstream.stub",
    "ToolResultCache": "storage.result_cache",
    "ToolSpec": "gateway.guarded",
    "UpstreamFailure": "model.errors",
    "bind": "gateway.guarded",
    "bound": "gateway.guarded",
    "build_meta_block": "codec.write_leaf",
    "call_tool": "gateway.guarded",
    "find_codec_meta": "codec.read_leaf",
    "format_tool_id": "model.tool_id",
    "has_codec_meta": "codec.read_leaf",
    "infer_namespace": "model.tool_id",
    "load_catalog_file": "catalog.snapshot_file",
    "load_encoder": "storage.map_fetch",
    "load_mcp_session_jsonl": "embed.session_file",
    "make_choice_cards": "embed.cards",
    "mcp_result_to_envelope": "firewall.envelope",
    "mcp_tool_to_selectable": "catalog.intake",
    "parse_tool_id": "model.tool_id",
    "read_codec_meta": "codec.read_leaf",
    "selection_schema": "browse.selection",
    "strip_codec_meta": "codec.read_leaf",
    "take_ids": "codec.read_leaf",
    "validate_selection": "browse.selection",
    "verify_codec_meta": "codec.verify_leaf",
    "wrap_tool_call": "codec.write_leaf",
}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604  the names are the table's keys


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'leafgate' has no attribute {name!r}")
    return getattr(importlib.import_module(f"leafgate.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
