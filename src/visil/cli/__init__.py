"""The command ``visil``: one small file per command, no logic; see docs/cli.md."""

from visil.cli.app import main

__all__ = ["main"]
