"""Imports what the tests import, and the tests, once: so that bytecode is there for the hundreds of processes that they
start, and each file's assertions are rewritten by one process and not by all.

Packages are installed without bytecode (see the Makefile): of a fifth of their modules it is ever needed. Some of those
processes may not write, and would compile everything anew each time.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import sys
from contextlib import redirect_stdout

import visil

OTHERS = """
    pytest xdist.remote hypothesis hypothesis.extra.numpy schemathesis playwright.sync_api moto.server moto.s3.responses
    flask_cors onnx onnxruntime matplotlib.backends.backend_agg skimage.data ray.data ray.cluster_utils pandas s3fs
    aiobotocore.session huggingface_hub tensorboard.compat torch.utils.tensorboard torch.onnx httpx uvicorn.lifespan.on
    uvicorn.protocols.http.h11_impl triton triton.runtime.interpreter torch._dynamo
"""


def main() -> None:
    """What is not installed, or not for this system, is passed over: the tests say what they need."""
    gc.disable()  # nothing of this is garbage
    ours = [module.name for module in pkgutil.walk_packages(visil.__path__, "visil.")]
    for name in [*ours, *OTHERS.split()]:
        if name == "visil.__main__":
            continue
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"{name}: {error}", file=sys.stderr)
    import pytest

    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        pytest.main(["--collect-only", "-p", "no:cacheprovider"])


if __name__ == "__main__":
    main()
