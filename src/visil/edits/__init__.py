"""The one library of edits that people make to footage they copy.

- :mod:`visil.edits.frames`: pictures one at a time, uint8, with Pillow: the demo's videos and the copy benchmark.
- :mod:`visil.edits.temporal`: which frame of the source each frame of the copy shows.
- :mod:`visil.edits.clips`: batches of clips on their device, with torch: what training shows a model.
"""
