/** Which layers each pipeline rank holds, chunk by chunk. */

import { html } from "../vendor/htm-preact.js";
import { useWidth } from "./width.js";

/**
 * @typedef {import("trainfit").Stage} Stage
 * @typedef {Stage["chunks"][number]} Chunk
 */

const [LEFT, TOP] = [64, 22];
const END = 26;
/** Pixels that a name needs. */
const NAME = 13;

/** @param {{stages: Stage[], selected: number, select: (rank: number) => void}} props */
export function Pipeline({ stages, selected, select }) {
  const [ref, width] = useWidth(720);
  const layers = stages.flatMap((stage) => stage.chunks.flatMap((chunk) => chunk.layers));
  const count = Math.max(...layers, 0) + 1;
  const row = Math.max(5, Math.min(26, 400 / stages.length));
  const pitch = (width - LEFT - 2 * END - 4) / count;
  const x = (/** @type {number} */ layer) => LEFT + END + layer * pitch;
  const height = TOP + row * stages.length + 6;
  const marks = [0, Math.floor(count / 2), count - 1].filter(
    (mark, index, all) => all.indexOf(mark) === index,
  );
  return html`<div class="picture" ref=${ref}>
    <svg id="pipeline" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`}
      role="group"
      aria-label="Layers of each pipeline stage">
      ${marks.map((mark) => html`<text key=${mark} class="tick" x=${x(mark) + pitch / 2}
        y=${TOP - 8} text-anchor="middle">${mark}</text>`)}
      <text class="tick" x=${LEFT - 8} y=${TOP - 8} text-anchor="end">layer</text>
      ${stages.map((stage) => {
        const y = TOP + row * stage.pp_rank;
        const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          select(stage.pp_rank);
        };
        return html`<g key=${stage.pp_rank}
          class=${`rank ${stage.pp_rank === selected ? "selected" : ""}`}>
          <rect class="ground" x="0" y=${y} width=${width} height=${row} />
          ${stage.pp_rank % Math.ceil(NAME / row) === 0 &&
          html`<text class="name" x=${LEFT - 8} y=${y + row / 2 + 4}
            text-anchor="end">stage ${stage.pp_rank}</text>`}
          ${stage.chunks.map((chunk) => html`<${ChunkBox} key=${chunk.vpp_rank}
            ...${{ chunk, x, y, row, pitch, count }} />`)}
          <rect class="hit" x="0" y=${y} width=${width} height=${row} role="button" tabindex="0"
            aria-pressed=${stage.pp_rank === selected}
            aria-label=${`Stage ${stage.pp_rank}: ${inWords(stage)}`}
            onKeyDown=${onKeyDown} onClick=${() => select(stage.pp_rank)} />
        </g>`;
      })}
    </svg>
  </div>
  <p class="note">E embedding, M multi-token prediction, H head and loss.
    ${stages.some((stage) => stage.chunks.length > 1) &&
    " Each box is a chunk; a rank runs its chunks in turn."}</p>`;
}

/**
 * @param {{chunk: Chunk, x: (layer: number) => number, y: number, row: number,
 *   pitch: number, count: number}} props
 */
function ChunkBox({ chunk, x, y, row, pitch, count }) {
  const [first, last] = [chunk.layers[0], chunk.layers.at(-1)];
  const [top, height] = row < 10 ? [y, row] : [y + 2, row - 4];
  const words = first === last ? String(first) : `${first}–${last}`;
  const width = first === undefined || last === undefined ? 0 : x(last + 1) - x(first);
  const tail = `${chunk.mtp_layers ? "M" : ""}${chunk.output_layer ? "H" : ""}`;
  return html`<g>
    ${chunk.embedding && html`<${End} x=${x(0) - END} ...${{ top, height }} words="E" />`}
    ${width > 0 &&
    html`<rect class="chunk" x=${x(first ?? 0) + 0.5} y=${top} width=${Math.max(width - 1, 1)}
      height=${height} rx="2" />`}
    ${width > words.length * 7 + 4 && row >= 15 &&
    html`<text class="inside" x=${x(first ?? 0) + width / 2} y=${y + row / 2 + 4}
      text-anchor="middle">${words}</text>`}
    ${tail && html`<${End} x=${x(count) + 2} ...${{ top, height }} words=${tail} />`}
  </g>`;
}

/** @param {{x: number, top: number, height: number, words: string}} props */
function End({ x, top, height, words }) {
  return html`<g><rect class="end" x=${x} y=${top} width=${END - 3} height=${height} rx="2" />
    ${height >= 11 &&
    html`<text class="inside" x=${x + (END - 3) / 2} y=${top + height / 2 + 4}
      text-anchor="middle">${words}</text>`}</g>`;
}

/** @param {Stage} stage */
function inWords(stage) {
  const runs = stage.chunks.map(({ layers }) =>
    layers.length ? `layers ${layers[0]} to ${layers.at(-1)}` : "no layers",
  );
  return runs.join(", ");
}
