"""What to keep of a group: worked out by hand for videos described in numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from visil.collection import Pair, Video
from visil.collection.keep_advice import OTHER_SHARE, worth_keeping
from visil.matching.localize import Segment

PLAIN = Video(1, "1", "a.mp4", 60, 60.0, 640, 480, "h264", 1000, 10, 0, False)
Span = tuple[float, float]


def video(name: str, **facts: float | None) -> Video:
    return replace(PLAIN, id=name, path=f"/v/{name}.mp4", **facts)  # type: ignore[arg-type]


def pair(a: Video, b: Video, *stretches: tuple[Span, Span]) -> Pair:
    return Pair(a.id, b.id, 0.9, 0.99, [Segment(*both, 0.9) for both in stretches], "copy", False)


def whole(a: Video, b: Video) -> Pair:
    return pair(a, b, ((0.0, a.duration), (0.0, b.duration)))


@pytest.mark.parametrize(
    ("better", "worse", "reason"),
    [
        ({"damaged": 0, "width": 320}, {"damaged": 2}, "undamaged"),
        ({"width": 1280, "duration": 58.0}, {"width": 640, "bit_rate": 9000}, "largest picture"),
        ({"bit_rate": 2000, "duration": 59.0}, {"bit_rate": None}, "highest bit rate"),
        ({"duration": 60.0}, {"duration": 59.0}, "longest"),
    ],
)
def test_of_two_copies(better: dict[str, float], worse: dict[str, float], reason: str) -> None:
    good, bad = video("a", **better), video("b", **worse)
    for both in ([good, bad], [bad, good]):
        advice = worth_keeping(both, [whole(good, bad)])
        assert (advice.keep, advice.reason, advice.also) == ("a", reason, [])
        assert advice.notes == {"b": "all of it is in a.mp4"}


def test_of_equals_the_order_does_not_matter() -> None:
    equal = [video(name) for name in "abc"]
    pairs = [whole(equal[0], equal[1]), whole(equal[1], equal[2]), whole(equal[2], equal[0])]
    assert worth_keeping(equal, pairs) == worth_keeping(equal[::-1], pairs)
    assert worth_keeping(equal, pairs).keep == "c"
    assert worth_keeping(equal, pairs).reason == "all alike"


def test_an_original_replaces_a_copy_with_its_ends_cut_off_even_a_larger_one() -> None:
    original, cut = video("original"), video("cut", duration=45.0, width=1920)
    advice = worth_keeping([cut, original], [pair(cut, original, ((0.0, 45.0), (10.0, 55.0)))])
    assert (advice.keep, advice.reason, advice.also) == ("original", "complete", [])
    assert advice.notes == {"cut": "all of it is in original.mp4"}


@pytest.mark.parametrize(("clip_width", "first"), [(320, "compilation"), (1280, "clip")])
def test_a_compilation_does_not_replace_a_clip_nor_the_clip_it(clip_width: int, first: str) -> None:
    clip, compilation = video("clip", duration=20.0, width=clip_width), video("compilation", duration=600.0)
    advice = worth_keeping([clip, compilation], [pair(clip, compilation, ((0.0, 20.0), (100.0, 120.0)))])
    assert advice.keep == first
    assert {advice.keep, *advice.also} == {"clip", "compilation"}
    if first == "clip":
        assert advice.notes == {"compilation": "contains clip.mp4, and 580 s of other footage"}
    else:
        said = "all of it is in compilation.mp4, which contains other footage as well"
        assert advice.notes == {"clip": said}


def test_copies_of_a_clip_replace_each_other_beside_a_compilation_of_the_best_quality() -> None:
    compilation = video("all", duration=600.0, width=1920)
    large, small = video("large", duration=20.0), video("small", duration=20.0, width=320)
    stretch = ((0.0, 20.0), (100.0, 120.0))
    pairs = [pair(large, compilation, stretch), pair(small, compilation, stretch), whole(large, small)]
    advice = worth_keeping([small, compilation, large], pairs)
    assert (advice.keep, advice.also) == ("all", ["large"])
    assert advice.notes["small"] == "all of it is in large.mp4"


def test_a_compilation_of_two_clips_in_the_group_replaces_neither() -> None:
    one, two, both = video("one", duration=30.0), video("two", duration=30.0), video("both", duration=60.0)
    pairs = [
        pair(one, both, ((0.0, 30.0), (0.0, 30.0))),
        pair(two, both, ((0.0, 30.0), (30.0, 60.0))),
    ]
    advice = worth_keeping([one, two, both], pairs)
    assert {advice.keep, *advice.also} == {"one", "two", "both"}


def test_videos_that_overlap_are_both_kept() -> None:
    a, b = video("a"), video("b")
    advice = worth_keeping([a, b], [pair(a, b, ((30.0, 60.0), (0.0, 30.0)))])
    assert {advice.keep, *advice.also} == {"a", "b"}
    assert advice.notes == {"a": "contains 30 s that are not in b.mp4"}


def test_a_pair_that_is_merely_related_replaces_nothing() -> None:
    a, b = video("a"), video("b", width=320)
    assert worth_keeping([a, b], [whole(a, b)]).also == []
    advice = worth_keeping([a, b], [replace(whole(a, b), verdict="related")])
    assert (advice.keep, advice.also, advice.notes) == ("a", ["b"], {"b": "is no copy of a.mp4"})


def test_what_is_no_pair_with_any_that_is_kept_is_kept() -> None:
    """a and c are each alike to b alone; b is in a."""
    a, b, c = video("a", width=1280), video("b", width=640), video("c", width=320)
    advice = worth_keeping([a, b, c], [whole(a, b), whole(b, c)])
    assert (advice.keep, advice.also) == ("a", ["c"])
    assert advice.notes == {"b": "all of it is in a.mp4", "c": "is no copy of a.mp4"}


def test_the_limit_of_other_footage() -> None:
    clip = video("clip", duration=30.0)
    for share, kept in ((OTHER_SHARE - 0.01, []), (OTHER_SHARE + 0.01, ["clip"])):
        long = video("long", duration=30.0 / (1 - share), width=1280)
        advice = worth_keeping([clip, long], [pair(clip, long, ((0.0, 30.0), (0.0, 30.0)))])
        assert (advice.keep, advice.also) == ("long", kept)


def test_a_damaged_video_replaces_no_sound_one() -> None:
    sound, damaged = video("sound", duration=50.0), video("damaged", damaged=3)
    advice = worth_keeping([sound, damaged], [pair(sound, damaged, ((0.0, 50.0), (0.0, 50.0)))])
    assert (advice.keep, advice.reason) == ("sound", "undamaged")
    assert advice.also == ["damaged"], "it shows ten seconds that the sound one does not"


def test_what_someone_called_the_same_replaces_each_other() -> None:
    a, b = video("a"), video("b", width=320)
    assert worth_keeping([a, b], []).also == ["b"]
    advice = worth_keeping([a, b], [], [("a", "b")])
    assert (advice.keep, advice.also) == ("a", [])


def test_names_that_are_not_unique_are_told_with_their_folder() -> None:
    a, b = replace(video("a"), path="/v/1/x.mp4"), replace(video("b", width=320), path="/v/2/x.mp4")
    assert worth_keeping([a, b], [whole(a, b)]).notes == {"b": "all of it is in /v/1/x.mp4"}


def test_a_short_video_does_not_stand_for_a_much_longer_one() -> None:
    short, long = video("a", duration=18.0, width=1280), video("b", duration=59.0)
    advice = worth_keeping([short, long], [whole(short, long)])
    assert (advice.keep, advice.also) == ("b", [])  # for all its smaller picture
    faster = video("c", duration=40.0, width=1280)  # played half as fast again
    assert worth_keeping([faster, long], [whole(faster, long)]).keep == "c"
