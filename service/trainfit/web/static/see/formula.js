/**
 * Shapes with numbers. A shape is written in the symbols of the legend: [n, (a + 2g) d / t]. Names
 * side by side are multiplied, and so are its dimensions.
 */

/** @typedef {Record<string, number>} Symbols */

const SHAPE = /\[([^\]]+)\]/;
const TOKEN = /\d+|[A-Za-z_]+'?|[()+/-]/g;

/** The first shape in a tensor's name. @param {string} name */
export function shapeOf(name) {
  return SHAPE.exec(name)?.[1] ?? null;
}

/**
 * @param {string} shape
 * @param {Symbols} symbols
 * @returns {{dimensions: number[], elements: number} | null} null where a symbol is not known
 */
export function evaluated(shape, symbols) {
  const dimensions = shape.split(",").map((part) => dimension(part, symbols));
  if (dimensions.some((each) => Number.isNaN(each))) return null;
  return { dimensions, elements: dimensions.reduce((product, each) => product * each, 1) };
}

/**
 * The symbols that a shape names, in their order.
 * @param {string} shape
 * @param {Symbols} symbols
 */
export function named(shape, symbols) {
  return [...new Set(shape.match(TOKEN))].filter((token) => token in symbols);
}

/** @param {string} text @param {Symbols} symbols @returns {number} */
function dimension(text, symbols) {
  const tokens = text.match(TOKEN) ?? [];
  const value = sum(tokens, symbols);
  return tokens.length ? NaN : value;
}

/**
 * Each of these takes what it reads from the front.
 * @param {string[]} tokens
 * @param {Symbols} symbols
 * @returns {number}
 */
function sum(tokens, symbols) {
  let value = product(tokens, symbols);
  while (tokens[0] === "+" || tokens[0] === "-") {
    const sign = tokens.shift() === "+" ? 1 : -1;
    value += sign * product(tokens, symbols);
  }
  return value;
}

/** @param {string[]} tokens @param {Symbols} symbols @returns {number} */
function product(tokens, symbols) {
  let value = factor(tokens, symbols);
  while (tokens.length && !["+", "-", ")"].includes(tokens[0] ?? "")) {
    if (tokens[0] === "/") {
      tokens.shift();
      value /= factor(tokens, symbols);
    } else {
      value *= factor(tokens, symbols);
    }
  }
  return value;
}

/** @param {string[]} tokens @param {Symbols} symbols @returns {number} */
function factor(tokens, symbols) {
  const token = tokens.shift();
  if (token === "(") {
    const value = sum(tokens, symbols);
    return tokens.shift() === ")" ? value : NaN;
  }
  return token === undefined ? NaN : /^\d/.test(token) ? Number(token) : (symbols[token] ?? NaN);
}
