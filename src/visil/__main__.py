"""``python -m visil``."""

from visil.cli import main

main()
