"""Short work that is no job: the caller waits for an engine to do it."""

from __future__ import annotations

from typing import Any

from visil.web.engine import EngineCancelled, EngineFailed, EngineLink
from visil.web.problems import Problem


async def ask(engine: EngineLink, request: dict[str, Any]) -> None:
    """Have an engine do something; a problem where it cannot be done."""
    try:
        await engine.ask(request, lambda _: None)
    except EngineFailed as error:
        raise Problem(422, str(error)) from error
    except EngineCancelled as error:
        raise Problem(409, "This was stopped before it was done.") from error
