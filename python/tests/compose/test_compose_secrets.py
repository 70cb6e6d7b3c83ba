"""What of a server's entry is a secret, and what stands in its place."""

from __future__ import annotations

import pytest

from leafgate.compose.secrets import hide, host_of, is_secret, secret_names, secrets_in, secrets_of, with_references
from leafgate.upstream import HttpServer, StdioServer


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_TOKEN", "x"),
        ("API_KEY", "hunter2"),
        ("DB_PASSWORD", "letmein"),
        ("Authorization", "Bearer x"),
        ("Cookie", "a=b"),
        ("ANYTHING", "ghp_7Rz2mQ0xKc9LwB4tVn8sYd1fGh6jPa3eUo5i"),
    ],
)
def test_secrets_are_known_by_name_or_value(name: str, value: str) -> None:
    assert is_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_TOKEN", "${env:GITHUB_TOKEN}"),
        ("Authorization", "Bearer ${TOKEN}"),
        ("API_KEY", ""),
        ("LOG_LEVEL", "debug"),
        ("HOME_PAGE", "https://example.org/"),
        ("MAX_TOKENS_PER_CALL", "100"),
    ],
)
def test_references_and_settings_are_none(name: str, value: str) -> None:
    assert not is_secret(name, value)


def test_references_take_the_variables_name_and_keep_servers_apart() -> None:
    servers = {
        "one": {"command": "x", "env": {"API_KEY": "k1", "LOG_LEVEL": "debug"}},
        "two": {"command": "x", "env": {"API_KEY": "k1"}},
        "number three": {"command": "x", "env": {"API_KEY": "k3"}},
        "web": {"url": "http://h", "headers": {"Authorization": "Bearer b", "X-Trace": "1"}},
        "args": {"command": "x", "args": ["--token", "t", "--password=p", "--verbose", "plain"]},
        "key": {"url": "https://h/mcp?key=u"},
    }
    made = with_references(servers)
    assert made.servers == {
        "one": {"command": "x", "env": {"API_KEY": "${env:API_KEY}", "LOG_LEVEL": "debug"}},
        "two": {"command": "x", "env": {"API_KEY": "${env:API_KEY}"}},
        "number three": {"command": "x", "env": {"API_KEY": "${env:NUMBER_THREE_API_KEY}"}},
        "web": {"url": "http://h", "headers": {"Authorization": "${env:WEB_AUTHORIZATION}", "X-Trace": "1"}},
        "args": {
            "command": "x",
            "args": ["--token", "${env:ARGS_TOKEN}", "--password=${env:ARGS_PASSWORD}", "--verbose", "plain"],
        },
        "key": {"url": "${env:KEY_URL}"},
    }
    assert made.values == {
        "API_KEY": "k1",
        "NUMBER_THREE_API_KEY": "k3",
        "WEB_AUTHORIZATION": "Bearer b",
        "ARGS_TOKEN": "t",
        "ARGS_PASSWORD": "p",
        "KEY_URL": "https://h/mcp?key=u",
    }
    assert [secret_names(entry) for entry in made.servers.values()] == [[]] * len(servers)
    assert [secret_names(entry) for entry in servers.values()] == [
        ["API_KEY"],
        ["API_KEY"],
        ["API_KEY"],
        ["Authorization"],
        ["--token", "--password"],
        ["url"],
    ]
    assert servers["one"]["env"] == {"API_KEY": "k1", "LOG_LEVEL": "debug"}, "the argument is not changed"


def test_names_that_fold_into_one_variable_do_not_share_a_value() -> None:
    made = with_references(
        {"a-b": {"env": {"MY_TOKEN": "1"}}, "a b": {"env": {"MY_TOKEN": "2"}}, "a.b": {"env": {"MY_TOKEN": "3"}}}
    )
    assert sorted(made.values.values()) == ["1", "2", "3"]


def test_every_value_of_headers_and_long_ones_of_environments_are_hidden() -> None:
    document = {"mcpServers": {"a": {"env": {"X": "longer than it", "Y": "1"}, "headers": {"Z": "2"}}}}
    assert secrets_in(document) == {"longer than it", "2"}


def test_references_may_be_seen() -> None:
    assert secrets_in({"env": {"TOKEN": "${env:TOKEN}"}, "args": ["--token", "${TOKEN}"]}) == set()


def test_only_whole_strings_are_hidden() -> None:
    assert hide('{"a": "sesame", "b": "open sesame", "c": "\\u0073esame"}', {"sesame"}) == (
        '{"a": "(hidden)", "b": "open sesame", "c": "(hidden)"}'
    )


@pytest.mark.parametrize(
    "url",
    [
        "https://ada:sesame@h/mcp",
        "https://h/mcp?key=sesame",
        "https://h/s/Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5/mcp",
        "https://[broken/mcp",
    ],
)
def test_urls_that_hold_keys_are_hidden_whole(url: str) -> None:
    assert secrets_in({"mcpServers": {"a": {"url": url}}}) == {url}
    assert "sesame" not in host_of(url)
    assert "Zm9v" not in host_of(url)


def test_plain_urls_may_be_seen() -> None:
    assert secrets_in({"url": "https://tracker.example:8443/own/mcp"}) == set()
    assert host_of("https://tracker.example:8443/own/mcp") == "https://tracker.example:8443"


def test_what_a_server_is_given_in_the_parts_that_it_may_repeat() -> None:
    child = StdioServer("x", ("--token", "sesame", "--key=open", "plain"), {"A": "longer than 1", "B": "1"})
    assert secrets_of(child) >= {"sesame", "longer than 1"}
    assert not secrets_of(child) & {"plain", "1", "x"}
    web = HttpServer("https://ada:hunter2@h/mcp?api_key=sesame", {"Authorization": "Bearer abc", "X-Trace": "t"})
    assert secrets_of(web) == {web.url, "hunter2", "sesame", "Bearer abc", "abc"}
    assert secrets_of(HttpServer("https://h/mcp")) == set()
    assert secrets_of(HttpServer("https://[broken")) == {"https://[broken"}


def test_words_and_paths_are_no_secrets_unless_they_are_called_so() -> None:
    plain = {
        "NODE_ENV": "production",
        "HOME": "/home/ada/projects",
        "API": "http://localhost:3000/v1",
        "KIND": "application/json",
    }
    assert secrets_of(StdioServer("x", (), plain)) == set()
    kept = {
        "DB_PASSWORD": "correct horse",
        "WHERE": "/keys/q8Zr2LwX9vTn4BcY7mKd",
        "OTHER": "h0rse-battery",
    }
    assert secrets_of(StdioServer("x", (), kept)) == {*kept.values()}
    assert secrets_of(StdioServer("x", (), {"DB": "postgres://ada:horse@db/notes"})) == {"horse"}
    web = HttpServer("https://h/mcp?project=garden&token=sesame", {"Accept": "application/json"})
    assert secrets_of(web) == {web.url, "sesame"}
