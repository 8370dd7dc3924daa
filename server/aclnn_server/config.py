"""Configuration: a flag beats ``ACLNN_SERVE_*`` in the environment beats the default."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from aclnn_server.sessions.limits import Limits

ENVIRONMENT_PREFIX = "ACLNN_SERVE_"
CLIENT_VARIABLES = tuple(ENVIRONMENT_PREFIX + name for name in ("TOKEN", "TOKEN_FILE", "TLS_CA"))
"""What the commands that connect to a server read from the environment."""


class ConfigError(ValueError):
    """A setting has a value that it cannot have; the text names it and what is allowed."""


def _setting(default: object, text: str) -> Any:  # noqa: ANN401 - a dataclass field of any type
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Everything that can be set on a server."""

    listen: str = _setting(
        "127.0.0.1:50051", "HOST:PORT or unix:PATH to listen on; port 0 picks one"
    )
    backend: str = _setting(
        "numpy", "what computes: numpy, ascend (NPUs, through CANN), or null (computes nothing)"
    )
    device: str = _setting(
        "0",
        "NPUs that the ascend backend serves: numbers such as 0,1, or all; with 0,1 the numpy backend "
        "shows this processor as two devices",
    )
    deterministic: bool = _setting(
        True, "ask the ascend backend for operators that give the same bits at every run"
    )
    soc: str = _setting(
        "reference", "product whose dtype rules are enforced; reference accepts all"
    )
    threads: int = _setting(
        0, "threads that one kernel may use; 0: one per core that this process has"
    )
    workers: int = _setting(
        0, "streams whose large work runs at the same time; 0: one per core that this process has"
    )
    lease_seconds: float = _setting(60.0, "seconds after which a silent client's context ends")
    grace_seconds: float = _setting(10.0, "seconds that running work gets when the server stops")
    allow_insecure: bool = _setting(
        False, "listen on other than loopback addresses without TLS, or without asking who calls"
    )
    tls_certificate: str = _setting(
        "", "PEM file with the server's certificate and those between it and its root: serves TLS"
    )
    tls_key: str = _setting("", "PEM file with the private key of --tls-certificate")
    tls_client_ca: str = _setting(
        "", "PEM file with certificates that every client's own must be signed by (mutual TLS)"
    )
    tokens: str = _setting(
        "", "TOML file of the tokens that clients need, made with aclnn-serve token"
    )
    socket_mode: str = _setting("600", "permissions of the file of --listen unix:PATH, in octal")
    shared_memory: bool = _setting(
        True, "offer clients on this machine memory that they share with the server"
    )
    shared_memory_dir: str = _setting(
        "",
        "DIR that clients see too, for the socket where they get shared memory; without it that of "
        "--listen unix:PATH, else /dev/shm",
    )
    data_port: str = _setting(
        "auto",
        "port of data connections, which large writes and reads take; auto: any that is free, where only "
        "this machine can reach --listen, else none; off: none",
    )
    max_message_bytes: int = _setting(Limits.message_bytes, "bytes of one message")
    max_tensor_bytes: int = _setting(Limits.tensor_bytes, "bytes of one tensor's storage")
    max_context_bytes: int = _setting(Limits.context_bytes, "bytes of device memory of one context")
    max_contexts: int = _setting(Limits.contexts, "contexts of the server")
    max_streams: int = _setting(Limits.streams, "streams of one context")
    max_executors: int = _setting(Limits.executors, "executors of one context")
    max_queued_commands: int = _setting(Limits.queued_commands, "commands queued in one stream")
    max_queued_bytes: int = _setting(Limits.queued_bytes, "bytes of writes queued in one stream")
    max_buffers: int = _setting(Limits.buffers, "buffers of one context")
    max_events: int = _setting(Limits.events, "events of one context")
    max_submit_calls: int = _setting(Limits.submit_calls, "open Submit calls of the server")
    max_kept_bytes: int = _setting(
        2**30, "bytes of answers that the server keeps for clients that come back"
    )
    context_rate: float = _setting(1000.0, "new contexts a second of the server; 0: any number")
    client_context_rate: float = _setting(
        100.0, "new contexts a second of one token, or of one machine without; 0: any number"
    )
    metering: bool = _setting(
        True, "count what is done, for --metrics-listen, aclnn-serve top and the admin call"
    )
    metrics_listen: str = _setting(
        "", "HOST:PORT of Prometheus metrics and a page for people; without it there are none"
    )
    tracing: bool = _setting(
        False,
        "send OpenTelemetry spans of calls that clients follow to the collector that "
        "OTEL_EXPORTER_OTLP_ENDPOINT names, by default localhost:4317; needs the extra tracing",
    )
    log_level: str = _setting("info", "debug, info, warning or error")

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            lowest = 1 if setting.name.startswith("max_") else 0
            highest = _HIGHEST.get(setting.name, 2**63 - 1)
            if isinstance(value, (int, float)) and not lowest <= value <= highest:
                raise ConfigError(
                    f"{setting.name} is {value}; it must be at least {lowest} and at most {highest}"
                )
        if not self.lease_seconds:
            raise ConfigError("lease_seconds is 0; a context would end before it is used")
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ConfigError("only one of tls_certificate and tls_key is given; TLS needs both")
        if self.tls_client_ca and not self.tls_certificate:
            raise ConfigError("tls_client_ca is given without tls_certificate and tls_key")
        if not re.fullmatch("0?[0-7]{3}", self.socket_mode):
            raise ConfigError(
                f"socket_mode is {self.socket_mode!r}; it must be three octal digits, for example 660"
            )
        if self.log_level not in _LOG_LEVELS:
            raise ConfigError(
                f"log_level is {self.log_level!r}; allowed are {', '.join(_LOG_LEVELS)}"
            )

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        names = (limit.name for limit in fields(Limits))
        return Limits(**{name: getattr(self, f"max_{name}") for name in names})


_LOG_LEVELS = ("debug", "info", "warning", "error")
_HIGHEST = {
    "lease_seconds": 10**9,  # some thirty years; no thread waits longer
    "grace_seconds": 10**9,
    "max_message_bytes": 2**31 - 1,  # gRPC's own
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a flag for every setting."""
    for setting in fields(ServerConfig):
        flag = "--" + setting.name.replace("_", "-")
        default = setting.default
        text = setting.metadata["help"]
        text += "" if default == "" else f" (default: {default})"
        if isinstance(default, bool):
            parser.add_argument(
                flag,
                action=argparse.BooleanOptionalAction,
                default=None,
                help=setting.metadata["help"],
            )
        else:
            parser.add_argument(flag, default=None, metavar=_metavar(setting), help=text)


def _metavar(setting: dataclasses.Field[Any]) -> str:
    if setting.default == "":
        return "DIR" if setting.name.endswith("_dir") else "FILE"
    if setting.name.endswith("_seconds"):
        return "SECONDS"
    return "TEXT" if isinstance(setting.default, str) else "N"


def load(flags: Mapping[str, object], environment: Mapping[str, str] = os.environ) -> ServerConfig:
    """Builds the configuration.

    Args:
        flags: values by setting, ``None`` or missing where not given.
        environment: where ``ACLNN_SERVE_<SETTING>`` is looked up.

    Raises:
        ConfigError: a value cannot be read or is not allowed; the text names the flag or variable.
    """
    values: dict[str, object] = {}
    for setting in fields(ServerConfig):
        variable = ENVIRONMENT_PREFIX + setting.name.upper()
        if flags.get(setting.name) is not None:
            flag = "--" + setting.name.replace("_", "-")
            values[setting.name] = _read(setting, flags[setting.name], flag)
        elif environment.get(variable):
            values[setting.name] = _read(setting, environment[variable], variable)
    return ServerConfig(**values)  # type: ignore[arg-type]


def unknown_variables(environment: Mapping[str, str] = os.environ) -> list[str]:
    """What to say of each ``ACLNN_SERVE_…`` variable that is none: it has no effect, and what was meant.

    Their values are not told.
    """
    known = {setting.name.upper() for setting in fields(ServerConfig)}
    told = []
    for variable in sorted(set(environment) - set(CLIENT_VARIABLES)):
        name = variable.removeprefix(ENVIRONMENT_PREFIX)
        if name == variable or name in known:
            continue
        near = difflib.get_close_matches(name, known, 1, 0.75)
        meant = f"; did you mean {ENVIRONMENT_PREFIX}{near[0]}?" if near else ""
        told.append(f"{variable} is no setting and has no effect{meant}")
    return told


def _read(setting: dataclasses.Field[Any], value: object, source: str) -> object:
    default: object = setting.default
    kind: type[Any] = type(default)
    if not isinstance(value, str):
        return value
    if isinstance(default, bool):
        lowered = value.lower()
        if lowered not in _BOOLEANS:
            raise ConfigError(f"{source} is {value!r}; allowed are {', '.join(_BOOLEANS)}")
        return _BOOLEANS[lowered]
    try:
        return kind(value)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise ConfigError(f"{source} is {value!r}, which is not {what}") from None


_BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
