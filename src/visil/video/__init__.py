"""Reading videos: from any local file, or a folder of images, to square RGB frames on an even time grid.

>>> with stream_frames("clip.mp4") as stream:      # doctest: +SKIP
...     for batch in stream:
...         batch.images.shape, batch.timestamps   # [T, 224, 224, 3], seconds

Whatever is wrong with a file ends as a :class:`visil.errors.VideoError`.
PyAV and Pillow are imported on first use, so importing this package is quick.
"""

from visil.video.container import IMAGE_SUFFIXES, VIDEO_SUFFIXES, is_video_path
from visil.video.frames import Frames, FrameStream, read_frames, stream_frames
from visil.video.info import VideoInfo, declared_seconds, probe
from visil.video.pictures import Image
from visil.video.sampling import Sampling
from visil.video.thumbnails import frames_at, samples_at

__all__ = [
    "IMAGE_SUFFIXES",
    "VIDEO_SUFFIXES",
    "FrameStream",
    "Frames",
    "Image",
    "Sampling",
    "VideoInfo",
    "declared_seconds",
    "frames_at",
    "is_video_path",
    "probe",
    "read_frames",
    "samples_at",
    "stream_frames",
]
