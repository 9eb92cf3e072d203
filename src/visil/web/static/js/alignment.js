// Which moment of the target belongs to which of the query: a straight line through one point, with a speed.

/**
 * The line of a segment: {query, target, ratio}, ratio being target seconds for each second of the query, below zero
 * where the target runs backwards.
 * A comparison knows it more finely than by the segment's ends.
 */
export function ofSegment(segment) {
  const { query: [a, b], target } = segment.line ?? segment;
  const [c, d] = segment.reversed && !segment.line ? [target[1], target[0]] : target;
  return through(a, c, b > a && d !== c ? (d - c) / (b - a) : 1);
}

/** The line through a point. */
export function through(query, target, ratio = 1) {
  return { query, target, ratio };
}

/** The target's moment for one of the query. */
export const toTarget = (line, query) => line.target + (query - line.query) * line.ratio;

/** The query's moment for one of the target. */
export const toQuery = (line, target) => line.query + (target - line.target) / line.ratio;

/** Whether a time lies in a stretch [start, end]. */
export const inside = ([start, end], time) => time >= start && time <= end;

/**
 * The segment that a point of the matrix belongs to, by its place in the list; -1 where it is in none.
 * Of several, the one whose line passes closest.
 */
export function segmentAt(segments, query, target) {
  let [best, closest] = [-1, Infinity];
  segments.forEach((segment, i) => {
    if (!inside(segment.query, query) || !inside(segment.target, target)) return;
    const away = Math.abs(toTarget(ofSegment(segment), query) - target);
    if (away < closest) [best, closest] = [i, away];
  });
  return best;
}
