"""The overview tells who does what, and nothing that lets anybody in."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from aclnn import __version__
from aclnn.labels import label_of
from aclnn.overview import Overview, as_json, decode, encode
from aclnn.v1 import admin_service_pb2 as pb
from aclnn_client import connect, get_workspace_size
from aclnn_server.metrics.overview import Observer
from tests.contract.golden_admin import GOLDEN
from tests.metrics.asking import ask
from tests.metrics.conftest import Start
from tests.service.gated import GatedBackend

ONES = np.ones((4, 2), np.float32)
BIG = np.ones(2**19, np.float32)


def test_an_overview_survives_the_wire() -> None:
    (response,) = [m for name, m, _ in GOLDEN if name == "GetOverviewResponse"]
    assert isinstance(response, pb.GetOverviewResponse)
    overview = decode(response)
    assert decode(encode(overview)) == overview
    assert (overview.uptime, overview.window, overview.contexts[0].age) == (60.0, 10.0, 2.0)
    assert overview.contexts[0].limit_bytes == 2**40
    assert json.loads(json.dumps(as_json(overview)))["contexts"][0]["streams"][0] == {
        "label": "4e5f6071",
        "queued_commands": 1,
        "activity": dataclasses.asdict(overview.contexts[0].streams[0].activity),
    }


def test_everything_an_overview_has_is_in_the_schema() -> None:
    """A field that one side has and the other has not would be lost without a word."""

    def check(value: object, message: object) -> None:
        names = {field.name for field in message.DESCRIPTOR.fields}  # type: ignore[attr-defined]
        assert names == {field.name for field in dataclasses.fields(value)}  # type: ignore[arg-type]

    (response,) = [m for name, m, _ in GOLDEN if name == "GetOverviewResponse"]
    overview = decode(response)  # type: ignore[arg-type]
    (device,), (context,), (operator,) = overview.devices, overview.contexts, overview.operators
    assert isinstance(response, pb.GetOverviewResponse)
    for value, message in (
        (overview, response),
        (overview.usage, response.usage),
        (overview.activity, response.activity),
        (overview.activity.latency, response.activity.latency),
        (device, response.devices[0]),
        (device.device, response.devices[0].device),
        (context, response.contexts[0]),
        (context.streams[0], response.contexts[0].streams[0]),
        (operator, response.operators[0]),
    ):
        check(value, message)


def test_who_does_what(start: Start, backend: GatedBackend) -> None:
    server = start(backend, workers=1)
    with connect(server.address, shared_memory=False) as busy, connect(server.address) as idle:
        idle.synchronize()
        small = busy.tensor(ONES)
        out = busy.empty(ONES.shape, "float32")
        for _ in range(6):
            _, executor = get_workspace_size("aclnnPlus", (small, 1, out))
            executor.run()
        busy.synchronize()
        big, big_out = busy.tensor(BIG), busy.empty(BIG.shape, "float32")
        for _ in range(3):
            _, executor = get_workspace_size("aclnnPass", (big, 1, big_out))
            executor.run()
        busy.usage()
        backend.gates[1].wait_entered()
        overview = server._observer.look()
        backend.gates.open_all()
        busy.synchronize()

        assert (overview.version, overview.backend) == (__version__, "gated")
        assert (overview.ready, overview.counted, overview.submit_calls) == (True, True, 2)
        assert overview.usage.contexts == overview.devices[0].device.context_count == 2
        first, second = overview.contexts
        assert first.label == busy.label
        assert first.usage.queued_commands == 3
        assert first.usage.bytes == 2 * ONES.nbytes + 2 * BIG.nbytes
        assert first.activity.latency.runs == 6
        assert first.client_name.startswith("aclnn-client-python/")
        assert first.streams[0].label == busy.default_stream.label
        assert first.streams[0].queued_commands == 3
        assert first.streams[0].activity.latency.runs == 6
        assert second.activity.latency.runs == 0
        assert [(row.operator, row.runs, row.failures) for row in overview.operators] == [
            ("aclnnPlus", 6, 0)
        ]


def test_no_secret_is_in_it(start: Start) -> None:
    server = start()
    with connect(server.address) as context:
        context.ops.add(ONES, ONES)
        told = ask(server, "/status.json")[1].decode() + ask(server, "/metrics")[1].decode()
        contexts = server.registry.contexts
        secrets = [each.id for each in contexts]
        secrets += [session.id for each in contexts for session in each.list_sessions()]
    assert len(secrets) == 2
    for secret in secrets:
        assert secret not in told
        assert secret.partition("-")[2] not in told
        assert label_of(secret) in told


@pytest.mark.parametrize(("contexts", "streams", "listed"), [(0, 0, (3, 2)), (2, 1, (2, 1))])
def test_what_is_listed_is_limited(
    contexts: int, streams: int, listed: tuple[int, int], start: Start
) -> None:
    server = start()
    opened = [connect(server.address) for _ in range(3)]
    more = [each.create_stream() for each in opened]
    overview = server._observer.look(contexts, streams)
    assert (len(overview.contexts), len(overview.contexts[0].streams)) == listed
    assert overview.usage.contexts == 3
    del more
    for context in opened:
        context.close()


def test_long_names_of_clients_are_cut(start: Start) -> None:
    import grpc

    from tests.service.calling import Stubs

    server = start()
    with grpc.insecure_channel(server.address) as channel:
        Stubs(channel).create_context(client_name="<b>" + "x" * 5000)
        (context,) = server._observer.look().contexts
    assert context.client_name == "<b>" + "x" * 97


def test_without_metering_it_tells_what_is_held(start: Start) -> None:
    server = start(metering=False)
    with connect(server.address) as context:
        context.ops.add(ONES, ONES)
        overview = server._observer.look()
    assert (overview.counted, overview.usage.contexts, len(overview.contexts)) == (False, 1, 1)
    assert overview.activity == Overview().activity
    assert overview.operators == ()


def test_an_observer_keeps_only_the_looks_that_it_needs(start: Start) -> None:
    now = 0.0
    server = start()
    observer = Observer(dataclasses.replace(server._sources, clock=lambda: now))
    for step in range(200):
        now = step * 0.25
        observer.look()
    assert len(observer._windows._looks) <= 7
