"""What several benchmarks use: results on disk, packs of frames, copy sets, edits, the rows of tables."""
