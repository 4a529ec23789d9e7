/** Bytes to pixels on a vertical axis that begins at 0, with round lines in GiB. */

const GIB = 2 ** 30;
const STEPS = [0.5, 1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000];

/**
 * @param {number} most The bytes that must have room.
 * @param {number} top
 * @param {number} bottom
 */
export function scaleOf(most, top, bottom) {
  const step =
    STEPS.find((each) => most / GIB / each <= 6) ?? 10 ** Math.ceil(Math.log10(most / GIB / 6));
  const end = Math.max(1, Math.ceil(most / GIB / step)) * step;
  const at = (/** @type {number} */ bytes) => bottom - (bytes / GIB / end) * (bottom - top);
  const count = Math.round(end / step);
  const lines = Array.from({ length: count + 1 }, (_, index) => ({
    label: String(index * step),
    y: at(index * step * GIB),
  }));
  return { at, lines, top, bottom };
}
