"""Does somebody see the resource of a URI? In: all there is, what they see, a server, a URI. Out: yes or no.

Touches nothing. A resource that is listed is seen or not by its own id; one that is not listed, by the templates.
"""

from __future__ import annotations

from leafgate.gateway.snapshot import Snapshot
from leafgate.upstream.primitives import fits_template


def sees_uri(whole: Snapshot, seen: Snapshot, server: str, uri: str) -> bool:
    if whole is seen:
        return True
    if _lists(whole, server, uri):
        return _lists(seen, server, uri)
    templates = (each.definition.get("uriTemplate") for each in seen.offers.templates if each.server == server)
    return any(fits_template(template, uri) for template in templates)


def _lists(snapshot: Snapshot, server: str, uri: str) -> bool:
    return any(each.server == server and each.definition.get("uri") == uri for each in snapshot.offers.resources)
