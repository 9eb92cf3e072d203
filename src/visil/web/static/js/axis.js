// When each cell of a matrix begins and ends, in seconds.

/** How many frames the network's output folds into one cell. */
const STRIDE = 4;

/** The edges of cells, one more than there are, from the times of the frames; the last frame lasts as long as most. */
export function edges(times, cells) {
  const steps = times.slice(1).map((time, i) => time - times[i]).sort((a, b) => a - b);
  const step = steps.length ? (steps[steps.length >> 1] + steps[(steps.length - 1) >> 1]) / 2 : 1;
  const all = [...times, times[times.length - 1] + step];
  const stride = cells === times.length ? 1 : STRIDE;
  return Float64Array.from({ length: cells + 1 }, (_, i) => all[Math.min(i * stride, times.length)]);
}

/** The cell at a time; the first or last where it is outside. */
export function cellAt(edge, time) {
  let [low, high] = [0, edge.length - 2];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (edge[middle] <= time) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** For each of so many even steps of time between start and end, the cells on display in it, as [first, after last]. */
export function bins(edge, start, end, steps) {
  const slack = (1e-6 * (end - start)) / steps;
  return Array.from({ length: steps }, (_, i) => {
    const [from, to] = [start + ((end - start) * i) / steps, start + ((end - start) * (i + 1)) / steps];
    if (from >= edge[edge.length - 1] - slack) return [0, 0];
    return [cellAt(edge, from + slack), cellAt(edge, to - slack) + 1];
  });
}
