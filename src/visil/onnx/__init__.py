"""A model as ONNX: two graphs and a description, for whoever has no torch."""

from visil.onnx.export import Exported, export_onnx

__all__ = ["Exported", "export_onnx"]
