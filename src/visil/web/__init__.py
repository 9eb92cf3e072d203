"""The web page and the HTTP API over a collection: ``visil serve``.

Nothing here is imported by the rest of visil. It needs the extra ``visil[serve]`` (FastAPI and uvicorn); the processes
that decode and compare (:mod:`visil.web.decoder`, :mod:`visil.web.engine`) do not.
"""
