"""Chromium for tests of the page: found, or installed; where neither can be, the tests are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from web import chromium
from web.page_steps import Open
from web.page_stub import Server, Stub

PATIENCE_MS = 30_000
"""How long a step may take before it counts as never: a machine under load is slow, not wrong."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for all tests."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path, why = chromium.found(), ""
    if path is None:
        path, why = chromium.installed()
    if path is None:
        pytest.skip(why)
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


class Tab:
    """A page, and what its console complained of."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.said: list[str] = []
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("console", lambda line: self.said.append(line.text) if line.type == "error" else None)

    def clear(self) -> None:
        """As if nobody had been here: whatever ran or was kept is gone."""
        self.page.unroute_all()
        if self.page.url.startswith("http"):
            self.page.evaluate("localStorage.clear()")
        self.page.goto("about:blank")
        self.context.clear_cookies()
        self.context.clear_permissions()
        self.page.emulate_media(color_scheme="light")


@pytest.fixture(scope="session")
def shared_tab(browser: Any) -> Iterator[tuple[Tab, Server]]:
    """One page for all tests, and a server whose stub they change: a context of its own would cost each a second."""
    tab = Tab(browser)
    with Server(Stub()) as server:
        yield tab, server
    tab.context.close()


@pytest.fixture
def opened(browser: Any, shared_tab: tuple[Tab, Server]) -> Iterator[Open]:
    """``opened(stub, "#/library")`` gives a page, without a stub at any address; options make it one of its own.

    Anything the console complains of fails the test.
    """
    tab, server = shared_tab
    tab.said.clear()
    said = [tab.said]
    with ExitStack() as stack:
        stack.callback(tab.clear)

        def open_page(stub: Stub | None, at: str = "", **options: Any) -> Any:
            if options:
                own = Tab(browser, **options)
                said.append(own.said)
                stack.callback(own.context.close)
                url = stack.enter_context(Server(stub)).url if stub else ""
                own.page.goto(url + at)
                return own.page
            if stub:
                stack.callback(stub.hold.set)
                server.stub = stub
            tab.page.goto((server.url if stub else "") + at)
            return tab.page

        yield open_page
    # The browser itself writes a line for every answer that is not a 2xx; those are looked at by the tests.
    heard = [line for lines in said for line in lines if "Failed to load resource" not in line]
    assert heard == []
