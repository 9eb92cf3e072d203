"""``visil evaluate --ray``: queries shared out over a cluster, each against all of its candidates.

The features must lie where all nodes read them: a folder on a shared file system, or a store. Tasks take runs of
queries, read the targets in the same blocks as one machine does, and give back scores; a task that dies is run again.
Scores are those of one machine to the last bit, as long as its queries fit into memory at once
(:data:`visil.evaluation.scoring.QUERY_BYTES`); beyond, blocks may be cut elsewhere, and last digits differ.
"""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any

from visil.cluster.ray_session import Cluster, ClusterError
from visil.collection.remote.objects import is_url
from visil.errors import VisilError

if TYPE_CHECKING:
    from visil.collection.index import Index
    from visil.evaluation.scoring import Answers
    from visil.evaluation.videos import KnownVideos
    from visil.progress import OnPairs

RUNS_A_CPU = 2
"""Tasks for each CPU: more share the work out more evenly, fewer read the targets less often."""


def spread_scores(
    cluster: Cluster, collection: Index, videos: KnownVideos, progress: OnPairs | None = None
) -> Answers:
    """The result of :func:`visil.evaluation.evaluate.score_here`, computed by the cluster.

    ``partial(spread_scores, cluster)`` is the ``scoring`` of :func:`visil.evaluation.evaluate_videos`.
    """
    import ray
    import ray.exceptions

    from visil.evaluation.predictions import Predictions
    from visil.evaluation.scoring import Answers

    queries = videos.queries
    if not queries:
        return Answers(Predictions({}))
    model = collection.model
    location = collection.location
    here = location if is_url(location) else os.path.abspath(location)
    shared = ray.put((model if model.device.type == "cpu" else copy.deepcopy(model).cpu(), here, videos))
    runs = min(len(queries), RUNS_A_CPU * cluster.cpus)
    task = ray.remote(_score_run).options(num_cpus=1, max_retries=3)
    asked = [task.remote(shared, run, runs) for run in range(runs)]
    answers: dict[Any, Answers] = {}
    waiting = list(asked)
    while waiting:
        ready, waiting = ray.wait(waiting)
        try:
            answers[ready[0]] = ray.get(ready[0])
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, VisilError):
                raise error.cause from None
            raise
        except ray.exceptions.RayError as error:
            raise ClusterError(f"the cluster {cluster.address} was lost; run it again") from error
        if progress is not None:
            pairs = sum(_pairs(answer) for answer in answers.values())
            progress(sum(len(answer.predictions.scores) for answer in answers.values()), len(queries), pairs)
    return _merged(queries, [answers[one] for one in asked])


def _score_run(shared: Any, run: int, runs: int) -> Answers:
    """In a process of the cluster: every ``runs``-th query from ``run`` on."""
    import torch

    from visil.collection.index import Index
    from visil.evaluation.scoring import find_segments, score_videos

    model, location, videos = shared
    torch.set_num_threads(1)
    own = videos.queries[run::runs]
    with Index(location, create=False) as collection:
        read = videos.reader(collection)
        if "segments" in videos.benchmark.measures:
            return find_segments(model, read, own, videos.candidates)
        targets = sorted({target for query in videos.queries for target in videos.candidates(query)})
        return score_videos(model, read, own, videos.candidates, targets=targets)


def _pairs(answer: Answers) -> int:
    return sum(len(row.targets) for row in answer.predictions.scores.values())


def _merged(queries: list[str], answers: list[Answers]) -> Answers:
    """One answer, its queries in their order."""
    from visil.evaluation.predictions import Predictions
    from visil.evaluation.scoring import Answers

    scores = {query: row for answer in answers for query, row in answer.predictions.scores.items()}
    found = [answer.predictions.segments for answer in answers]
    segments = None
    if any(one is not None for one in found):
        pairs = {pair: those for one in found if one is not None for pair, those in one.items()}
        place = {query: number for number, query in enumerate(queries)}
        segments = dict(sorted(pairs.items(), key=lambda item: place[item[0][0]]))
    unreadable = {name for answer in answers for name in answer.unreadable}
    return Answers(
        Predictions({query: scores[query] for query in queries if query in scores}, segments), unreadable
    )
