/** The components of a stage: their names and colours, from the bottom of a bar to its top. */

/**
 * Paul Tol's "bright" scheme, whose colours stay apart for people with deuteranopia, protanopia and
 * tritanopia, and in this order between neighbours of a bar; grey is what is not a tensor.
 */
export const COMPONENTS = /** @type {const} */ ({
  weights: "#4477aa",
  gradients: "#66ccee",
  optimizer_states: "#228833",
  activations: "#ee6677",
  workspace: "#ccbb44",
  framework_buffers: "#aa3377",
  allocator_slack: "#bbbbbb",
  context_and_communicators: "#777777",
});

/** @typedef {import("trainfit").ComponentName} ComponentName */

/** @param {ComponentName} name */
export function colourOf(name) {
  return COMPONENTS[name];
}
