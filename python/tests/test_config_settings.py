from leafgate.config.settings import DEFAULT_HOST, DEFAULT_PORT, Config
from leafgate.upstream.server_spec import HttpServer, ServerSpec, StdioServer


def test_a_config_shows_its_servers_names_and_nothing_else() -> None:
    config = Config(
        servers=(
            ServerSpec("a", StdioServer("x", ("--key", "s3cret"), {"K": "s3cret"})),
            ServerSpec("b", HttpServer("http://x/s3cret", {"Authorization": "s3cret"})),
        ),
        host="s3cret",
        auth={"tokens": [{"name": "n", "hash": "s3cret"}]},
    )
    assert f"{config!r} {config}" == "Config(servers: a, b) Config(servers: a, b)"
    assert repr(Config()) == "Config(servers: none)"


def test_a_gateway_listens_on_loopback_unless_told_otherwise() -> None:
    assert (Config().host, Config().port) == (DEFAULT_HOST, DEFAULT_PORT) == ("127.0.0.1", 8808)
