"""The listening socket: what is refused, and one option that decides between 3 and 44 milliseconds a call."""

import socket

import pytest

from leafgate.model.errors import ConfigError
from leafgate.server.http import bind


def test_answers_do_not_wait_for_an_acknowledgement() -> None:
    with bind("127.0.0.1", 0) as listener:
        # asyncio switches Nagle's algorithm off only on sockets that say that they are TCP.
        assert listener.proto == socket.IPPROTO_TCP


def test_a_busy_port_is_told_with_the_way_out() -> None:
    with bind("127.0.0.1", 0) as taken, pytest.raises(ConfigError, match="--port"):
        bind("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_other_machines_are_kept_out_while_there_is_no_authentication(host: str) -> None:
    with pytest.raises(ConfigError, match="authentication"):
        bind(host, 0)
