"""How the server starts processes of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from visil.processes import NEUTRAL

APART: dict[str, Any] = {"cwd": NEUTRAL, "start_new_session": True}
"""For ``Popen``: neither the server's working folder nor Ctrl-C is for them; the server ends them itself."""
if sys.platform == "win32":
    APART = {"cwd": NEUTRAL, "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
