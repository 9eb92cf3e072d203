"""Learning a model: transforms, triplet pools, mining, losses, the trainer."""
