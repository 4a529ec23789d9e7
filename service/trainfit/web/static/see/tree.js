/** The modules of a stage, down to weights and tensors of operations, with this job's numbers. */

import { Scroll } from "./scroll.js";
import { html, useState } from "../vendor/htm-preact.js";
import { number, ratio, size } from "../words.js";
import { inFlight } from "./composition.js";
import { evaluated, named, shapeOf } from "./formula.js";

/**
 * @typedef {import("trainfit").RankLedger} RankLedger
 * @typedef {import("trainfit").Module} Module
 * @typedef {import("trainfit").KeptTensor} KeptTensor
 * @typedef {import("./formula.js").Symbols} Symbols
 */

const LIFETIMES = {
  saved: "kept for backward",
  held: "held until the block's forward returns",
  forward: "during its forward",
  backward: "during its backward",
  gradient: "until gradients are reduced",
};
const DROPPED = "recomputed or fetched in backward";
/** Elements take whole bytes or a known part of one; any other quotient is no width. */
const WIDTHS = [0.5, 1, 2, 3, 4, 5, 6, 8];

/** @param {{ledger: RankLedger, stage: import("trainfit").Stage}} props */
export function ModuleTree({ ledger, stage }) {
  const [open, setOpen] = useState(() => new Set([""]));
  const toggle = (/** @type {string} */ path) => {
    const next = new Set(open);
    if (!next.delete(path)) next.add(path);
    setOpen(next);
  };
  const { modules, symbols } = ledger;
  return html`<${Scroll} label="Modules"><table class="tree">
    <caption class="hidden">Modules of stage ${ledger.pp_rank}</caption>
    <thead><tr>
      <th scope="col">module</th>
      <th scope="col" class="figure">parameters</th>
      <th scope="col" class="figure">on each GPU</th>
      <th scope="col" class="figure">kept by one micro-batch</th>
      <th scope="col" class="share"><span class="hidden">share</span></th>
    </tr></thead>
    <tbody>${rows(modules, "", 0, symbols, { open, toggle, whole: modules.saved_bytes })}</tbody>
  </table></${Scroll}>
  <p class="note">Up to ${inFlight(stage)} at once.
    <span class="hint"> Open a module to see its tensors.</span></p>`;
}

/**
 * @param {Module} module
 * @param {string} path
 * @param {number} depth
 * @param {Symbols} above
 * @param {{open: Set<string>, toggle: (path: string) => void, whole: number}} tree
 * @returns {import("preact").VNode[]}
 */
function rows(module, path, depth, above, tree) {
  const symbols = { ...above, ...module.symbols };
  const opens = module.children.length > 0 || module.tensors.length > 0 || Boolean(module.split);
  const open = tree.open.has(path);
  const shown = module.children.filter(
    (child) => child.parameters || child.saved_bytes || child.tensors.length,
  );
  return [
    html`<tr key=${path} class=${depth < 2 ? "upper" : ""} data-depth=${depth}>
      <th scope="row"><span class=${`indent-${Math.min(depth, 5)}`}>
        ${opens
          ? html`<button type="button" class="twist" aria-expanded=${open}
            onClick=${() => tree.toggle(path)}>
              <span aria-hidden="true">${open ? "▾" : "▸"}</span> ${module.name}</button>`
          : module.name}</span></th>
      <td class="figure">${module.parameters ? number(module.parameters) : ""}</td>
      <td class="figure">${module.parameters_per_gpu ? number(module.parameters_per_gpu) : ""}</td>
      <td class="figure">${module.saved_bytes ? size(module.saved_bytes) : ""}</td>
      <td class="share">${module.saved_bytes > 0 && html`<meter min="0" max=${tree.whole}
        value=${module.saved_bytes}
        aria-label="share of what the stage keeps"></meter>`}</td>
    </tr>`,
    ...(open ? [html`<${Detail} key=${`${path}-detail`} ...${{ module, symbols, depth }} />`] : []),
    ...(open
      ? shown.flatMap((child, index) => rows(child, `${path}/${index}`, depth + 1, symbols, tree))
      : []),
  ];
}

/** @param {{module: Module, symbols: Symbols, depth: number}} props */
function Detail({ module, symbols, depth }) {
  if (!module.about && !module.split && !module.tensors.length) return null;
  return html`<tr class="detail"><td colspan="5"><div class=${`indent-${Math.min(depth + 1, 5)}`}>
    ${module.about && html`<p class="about">${module.about}</p>`}
    ${module.split && html`<p>${module.split}:
      ${" "}${number(module.parameters)} parameters,
      ${" "}${number(module.parameters_per_gpu)} on each GPU</p>`}
    ${module.tensors.length > 0 &&
    html`<table class="tensors">
      <caption class="hidden">Tensors of ${module.name}</caption>
      <thead><tr><th scope="col">tensor${module.count > 1 ? ` of one of ${module.count}` : ""}</th>
        <th scope="col">in numbers</th><th scope="col">lives</th>
        <th scope="col" class="figure">size</th></tr></thead>
      <tbody>${module.tensors.map(
        (tensor, index) => html`<tr key=${index} class=${tensor.dropped ? "dropped" : ""}>
          <td>${tensor.name}</td><td>${numbers(tensor, symbols)}</td>
          <td>${tensor.dropped ? DROPPED : LIFETIMES[tensor.lifetime]}</td>
          <td class="figure">${size(tensor.bytes)}</td></tr>`,
      )}</tbody></table>`}
  </div></td></tr>`;
}

/**
 * n' = 1,024, h = 7,168: 1,024 × 7,168 × 2 bytes
 * @param {KeptTensor} tensor
 * @param {Symbols} symbols
 */
function numbers(tensor, symbols) {
  const shape = shapeOf(tensor.name);
  if (!shape) return "";
  const dimensions = tensor.shape ?? evaluated(shape, symbols)?.dimensions;
  const legend = named(shape, symbols).map((name) => `${name} = ${number(symbols[name] ?? 0)}`);
  if (!dimensions) return legend.join(", ");
  const elements = dimensions.reduce((product, each) => product * each, 1);
  const width = tensor.element_bytes ?? tensor.bytes / elements;
  const product = dimensions.map((each) => number(each)).join(" × ");
  const bytes = WIDTHS.includes(width) ? ` × ${ratio(width)} bytes` : "";
  return html`<span title=${legend.join(", ")}>${product}${bytes}</span>`;
}
