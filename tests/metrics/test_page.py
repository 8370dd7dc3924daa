"""The page in a real browser: what it shows, to whom, and what it never runs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import grpc
import numpy as np
import pytest

from aclnn.v1 import device_service_pb2 as pb
from aclnn_client import connect
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.metrics.browser import PROGRAMS, Browser
from tests.metrics.programs import program
from tests.service.calling import Stubs

ONES = np.ones((4, 2), np.float32)
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
STATE = "document.getElementById('state')?.textContent"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with metrics."""
    with Server(ServerConfig(listen="127.0.0.1:0", metrics_listen="127.0.0.1:0")) as server:
        yield server


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser that has nothing to complain of when the tests are over."""
    found = program(*PROGRAMS, package="chromium")
    with Browser(found, tmp_path_factory.mktemp("browser")) as browser:
        yield browser
        assert browser.said == []


def show(browser: Browser, server: Server, **how: bool) -> None:
    """Opens the page, and waits for its first answer."""
    browser.open(f"http://{server.metrics_address}/", **how)
    browser.wait_for(STATE, lambda value: value == "serving")


def rows(browser: Browser, table: str) -> list[list[str]]:
    """The texts of a table's rows."""
    script = (
        f"JSON.stringify([...document.querySelectorAll('#{table} tbody tr')]"
        ".map(row => [...row.cells].map(cell => cell.textContent)))"
    )
    found: list[list[str]] = json.loads(browser.run(script))
    return found


def test_it_shows_who_does_what(server: Server, browser: Browser) -> None:
    with connect(server.address, shared_memory=False) as context:
        kept = context.tensor(np.zeros(2**18, np.float32))
        for _ in range(7):
            context.ops.add(ONES, ONES)
        show(browser, server)
        contexts, operators = rows(browser, "contexts"), rows(browser, "operators")
        kept.free()
    assert contexts[0][0] == context.label
    assert contexts[0][4] == "1 MiB of 16 GiB"
    assert operators[0][:3] == ["aclnnAdd", "7", "0"]
    assert rows(browser, "devices")[0][1] == server.backend.devices[0].name
    parts = browser.run("document.querySelector('#operators .bar').getAttribute('aria-label')")
    assert [part.rsplit(" ", 2)[0] for part in parts.split(", ")][:1] == ["queue"]


def test_it_keeps_up_and_pauses(server: Server, browser: Browser) -> None:
    show(browser, server)
    browser.run("document.getElementById('pause').click()")
    assert browser.run("document.getElementById('pause').getAttribute('aria-pressed')") == "true"
    browser.run("document.getElementById('pause').click()")
    with connect(server.address) as context:
        browser.wait_for(
            "document.querySelector('#contexts tbody th')?.textContent",
            lambda value: value == context.label,
        )
    browser.wait_for(
        "document.querySelector('#contexts tbody').textContent",
        lambda value: value == "no client is connected",
    )


def test_names_that_clients_choose_stay_text(server: Server, browser: Browser) -> None:
    with grpc.insecure_channel(server.address) as channel:
        context = Stubs(channel).create_context(client_name=HOSTILE)
        show(browser, server)
        shown = rows(browser, "contexts")
        assert browser.run("document.images.length") == 0
        assert browser.run("document.title") == "aclnn-serve"
        request = pb.DestroyContextRequest(context_id=context.context_id)
        Stubs(channel).device.DestroyContext(request, timeout=30)
    assert HOSTILE in shown[0]


def test_it_is_light_or_dark_as_the_browser_is(server: Server, browser: Browser) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    shades = []
    for dark in (False, True):
        show(browser, server, dark=dark)
        shades.append(browser.run(ground))
    assert shades == ["rgb(246, 247, 249)", "rgb(17, 22, 29)"]


@pytest.mark.parametrize("dark", [False, True])
def test_its_text_stands_out(dark: bool, server: Server, browser: Browser) -> None:
    """WCAG 2: a contrast of 4.5 to 1 for text of every colour on every ground."""
    show(browser, server, dark=dark)
    script = """JSON.stringify(Object.fromEntries(
        ["ground", "card", "text", "soft", "accent", "good", "bad"].map(name =>
            [name, getComputedStyle(document.documentElement).getPropertyValue("--" + name)])))"""
    colours = {
        name: luminance(text.strip()) for name, text in json.loads(browser.run(script)).items()
    }
    for text in ("text", "soft", "accent", "good", "bad"):
        for ground in ("ground", "card"):
            light, shade = sorted((colours[text], colours[ground]), reverse=True)
            assert (light + 0.05) / (shade + 0.05) >= 4.5, f"{text} on {ground}"


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb``, as WCAG defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_it_can_be_used_without_seeing_it(server: Server, browser: Browser) -> None:
    show(browser, server)
    assert browser.run("document.documentElement.lang") == "en"
    unnamed = "[...document.querySelectorAll('table')].filter(t => !t.caption?.textContent).length"
    assert browser.run(unnamed) == 0
    unscoped = "[...document.querySelectorAll('th')].filter(th => !th.scope).length"
    assert browser.run(unscoped) == 0
    assert browser.run("document.querySelectorAll('h1').length") == 1
    assert browser.run("document.getElementById('state').getAttribute('role')") == "status"


def test_it_fits_a_telephone(server: Server, browser: Browser) -> None:
    browser.open(f"http://{server.metrics_address}/", 380, 700)
    browser.wait_for(STATE, lambda value: value == "serving")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")


def test_it_says_when_the_server_is_gone(browser: Browser) -> None:
    server = Server(ServerConfig(listen="127.0.0.1:0", metrics_listen="127.0.0.1:0")).start()
    show(browser, server)
    server.stop(0)
    browser.wait_for("document.getElementById('notice').hidden === false")
    assert browser.run(STATE) == "no answer"
    browser.wait_for("0", lambda _: any("Failed to load" in said for said in browser.said))
    browser.said.clear()
