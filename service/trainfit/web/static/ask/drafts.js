/**
 * What is typed as it is typed. While it is no value it is not part of the question, and no answer
 * is one to what stands on the page.
 */

import { at } from "../job/pointer.js";
import { Store } from "../state.js";
import { useStore } from "../stored.js";
import { useEffect } from "../vendor/htm-preact.js";

/**
 * @typedef {object} Draft
 * @property {string} pointer
 * @property {unknown} over What the job has at the pointer; when it has something else, that is
 *   what stands there.
 * @property {string} text
 * @property {string} [wrong] Why it is not a part of the question: its name, and what it is not.
 * @property {boolean} [apart] Whether it stands in no field, so that it is set aside by hand.
 */

/** By the field, or whatever else is typed into. */
export const drafts = new Store(/** @type {Record<string, Draft | undefined>} */ ({}));

/**
 * @param {string} id
 * @param {string} pointer
 * @param {unknown} job
 */
export function useDraft(id, pointer, job) {
  const found = useStore(drafts)[id];
  useEffect(() => () => drop(id), [id]);
  const present = at(job, pointer);
  return {
    draft: found && found.over === present ? found : undefined,
    /** A part of the question, `over`, as it is written here. */
    write: (/** @type {string} */ text, /** @type {unknown} */ over) =>
      drafts.update({ [id]: { pointer, over, text } }),
    hold: (/** @type {string} */ text, /** @type {string} */ wrong, apart = false) =>
      drafts.update({ [id]: { pointer, over: present, text, wrong, apart } }),
    /** When the field is left: what is no value stays to be seen. */
    leave: () => {
      if (!found?.wrong) drop(id);
    },
    drop: () => drop(id),
  };
}

/** @param {string} id */
export function drop(id) {
  if (drafts.value[id]) drafts.update({ [id]: undefined });
}

/**
 * What stands on the page and is not part of the job.
 * @param {Record<string, Draft | undefined>} all
 * @param {unknown} job
 * @returns {{id: string, wrong: string, apart: boolean} | undefined}
 */
export function unasked(all, job) {
  for (const [id, draft] of Object.entries(all)) {
    if (draft?.wrong && draft.over === at(job, draft.pointer))
      return { id, wrong: draft.wrong, apart: draft.apart ?? false };
  }
  return undefined;
}
