"""What to do with the files of a group: worked out by hand for videos described in numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

import visil
from visil.collection.catalogue import NewVideo, Video
from visil.collection.duplicates import Pair
from visil.collection.identity import stamp_of
from visil.collection.plan import OTHER_SHARE, Advice, advise
from visil.collection.presence import HeldFile, held_files
from visil.footage.containment import Containment
from visil.footage.detail import Finer
from visil.footage.proof import Proof
from visil.matching.localize import Segment

PLAIN = Video(1, "1", "a.mp4", 60, 60.0, 640, 480, "h264", 1000, 10, 0, False)
Files = dict[str, list[HeldFile]]


def video(name: str, **facts: float | None) -> Video:
    return replace(PLAIN, id=name, path=f"/v/{name}.mp4", **facts)  # type: ignore[arg-type]


def held(video: Video, *, age: int = 0, **facts: object) -> HeldFile:
    inode = (1, hash(video.path) % 10_000)
    return replace(HeldFile(video.path, False, "there", 10, -age, inode), **facts)  # type: ignore[arg-type]


def inside(seconds: float, of: float) -> Containment:
    return Containment(seconds, of, whole=seconds >= 0.99 * of)


def pair(a: Video, b: Video, proof: Proof | None = None, *, seconds: float | None = None) -> Pair:
    """Two videos whose features match for so many seconds from their starts: all of the shorter one."""
    both = min(a.duration, b.duration) if seconds is None else seconds
    segments = [Segment((0.0, both), (0.0, both), 0.9)] if both else []
    return Pair(a.id, b.id, 0.9, 0.99, segments, "copy", False, proof)


def same_footage(
    a: Video, b: Video, finer: Finer | None = None, a_only: str | None = None, b_only: str | None = None
) -> Pair:
    """Two videos that show the same, as far as the shorter goes."""
    both = min(a.duration, b.duration)
    proof = Proof(
        *(inside(both, a.duration), inside(both, b.duration), finer or Finer(None, False), a_only, b_only)
    )
    return pair(a, b, proof)


def advice(
    videos: Sequence[Video],
    pairs: Sequence[Pair],
    same: Sequence[tuple[str, str]] = (),
    files: Files | None = None,
    prove: Callable[[Pair], Proof | None] = lambda _: None,
) -> Advice:
    there: Files = {one.id: [held(one)] for one in videos} | (files or {})
    found = advise(videos, pairs, there, prove, same)
    nothing_is_lost(found, there)
    return found


def nothing_is_lost(found: Advice, files: Files) -> None:
    """Whatever may go names a file that is there and is kept."""
    rows = {row.path: row for row in found.files}
    assert sorted(rows) == sorted(file.path for some in files.values() for file in some)
    states = {file.path: file.state for some in files.values() for file in some}
    for row in found.files:
        if row.action == "drop":
            assert row.footage_in is not None
            assert rows[row.footage_in].action == "keep"
            assert states[row.footage_in] == "there"
            assert row.path != row.footage_in
        else:
            assert row.footage_in is None
    kept = {row.video for row in found.files if row.action == "keep"}
    assert {one for one in (found.keep, *found.also) if one is not None} <= kept


def dropped(found: Advice) -> dict[str, str | None]:
    return {row.video: row.footage_in for row in found.files if row.action == "drop"}


def test_of_two_copies_the_finer_stays_whatever_its_size_and_bits() -> None:
    a = video("a", width=320, height=240, bit_rate=10)
    b = video("b", width=1280, height=960, bit_rate=9000)
    for clearly, reason in ((True, "more detail"), (False, "a little more detail")):
        for pairs in (
            [same_footage(a, b, Finer("first", clearly))],
            [same_footage(b, a, Finer("second", clearly))],
        ):
            for order in ([a, b], [b, a]):
                found = advice(order, pairs)
                assert (found.keep, found.reason, found.also) == ("a", reason, [])
                assert found.notes == {"b": "all of it is in a.mp4 (60.0 of 60.0 s)"}


def test_of_two_that_are_as_fine_the_smaller_picture_stays_then_the_older_file() -> None:
    small, large = video("small"), video("large", height=960, width=1280)
    found = advice([large, small], [same_footage(large, small)])
    assert (found.keep, found.reason) == ("small", "the same detail in a smaller picture")
    old, new = video("z"), video("a")
    files = {"z": [held(old, age=5)], "a": [held(new)]}
    found = advice([old, new], [same_footage(old, new)], files=files)
    assert (found.keep, found.reason) == ("z", "the older of two alike")


def test_the_order_of_equals_does_not_matter() -> None:
    equal = [video(name) for name in "abc"]
    pairs = [
        same_footage(equal[0], equal[1]),
        same_footage(equal[1], equal[2]),
        same_footage(equal[2], equal[0]),
    ]
    plans = [advice(order, pairs) for order in permutations(equal)]
    assert all(set(plan.files) == set(plans[0].files) for plan in plans)
    assert (plans[0].keep, plans[0].reason) == ("a", "all alike")


def test_an_original_replaces_a_copy_with_its_ends_cut_off_even_a_larger_one() -> None:
    original, cut = video("original"), video("cut", duration=45.0, width=1920)
    found = advice([cut, original], [same_footage(cut, original)])
    assert (found.keep, found.reason, found.also) == ("original", "complete", [])
    assert found.notes == {"cut": "all of it is in original.mp4 (45.0 of 45.0 s)"}


def test_a_cut_of_clearly_more_detail_stays_beside_the_original() -> None:
    original, cut = video("original"), video("cut", duration=45.0)
    found = advice([cut, original], [same_footage(cut, original, Finer("first", True))])
    assert {found.keep, *found.also} == {"original", "cut"}
    assert found.notes["cut"] == "all of it is in original.mp4, but this file shows it in more detail"
    assert dropped(advice([cut, original], [same_footage(cut, original, Finer("first", False))])) == {
        "cut": "/v/original.mp4"
    }, "which hardly anybody sees"


def test_what_was_not_shown_is_kept_and_may_be() -> None:
    a, b = video("a"), video("b", duration=58.0)
    nothing = Proof(inside(0, 60), inside(0, 58))
    some = Proof(inside(50, 60), inside(48.5, 58))
    nearly = Proof(inside(50, 60), Containment(57.97, 58, whole=False))
    unread = Proof(unread="a.mp4: is too long")
    for proof, said in (
        (nothing, "may be contained in a.mp4, but that could not be confirmed"),
        (some, "may be contained in a.mp4, but only 48.5 of 58.0 s were confirmed"),
        (nearly, "may be contained in a.mp4, but not every moment of it was confirmed"),
        (unread, "may be contained in a.mp4, but could not be compared: a.mp4: is too long"),
        (None, "may be contained in a.mp4, but that could not be confirmed"),
    ):
        found = advice([a, b], [pair(a, b, proof)])
        assert dropped(found) == {}
        assert found.notes == {"b": said}
        assert found.reason == "nothing else holds all of it"


def test_pictures_are_compared_only_where_that_may_show_something() -> None:
    a, b = video("a"), video("b", duration=50.0)
    asked: list[Pair] = []

    def prove(one: Pair) -> Proof:
        asked.append(one)
        return Proof(inside(50, 60), inside(50, 50))

    assert dropped(advice([a, b], [pair(a, b, seconds=20)], prove=prove)) == {}
    assert dropped(advice([a, b], [replace(pair(a, b), verdict="related")], prove=prove)) == {}
    assert asked == []
    assert dropped(advice([a, b], [pair(a, b)], prove=prove)) == {"b": "/v/a.mp4"}
    assert asked


@pytest.mark.parametrize("only", ["has sound", "holds a second video, which was not compared"])
def test_what_has_something_that_the_other_has_not_is_kept(only: str) -> None:
    plain, rich = video("plain"), video("rich", width=320)
    found = advice([plain, rich], [same_footage(rich, plain, Finer("second", True), a_only=only)])
    assert {found.keep, *found.also} == {"plain", "rich"}
    assert f"all of it is in plain.mp4, but this file {only}" in found.notes.values()
    found = advice([plain, rich], [same_footage(rich, plain, Finer("first", True), a_only=only)])
    assert dropped(found) == {"plain": "/v/rich.mp4"}


def test_an_original_does_not_go_for_a_copy_to_which_something_was_added() -> None:
    original, dubbed = video("original"), video("dubbed")
    pairs = [same_footage(original, dubbed, Finer("first", False), b_only="has sound")]
    for order in ([original, dubbed], [dubbed, original]):
        found = advice(order, pairs)
        assert dropped(found) == {}
        assert found.notes | {found.keep: found.reason} == {
            "original": "all of it is in dubbed.mp4, but this file shows it in a little more detail",
            "dubbed": "nothing else holds all of it",
        }


@pytest.mark.parametrize("clip_height", [240, 960])
def test_a_compilation_does_not_replace_a_clip_nor_the_clip_it(clip_height: int) -> None:
    clip, compilation = video("clip", duration=20.0, height=clip_height), video("compilation", duration=600.0)
    found = advice([clip, compilation], [same_footage(clip, compilation)])
    assert {found.keep, *found.also} == {"clip", "compilation"}
    assert found.notes == {
        "clip": "all of it is in compilation.mp4, but compilation.mp4 contains other footage as well"
    }


def test_copies_of_a_clip_replace_each_other_beside_a_compilation_of_the_best_quality() -> None:
    compilation = video("all", duration=600.0, width=1920)
    large, small = video("large", duration=20.0), video("small", duration=20.0, width=320)
    pairs = [
        same_footage(large, compilation),
        same_footage(small, compilation),
        same_footage(large, small, Finer("first", True)),
    ]
    found = advice([small, compilation, large], pairs)
    assert {found.keep, *found.also} == {"all", "large"}
    assert dropped(found) == {"small": "/v/large.mp4"}


def test_videos_that_overlap_are_both_kept() -> None:
    a, b = video("a"), video("b", duration=50.0)
    found = advice([a, b], [pair(a, b, seconds=20.0)])
    assert {found.keep, *found.also} == {"a", "b"}
    assert found.notes == {"b": "has 30 s that are not in a.mp4"}


def test_a_pair_that_is_merely_related_replaces_nothing() -> None:
    a, b = video("a"), video("b", duration=50.0)
    found = advice([a, b], [replace(pair(a, b), verdict="related")])
    assert (found.keep, found.also, found.notes) == ("a", ["b"], {"b": "is not a copy of a.mp4"})


def test_what_is_no_pair_with_any_that_is_kept_is_kept() -> None:
    """a and c are each alike to b alone; b is in a."""
    a, b, c = video("a"), video("b"), video("c", duration=50.0)
    found = advice([a, b, c], [same_footage(a, b, Finer("first", True)), same_footage(b, c)])
    assert dropped(found) == {"b": "/v/a.mp4"}
    assert {found.keep, *found.also} == {"a", "c"}


def test_what_was_to_go_for_one_that_goes_itself_is_looked_at_again() -> None:
    """The longest comes first and takes in the worst copy; then a finer one takes its place."""
    long, worst, fine = video("long", duration=61.0), video("worst"), video("fine", duration=60.5)
    whole = {one.id: one.duration for one in (long, worst, fine)}

    def all_of(a: Video, b: Video, finer: Finer) -> Pair:
        return pair(a, b, Proof(inside(whole[a.id], whole[a.id]), inside(whole[b.id], whole[b.id]), finer))

    pairs = [
        all_of(long, worst, Finer("first", True)),
        all_of(fine, long, Finer("first", True)),
        all_of(fine, worst, Finer("first", True)),
    ]
    for order in permutations([long, worst, fine]):
        assert dropped(advice(order, pairs)) == {"long": "/v/fine.mp4", "worst": "/v/fine.mp4"}
        # Without the last pair nothing shows that the worst is in the finest.
        assert dropped(advice(order, pairs[:2])) == {"long": "/v/fine.mp4"}


def test_files_that_seem_each_better_than_the_next_end_in_a_plan() -> None:
    ring = [video(name) for name in "abc"]
    pairs = [same_footage(ring[i], ring[(i + 1) % 3], Finer("first", True)) for i in range(3)]
    for order in permutations(ring):
        assert len(dropped(advice(order, pairs))) <= 2


def test_the_limit_of_other_footage() -> None:
    clip = video("clip", duration=30.0)
    for share, gone in ((OTHER_SHARE - 0.01, True), (OTHER_SHARE + 0.01, False)):
        long = video("long", duration=30.0 / (1 - share))
        assert ("clip" in dropped(advice([clip, long], [same_footage(clip, long)]))) == gone


def test_a_damaged_video_replaces_no_sound_one() -> None:
    sound, damaged = video("sound", duration=50.0), video("damaged", damaged=3)
    found = advice([sound, damaged], [same_footage(sound, damaged)])
    assert {found.keep, *found.also} == {"sound", "damaged"}
    assert found.notes["sound"] == "all of it is in damaged.mp4, but damaged.mp4 is damaged"
    twin = video("twin", damaged=3, duration=50.0)
    found = advice([sound, twin], [same_footage(twin, sound, Finer("first", False))])
    assert dropped(found) == {"twin": "/v/sound.mp4"}
    assert found.reason == "undamaged"


def test_what_someone_called_the_same_may_go_unless_it_is_longer() -> None:
    a, b = video("a", duration=60.5), video("b")
    assert dropped(advice([a, b], [])) == {}
    found = advice([a, b], [], [("a", "b")], files={"a": [held(a, age=9)], "b": [held(b)]})
    assert dropped(found) == {"b": "/v/a.mp4"}
    assert found.notes == {"b": "someone called it the same as a.mp4"}
    longer = video("c", duration=70.0)
    found = advice([longer, b], [], [("b", "c")])
    assert dropped(found) == {"b": "/v/c.mp4"}, "never the one that is ten seconds longer"


# ---------------------------------------------------------------------- files


def test_a_file_that_is_gone_is_neither_kept_nor_holds_another() -> None:
    good, bad = video("good"), video("bad")
    pairs = [same_footage(good, bad, Finer("first", True))]
    found = advice([good, bad], pairs, files={"good": [held(good, state="missing")]})
    assert (found.keep, found.also) == ("bad", [])
    assert {row.path: row.action for row in found.files} == {"/v/good.mp4": "missing", "/v/bad.mp4": "keep"}
    assert found.notes == {"good": "the file is gone"}
    both = {one.id: [held(one, state="missing")] for one in (good, bad)}
    assert advice([good, bad], pairs, files=both).keep is None


def test_a_file_that_has_changed_is_left_alone_and_holds_nothing() -> None:
    good, bad = video("good"), video("bad")
    files = {"good": [held(good, state="changed")]}
    found = advice([good, bad], [same_footage(good, bad, Finer("first", True))], files=files)
    rows = {row.path: row for row in found.files}
    assert rows["/v/good.mp4"].action == "keep"
    assert rows["/v/good.mp4"].reason == "has changed since it was added; add it again"
    assert rows["/v/bad.mp4"].action == "keep"


def test_of_files_with_the_same_bytes_one_stays() -> None:
    one = video("one")
    copies = [HeldFile(f"/v/{n}.mp4", False, "there", 10, 0, (1, n)) for n in range(3)]
    found = advice([one], [], files={"one": copies})
    assert found.reason == "identical files"
    assert [row.action for row in found.files] == ["keep", "drop", "drop"]
    assert found.files[1].reason == "the same bytes as /v/0.mp4"
    copies[0] = replace(copies[0], state="missing")
    assert [row.action for row in advice([one], [], files={"one": copies}).files] == [
        "missing",
        "keep",
        "drop",
    ]


def test_the_first_that_people_count_stays_and_is_named_first(tmp_path: Path) -> None:
    with visil.Index(tmp_path / "c.visil") as collection:
        new = NewVideo("one", 1, 1.0, 64, 64, "", None, 8, 0)
        for name in ("10", "9", "11"):
            path = tmp_path / f"{name}.mp4"
            path.write_bytes(b"the same")
            collection.catalogue.add(new, str(path), stamp_of(path))
        files = held_files(collection.catalogue, "one")
    rows = advice([video("one")], [], files={"one": files}).files
    assert [(Path(row.path).stem, row.action) for row in rows] == [
        *(("9", "keep"), ("10", "drop"), ("11", "drop"))
    ]


def test_a_link_never_stands_for_the_file_that_it_leads_to() -> None:
    one = video("one")
    link = HeldFile("/a/link.mp4", False, "there", 10, 0, (1, 7), link=True)
    real = HeldFile("/b/real.mp4", False, "there", 10, 0, (1, 7))
    found = advice([one], [], files={"one": [link, real]})
    assert {row.path: (row.action, row.reason) for row in found.files} == {
        "/a/link.mp4": ("keep", "another name of /b/real.mp4"),
        "/b/real.mp4": ("keep", "identical files"),
    }


def test_a_reference_never_goes() -> None:
    fine, reference = video("fine"), video("reference", width=320)
    files = {"reference": [held(reference, reference=True)]}
    found = advice([fine, reference], [same_footage(fine, reference, Finer("first", True))], files=files)
    assert {found.keep, *found.also} == {"fine", "reference"}
    twins = [held(fine, reference=True, inode=(1, 1)), replace(held(fine), path="/v/0.mp4", inode=(1, 2))]
    assert dropped(advice([fine], [], files={"fine": twins})) == {"fine": "/v/fine.mp4"}
    twins[1] = replace(twins[1], reference=True)
    assert dropped(advice([fine], [], files={"fine": twins})) == {}


def test_a_folder_of_images_never_goes() -> None:
    film, folder = video("film"), video("folder")
    files = {"folder": [held(folder, folder=True)]}
    found = advice([film, folder], [same_footage(film, folder, Finer("first", True))], files=files)
    assert dropped(found) == {}


def test_names_that_are_not_unique_are_told_with_their_folder() -> None:
    a, b = replace(video("a"), path="/v/1/x.mp4"), replace(video("b"), path="/v/2/x.mp4")
    found = advice([a, b], [same_footage(a, b, Finer("first", True))])
    assert found.notes == {"b": "all of it is in /v/1/x.mp4 (60.0 of 60.0 s)"}
