"""What people do on the page, in Chromium, against a stand-in for the server."""

from typing import Any

import pytest

from web.page_data import UNPLAYABLE, UPLOAD, clip
from web.page_steps import Open, says, until, visit
from web.page_stub import Stub

pytest_plugins = ["web.page_browser"]

MATCH = f"#/match?query=upload:{UPLOAD}&target=video:0000"
TIMES = "[...document.querySelectorAll('video')].map((v) => v.currentTime)"
SETTLED = "[...document.querySelectorAll('video')].every((v) => v.readyState >= 2 && !v.seeking)"


def at_times(page: Any, query: float, target: float) -> None:
    """Both players have come to these times."""
    until(page, SETTLED)
    assert page.evaluate(TIMES) == pytest.approx([query, target], abs=0.02)


def matrix_box(page: Any) -> dict[str, float]:
    """Where on the screen the matrix is."""
    page.locator("#frame_matrix").scroll_into_view_if_needed()
    return dict(page.locator("#frame_matrix").bounding_box())


def click_cell(page: Any, row: int, column: int) -> None:
    """The middle of a cell of the 24×60 matrix."""
    box = matrix_box(page)
    page.mouse.click(
        box["x"] + (column + 0.5) / 60 * box["width"], box["y"] + (row + 0.5) / 24 * box["height"]
    )


# ---------------------------------------------------------------------- searching


def test_search_by_upload(opened: Open) -> None:
    stub = Stub()
    page = opened(stub, "#/search")
    sent = clip(2.0, 10)
    page.set_input_files("#file", {"name": "my clip.webm", "mimeType": "video/webm", "buffer": sent})
    says(page, "1 copy and 1 related video.")
    assert stub.sent == [("POST", "uploads", sent), ("POST", "search", {"upload": UPLOAD, "k": 20})]
    assert page.get_by_text("old recording <b>.avi", exact=True).first.is_visible()  # as text, not as markup
    moments = page.locator(".hit").first.locator(".moment img")
    assert [one.get_attribute("alt") for one in moments.all()] == [
        "my clip.webm at 0:04",
        "holiday 0000.mp4 at 0:07",  # the same moment, in the middle of the longest stretch
    ]
    page.get_by_role("link", name="Compare with holiday 0000.mp4").click()
    page.wait_for_selector("#frame_matrix")
    until(page, "document.querySelector('.evidence')")
    asked = {"query": {"upload": UPLOAD}, "target": {"video": "0000"}}
    assert stub.sent[2:] == [("POST", "compare", asked | {"refine": refine}) for refine in (False, True)]
    page.go_back()
    page.wait_for_selector(".hit")
    assert len(stub.sent) == 4  # hits are fetched again, not searched for again
    page.get_by_role("button", name="Add this clip").click()
    says(page, "my clip.webm is being added to the collection.")
    assert stub.sent[-1][:2] == ("POST", f"uploads/{UPLOAD}/add")


def test_several_clips_at_once_and_one_too_large(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = Stub()
    kept = stub.session
    limits = {"upload_bytes": 10, "upload_seconds": 9}
    monkeypatch.setattr(stub, "session", lambda known: {**kept(known), "limits": limits})
    page = opened(stub, "#/search")
    small = [
        {"name": f"clip {n}.webm", "mimeType": "video/webm", "buffer": b"0123456789"[:n]} for n in (8, 9, 10)
    ]
    page.set_input_files("#file", [{**small[0], "name": "big.mp4", "buffer": b"0123456789ab"}])
    says(page, "big.mp4 is 12 bytes, and uploads are limited to 10 bytes.")
    assert stub.sent == []
    page.set_input_files("#file", [*small, {**small[0], "name": "big.mp4", "buffer": b"0123456789ab"}])
    until(page, "document.querySelectorAll('.row .button').length === 3")
    assert [path for _, path, _ in stub.sent] == ["uploads", "search"] * 3
    assert "jobs=job1%2Cjob2%2Cjob3" in page.url
    assert page.locator("main .notice").all_inner_texts() == [
        "big.mp4 is 12 bytes, and uploads are limited to 10 bytes. Put it in a folder on the server and search by "
        "its path."
    ]
    page.locator(".row .button").nth(1).click()
    page.wait_for_selector(".hit")


def test_more_hits_than_were_asked_for_are_no_secret(opened: Open) -> None:
    stub = Stub()
    stub.more = 25
    page = opened(stub, "#/search?video=0000")
    says(page, "At least 20 copies; there may be more.")
    page.get_by_role("button", name="Look for more").click()
    says(page, "26 copies and 1 related video.")
    assert page.locator(".hit .name").first.inner_text() == stub.videos[0]["name"], "the surest comes first"
    assert stub.sent[-1] == ("POST", "search", {"k": 100, "video": "0000"})
    assert page.get_by_role("button", name="Look for more").count() == 0


def test_looking_closely(opened: Open) -> None:
    stub = Stub()
    stub.more = 25
    page = opened(stub, "#/search")
    page.wait_for_selector(".pick")
    box = page.get_by_label("Look closely")
    assert not box.is_checked()
    box.check()
    assert page.url.endswith("#/search?closely=1")
    page.reload()
    page.wait_for_selector(".pick")
    assert box.is_checked()
    page.locator(".pick").first.click()
    page.wait_for_selector(".hit")
    assert stub.sent[-1] == ("POST", "search", {"k": 20, "video": "0000", "refine": True})
    says(page, "looked at closely")
    page.get_by_role("button", name="Look for more").click()
    says(page, "26 copies")
    assert stub.sent[-1] == ("POST", "search", {"k": 100, "video": "0000", "refine": True})
    page.get_by_role("link", name="New search").click()
    page.set_input_files("#file", {"name": "c.webm", "mimeType": "video/webm", "buffer": b"0123456789"})
    page.wait_for_selector(".hit")
    assert stub.sent[-1] == ("POST", "search", {"upload": UPLOAD, "k": 20, "refine": True})
    page.get_by_role("link", name="New search").click()
    page.wait_for_selector(".pick")
    box.uncheck()
    assert page.url.endswith("#/search")
    page.fill("#path", "/videos/a.mp4")
    page.keyboard.press("Enter")
    page.wait_for_selector(".hit")
    assert stub.sent[-1] == ("POST", "search", {"path": "/videos/a.mp4", "k": 20})
    assert page.get_by_text("looked at closely").count() == 0


def test_one_outage_one_message(opened: Open) -> None:
    page = opened(Stub(), "#/library")
    page.wait_for_selector(".row")
    page.route("**/api/**", lambda route: route.abort())
    visit(page, "#/search")  # which asks for four things
    page.locator("#offline").wait_for()
    page.wait_for_timeout(300)
    assert page.get_by_text("does not answer").count() == 1
    assert page.locator(".toast, .wrong:visible, .notice:visible").count() == 1
    page.unroute_all()
    page.wait_for_selector(".picks a")  # by itself
    assert page.locator("#offline").is_hidden()


def test_what_the_server_refuses_is_said_in_its_words(opened: Open) -> None:
    page = opened(Stub(), "#/search")
    page.fill("#path", "/etc/passwd")
    page.keyboard.press("Enter")
    alert = page.get_by_role("alert").filter(has_text="/etc/passwd is not inside a folder")
    alert.wait_for()


# ---------------------------------------------------------------------- looking at a match


def test_click_in_the_matrix_seeks_both(opened: Open) -> None:
    page = opened(Stub(), MATCH)
    page.wait_for_selector(".scale")
    at_times(page, 1.0, 4.0)  # the first stretch's start
    click_cell(page, 17, 38)
    at_times(page, 8.5, 19.0)
    assert page.locator(".stretch").nth(1).get_attribute("aria-pressed") == "true"
    click_cell(page, 22, 2)  # in no stretch: those very frames
    at_times(page, 11.0, 1.0)
    assert page.locator(".stretch[aria-pressed=true]").count() == 0
    for number, (query, target) in enumerate([(1.0, 4.0), (7.0, 16.0)]):
        page.locator(".stretch").nth(number).click()
        at_times(page, query, target)


RUNS = "document.querySelector('.job progress[value]')"


def test_a_closer_look_follows_what_is_shown_at_once(opened: Open) -> None:
    stub = Stub()
    longer = {"query": [1.25, 6.5], "target": [4.25, 9.5], "score": 0.95}
    stub.closer = {"segments": [longer], "in_words": "shares 5.3 s, from 0:04", "confidence": 0.9998}
    page = opened(stub, MATCH)
    page.wait_for_selector(".scale")
    assert page.locator(".summary .big").inner_text().startswith("Shares 9 s in 2 stretches")
    says(page, "Looking closely at both videos")
    assert page.locator(".evidence").count() == 0  # what is taken away is final
    assert "comparison=" not in page.url
    click_cell(page, 4, 10)
    at_times(page, 2.0, 5.0)
    stub.hold.set()
    page.locator(".summary .big", has_text="Shares 5.3 s, from 0:04").wait_for()
    page.locator(".evidence").wait_for()
    at_times(page, 2.0, 5.0)  # where it was
    assert page.locator(".stretch").count() == 1
    assert page.get_by_text("Looking closely").count() == 0
    assert "comparison=c1" in page.url
    page.keyboard.press("l")
    at_times(page, 3.0, 6.0)  # once: the view before hears no key any more


def test_a_closer_look_that_is_stopped_leaves_what_was_shown(opened: Open) -> None:
    stub = Stub()
    stub.closer = {"in_words": "shares 5.3 s, from 0:04"}
    page = opened(stub, MATCH)
    says(page, "Looking closely at both videos")
    until(page, RUNS)
    page.get_by_role("button", name="Stop").click()
    says(page, "This was stopped.")
    page.locator(".evidence").wait_for()
    assert page.locator(".summary .big").inner_text().startswith("Shares 9 s in 2 stretches")
    page.get_by_role("button", name="Try again").click()
    says(page, "Looking closely at both videos")
    until(page, RUNS)
    stub.hold.set()
    page.locator(".summary .big", has_text="Shares 5.3 s, from 0:04").wait_for()


def test_hover_shows_both_frames(opened: Open) -> None:
    page = opened(Stub(), MATCH)
    page.wait_for_selector(".scale")
    box = matrix_box(page)
    page.mouse.move(box["x"] + 8.5 / 60 * box["width"], box["y"] + 2.5 / 24 * box["height"])
    lens = page.locator(".lens")
    lens.get_by_text("value 0.95").wait_for()  # cell (2, 8): 1.0 s and 4.0 s, on the line
    until(page, "document.querySelectorAll('.lens img:not([hidden])').length === 2")
    sources = page.evaluate("[...document.querySelectorAll('.lens img')].map((i) => i.getAttribute('src'))")
    assert [source.split("?")[1] for source in sources] == ["at=1.00&width=240", "at=4.00&width=240"]


def test_timelines_seek_through_the_alignment(opened: Open) -> None:
    page = opened(Stub(), MATCH)
    page.wait_for_selector(".scale")
    bar = page.locator(".slider.target")
    box = bar.bounding_box()
    bar.click(position={"x": 20 / 30 * box["width"], "y": box["height"] / 2})  # half of the second stretch
    until(page, SETTLED)
    query, target = page.evaluate(TIMES)
    assert target == pytest.approx(20, abs=0.1)
    assert query == pytest.approx(7 + (target - 16) / 2, abs=0.02)
    page.locator(".slider.query").press("ArrowRight")
    at_times(page, query + 1, target + 2)


def test_players_run_together_at_their_own_speeds(opened: Open) -> None:
    page = opened(Stub(), MATCH)
    page.wait_for_selector(".scale")
    page.locator(".stretch").nth(1).click()
    at_times(page, 7.0, 16.0)
    page.get_by_role("button", name="Play both").click()
    until(page, f"{TIMES}[0] > 7.6")
    slow, fast = page.evaluate("[...document.querySelectorAll('video')].map((v) => v.playbackRate)")
    assert slow == 1
    assert fast == pytest.approx(2, rel=0.3)  # nudged while it follows
    page.get_by_role("button", name="Pause").click()
    until(page, SETTLED)
    query, target = page.evaluate(TIMES)
    at_times(page, query, 16 + 2 * (query - 7))
    assert target > 17


def test_a_stretch_ends_where_it_ends(opened: Open) -> None:
    page = opened(Stub(), MATCH)
    page.wait_for_selector(".scale")
    click_cell(page, 21, 47)  # 10.5 s and 23.5 s; the line is at 23
    page.get_by_role("button", name="Play both").click()
    page.get_by_role("button", name="Play both").wait_for()
    at_times(page, 11.0, 24.0)


def test_a_video_that_cannot_be_played_is_shown_as_frames(opened: Open) -> None:
    page = opened(Stub(), f"#/match?query=upload:{UPLOAD}&target=video:{UNPLAYABLE}")
    says(page, "so single frames are shown")
    click_cell(page, 17, 38)
    until(page, "document.querySelector('.stage img.still')?.getAttribute('src').includes('at=19.00')")
    assert page.evaluate("document.querySelectorAll('video').length") == 1


def test_a_small_copy_plays_where_the_file_does_not(opened: Open) -> None:
    stub = Stub()
    stub.copies = True
    page = opened(stub, f"#/match?query=upload:{UPLOAD}&target=video:{UNPLAYABLE}")
    says(page, "A small copy without sound is shown")
    at_times(page, 1.0, 4.0)


def test_a_match_as_evidence(opened: Open) -> None:
    stub = Stub()
    page = opened(stub, "#/search?video=0000")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("link", name="Compare with old recording").click()
    page.wait_for_selector(".scale")
    page.get_by_role("button", name="Copy timecodes").click()
    says(page, "Timecodes copied.")
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[0].split("\t")[1:3] == ["00:00:01.000", "00:00:06.000"]
    page.get_by_role("button", name="Copy link").click()
    says(page, "Link copied.")
    assert stub.sent[-1][:2] == ("PUT", "comparisons/c1/keep")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.endswith("#/match?comparison=c1")
    page.get_by_role("link", name="Back to the results").click()
    page.wait_for_selector(".hit")
    stub.sources["query"] = "copy"  # the clip is gone, its copy is not
    page.goto(link)
    page.wait_for_selector(".scale")
    assert page.locator("video").first.get_attribute("src") == "api/comparisons/c1/query.mp4"
    assert len([call for call in stub.sent if call[1] == "compare"]) == 2  # at once, then closely
    page.locator(".evidence summary").click()
    assert page.get_by_role("link", name="EDL").get_attribute("href") == "api/comparisons/c1/stretches.edl"


def test_the_side_that_plays_leads(opened: Open) -> None:
    page = opened(Stub(), f"#/match?query=video:{UNPLAYABLE}&target=video:0000")
    says(page, "so single frames are shown")
    page.locator(".stretch").nth(1).click()
    until(page, "Math.abs(document.querySelector('video').currentTime - 16) < 0.05")
    page.get_by_role("button", name="Play both").click()
    until(page, "document.querySelector('video').currentTime > 17.5")
    page.get_by_role("button", name="Pause").click()
    # One seek may wait for another: both sides agree once the last is done.
    query, target = (
        "document.querySelector('.slider.query').dataset.time",
        "document.querySelector('video').currentTime",
    )
    until(page, f"{SETTLED} && {target} > 17 && Math.abs({query} - (7 + ({target} - 16) / 2)) < 0.02")


def test_attention_on_demand(opened: Open) -> None:
    page = opened(Stub(), MATCH)
    page.wait_for_selector(".scale")
    assert page.locator(".overlay:visible").count() == 0
    page.get_by_label("Attention").check()
    until(page, "[...document.querySelectorAll('.overlay')].every((i) => !i.hidden && i.naturalWidth)")
    asked = page.evaluate("[...document.querySelectorAll('.overlay')].map((i) => i.src.split('?')[1])")
    assert asked == ["side=query&frame=2", "side=target&frame=8"]


# ---------------------------------------------------------------------- verdicts


def test_verdict_and_undo(opened: Open) -> None:
    stub = Stub()
    stub.looked = True
    page = opened(stub, "#/duplicates")
    button = page.get_by_role("button", name="Not a match").first
    button.click()
    says(page, "You marked it as no match.")
    assert stub.judged == {("0004", "0005"): "different"}
    says(page, "Not a match: 1 pair that you judged different")  # the page has asked again
    page.get_by_role("button", name="Undo").last.click()
    says(page, "Undone.")
    assert stub.judged == {}
    page.get_by_role("button", name="Match", exact=True).first.click()
    until(page, "document.querySelector('.judge button').getAttribute('aria-pressed') === 'true'")
    page.get_by_role("button", name="Not a match").first.click()
    until(page, "document.querySelectorAll('.judge button')[1].getAttribute('aria-pressed') === 'true'")
    page.keyboard.press("u")
    until(page, "document.querySelector('.judge button').getAttribute('aria-pressed') === 'true'")
    assert stub.judged == {("0004", "0005"): "same"}  # back to what was said before, not to nothing


def test_a_review_by_click(opened: Open) -> None:
    stub = Stub()
    page = opened(stub, "#/duplicates")
    page.get_by_role("button", name="Find duplicates").click()
    says(page, "0 of 23 groups reviewed")
    group = page.locator(".group")
    assert group.count() == 1
    assert group.locator(".file [aria-pressed=true]").all_inner_texts() == ["Keep", "Drop", "Drop"]
    assert group.locator(".strip").first.get_attribute("alt") == "holiday 0004.mp4 at 0:02, 0:03, 0:04, 0:05"
    says(page, "Suggested: ")
    group.locator(".file").nth(2).get_by_role("button", name="Keep").click()
    until(page, "document.querySelectorAll('.file.decided.to-keep').length === 1")
    assert stub.review.decided == {"1c": "keep"}
    page.get_by_role("button", name="Accept suggestion").click()
    says(page, "1 of 23 groups reviewed")
    says(page, "Group 2")
    assert stub.review.decided == {"1a": "keep", "1b": "drop", "1c": "keep"}
    page.get_by_role("button", name="Accept 22 exact copies").click()
    says(page, "Accepted: 22 files decided.")
    page.get_by_role("button", name="Undo").first.click()
    page.get_by_role("button", name="Accept 22 exact copies").wait_for()
    page.get_by_role("button", name="Reviewed", exact=True).click()
    says(page, "Group 1")
    page.reload()
    says(page, "Group 1")  # what is shown is in the address
    page.get_by_role("button", name="Review again").click()
    says(page, "0 of 23 groups reviewed")


def test_a_review_by_keys(opened: Open) -> None:
    stub = Stub()
    stub.looked = True
    page = opened(stub, "#/duplicates")
    says(page, "Group 1")
    for key in ("j", "j", "d"):  # to the first file, to the second
        page.keyboard.press(key)
    until(page, "document.querySelector('.file.decided')")
    assert stub.review.decided == {"1b": "drop"}
    page.keyboard.press("u")
    until(page, "!document.querySelector('.file.decided')")
    page.keyboard.press("n")
    says(page, "Group 2")
    page.keyboard.press("p")
    says(page, "Group 1")
    page.keyboard.press("a")
    says(page, "Group 2")
    page.keyboard.press("s")  # without a choice: the first that is open
    until(page, "document.querySelector('.file.decided')")
    assert stub.review.decided == {"1a": "keep", "1b": "drop", "1c": "drop", "2a": "keep"}


def test_groups_as_a_list_and_exports(opened: Open) -> None:
    stub = Stub()
    stub.looked = True
    stub.review.newer = {"added": 2, "gone": 1}
    page = opened(stub, "#/duplicates?view=list")
    says(
        page,
        "older than the collection: 2 videos were added since, and 1 video has left the collection since.",
    )
    assert page.locator(".group").count() == 10
    page.get_by_role("button", name="Show 10 more of 23 groups").click()
    until(page, "document.querySelectorAll('.group').length === 20")
    page.locator(".group").nth(1).get_by_role("button", name="Accept suggestion").click()
    says(page, "1 of 23 groups reviewed")
    page.locator(".menu summary").click()
    assert page.get_by_label("Plans: only the 1 reviewed group").is_checked()
    with page.expect_download() as download:
        page.get_by_role("link", name="Plan, shell script").click()
    assert download.value.url.endswith("format=script&reviewed=true")
    with page.expect_response(lambda answer: answer.request.method == "POST"):
        page.get_by_role("button", name="Find again").first.click()
    until(page, "!document.querySelector('.job')")
    assert stub.sent[-1] == ("POST", "duplicates", {"min_confidence": 0.5})


# ---------------------------------------------------------------------- long work


def test_reload_during_a_job(opened: Open) -> None:
    stub = Stub()
    stub.hold.clear()
    page = opened(stub, "#/add")
    page.get_by_label("Folder or file on the server").fill("/videos/new")
    page.keyboard.press("Enter")
    says(page, "37 of 120 videos · 4.2 a second · about 20 s left")
    page.reload()
    says(page, "37 of 120 videos")
    visit(page, "#/library")
    page.wait_for_selector(".row")
    visit(page, "#/add")
    says(page, "37 of 120 videos")
    assert stub.streams > 1
    stub.hold.set()
    says(page, "Done: 118 videos added, 1 unchanged, 1 failed.")
    assert [call for call in stub.sent if call[1] == "add"] == [("POST", "add", {"path": "/videos/new"})]


def test_a_folder_is_chosen_by_clicking(opened: Open) -> None:
    stub = Stub()
    page = opened(stub, "#/add")
    page.get_by_role("button", name="Open the folder /videos").click()
    page.get_by_role("button", name="Open the folder 2024").click()
    says(page, "2 videos.")
    field = page.get_by_label("Folder or file on the server")
    assert field.input_value() == "/videos/2024"
    page.get_by_role("button", name="To the folder above").click()
    page.get_by_role("button", name="Open the folder 2024").wait_for()
    assert field.input_value() == "/videos"
    page.keyboard.press("Tab")  # from the first of the list, where the focus went, to the folder
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Choose boat <i>.mp4").click()
    page.get_by_role("button", name="Add", exact=True).click()
    says(page, "Done: 118 videos added")
    assert stub.sent[-1] == ("POST", "add", {"path": "/videos/2024/boat <i>.mp4"})


def test_reload_during_a_search_and_stopping_it(opened: Open) -> None:
    stub = Stub()
    stub.hold.clear()
    page = opened(stub, "#/search?video=0000")
    says(page, "37 of 120 videos")
    page.reload()
    says(page, "37 of 120 videos")
    assert len(stub.jobs) == 1
    page.get_by_role("button", name="Stop").click()
    says(page, "This was stopped.")
    assert stub.sent[-1] == ("DELETE", "jobs/job1", None)


# ---------------------------------------------------------------------- the library


def test_library_asks_for_one_page_at_a_time(opened: Open) -> None:
    page = opened(Stub(videos=5000), "#/library")
    says(page, "4,999 videos, 1 file failed, showing 1–60")
    assert page.locator(".row").count() == 60
    page.get_by_role("button", name="Next").click()
    says(page, "showing 61–120")
    page.go_back()
    says(page, "showing 1–60")
    page.get_by_label("Page", exact=True).fill("84")
    page.keyboard.press("Enter")
    says(page, "showing 4,981–5,000")
    page.get_by_label("Filter").press_sequentially("499")
    says(page, "15 videos found")
    page.reload()
    says(page, "15 videos found")  # the filter is in the address
    page.get_by_label("Sort").select_option("-name")
    until(page, "document.querySelector('.row .name').textContent === 'holiday 4999.mp4'")


def test_removing_asks_first(opened: Open) -> None:
    stub = Stub()
    page = opened(stub, "#/library")
    page.get_by_role("button", name="Remove holiday 0004.mp4").click()
    page.get_by_role("button", name="Cancel").click()
    assert stub.sent == []
    page.get_by_role("button", name="Remove holiday 0004.mp4").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    says(page, "holiday 0004.mp4 was removed.")
    assert stub.sent == [("POST", "videos/remove", {"videos": ["0004"], "files": []})]


def test_a_selection_and_files_that_failed(opened: Open) -> None:
    stub = Stub()
    page = opened(stub, "#/library")
    page.get_by_label("Select holiday 0005.mp4").check()
    page.get_by_label("Select holiday 0002.mp4").check()  # one that failed
    says(page, "2 selected")
    page.get_by_role("button", name="Try 1 again").click()
    says(page, "1 file will be tried again.")
    says(page, "1 file failed again.")
    assert stub.sent == [("POST", "videos/retry", {"files": ["f0002"]})]
    page.get_by_label("Select holiday 0006.mp4").check()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_selector("#frame_matrix")
    asked = {"query": {"video": "0005"}, "target": {"video": "0006"}}
    assert stub.sent[1] == ("POST", "compare", asked | {"refine": False})


def test_a_grid_with_previews(opened: Open) -> None:
    stub = Stub()
    page = opened(stub, "#/library")
    page.get_by_role("button", name="Grid").click()
    page.locator(".tile-picture").nth(4).hover()
    until(page, "document.querySelector('.reel:not([hidden])')")
    page.reload()
    page.wait_for_selector(".tile")  # the choice is kept
    page.get_by_role("button", name="Play holiday 0004.mp4").click()
    page.get_by_role("dialog", name="holiday 0004.mp4").wait_for()


# ---------------------------------------------------------------------- everything


def test_keyboard_only(opened: Open) -> None:
    stub = Stub()
    page = opened(stub, "#/library")
    page.wait_for_selector(".row")
    page.keyboard.press("2")
    page.wait_for_selector(".picks a")
    for _ in range(2):
        page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "pick"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(".hit")
    while "Compare with" not in (page.evaluate("document.activeElement.ariaLabel") or ""):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement !== document.body"), (
            "the way to the match is not in the order"
        )
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert outline == "3px"
    page.keyboard.press("Enter")
    page.wait_for_selector(".scale")
    page.keyboard.press("m")
    for key in ("Shift+ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    page.get_by_label("Under the cross-hair").get_by_text("0:05.5").wait_for()  # the 11th column, from 0 on
    page.keyboard.press("Enter")
    at_times(page, 0.5, 5.5)
    page.keyboard.press("]")
    at_times(page, 1.0, 4.0)
    page.keyboard.press("l")
    at_times(page, 2.0, 5.0)
    page.keyboard.press(".")
    at_times(page, 2.5, 5.5)
    page.keyboard.press("k")
    page.get_by_role("button", name="Pause").wait_for()
    page.keyboard.press("k")
    page.get_by_role("button", name="Play both").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard").wait_for()
    page.get_by_label("Single-key shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    assert "#/match" in page.url  # switched off


def test_login(opened: Open) -> None:
    page = opened(Stub(token="secret"), "#/duplicates")
    page.get_by_label("Token").fill("wrong")
    page.keyboard.press("Enter")
    says(page, "That is not the token.")
    page.get_by_label("Token").fill("secret")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Find duplicates").wait_for()  # the screen that was asked for
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Token").wait_for()


def test_theme_is_kept(opened: Open) -> None:
    page = opened(Stub(), "#/library")
    page.wait_for_selector(".row")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    for _ in range(2):
        page.keyboard.press("t")
    dark = page.evaluate(paper)
    assert dark != light
    page.reload()
    page.wait_for_selector(".row")
    assert page.evaluate(paper) == dark
