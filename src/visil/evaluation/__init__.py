"""Benchmarks with their own protocols, and the paper's tables."""

from visil.evaluation.benchmark import Benchmark, Figures
from visil.evaluation.datasets import DATASETS, read_dataset
from visil.evaluation.predictions import Predictions, QueryScores
from visil.evaluation.run import Evaluation, Task, evaluate_index, evaluate_scores, evaluate_videos
from visil.evaluation.score_file import read_predictions, write_predictions

__all__ = [
    "DATASETS",
    "Benchmark",
    "Evaluation",
    "Figures",
    "Predictions",
    "QueryScores",
    "Task",
    "evaluate_index",
    "evaluate_scores",
    "evaluate_videos",
    "read_dataset",
    "read_predictions",
    "write_predictions",
]
