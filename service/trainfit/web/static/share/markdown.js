/** A table as Markdown has it. */

/** @param {string[][]} rows the first of them is the head @returns {string} */
export function markdown([head = [], ...rows]) {
  const lines = [head, head.map(() => "---"), ...rows];
  return lines.map((cells) => `| ${cells.map(escaped).join(" | ")} |\n`).join("");
}

/** @param {string} text */
function escaped(text) {
  return text.replaceAll("\u00a0", " ").replaceAll("|", "\\|").replaceAll("\n", " ");
}
