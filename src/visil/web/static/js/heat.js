// Colours for similarities: from dark to light in even steps of lightness, the same as in the report and the figures.

const STOPS = [[12, 15, 36], [23, 48, 92], [31, 95, 139], [63, 151, 168], [140, 203, 181], [244, 251, 232]];

/** 256 colours as bytes: red, green, blue, red … */
export const HEAT = (() => {
  const table = new Uint8ClampedArray(3 * 256);
  for (let i = 0; i < 256; i += 1) {
    const place = (i / 255) * (STOPS.length - 1);
    const at = Math.min(Math.floor(place), STOPS.length - 2);
    for (let c = 0; c < 3; c += 1) table[3 * i + c] = Math.round(STOPS[at][c] + (place - at) * (STOPS[at + 1][c] - STOPS[at][c]));
  }
  return table;
})();

/** The values drawn darkest and lightest, far enough apart that noise does not look like a match. */
export function limits(values) {
  const step = Math.max(1, Math.floor(values.length / 2e5));
  const some = [];
  let highest = -Infinity;
  for (let i = 0; i < values.length; i += 1) {
    if (values[i] > highest) highest = values[i];
    if (i % step === 0) some.push(values[i]);
  }
  some.sort((a, b) => a - b);
  const low = some[Math.floor(0.05 * (some.length - 1))];
  return [low, Math.max(highest, Math.min(1, low + 0.6), low + 0.05)];
}

/** Draw a matrix: each pixel has the highest value of the cells in it, so that a thin line stays one. */
export function paint(canvas, { columns, values }, rowBins, columnBins, [low, high]) {
  canvas.width = columnBins.length;
  canvas.height = rowBins.length;
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const strip = new Float32Array(columns);
  let [place, before] = [0, null];
  for (const [top, bottom] of rowBins) {
    if (before?.[0] !== top || before[1] !== bottom) highest(values, columns, top, bottom, strip);
    before = [top, bottom];
    for (const [left, right] of columnBins) {
      let value = -Infinity;
      for (let c = left; c < right; c += 1) if (strip[c] > value) value = strip[c];
      if (top < bottom && left < right) {
        const level = 3 * Math.max(0, Math.min(255, Math.round((255 * (value - low)) / (high - low))));
        image.data[place] = HEAT[level];
        image.data[place + 1] = HEAT[level + 1];
        image.data[place + 2] = HEAT[level + 2];
        image.data[place + 3] = 255;
      }
      place += 4;
    }
  }
  context.putImageData(image, 0, 0);
}

function highest(values, columns, top, bottom, into) {
  into.fill(-Infinity);
  for (let row = top; row < bottom; row += 1) {
    const start = row * columns;
    for (let c = 0; c < columns; c += 1) if (values[start + c] > into[c]) into[c] = values[start + c];
  }
}
