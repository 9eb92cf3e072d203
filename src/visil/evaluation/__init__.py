"""Benchmarks with their own protocols."""

from visil.evaluation.benchmark import Benchmark, Figures
from visil.evaluation.datasets import DATASETS, read_dataset
from visil.evaluation.evaluate import (
    Evaluation,
    Scoring,
    Task,
    evaluate_index,
    evaluate_scores,
    evaluate_streaming,
    evaluate_videos,
    score_here,
)
from visil.evaluation.predictions import Predictions, QueryScores, read_predictions, write_predictions

__all__ = [
    "DATASETS",
    "Benchmark",
    "Evaluation",
    "Figures",
    "Predictions",
    "QueryScores",
    "Scoring",
    "Task",
    "evaluate_index",
    "evaluate_scores",
    "evaluate_streaming",
    "evaluate_videos",
    "read_dataset",
    "read_predictions",
    "score_here",
    "write_predictions",
]
