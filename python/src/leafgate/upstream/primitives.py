"""Resources and prompts inside this process. In: their definitions, what they contain. Out: the same, through the port.

For tests, for serving a catalog's declared listings without its servers, and for machines without any. Touches nothing.
"""

from __future__ import annotations

import base64
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from mcp import InvalidUriTemplate, UriTemplate
from mcp.types import METHOD_NOT_FOUND

from leafgate.model.errors import UpstreamFailure
from leafgate.ports import Caller, ToolListing
from leafgate.upstream.classify import classify

UNKNOWN_RESOURCE: Final = -32002
INVALID_PARAMS: Final = -32602

Definitions = Sequence[Mapping[str, Any]]
Content = str | bytes | Mapping[str, Any]
Contents = Content | Callable[[str], Content | Awaitable[Content]]
Rendering = str | Mapping[str, Any]
Renderings = Rendering | Callable[[Mapping[str, str]], Rendering | Awaitable[Rendering]]


def fits_template(template: object, uri: str) -> bool:
    """Whether a URI is one that this template makes."""
    try:
        return isinstance(template, str) and UriTemplate.parse(template).match(uri) is not None
    except InvalidUriTemplate:
        return False


class StubPrimitiveUpstream:
    """Definitions with canned reads.

    `contents` by URI: a text, bytes, or a whole `resources/read` result. `renderings` by name: a text, or a whole
    `prompts/get` result. Either may be a function (async or not), from the URI, or from the arguments. A URI that only
    a template makes is read by its own entry, or by the template's.
    """

    def __init__(
        self,
        resources: Definitions = (),
        prompts: Definitions = (),
        *,
        templates: Definitions = (),
        contents: Mapping[str, Contents] | None = None,
        renderings: Mapping[str, Renderings] | None = None,
        server: str = "",
    ) -> None:
        self._resources = _objects(resources)
        self._templates = _objects(templates)
        self._prompts = _objects(prompts)
        self._contents = dict(contents or {})
        self._renderings = dict(renderings or {})
        self._server = server
        self.reads: list[str] = []
        self.renders: list[tuple[str, Mapping[str, str]]] = []

    async def list_resources(self) -> Sequence[ToolListing]:
        return [ToolListing(self._server, resource) for resource in self._resources]

    async def list_resource_templates(self) -> Sequence[ToolListing]:
        return [ToolListing(self._server, template) for template in self._templates]

    async def list_prompts(self) -> Sequence[ToolListing]:
        return [ToolListing(self._server, prompt) for prompt in self._prompts]

    async def read_resource(self, server: str, uri: str, caller: Caller | None = None) -> Mapping[str, Any]:
        self.reads.append(uri)
        definition = self._definition(uri)
        if definition is None:
            raise UpstreamFailure("UPSTREAM_ERROR", f"no resource {uri}", rpc_code=UNKNOWN_RESOURCE)
        canned = self._contents.get(uri, self._contents.get(str(definition.get("uriTemplate"))))
        found = f"{uri} has no canned content." if canned is None else await _made(canned, uri)
        if isinstance(found, Mapping):
            return found
        kind = {"mimeType": definition["mimeType"]} if isinstance(definition.get("mimeType"), str) else {}
        part = {"text": found} if isinstance(found, str) else {"blob": base64.b64encode(found).decode()}
        return {"contents": [{"uri": uri, **kind, **part}]}

    async def get_prompt(
        self, server: str, name: str, args: Mapping[str, str], caller: Caller | None = None
    ) -> Mapping[str, Any]:
        self.renders.append((name, args))
        if all(prompt.get("name") != name for prompt in self._prompts):
            raise UpstreamFailure("UPSTREAM_ERROR", f"no prompt {name}", rpc_code=INVALID_PARAMS)
        canned = self._renderings.get(name)
        found = f"{name} has no canned rendering." if canned is None else await _made(canned, args)
        if isinstance(found, Mapping):
            return found
        return {"messages": [{"role": "user", "content": {"type": "text", "text": found}}]}

    async def request(
        self, server: str, method: str, params: Mapping[str, Any], caller: Caller | None = None
    ) -> Mapping[str, Any]:
        raise UpstreamFailure("UPSTREAM_ERROR", f"a stub does not answer {method}", rpc_code=METHOD_NOT_FOUND)

    def server_of_resource(self, uri: str) -> str | None:
        return None if self._definition(uri) is None else self._server

    def servers_with(self, capability: str) -> Sequence[str]:
        offered = {"resources": self._resources or self._templates, "prompts": self._prompts}
        return [self._server] if offered.get(capability) else []

    async def watch(self, server: str, uri: str) -> None:
        """A canned content never changes."""

    async def unwatch(self, server: str, uri: str) -> None:
        """Likewise."""

    def _definition(self, uri: str) -> Mapping[str, Any] | None:
        listed = (resource for resource in self._resources if resource.get("uri") == uri)
        made = (
            template
            for template in self._templates
            if template.get("uriTemplate") == uri or fits_template(template.get("uriTemplate"), uri)
        )
        return next(listed, None) or next(made, None)


def _objects(definitions: Definitions) -> Definitions:
    return tuple(definition for definition in definitions if isinstance(definition, Mapping))


async def _made(canned: Any, asked: Any) -> Any:
    if not callable(canned):
        return canned
    try:
        made = canned(asked)
        return await made if inspect.isawaitable(made) else made
    except Exception as error:
        raise classify(error) from error
