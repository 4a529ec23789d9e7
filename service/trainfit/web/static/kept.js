/** What the browser keeps from one visit to the next; it is sent nowhere by itself. */

import { Store } from "./state.js";

const PREFIX = "trainfit.";

/**
 * A list that is kept; where the browser keeps nothing, it lives as long as the page.
 * @template T
 * @param {string} name
 * @returns {Store<{list: T[]}>}
 */
export function kept(name) {
  const key = PREFIX + name;
  const store = new Store({ list: /** @type {T[]} */ (read(key)) });
  store.subscribe(({ list }) => {
    try {
      localStorage.setItem(key, JSON.stringify(list));
    } catch {
      // It is full, or the browser keeps nothing of this page.
    }
  });
  return store;
}

/** @param {string} key */
function read(key) {
  try {
    const list = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}
