"""Sound that a file would take with it, and sound that was only coded again."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from footage.scenes import FPS, Frames, shots
from synthetic import write_video
from visil.footage.proof import File, Proof, Prover
from visil.video.sound import BLOCKS, SILENCE, _Reading, read_sound

RATE = 48000
SECONDS = 5
Samples = NDArray[np.float32]


@cache
def film() -> Frames:
    return [frame[::2, ::2] for frame in shots(3, SECONDS)]


def black(seconds: float) -> Frames:
    return [np.zeros_like(film()[0])] * round(seconds * FPS)


def speech(seed: int, seconds: float = SECONDS) -> Samples:
    """Syllables of a voice with two formants, hissing between some of them, and pauses."""
    random = np.random.default_rng(seed)
    parts: list[NDArray[np.float64]] = []
    while sum(map(len, parts)) < seconds * RATE:
        times = np.arange(round(random.uniform(0.08, 0.3) * RATE)) / RATE
        kind, pitch = random.random(), random.uniform(90, 250)
        if kind < 0.15:
            parts.append(np.zeros(len(times)))
            continue
        sound = random.normal(0, 0.1, len(times))
        if kind > 0.35:
            tones = pitch * np.arange(1, 25)
            formants = [random.uniform(300, 900), random.uniform(900, 2500)]
            strength = 0.05 + sum(np.exp(-(((tones - one) / 200) ** 2)) for one in formants)
            sound = strength @ np.sin(2 * np.pi * tones[:, None] * times)
        parts.append(sound * np.hanning(len(times)) * random.uniform(0.05, 0.5))
    voice = np.concatenate(parts)[: round(seconds * RATE)]
    room = random.normal(0, 1e-4, len(voice))
    return (0.6 * voice / np.abs(voice).max() + room).astype(np.float32)


def music(seed: int, seconds: float = SECONDS) -> Samples:
    """Plucked chords, four a second, and a drum."""
    random = np.random.default_rng(seed)
    times = np.arange(RATE) / RATE
    song = np.zeros(round(seconds * RATE) + RATE)
    for start in range(0, round(seconds * RATE), RATE // 4):
        for step in random.choice([0, 2, 4, 5, 7, 9, 11, 12, 16, 19, 24], 3):
            tones = 110 * 2 ** (step / 12) * np.arange(1, 6)
            chord = (1 / np.arange(1, 6)) @ np.sin(2 * np.pi * tones[:, None] * times)
            song[start : start + RATE] += random.uniform(0.1, 0.5) * np.exp(-3 * times) * chord
        if random.random() < 0.5:
            song[start : start + 6000] += random.normal(0, 0.6, 6000) * np.exp(-np.arange(6000) / 1500)
    song = song[: round(seconds * RATE)]
    return (0.7 * song / np.abs(song).max()).astype(np.float32)


def rain(seconds: float = SECONDS) -> Samples:
    """As loud in each octave: pink noise."""
    tones = np.fft.rfft(np.random.default_rng(1).normal(size=round(seconds * RATE)))
    noise = np.fft.irfft(tones / np.sqrt(np.arange(len(tones)) + 50))
    return (0.2 * noise / np.abs(noise).max()).astype(np.float32)


def replaced(samples: Samples, start: float, other: Samples) -> Samples:
    """With other sound from some second on."""
    changed = samples.copy()
    place = round(start * RATE)
    changed[place : place + len(other)] = other
    return changed


def bleep(seconds: float) -> Samples:
    return (0.4 * np.sin(2 * np.pi * 1000 * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * RATE), np.float32)


def proved(folder: Path, one: tuple[Frames, Samples], two: tuple[Frames, Samples], **coded: object) -> Proof:
    """The first is as it was, the second coded again."""
    files = []
    for name, (frames, sound), how in (("one", one, {}), ("two", two, coded)):
        path = write_video(folder / f"{name}.mkv", frames, FPS, sound=sound, **how)  # type: ignore[arg-type]
        files.append(File(str(path), len(frames) / FPS, path.stat().st_size))
    spans = (0.0, len(one[0]) / FPS), (0.0, len(two[0]) / FPS)
    return Prover().prove(files[0], files[1], [spans])


LOST: dict[str, tuple[Samples, Samples]] = {
    "a second of speech": (speech(1), replaced(speech(1), 2, silence(1))),
    "a second of music": (music(1), replaced(music(1), 3, silence(1))),
    "a word": (speech(2), replaced(speech(2), 1.5, bleep(0.6))),
    "another word": (speech(2), replaced(speech(2), 1.5, speech(9, 0.7))),
    "another bar": (music(2), replaced(music(2), 2, music(9, 1))),
    "rain": (rain(), silence(SECONDS)),
    "a whistle in the rain": (rain() + bleep(SECONDS) * np.float32(0.25), rain()),
    "a whistle": (bleep(SECONDS) * np.float32(0.02), silence(SECONDS)),
    "speech after the last picture": (speech(4, SECONDS + 2), speech(4)),
    "a whisper": (
        replaced(music(3), 3, speech(5, 2) * np.float32(0.01)),
        replaced(music(3), 3, silence(2)),
    ),
}


@pytest.mark.parametrize("what", LOST)
def test_sound_that_only_one_has_is_not_lost(what: str, tmp_path: Path) -> None:
    mine, theirs = LOST[what]
    found = proved(tmp_path, (film(), mine), (film(), theirs))
    assert found.first_in_second.whole
    assert found.first_only == "sounds different"


def test_speech_over_black_is_not_lost(tmp_path: Path) -> None:
    """Nothing is seen in the last three seconds, and something is heard."""
    found = proved(
        tmp_path,
        (film() + black(3), speech(6, SECONDS + 3)),
        (film(), speech(6, SECONDS + 3)[: SECONDS * RATE]),
    )
    assert found.first_in_second.whole
    assert (found.first_only, found.second_only) == ("sounds different", None)


def test_sound_that_cannot_be_decoded_is_not_lost(tmp_path: Path) -> None:
    """Another player may know how."""
    heard = write_video(tmp_path / "heard.mp4", film(), FPS, sound=speech(1))
    silent = write_video(tmp_path / "silent.mp4", film(), FPS)
    files = [File(str(path), SECONDS, path.stat().st_size) for path in (garbled(heard), heard, silent)]
    for one, two, only in ((0, 1, "has sound that could not be compared"), (2, 0, None), (1, 1, None)):
        found = Prover().prove(files[one], files[two], [((0.0, SECONDS), (0.0, SECONDS))])
        assert found.first_in_second.whole
        assert found.first_only == only


def garbled(path: Path) -> Path:
    """A copy in which no packet of the sound makes sense."""
    goal = path.with_name(f"garbled {path.name}")
    with av.open(str(path)) as source, av.open(str(goal), "w") as copy:
        streams = [copy.add_stream_from_template(stream) for stream in source.streams]
        for packet in source.demux():
            if packet.dts is None:
                continue
            fresh = packet
            if packet.stream.type == "audio":
                fresh = av.Packet(b"\x55" * packet.size)
                fresh.pts, fresh.dts, fresh.time_base = packet.pts, packet.dts, packet.time_base
            fresh.stream = streams[packet.stream.index]
            copy.mux(fresh)
    return goal


def late(samples: Samples, seconds: float) -> Samples:
    return np.concatenate([silence(seconds), samples])[: len(samples)]


CODED: dict[str, tuple[float, float, dict[str, object]]] = {
    "aac": (0.0, 1.0, {"sound_bits": 96_000}),
    "aac, few bits": (0.0, 1.0, {"sound_bits": 32_000}),
    "opus": (0.0, 1.0, {"sound_codec": "libopus", "sound_bits": 24_000}),
    "mp3": (0.0, 1.0, {"sound_codec": "libmp3lame", "sound_bits": 64_000}),
    "22 kHz": (0.0, 1.0, {"sound_rate": 22050, "sound_bits": 32_000}),
    "softer": (0.0, 0.2, {}),
    "a little late": (0.03, 1.0, {}),
    "late": (0.2, 1.0, {"sound_bits": 48_000}),
}


@pytest.mark.parametrize("how", CODED)
@pytest.mark.parametrize("kind", [speech, music], ids=["speech", "music"])
def test_sound_that_was_coded_again_is_the_same(kind: object, how: str, tmp_path: Path) -> None:
    seconds, loudness, coded = CODED[how]
    sound = kind(7)  # type: ignore[operator]
    again = late(sound, seconds) * np.float32(loudness)
    found = proved(tmp_path, (film(), sound), (film(), again), **coded)
    assert found.first_only in (None, "has clearer sound"), "which is no other sound"
    assert found.second_only is None


STEREO = np.stack([speech(31), speech(32)])
BETTER: dict[str, tuple[Samples, Samples, dict[str, object], dict[str, object], str]] = {
    "both channels": (STEREO, STEREO.mean(axis=0), {}, {}, "has sound in 2 channels"),
    "no loss": (music(4), music(4), {"sound_codec": "flac"}, {}, "has lossless sound"),
    "bits": (music(4), music(4), {}, {"sound_bits": 24_000}, "has clearer sound"),
    "high pitches": (speech(7), speech(7), {}, {"sound_rate": 11025}, "has clearer sound"),
}


@pytest.mark.parametrize("what", BETTER)
def test_better_sound_of_worse_pictures_is_not_lost(what: str, tmp_path: Path) -> None:
    better, worse, well, badly, only = BETTER[what]
    files = [
        write_video(tmp_path / "better.mkv", film(), FPS, sound=better, options={"crf": "26"}, **well),  # type: ignore[arg-type]
        write_video(tmp_path / "worse.mkv", film(), FPS, sound=worse, **badly),  # type: ignore[arg-type]
    ]
    one, two = (File(str(path), SECONDS, path.stat().st_size) for path in files)
    found = Prover().prove(one, two, [((0.0, SECONDS), (0.0, SECONDS))])
    assert found.first_in_second.whole
    assert (found.first_only, found.second_only) == (only, None)


def test_one_channel_twice_is_no_more_than_once(tmp_path: Path) -> None:
    found = proved(tmp_path, (film(), np.stack([speech(1)] * 2)), (film(), speech(1)), sound_bits=96_000)
    assert (found.first_only, found.second_only) == (None, None)


def test_sound_that_comes_late_takes_no_memory(tmp_path: Path) -> None:
    reading = _Reading(FakeStream(), 0.0)  # type: ignore[arg-type]
    frame = av.AudioFrame.from_ndarray(speech(1, 1)[None], format="fltp", layout="mono")
    frame.sample_rate, frame.pts, frame.time_base = RATE, 7200 * RATE, Fraction(1, RATE)
    reading.take(reading.resampled(frame))
    bands = reading.read().bands
    assert len(bands) == pytest.approx(7201 * BLOCKS, abs=1)
    assert bands[: 7199 * BLOCKS].max() == SILENCE
    assert bands[7200 * BLOCKS :].max() > -40


class FakeStream:
    class codec_context:
        name = "aac"


@pytest.mark.parametrize("seconds", [-0.09, 0.09])
def test_the_padding_of_an_encoder_is_not_heard(seconds: float, tmp_path: Path) -> None:
    long = speech(8, SECONDS + 1)
    mine, theirs = long[: SECONDS * RATE], long[: round((SECONDS + seconds) * RATE)]
    found = proved(tmp_path, (film(), mine), (film(), theirs))
    assert (found.first_only, found.second_only) == (None, None)


def test_quiet_parts_are_the_same_when_coded_again(tmp_path: Path) -> None:
    sound = np.concatenate([music(1, 2), speech(1, 1.5) * np.float32(0.004), silence(0.5), speech(2, 1)])
    for name, codec in (("aac", {"sound_bits": 32_000}), ("opus", {"sound_codec": "libopus"})):
        (tmp_path / name).mkdir()
        found = proved(tmp_path / name, (film(), sound), (film(), sound), **codec)
        assert found.first_only in (None, "has clearer sound"), "which is no other sound"
        assert found.second_only is None


def test_two_channels_that_cancel_out_are_heard(tmp_path: Path) -> None:
    voice = speech(1)
    opposite = np.stack([voice, -voice])
    (both,) = read_sound(write_video(tmp_path / "opposite.mkv", film(), FPS, sound=opposite))
    (alone,) = read_sound(write_video(tmp_path / "alone.mkv", film(), FPS, sound=voice))
    assert both.bands.max() == pytest.approx(alone.bands.max() + 3, abs=1), "twice the power of one channel"
    found = proved(tmp_path, (film(), opposite), (film(), silence(SECONDS)))
    assert found.first_only == "sounds different"
    found = proved(tmp_path, (film(), opposite), (film(), voice))
    assert (found.first_only, found.second_only) == ("has sound in 2 channels", None)
