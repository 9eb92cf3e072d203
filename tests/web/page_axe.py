"""axe-core over a screen: what people with disabilities could not see, reach or understand."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

RUN = """async (options) => (await axe.run(document, { resultTypes: ["violations"], ...options })).violations
  .flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.target.join(" ")}: ${node.failureSummary}`))"""
COLOURS = ("color-contrast", "link-in-text-block")
"""The rules that depend on colours, and on nothing else that a theme changes."""


def violations(page: Any, *rules: str) -> list[str]:
    """Everything that axe-core objects to, with where it is; of some rules alone where they are named."""
    page.evaluate("document.fonts.ready")
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    found: list[str] = page.evaluate(RUN, {"runOnly": list(rules)} if rules else {})
    return found
