"""The HTTP listener: uvicorn on a socket we bound, without its hands on our signals."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from triage.app.sections import HttpSection
from triage.errors import ConfigError

BACKLOG = 1024
KEEP_ALIVE_S = 75  # longer than the idle limit of Alertmanager's and most proxies' clients


class CannotListen(ConfigError):
    """The address is taken, or is none of this machine's."""

    reason = "cannot_listen"


class Server(uvicorn.Server):
    """Signals belong to the daemon: it drains before it lets the server end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(section: HttpSection) -> socket.socket:
    """A listening socket. Raises CannotListen."""
    family = socket.AF_INET6 if ":" in section.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((section.host, section.port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise CannotListen(
            f"cannot listen on {section.listen}: {error.strerror or error};"
            " is another triage running, or is the address not this machine's?"
        ) from error
    return listener


def make_server(application: ASGIApp, section: HttpSection) -> Server:
    """Raises ConfigError for TLS files that cannot be used."""
    config = uvicorn.Config(
        application,
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        ssl_certfile=str(section.tls_cert_file) if section.tls_cert_file else None,
        ssl_keyfile=str(section.tls_key_file) if section.tls_key_file else None,
    )
    try:
        config.load()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"http.tls_cert_file and http.tls_key_file cannot be used: {error}"
        ) from error
    return Server(config)


def url_of(listener: socket.socket, section: HttpSection) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "https" if section.tls_cert_file else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
