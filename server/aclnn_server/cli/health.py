"""``aclnn-serve health``: whether a server serves, as an exit code."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from aclnn_server.cli.exits import CommandError, Exit, describe_exits
from aclnn_server.cli.parsing import (
    PROGRAM,
    Commands,
    Parser,
    add_command,
    add_timeout,
    append_help,
)
from aclnn_server.cli.remote import Credentials, add_credentials, connection, credentials
from aclnn_server.config import ENVIRONMENT_PREFIX, ServerConfig

if TYPE_CHECKING:
    from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

_VARIABLE = f"{ENVIRONMENT_PREFIX}LISTEN"
_DEFAULT = ServerConfig().listen
_LOOPBACKS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
"""Where a server is reached that listens on all addresses."""


def add(commands: Commands[Parser]) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "health",
        run,
        summary="tell whether a server serves, by the exit code",
        details=f"""
            Asks a server by grpc.health.v1 and prints its answer. Meant for the health check of a container.

            The empty --service is readiness: it ends when the server begins to stop. "liveness" is served
            for as long as the process lives.

            Without ADDRESS it asks this machine's own server, at the {_VARIABLE} that both have in their
            environment, or at the default of serve.
            """,
        examples=f"""
            {PROGRAM} health
            {PROGRAM} health 127.0.0.1:50051
            {PROGRAM} health unix:/run/aclnn.sock --service liveness --timeout 1
            {PROGRAM} health localhost:50051 --tls-ca /tls/ca.crt --tls-server-name npu.example.org
            """,
    )
    parser.add_argument(
        "address",
        metavar="ADDRESS",
        nargs="?",
        help=f"HOST:PORT or unix:PATH of a server (default: {_VARIABLE}, or {_DEFAULT})",
    )
    parser.add_argument("--service", default="", metavar="NAME", help="what to ask about")
    add_timeout(parser, 5.0)
    add_credentials(parser)
    append_help(
        parser,
        describe_exits(
            *(Exit.DONE, Exit.NO, Exit.USAGE),
            DONE="it serves",
            NO="it does not serve, or nobody answers: health checks know 0 and 1 only",
        ),
    )


def run(options: argparse.Namespace) -> int:
    """Asks, prints the answer, and returns 0 where it is SERVING."""
    address = options.address or own_address(os.environ)
    status = _ask(address, options.service, options.timeout, credentials(options))
    print(status)
    return Exit.DONE if status == "SERVING" else Exit.NO


def own_address(environment: Mapping[str, str]) -> str:
    """Address at which a server that has this environment is reached from its own machine.

    Raises:
        CommandError: it picks a port that nobody else knows.
    """
    listen = environment.get(_VARIABLE) or _DEFAULT
    host, _, port = listen.rpartition(":")
    if port == "0" and not listen.startswith("unix:"):
        raise CommandError(f"{_VARIABLE} is {listen!r}: the server picks a port; give its ADDRESS")
    return f"{_LOOPBACKS[host]}:{port}" if host in _LOOPBACKS else listen


def _ask(address: str, service: str, timeout: float, known: Credentials) -> str:
    import grpc
    from grpc_health.v1 import health_pb2

    from aclnn.errors import AclnnError

    with connection(address, timeout, known) as server:
        check = server.channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )

        def checked(request: HealthCheckRequest, **rest: Any) -> HealthCheckResponse:  # noqa: ANN401
            try:
                return check(request, **rest)
            except grpc.RpcError as error:
                if cast("grpc.Call", error).code() is not grpc.StatusCode.NOT_FOUND:
                    raise
            raise CommandError(f"{address}: the server has no service {service!r}", Exit.NO)

        request = health_pb2.HealthCheckRequest(service=service)
        try:
            response = server.call(checked, request, doing="asking for its health")
        except AclnnError as error:
            raise CommandError(error.message, Exit.NO) from None
    return health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)
