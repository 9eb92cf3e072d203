"""axe-core over a screen: what people with disabilities could not see, reach or understand."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

RUN = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
  .flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.target.join(" ")}: ${node.failureSummary}`))"""


def violations(page: Any) -> list[str]:
    """Everything that axe-core objects to, with where it is."""
    page.evaluate("document.fonts.ready")
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    found: list[str] = page.evaluate(RUN)
    return found
