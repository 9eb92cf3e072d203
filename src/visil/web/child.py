"""How the server starts processes of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

APART: dict[str, Any] = {"start_new_session": True}
"""For ``Popen``: Ctrl-C is not for this process, the server ends its children itself."""
if sys.platform == "win32":
    APART = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
