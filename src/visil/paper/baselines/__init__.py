"""What the paper compares with, one method a file; each works from plain vectors and counts."""

from visil.training.lbow import Bag, BagIndex, LayerBagOfWords, layer_vectors

__all__ = ["Bag", "BagIndex", "LayerBagOfWords", "layer_vectors"]
