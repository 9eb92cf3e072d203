"""Debian's Chromium for tests of the page: found, or installed where it is missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUICK = ("-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10")
UPDATE_S = 60.0
INSTALL_S = 600.0


def found() -> str | None:
    """Where Chromium is."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def installed(update_s: float = UPDATE_S, install_s: float = INSTALL_S) -> tuple[str | None, str]:
    """Where Chromium is once it has been tried to install it, and why it is nowhere, in words."""
    if os.environ.get("VISIL_INSTALL_CHROMIUM") == "0":
        return None, "no Chromium was found, and VISIL_INSTALL_CHROMIUM=0 keeps it from being installed"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None, "no Chromium was found; root could install Debian's: apt-get install chromium"
    with (Path(tempfile.gettempdir()) / "visil-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        for arguments, seconds in (
            (("update", "--error-on=any"), update_s),
            (("install", "-y", "--no-install-recommends", "chromium"), install_s),
        ):
            if (path := found()) is not None:
                return path, ""
            trouble = _apt(arguments, seconds)
            if trouble is not None:
                return None, f"no Chromium was found, and it could not be installed: {trouble}"
    return found(), "no Chromium was found, also after it was installed"


def _apt(arguments: tuple[str, ...], seconds: float) -> str | None:
    """Why ``apt-get`` failed, in a line; it never waits for an answer, and not for longer than that."""
    child = subprocess.Popen(
        ["apt-get", *QUICK, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"},
    )
    try:
        _, said = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return f"`apt-get {arguments[0]}` took longer than {seconds:g} s"
    if child.returncode == 0:
        return None
    lines = [line for line in said.splitlines() if line.strip()] or ["it failed"]
    return f"`apt-get {arguments[0]}`: {lines[0].strip()}"
