"""Videos to try visil on: camera moves over photographs, cut and edited the way copies on the web are.

>>> pair = make_pair("demo")                        # doctest: +SKIP
>>> pair.query, pair.target, pair.truth
>>> frames = render_scene(photograph("coffee"), 5)  # to edit with visil.edits.frames

The photographs are those in scikit-image: ``pip install 'visil[demo]'``.
"""

from visil.demo.collection import DemoCollection, SharedFootage, make_collection
from visil.demo.pair import DemoPair, make_pair
from visil.demo.scenes import Photograph, photograph, photographs, render_scene

__all__ = [
    "DemoCollection",
    "DemoPair",
    "Photograph",
    "SharedFootage",
    "make_collection",
    "make_pair",
    "photograph",
    "photographs",
    "render_scene",
]
