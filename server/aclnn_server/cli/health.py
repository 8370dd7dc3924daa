"""``aclnn-serve health``: whether a server serves, as an exit code."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, cast

from aclnn_server.cli.exits import CommandError, Exit, describe_exits
from aclnn_server.cli.parsing import (
    PROGRAM,
    Commands,
    Parser,
    add_address,
    add_command,
    add_timeout,
    append_help,
)

if TYPE_CHECKING:
    import grpc


def add(commands: Commands[Parser]) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "health",
        run,
        summary="tell whether a server serves, by the exit code",
        details="""
            Asks a server by grpc.health.v1 and prints its answer. Meant for the health check of a container.

            The empty --service is readiness: it ends when the server begins to stop. "liveness" is served
            for as long as the process lives.
            """,
        examples=f"""
            {PROGRAM} health 127.0.0.1:50051
            {PROGRAM} health unix:/run/aclnn.sock --service liveness --timeout 1
            """,
    )
    add_address(parser)
    parser.add_argument("--service", default="", metavar="NAME", help="what to ask about")
    add_timeout(parser, 5.0)
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
    status = _ask(options.address, options.service, options.timeout)
    print(status)
    return Exit.DONE if status == "SERVING" else Exit.NO


def _ask(address: str, service: str, timeout: float) -> str:
    import grpc
    from grpc_health.v1 import health_pb2

    with _channel(address) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        try:
            response = check(health_pb2.HealthCheckRequest(service=service), timeout=timeout)
        except grpc.RpcError as error:
            raise _failure(error, address, service) from None
    return health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)


def _failure(error: grpc.RpcError, address: str, service: str) -> CommandError:
    import grpc

    from aclnn.status import from_rpc_error

    if cast("grpc.Call", error).code() is grpc.StatusCode.NOT_FOUND:
        return CommandError(f"{address}: the server has no service {service!r}", Exit.NO)
    told = from_rpc_error(error).message
    return CommandError(told if address in told else f"{address}: {told}", Exit.NO)


def _channel(address: str) -> grpc.Channel:
    import grpc

    from aclnn.errors import InvalidParameterError
    from aclnn_client.connection import is_local, target_of

    try:
        target, host = target_of(address)
    except InvalidParameterError as error:
        raise CommandError(error.message) from None
    options = [("grpc.enable_http_proxy", 0)] if is_local(host) else []
    return grpc.insecure_channel(target, options)
