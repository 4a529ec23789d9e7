/** A picture of the page as a file of its own: SVG with its styles, or PNG drawn from that. */

const STYLES = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "font-size",
  "font-weight",
  "opacity",
];
const MARGIN = 16;
const TITLE = 34;

/**
 * @param {SVGSVGElement} shown
 * @param {string} title
 * @returns {string} a whole SVG document
 */
export function standalone(shown, title) {
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
  const [across, down] = [width + 2 * MARGIN, height + TITLE + MARGIN];
  const serializer = new XMLSerializer();
  const body = [...copy.childNodes].map((node) => serializer.serializeToString(node)).join("");
  const size = `width="${across}" height="${down}" viewBox="0 0 ${across} ${down}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size}
    font-family="Helvetica, Arial, sans-serif">
<rect width="${across}" height="${down}" fill="${surface}"/>
<text x="${MARGIN}" y="24" font-size="15" font-weight="600"
  fill="${page.color}">${escaped(title)}</text>
<g transform="translate(${MARGIN} ${TITLE})">${body}</g>
</svg>`;
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
