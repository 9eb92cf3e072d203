"""A folder such as one of downloads may be: files in it are named like modules, and tell when they were run."""

from pathlib import Path

MODULES = ("html", "torch", "av", "json", "typing", "queue", "numpy", "visil_plugin", "fastapi", "sqlite3")


def plant(folder: Path) -> Path:
    """Put them there; gives the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODULES:
        (folder / f"{name}.py").write_text(
            "open(__file__ + '.ran', 'w').close()\nraise SystemExit('planted')\n"
        )
    return folder


def ran(folder: Path) -> list[str]:
    """Those that were."""
    return sorted(file.name.removesuffix(".py.ran") for file in folder.glob("*.ran"))
