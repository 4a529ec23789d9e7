/** A table that may be wider than the page: where it is, the keyboard can scroll it. */

import { html, useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";

/** @param {{label: string, children?: unknown}} props */
export function Scroll({ label, children }) {
  const ref = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [wide, setWide] = useState(false);
  const measure = () => {
    const element = ref.current;
    if (element) setWide(element.scrollWidth > element.clientWidth);
  };
  // What is shown anew may be wider at once, which the observer tells a frame later.
  useLayoutEffect(measure);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    if (element.firstElementChild) observer.observe(element.firstElementChild);
    return () => observer.disconnect();
  }, []);
  return html`<div class="scroll" ref=${ref} tabindex=${wide ? 0 : undefined}
    role=${wide ? "region" : undefined} aria-label=${wide ? label : undefined}>${children}</div>`;
}
