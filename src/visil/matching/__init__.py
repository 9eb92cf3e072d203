"""From a matrix of similarities to stretches, a probability and a verdict."""
