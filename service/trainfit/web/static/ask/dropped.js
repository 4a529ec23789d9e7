/** Files may be dropped wherever the page is: a browser would leave it to show them. */

import { useEffect, useRef, useState } from "../vendor/htm-preact.js";

/**
 * @param {(files: FileList) => void} take
 * @returns {boolean} whether files are held over the page
 */
export function useDropped(take) {
  const [over, setOver] = useState(false);
  const taken = useRef(take);
  taken.current = take;
  useEffect(() => {
    const files = (/** @type {DragEvent} */ { dataTransfer }) =>
      dataTransfer?.types.includes("Files") ? dataTransfer.files : null;
    const moved = (/** @type {DragEvent} */ event) => {
      if (!files(event)) return;
      event.preventDefault();
      setOver(true);
    };
    const left = (/** @type {DragEvent} */ event) => {
      if (event.relatedTarget === null) setOver(false);
    };
    const dropped = (/** @type {DragEvent} */ event) => {
      const found = files(event);
      if (!found) return;
      event.preventDefault();
      setOver(false);
      taken.current(found);
    };
    addEventListener("dragover", moved);
    addEventListener("dragleave", left);
    addEventListener("drop", dropped);
    return () => {
      removeEventListener("dragover", moved);
      removeEventListener("dragleave", left);
      removeEventListener("drop", dropped);
    };
  }, []);
  return over;
}
