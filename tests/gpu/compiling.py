"""Compiles kernels for chips that are not here and prints what each needs: run by ``test_kernels_compile``.

python tests/gpu/compiling.py
"""

from __future__ import annotations

import json
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from visil.kernels import triton_comparator, triton_frames, triton_maps, triton_pairs, triton_training

INTEGER = {"i32"}


def compiled(
    kernel: Any, types: dict[str, str], constants: dict[str, Any], chip: int, **options: int
) -> dict[str, Any]:
    """Shared memory and registers' spills of a kernel for compute capability ``chip``."""
    names = list(kernel.arg_names)
    signature = {name: "constexpr" if name in constants else types[name] for name in names}
    attributes = {
        (names.index(name),): [["tt.divisibility", 16]]
        for name, kind in signature.items()
        if kind.startswith("*")
    }
    source = ASTSource(
        kernel,
        signature=signature,
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs=attributes,
    )
    made = triton.compile(source, target=GPUTarget("cuda", chip, 32), options=options)
    return {"shared": made.metadata.shared}


def frames(
    dtype: str, channels: int, few: int, out: str, memory: int, chip: int, listed: bool = False
) -> dict[str, Any]:
    """The Tensor Dot kernel of one kind of features."""
    size = {"fp16": 2, "bf16": 2, "fp8e4nv": 1}[dtype]
    tile = triton_frames.tile_for(channels, size, few, memory, {"fp16": 2, "fp32": 4}[out])
    types = dict.fromkeys(("x_count", "y_count", "out_x", "out_y", "out_pair"), "i32")
    types |= {"out": f"*{out}", "scale": "fp32"}
    types |= {"query": f"tensordesc<{dtype}[{tile.x},{tile.channels}]>"}
    types |= {"target": f"tensordesc<{dtype}[{tile.y},{tile.channels}]>"}
    constants = {
        "R": 9,
        "S": 9,
        "C": channels,
        "X": tile.x,
        "Y": tile.y,
        "K": tile.channels,
        "FEW": few,
        "ADD": True,
        "RESIDENT": tile.resident,
        "GROUP": triton_frames.GROUP,
        "WHICH": False,
        "which": None,
        "LISTED": listed,
    }
    types |= {"tiles": "*i64"}
    if not listed:
        constants["tiles"] = None
    found = compiled(
        triton_frames._frames_kernel, types, constants, chip, num_warps=tile.warps, num_stages=tile.stages
    )
    return found | {"kernel": f"frames {dtype} C={channels} few={few} out={out} sm_{chip}", "memory": memory}


def others() -> list[dict[str, Any]]:
    """The comparator's, the gradient's and the maps' kernels on an H200."""
    half, single, whole = "*fp16", "*fp32", "*i32"
    pooled = {
        **dict.fromkeys(("matrix", "first", "second", "out"), half),
        **dict.fromkeys(("first_bias", "second_bias"), single),
        **dict.fromkeys(("row_map", "column_map"), whole),
        **dict.fromkeys(("row_exists", "column_exists"), "*i1"),
        **dict.fromkeys(("matrix_x", "matrix_y", "rows", "columns"), "i32"),
    }
    output = {
        **dict.fromkeys(("twice", "third"), half),
        **dict.fromkeys(("third_bias", "last", "out"), single),
        **dict.fromkeys(("row_map", "column_map"), whole),
        **dict.fromkeys(("rows", "columns"), "i32"),
        "last_bias": "fp32",
    }
    gradient = {
        **dict.fromkeys(("other", "out"), half),
        "gradient": single,
        "which": "*u8",
        "scale": "fp32",
    }
    numbers = [
        name for name in triton_training._gradient_kernel.arg_names if name.endswith(("_count", "_pair"))
    ]
    numbers += [f"{a}_{b}" for a in ("gradient", "which") for b in ("own", "other")] + ["which_region"]
    gradient |= dict.fromkeys(numbers, "i32")
    depthwise = dict.fromkeys(triton_maps._depthwise_kernel.arg_names, "i32") | dict.fromkeys(
        ("x", "weight", "bias", "out"), half
    )
    regions = dict.fromkeys(triton_maps._regions_kernel.arg_names, "i32") | {
        "x": half,
        "out": half,
        "starts": whole,
    }
    tile = {"ROWS": triton_comparator.ROWS, "COLUMNS": triton_comparator.COLUMNS}
    todo: list[tuple[str, Any, dict[str, str], dict[str, Any], dict[str, int]]] = [
        (
            "pooled twice",
            triton_comparator._pooled_twice_kernel,
            pooled,
            tile | {"ZEROS": False},
            {"num_warps": 8, "num_stages": 2},
        ),
        (
            "output",
            triton_comparator._output_kernel,
            output,
            tile | {"ZEROS": True, "CLIP": True},
            {"num_warps": 8, "num_stages": 2},
        ),
        (
            "gradient",
            triton_training._gradient_kernel,
            gradient,
            {"OWN": 9, "OTHERS": 9, "C": 512, "N": 64, "K": 256, "OF_QUERY": True},
            {"num_warps": 8, "num_stages": 2},
        ),
        (
            "depthwise",
            triton_maps._depthwise_kernel,
            depthwise,
            {"KERNEL": 5, "STRIDE": 2, "W": 16, "C": 64},
            {"num_warps": 4},
        ),
        ("regions", triton_maps._regions_kernel, regions, {"LEVEL": 3, "W": 16, "C": 64}, {"num_warps": 4}),
    ]
    return [
        compiled(kernel, types, constants, 90, **options) | {"kernel": name, "memory": 232_448}
        for name, kernel, types, constants, options in todo
    ]


def main() -> None:
    """One line of JSON."""
    found = others()
    for dtype, channels, few, out in (
        ("fp16", 512, 0, "fp16"),
        ("fp16", 256, 0, "fp32"),
        ("fp8e4nv", 512, 0, "fp16"),
        ("fp16", 256, 3, "fp32"),
        ("bf16", 192, 5, "fp32"),
    ):
        found.append(frames(dtype, channels, few, out, 232_448, 90))
    found.append(frames("fp16", 512, 0, "fp16", 166_912, 80))  # an A100
    found.append(frames("fp16", 256, 3, "fp32", 101_376, 89))  # a card for gamers
    found.append(frames("fp16", 256, 3, "fp16", 232_448, 90, listed=True))
    best = {"frames": "*fp16", "pairs": "*i64", "sums": "*fp32", "peaks": "*fp32"}
    side = {"SIDE": triton_pairs.SIDE}
    found.append(compiled(triton_pairs._best_kernel, best, side, 90) | {"kernel": "best", "memory": 232_448})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
