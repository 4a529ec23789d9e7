import { useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";

/**
 * The width that an element has on the page, so that text in a picture keeps its size.
 * @param {number} initial
 * @returns {[import("preact").RefObject<HTMLDivElement>, number]}
 */
export function useWidth(initial) {
  const ref = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [width, setWidth] = useState(initial);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const measure = () => setWidth(Math.round(element.clientWidth) || initial);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [initial]);
  return [ref, width];
}
