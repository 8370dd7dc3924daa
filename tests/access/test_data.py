"""Which port data connections have, by the settings."""

from __future__ import annotations

import pytest

from aclnn_server.access.data import port_of
from aclnn_server.config import ConfigError, ServerConfig

ANY_FREE = 0


@pytest.mark.parametrize(
    ("listen", "data_port", "port"),
    [
        ("127.0.0.1:50051", "auto", ANY_FREE),
        ("localhost:50051", "auto", ANY_FREE),
        ("[::1]:50051", "auto", ANY_FREE),
        ("0.0.0.0:50051", "auto", None),
        ("[::]:50051", "auto", None),
        ("npu-1.example.org:50051", "auto", None),
        ("unix:/run/aclnn.sock", "auto", None),
        ("0.0.0.0:50051", "50052", 50052),
        ("127.0.0.1:50051", "65535", 65535),
        ("127.0.0.1:50051", "off", None),
        ("unix:/run/aclnn.sock", "off", None),
    ],
)
def test_the_port_that_the_settings_name(listen: str, data_port: str, port: int | None) -> None:
    assert port_of(ServerConfig(listen=listen, data_port=data_port)) == port


def test_a_socket_file_has_no_other_port() -> None:
    told = (
        "data_port is 50052, and --listen unix:/run/aclnn.sock is no host; it must be auto or off"
    )
    with pytest.raises(ConfigError, match=told):
        port_of(ServerConfig(listen="unix:/run/aclnn.sock", data_port="50052"))
