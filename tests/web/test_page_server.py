"""The page and the real server together: from a clip to where it was reused."""

from pathlib import Path

from web.conftest import Running
from web.page_axe import violations
from web.page_steps import Open, keep_picture, says, until

pytest_plugins = ["web.page_browser"]


def test_find_where_a_clip_was_reused(opened: Open, shared: Running, root: Path) -> None:
    page = opened(None, f"{shared.url}/#/library")
    says(page, "cat.mp4")
    says(page, "Failed:")
    until(page, "[...document.querySelectorAll('.row img')].every((i) => i.naturalWidth > 0)")
    keep_picture(page, "server-library")
    page.get_by_role("link", name="Search", exact=True).click()
    page.set_input_files("#file", root / "cut.mp4")
    page.get_by_role("link", name="Compare with cat.mp4").wait_for(timeout=60_000)
    until(page, "document.querySelector('.asked img').naturalWidth > 0", 30)
    keep_picture(page, "server-hits")
    page.get_by_role("link", name="Compare with cat.mp4").click()
    page.wait_for_selector(".scale", timeout=60_000)
    # cut.mp4 is the third to the fifth second of cat.mp4; frames are looked at once a second.
    start, other = page.evaluate(
        "[...document.querySelectorAll('.slider')].map((s) => Number(s.dataset.time))"
    )
    assert abs(other - start - 2) <= 1, page.locator(".chips").inner_text()
    page.locator("#frame_matrix").hover()
    until(page, "[...document.querySelectorAll('.lens img')].every((i) => i.naturalWidth > 0)", 30)
    until(page, "[...document.querySelectorAll('video')].every((v) => v.readyState >= 2)")
    page.evaluate("window.scrollTo(0, 0)")
    keep_picture(page, "server-match", whole=True)
    assert page.locator(".verdict").first.inner_text().startswith(("Copy", "Related"))


def test_the_api_is_tried_on_its_page(opened: Open, shared: Running) -> None:
    page = opened(None, f"{shared.url}/docs")
    page.locator("summary", has_text="/api/v1/videos").first.click()
    call = page.locator("details.call[open]")
    call.get_by_label("q of GET /api/v1/videos", exact=True).fill("coffee")
    call.get_by_role("button", name="Send").click()
    says(page, '"name": "coffee.mp4"')
    says(page, "200 OK")
    says(page, "curl -X GET")
    assert violations(page) == []
    keep_picture(page, "server-docs")
