"""Every screen in both themes and at a phone's width: axe-core finds nothing, nothing sticks out, pictures are kept."""

from pathlib import Path
from typing import Any

import pytest

from web.page_axe import violations
from web.page_data import UNPLAYABLE, UPLOAD, searched
from web.page_steps import Open, until, visit
from web.page_stub import Stub

pytest_plugins = ["web.page_browser"]

SHOTS = Path(__file__).parent / "screenshots"
PHONE = {"width": 360, "height": 740}
MATCH = f"#/match?query=upload:{UPLOAD}&target=video:0000"


PICTURES = """[...document.images].every((i) => i.complete || i.getBoundingClientRect().top > innerHeight)"""


def ready(page: Any, at: str) -> None:
    """Go to a screen and wait for what it shows last."""
    visit(page, at)
    selector = {"library": ".row", "search": ".picks li", "match": ".scale", "add": ".job, .sheet"}
    name = at.removeprefix("#/").split("?")[0]
    page.wait_for_selector(selector.get(name, ".group, .empty"))
    until(page, PICTURES)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("light", {"color_scheme": "light"}),
        ("dark", {"color_scheme": "dark"}),
        ("phone", {"color_scheme": "light", "viewport": PHONE, "has_touch": True}),
    ],
)
def test_every_screen(opened: Open, name: str, settings: dict[str, Any]) -> None:
    SHOTS.mkdir(exist_ok=True)
    stub = Stub()
    stub.looked = True
    stub.start("search", "Search for my clip.webm", searched(stub.videos, {"upload": UPLOAD, "k": 20}))
    page = opened(stub, "#/library", **settings)

    def shot(screen: str, whole: bool = True) -> None:
        assert violations(page) == [], screen
        page.evaluate("window.scrollTo(0, 0)")
        room = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert room[0] <= room[1], f"{screen} is wider than the window"
        page.screenshot(path=SHOTS / f"{screen}-{name}.png", full_page=whole)

    ready(page, "#/library")
    page.get_by_label("Select holiday 0004.mp4").check()
    shot("library", whole=False)
    page.get_by_role("button", name="Grid").click()
    page.wait_for_selector(".tile")
    until(page, PICTURES)
    shot("grid", whole=False)
    page.get_by_role("button", name="Play holiday 0005.mp4").click()
    page.wait_for_selector("dialog video")
    shot("play", whole=False)
    page.keyboard.press("Escape")
    ready(page, "#/search")
    shot("search")
    visit(page, "#/search?jobs=job1,job1")
    page.wait_for_selector(".row .button")
    shot("searches")
    visit(page, f"#/search?video={UNPLAYABLE}")
    page.wait_for_selector(".hit")
    until(page, PICTURES)
    page.locator("summary", has_text="came closest").click()
    shot("hits")
    ready(page, MATCH)
    page.locator("#frame_matrix").hover(position={"x": 60, "y": 30})
    until(page, "document.querySelectorAll('.lens img:not([hidden])').length === 2")
    until(page, "[...document.querySelectorAll('video')].every((v) => v.readyState >= 2)")
    shot("match")
    assert page.evaluate("document.querySelectorAll('h1, main, nav[aria-label=Screens]').length") == 3
    page.locator(".evidence summary").click()
    shot("match-export", whole=False)
    stub.review.decide({"files": [{"file": "1a", "action": "keep"}, {"file": "1b", "action": "drop"}]})
    stub.review.newer = {"added": 3, "gone": 0}
    ready(page, "#/duplicates")
    shot("duplicates", whole=False)
    ready(page, "#/duplicates?view=list&show=all")
    page.locator(".menu summary").click()
    shot("duplicates-list", whole=False)
    stub.hold.clear()
    stub.start("add", "Add /videos/2024", None)
    ready(page, "#/add")
    page.wait_for_selector("progress[value]")
    page.wait_for_timeout(400)  # the bar moves there
    shot("add")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    shot("keyboard", whole=False)
    page.keyboard.press("Escape")


@pytest.mark.parametrize("name", ["light", "dark"])
def test_screens_with_nothing_on_them(opened: Open, name: str) -> None:
    SHOTS.mkdir(exist_ok=True)
    page = opened(Stub(videos=0), "#/library", color_scheme=name)
    page.get_by_role("link", name="Add videos").wait_for()
    assert violations(page) == []
    page.screenshot(path=SHOTS / f"empty-library-{name}.png")
    visit(page, "#/duplicates")
    page.get_by_text("It takes two videos").wait_for()
    assert violations(page) == []
    page.screenshot(path=SHOTS / f"empty-duplicates-{name}.png")
    locked = opened(Stub(token="secret"), color_scheme=name)
    locked.get_by_label("Token").wait_for()
    assert violations(locked) == []
    locked.screenshot(path=SHOTS / f"login-{name}.png")
