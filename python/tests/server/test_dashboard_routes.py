"""The dashboard's files as a browser gets them, and what they hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

import leafgate.server.routes as served
from leafgate.server.auth.bearer_tokens import BearerTokens
from leafgate.server.auth.layer import Auth, AuthLayer
from leafgate.server.http import OpenPages
from leafgate.server.routes import MEDIA_TYPES, dashboard_routes

FOLDER = Path(served.__file__).parent / "dashboard"
PATHS = sorted(route.path for route in dashboard_routes())


async def status(request: object) -> PlainTextResponse:
    return PlainTextResponse("here")


BEHIND = Starlette(routes=[Route("/status", status)])


@pytest.fixture(scope="module")
def browser() -> TestClient:
    return TestClient(OpenPages(BEHIND, dashboard_routes()))


def policy_of(headers: dict[str, str]) -> dict[str, list[str]]:
    directives = (directive.split() for directive in headers["content-security-policy"].split(";"))
    return {name: values for name, *values in directives}


def test_the_page_is_at_the_root_and_the_rest_below_dashboard() -> None:
    loaded = {file.name for file in FOLDER.iterdir()} - {"page.html"}
    assert {*PATHS} == {"/", *(f"/dashboard/{name}" for name in loaded)}


def test_no_route_goes_beside_the_folder(browser: TestClient) -> None:
    for path in ("/dashboard/", "/dashboard/page.html", "/dashboard/../auth.py", "/dashboard/%2e%2e/auth.py", "/page"):
        assert browser.get(path).status_code == 404


@pytest.mark.parametrize("path", PATHS)
def test_each_file_is_served_as_what_it_is(browser: TestClient, path: str) -> None:
    answer = browser.get(path)
    name = path.rpartition("/")[2] or "page.html"
    assert answer.status_code == 200
    assert answer.content == (FOLDER / name).read_bytes()
    assert answer.headers["content-type"] == MEDIA_TYPES[name.rpartition(".")[2]]
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", PATHS)
def test_a_page_may_load_and_talk_to_this_gateway_only(browser: TestClient, path: str) -> None:
    policy = policy_of(dict(browser.get(path).headers))
    assert policy["default-src"] == ["'none'"]
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == ["'none'"]
    assert {source for name, values in policy.items() if name.endswith("-src") for source in values} == {
        "'none'",
        "'self'",
    }
    assert policy["require-trusted-types-for"] == ["'script'"]


@pytest.mark.parametrize("path", PATHS)
def test_what_a_browser_has_is_not_sent_again(browser: TestClient, path: str) -> None:
    first = browser.get(path)
    assert first.headers["cache-control"] == "no-cache"
    for known in (first.headers["etag"], f"W/{first.headers['etag']}", f'"old", {first.headers["etag"]}', "*"):
        again = browser.get(path, headers={"if-none-match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        assert again.headers["content-security-policy"] == first.headers["content-security-policy"]
    for other in ('"old"', "", first.headers["etag"][1:-1]):
        assert browser.get(path, headers={"if-none-match": other}).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_the_files_are_only_read(browser: TestClient, path: str) -> None:
    head = browser.head(path)
    assert (head.status_code, head.content) == (200, b"")
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert browser.request(method, path).status_code == 405


def test_other_requests_go_on_to_what_is_behind(browser: TestClient) -> None:
    assert browser.get("/status").text == "here"
    assert browser.get("/nothing").status_code == 404


@pytest.mark.parametrize(
    "path", ["/status", "/dashboard", "/dashboard/", "/dashboard/page.js/", "/DASHBOARD/page.js", "/api/catalog"]
)
def test_only_the_pages_are_open_to_everybody(path: str) -> None:
    asked = TestClient(OpenPages(AuthLayer(BEHIND, lambda: Auth(BearerTokens([]))), dashboard_routes()))
    assert asked.get("/").status_code == 200
    assert asked.get(path).status_code == 401


def test_the_start_and_the_end_of_the_process_go_on_too() -> None:
    seen = []

    async def behind(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])
        await BEHIND(scope, receive, send)

    with TestClient(OpenPages(behind, dashboard_routes())):
        pass
    assert seen == ["lifespan"]


# What the files hold


def scripts() -> list[Path]:
    return sorted(FOLDER.glob("*.js"))


def test_the_page_loads_only_what_is_served() -> None:
    page = (FOLDER / "page.html").read_text()
    loaded = re.findall(r'(?:src|href)="([^"#]+)"', page)
    imported = [path for script in scripts() for path in re.findall(r'from "([^"]+)"', script.read_text())]
    assert {*loaded, *imported} == {*PATHS} - {"/"}


def test_the_page_has_no_script_or_style_of_its_own() -> None:
    page = (FOLDER / "page.html").read_text()
    assert set(re.findall(r"<script[^>]*>(.*?)</script>", page, re.S)) == {""}
    assert re.search(r"<style|\sstyle=|\son\w+=|javascript:", page) is None


@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.name)
def test_no_script_makes_markup_of_text(script: Path) -> None:
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc|DOMParser"
    assert re.search(forbidden, script.read_text()) is None


def test_every_id_that_a_script_asks_for_is_on_the_page() -> None:
    there = re.findall(r'\bid="([^"]+)"', (FOLDER / "page.html").read_text())
    assert len(there) == len(set(there))
    asked = {name for s in scripts() for name in re.findall(r'(?:byId|say|ElementById)\("([^"]+)"', s.read_text())}
    assert asked <= set(there)


def test_what_a_label_or_a_description_points_to_is_on_the_page() -> None:
    page = (FOLDER / "page.html").read_text()
    pointed = re.findall(r'(?:aria-(?:labelledby|describedby|controls)|for|href)="#?([\w-]+)"', page)
    assert pointed
    assert set(pointed) <= set(re.findall(r'\bid="([^"]+)"', page))


def luminance(colour: str) -> float:
    """How light a colour is, as WCAG 2 counts it."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


COLOURS = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", (FOLDER / "page.css").read_text()))
TEXTS = [
    *((text, ground) for text in ("text", "quiet") for ground in ("ground", "surface", "raised")),
    *((f"{mood}-text", ground) for mood in ("good", "wait", "bad") for ground in (f"{mood}-ground", "surface")),
    ("accent", "surface"),
    ("on-accent", "accent"),
]
SHAPES = [(shape, "surface") for shape in ("leaf", "shim", "rejected", "edge")]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("front", "back", "least"), [*((*pair, 4.5) for pair in TEXTS), *((*pair, 3) for pair in SHAPES)]
)
def test_colours_can_be_told_apart(theme: int, front: str, back: str, least: float) -> None:
    assert contrast(COLOURS[front].split(", ")[theme], COLOURS[back].split(", ")[theme]) >= least
