"""``python -m visil``."""

import os
import sys

# The folder that a command runs in may hold downloads: no module is to come from there. These two are loaded before.
if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]

from visil.cli import main

main()
