"""The most used client libraries (`ci` in clients.toml) against gateways in two modes, over stdio and HTTP.

`just survival-clients` runs all libraries, and against the server itself.
"""

from __future__ import annotations

import asyncio
import json
import os

import pytest
from client_environments import Fault, Library, load_libraries
from client_matrix import Check, targets
from client_report import KEPT, PAGE, judge, make_page, run_all

LIBRARIES = [library for library in load_libraries().values() if library.in_ci]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Check]]:
    """The checks of every library. Skips where one is missing; with CI=true that is a failure."""
    missing = [library.name for library in LIBRARIES if not library.is_installed]
    if missing:
        reason = f"not installed: {', '.join(missing)}; `just test-tools` installs them"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("clients")
    with targets(folder, ("gateway", "passthrough")) as found:
        return asyncio.run(run_all(LIBRARIES, found, folder, is_brief=True))


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_a_library_lists_calls_and_views(outcomes: dict[str, dict[str, Check]], library: Library) -> None:
    checks = outcomes[library.name]
    assert judge(library, checks) == {}
    assert {f"{side}/{transport}/view" for side in ("gateway", "passthrough") for transport in ("stdio", "http")} <= {
        *checks
    }


def test_a_fault_of_a_library_must_be_seen_on_a_direct_connection() -> None:
    fault = Fault("*/http/list", "direct/http/list", "it lists nothing")
    library = Library("some", "some.py", ("some==1",), faults=(fault,))
    bad, good = Check("nothing is listed"), Check()
    assert judge(library, {"direct/http/list": bad, "gateway/http/list": bad}) == {}
    assert judge(library, {"direct/http/list": good, "gateway/http/list": bad}) == {"gateway/http/list": bad.problem}
    assert judge(library, {"gateway/http/list": bad, "gateway/stdio/list": bad}) == {"gateway/stdio/list": bad.problem}
    assert "not seen any more" in judge(library, {"direct/http/list": good, "gateway/http/list": good})["*/http/list"]


def test_the_page_is_made_of_the_stored_results() -> None:
    results = json.loads(KEPT.read_text(encoding="utf-8"))
    assert list(results["clients"]) == list(load_libraries()), "just survival-clients --keep"
    assert PAGE.read_text(encoding="utf-8") == make_page(results), "just survival-clients --page"
