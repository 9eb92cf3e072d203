"""Every screen in both themes and at a phone's width: axe-core finds nothing, and nothing sticks out.

``mkdir tests/web/screenshots`` has pictures of them kept there.
"""

from typing import Any

import pytest

from web.page_axe import COLOURS, violations
from web.page_data import UNPLAYABLE, UPLOAD, searched
from web.page_steps import Open, keep_picture, until, visit
from web.page_stub import Stub

pytest_plugins = ["web.page_browser"]

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


def looked_at(page: Any, screen: str, name: str, whole: bool = False) -> None:
    """A screen as it is; on a desk in dark colours, too, which a phone has the same."""
    assert violations(page) == [], screen
    page.evaluate("window.scrollTo(0, 0)")
    room = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert room[0] <= room[1], f"{screen} is wider than the window"
    keep_picture(page, f"{screen}-{name}", whole)
    if name == "phone":
        return
    page.emulate_media(color_scheme="dark")
    assert violations(page, *COLOURS) == [], f"{screen}, dark"
    keep_picture(page, f"{screen}-{name}-dark", whole)
    page.emulate_media(color_scheme="light")


@pytest.mark.parametrize("name", ["desk", "phone"])
def test_every_screen(opened: Open, name: str) -> None:
    stub = Stub(videos=70)
    stub.looked = True
    stub.start("search", "Search for my clip.webm", searched(stub.videos, {"upload": UPLOAD, "k": 20}))
    page = opened(stub, "#/library", **({"viewport": PHONE, "has_touch": True} if name == "phone" else {}))

    def shot(screen: str, whole: bool = True) -> None:
        looked_at(page, screen, name, whole)

    ready(page, "#/library?sort=-name&page=2")  # axe-core takes long over long lists
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


def test_screens_with_nothing_on_them(opened: Open) -> None:
    page = opened(Stub(videos=0), "#/library")
    page.get_by_role("link", name="Add videos").wait_for()
    looked_at(page, "empty-library", "desk")
    visit(page, "#/duplicates")
    page.get_by_text("It takes two videos").wait_for()
    looked_at(page, "empty-duplicates", "desk")
    locked = opened(Stub(token="secret"))
    locked.get_by_label("Token").wait_for()
    looked_at(locked, "login", "desk")
