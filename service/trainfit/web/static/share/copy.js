/**
 * Copies a text, or selects where it stands: browsers let pages copy over HTTPS and on this machine
 * only.
 * @param {string} text
 * @param {HTMLElement | null} shown
 * @returns {Promise<string>} what became of it
 */
export async function copied(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return "Copied.";
  } catch {
    if (shown) getSelection()?.selectAllChildren(shown);
    return "Selected: copy it with the keyboard.";
  }
}
