/** Figures and names as a person reads them. */

const KIB = 2 ** 10;
const MIB = 2 ** 20;
const GIB = 2 ** 30;
const whole = new Intl.NumberFormat("en");
const fixed = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const figures = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

/** @param {number} bytes */
export function gib(bytes) {
  return `${fixed.format(bytes / GIB)}\u00a0GiB`;
}

/** GiB, or the unit below where it would be less than one tenth. @param {number} bytes */
export function size(bytes) {
  if (Math.abs(bytes) >= GIB / 10 || bytes === 0) return gib(bytes);
  if (Math.abs(bytes) >= MIB / 10) return `${fixed.format(bytes / MIB)}\u00a0MiB`;
  return `${fixed.format(bytes / KIB)}\u00a0KiB`;
}

/** @param {number} low @param {number} high */
export function range(low, high) {
  return `${fixed.format(low / GIB)}–${gib(high)}`;
}

/** @param {number} bytes */
export function signed(bytes) {
  return `${bytes > 0 ? "+" : bytes < 0 ? "−" : "±"}${size(Math.abs(bytes))}`;
}

/** @param {number} count */
export function number(count) {
  return whole.format(count);
}

/** @param {number} value */
export function ratio(value) {
  return short.format(value);
}

/** @param {number} value */
export function seconds(value) {
  const [figure, unit] = value < 0.1 ? [1000 * value, "ms"] : [value, "s"];
  return `${figures.format(figure)}\u00a0${unit}`;
}

/** @param {{low: number, high: number}} bounds */
export function secondsRange({ low, high }) {
  return `${figures.format(low)}–${figures.format(high)}\u00a0s`;
}

/** @param {number} share */
export function percent(share) {
  return share > 0 && share < 0.005 ? "<1%" : `${Math.round(100 * share)}%`;
}

/** Parameters: 671.0 B, 8.0 B, 494.0 M. @param {number} count */
export function parameters(count) {
  return count >= 1e9
    ? `${fixed.format(count / 1e9)}\u00a0B`
    : `${fixed.format(count / 1e6)}\u00a0M`;
}

/** @param {string} name of a component or a moment */
export function plain(name) {
  return name.replaceAll("_", " ");
}

/** A sentence that begins with a name of a file or a key stays as it is. @param {string} words */
export function capital(words) {
  if (!/^[a-z]+(-[a-z]+)?([ ,;]|$)/.test(words)) return words;
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** @param {number} count @param {string} what */
export function counted(count, what) {
  const plural = what.endsWith("ch") ? "es" : "s";
  return `${whole.format(count)} ${what}${count === 1 ? "" : plural}`;
}

export const VERDICTS = {
  fits: "fits",
  tight: "tight",
  does_not_fit: "does not fit",
  unknown: "unknown",
};
