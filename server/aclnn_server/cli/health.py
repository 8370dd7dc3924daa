"""``aclnn-serve health``: whether a server serves, as an exit code."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from aclnn_server.cli.exits import CommandError, Exit, describe_exits
from aclnn_server.cli.own_server import CERTIFICATE, DEFAULT, LISTEN, own_address, own_tls
from aclnn_server.cli.parsing import (
    PROGRAM,
    Commands,
    Parser,
    add_command,
    add_timeout,
    append_help,
)
from aclnn_server.cli.remote import Credentials, add_credentials, connection, credentials

if TYPE_CHECKING:
    from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse


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

            Without ADDRESS it asks this machine's own server, at the {LISTEN} that both have in their
            environment, or at the default of serve; and with TLS where {CERTIFICATE}
            is there too.
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
        help=f"HOST:PORT or unix:PATH of a server (default: {LISTEN}, or {DEFAULT})",
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
    known = credentials(options)
    address = options.address or own_address(os.environ)
    if not options.address and known.tls is None:
        known = replace(known, tls=own_tls(os.environ, address, options.timeout))
    status = _ask(address, options.service, options.timeout, known)
    print(status)
    return Exit.DONE if status == "SERVING" else Exit.NO


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
