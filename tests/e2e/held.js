/** A service that takes its time. */

/**
 * Questions wait until they are let go.
 * @param {import("playwright-core").Page} page
 * @returns {Promise<() => void>} lets them go
 */
export async function held(page) {
  let letGo = () => {};
  const gone = new Promise((resolve) => (letGo = () => resolve(undefined)));
  await page.route(/\/v1\/(fit-check|estimate)(\?|$)/, async (route) => {
    await gone;
    await route.continue().catch(() => {});
  });
  return letGo;
}
