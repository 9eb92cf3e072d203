"""The command ``visil``: one small file for a command or a family of them, no logic.

Options that commands share: :mod:`.options`, and that all have: :mod:`.verbosity`; what they print: :mod:`.output`;
their bars: :mod:`.progress`.
"""

from visil.cli.app import main

__all__ = ["main"]
