/** The value of a store, drawn anew when it changes. */

import { useEffect, useState } from "./vendor/htm-preact.js";

/** @template T @param {import("./state.js").Store<T>} store @returns {T} */
export function useStore(store) {
  const [value, setValue] = useState(store.value);
  useEffect(() => store.subscribe(setValue), [store]);
  return value;
}
