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


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    """``opened(stub, "#/library", **context)`` gives a page, without a stub at any address.

    Anything the console complains of fails the test.
    """
    said: list[str] = []
    with ExitStack() as stack:

        def open_page(stub: Stub | None, at: str = "", **options: Any) -> Any:
            url = stack.enter_context(Server(stub)).url if stub else ""
            context = browser.new_context(**options)
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
            page.goto(url + at)
            return page

        yield open_page
    # The browser itself writes a line for every answer that is not a 2xx; those are looked at by the tests.
    assert [line for line in said if "Failed to load resource" not in line] == []
