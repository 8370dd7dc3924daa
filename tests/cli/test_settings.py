"""Settings: flags, variables, and what is said of variables that are none."""

from __future__ import annotations

import pytest

from aclnn_server.config import ServerConfig, load, unknown_variables


def test_a_flag_beats_a_variable_beats_the_default() -> None:
    environment = {"ACLNN_SERVE_THREADS": "3", "ACLNN_SERVE_WORKERS": "4", "ACLNN_SERVE_SOC": ""}
    config = load({"threads": "5"}, environment)
    assert (config.threads, config.workers, config.soc) == (5, 4, ServerConfig().soc)


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("ACLNN_SERVE_LISTENS", "ACLNN_SERVE_LISTEN?"),
        ("ACLNN_SERVE_LEASE_SECOND", "ACLNN_SERVE_LEASE_SECONDS?"),
        ("ACLNN_SERVE_ALLOW_INSECURES", "ACLNN_SERVE_ALLOW_INSECURE?"),
        ("ACLNN_SERVE_QQQ", None),
        ("ACLNN_SERVE_", None),
    ],
)
def test_a_variable_that_is_no_setting_is_told_without_its_value(
    variable: str, told: str | None
) -> None:
    (text,) = unknown_variables({variable: "secret", "PATH": "/bin", "ACLNN_SERVE_LISTEN": "x"})
    assert text == f"{variable} is no setting and has no effect" + (
        f"; did you mean {told}" if told else ""
    )


def test_what_the_commands_of_clients_read_is_no_mistake() -> None:
    names = ("ACLNN_SERVE_TOKEN", "ACLNN_SERVE_TOKEN_FILE", "ACLNN_SERVE_TLS_CA")
    assert unknown_variables(dict.fromkeys(names, "x")) == []
