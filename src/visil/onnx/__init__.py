"""A model as ONNX: two graphs and a description, for machines without torch."""

from visil.onnx.export import Exported, export_onnx

__all__ = ["Exported", "export_onnx"]
