"""Steps that tests of the page take."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SHOTS = Path(__file__).parent / "screenshots"
Open = Callable[..., Any]
"""What the fixture ``opened`` is: ``opened(stub, "#/library")`` gives a page."""


def until(page: Any, expression: str, seconds: float = 30) -> Any:
    """Wait for an expression to become true in the page; Playwright's own way needs eval, which the policy forbids."""
    end = time.monotonic() + seconds
    while not (value := page.evaluate(expression)):
        assert time.monotonic() < end, f"never became true: {expression}"
        page.wait_for_timeout(30)
    return value


def keep_picture(page: Any, name: str, whole: bool = False) -> None:
    """A picture of the page, where someone has made the folder for them."""
    if SHOTS.is_dir():
        page.screenshot(path=SHOTS / f"{name}.png", full_page=whole)


def visit(page: Any, at: str) -> None:
    """Go to a screen of the page that is open."""
    page.goto(page.url.split("#")[0] + at)


def says(page: Any, text: str) -> None:
    """Wait for words that can be seen; those for screen readers alone do not count."""
    page.locator("main, #toasts, dialog").get_by_text(text).first.wait_for()
