/** A picture of the page as a file of its own: SVG with its styles, or PNG drawn from that. */

const STYLES = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "paint-order",
  "font-size",
  "font-weight",
  "opacity",
];
const MARGIN = 16;
const TITLE = 58;
const LINE = 20;
/** An upper bound on the mean width of a letter of the legend, in pixels. */
const LETTER = 7;
const BOX = 12;

/**
 * @param {SVGSVGElement} shown
 * @param {string} title
 * @param {string} verdict
 * @param {[string, string][]} legend names and colours
 * @returns {string} a whole SVG document
 */
export function standalone(shown, title, verdict, legend) {
  const copy = /** @type {SVGSVGElement} */ (shown.cloneNode(true));
  const originals = shown.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, index) => {
    const original = originals[index];
    if (!original) return;
    const style = getComputedStyle(original);
    for (const name of STYLES) element.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "role", "aria-pressed"]) element.removeAttribute(name);
  });
  const { width, height } = shown.getBoundingClientRect();
  const page = getComputedStyle(document.body);
  const surface = page.getPropertyValue("--surface");
  const entries = placed(legend, width);
  const below = TITLE + height + MARGIN;
  const lines = 1 + Math.max(...entries.map(({ line }) => line));
  const [across, down] = [width + 2 * MARGIN, below + LINE * lines + MARGIN / 2];
  const serializer = new XMLSerializer();
  const body = [...copy.childNodes].map((node) => serializer.serializeToString(node)).join("");
  const size = `width="${across}" height="${down}" viewBox="0 0 ${across} ${down}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size}
    font-family="Helvetica, Arial, sans-serif">
<rect width="${across}" height="${down}" fill="${surface}"/>
<text x="${MARGIN}" y="24" font-size="15" font-weight="600"
  fill="${page.color}">${escaped(title)}</text>
<text x="${MARGIN}" y="45" font-size="13" fill="${page.color}">${escaped(verdict)}</text>
<g transform="translate(${MARGIN} ${TITLE})">${body}</g>
<g font-size="12" fill="${page.color}">
${entries
  .map(({ name, colour, x, line }) => {
    const y = below + LINE * line;
    return `<rect x="${MARGIN + x}" y="${y}" width="${BOX}" height="${BOX}" fill="${colour}"/>
<text x="${MARGIN + x + BOX + 5}" y="${y + 10}">${escaped(name)}</text>`;
  })
  .join("\n")}
</g>
</svg>`;
}

/** Where the entries of a legend stand, line by line.
 * @param {[string, string][]} legend
 * @param {number} width
 */
function placed(legend, width) {
  let [x, line] = [0, 0];
  return legend.map(([name, colour]) => {
    const needed = BOX + 20 + LETTER * name.length;
    if (x > 0 && x + needed > width) [x, line] = [0, line + 1];
    const entry = { name, colour, x, line };
    x += needed;
    return entry;
  });
}

/** @param {string} svg @param {number} scale @returns {Promise<Blob>} */
export async function png(svg, scale = 2) {
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.width * scale;
    canvas.height = image.height * scale;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) =>
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture")))),
    );
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** @param {string} text */
function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
