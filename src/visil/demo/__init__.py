"""Videos to try visil on: camera moves over photographs, cut and edited the way copies on the web are.

>>> pair = make_pair("demo")                        # doctest: +SKIP
>>> pair.query, pair.target, pair.truth
>>> frames = render_scene(photograph("coffee"), 5)
>>> write_video("copy.mp4", edited(frames, crop(0.8), mirror(), overlay("best of")))

The photographs are those in scikit-image: ``pip install 'visil[demo]'``.
"""

from visil.demo.collection import DemoCollection, SharedFootage, make_collection
from visil.demo.pair import DemoPair, make_pair
from visil.demo.scenes import Photograph, photograph, photographs, render_scene
from visil.edits.frames import (
    Edit,
    between,
    border,
    colour,
    crop,
    cut,
    edited,
    inset,
    mirror,
    overlay,
    recode,
    speed,
)
from visil.video.writer import write_video

__all__ = [
    "DemoCollection",
    "DemoPair",
    "Edit",
    "Photograph",
    "SharedFootage",
    "between",
    "border",
    "colour",
    "crop",
    "cut",
    "edited",
    "inset",
    "make_collection",
    "make_pair",
    "mirror",
    "overlay",
    "photograph",
    "photographs",
    "recode",
    "render_scene",
    "speed",
    "write_video",
]
