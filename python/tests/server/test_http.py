"""The listening socket: what is refused, and one option that decides between 3 and 44 milliseconds a call."""

import socket

import pytest

from leafgate.model.errors import ConfigError
from leafgate.server.host_guard import is_loopback
from leafgate.server.http import bind


def test_answers_do_not_wait_for_an_acknowledgement() -> None:
    with bind("127.0.0.1", 0) as listener:
        # asyncio switches Nagle's algorithm off only on sockets that say that they are TCP.
        assert listener.proto == socket.IPPROTO_TCP


def test_a_busy_port_is_told_with_the_way_out() -> None:
    with bind("127.0.0.1", 0) as taken, pytest.raises(ConfigError, match="--port"):
        bind("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_other_machines_are_kept_out_where_nobody_is_asked_who_they_are(host: str) -> None:
    with pytest.raises(ConfigError, match="configure auth, or insist with --insecure-bind"):
        bind(host, 0)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_they_are_let_in_where_somebody_is(host: str) -> None:
    with bind(host, 0, open_to_others=True) as listener:
        assert listener.getsockname()[0] == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_this_machine_needs_no_leave(host: str) -> None:
    with bind(host, 0) as listener:
        assert is_loopback(listener.getsockname()[0])


@pytest.mark.parametrize("host", ["no-such-host.invalid", "256.1.1.1", "::g"])
def test_what_is_no_address_is_told(host: str) -> None:
    with pytest.raises(ConfigError, match="--host"):
        bind(host, 0)
