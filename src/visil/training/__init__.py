"""Learning a model from videos (Sec. 4.4, 4.5, 5.2); :func:`visil.training.run.train` makes a whole run.

- What is learned from: ``footage``, ``cached_footage``; annotated ``segments``; the two ``pools``; ``hard_negatives``
  by bags of words (``lbow``); ``snippets`` and ``triplets`` of them; all put together in ``dataset``.
- What is lowered: ``losses`` (Eq. 7 to 9, L_reg), over pairs compared in batches (``batch_similarity``).
- How: one ``trainer`` with two objectives, ``frames`` and ``videos``; ``validation``, ``checkpoint``, ``log``.
- Edits of pictures and in time: :mod:`visil.edits`.
"""
