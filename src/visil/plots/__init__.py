"""Pictures of what visil found. Matplotlib is imported when the first one is drawn."""

from visil.plots.plots import plot_attention, plot_match

__all__ = ["plot_attention", "plot_match"]
