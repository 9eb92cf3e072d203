"""The model as people use it: videos to features, features to answers."""
