/** A first look by a ratio is shown at once, as one, until the exact answer comes. */

import assert from "node:assert/strict";
import { number, open, settled } from "./browser.js";
import { scenario } from "./scenario.js";

/** @typedef {import("playwright-core").Page} Page */
/** @typedef {import("playwright-core").Route} Route */

/**
 * What becomes of questions whose allocators are replayed; first looks go on.
 * @param {Page} page
 * @param {(route: Route) => Promise<void>} exact
 */
async function only(page, exact) {
  await page.route(/\/v1\/(fit-check|estimate)$/, async (route) => {
    const replayed = route.request().postDataJSON().replay ?? true;
    await (replayed ? exact(route) : route.continue()).catch(() => {});
  });
}

/** @param {Page} page @returns {Promise<() => void>} lets exact questions go */
async function held(page) {
  let letGo = () => {};
  const gone = new Promise((resolve) => (letGo = () => resolve(undefined)));
  await only(page, async (route) => {
    await gone;
    await route.continue();
  });
  return letGo;
}

/** The bytes of the device in the words of the verdict. @param {Page} page */
async function device(page) {
  return (await page.locator(".verdict b").first().innerText()).replace(/\s/g, " ");
}

scenario("a first look is labelled, and the exact answer takes its place", async (page) => {
  await open(page);
  assert.equal(await page.locator(".first-look").count(), 0);
  const letGo = await held(page);
  await number(page, "Micro-batch b").fill("2");
  const label = page.locator(".first-look");
  await label.getByText("First look: exact figures are coming").waitFor();
  const said = page.locator(".verdict");
  assert.equal(await said.getAttribute("aria-live"), "off");
  assert.equal(await page.locator('main[aria-busy="true"]').count(), 1);
  assert.equal(await page.locator("main.stale").count(), 0);
  assert.equal(await page.locator(".allocator").count(), 1);
  const json = page.getByRole("button", { name: "JSON", exact: true });
  assert.equal(await json.isDisabled(), true);
  const first = await device(page);
  letGo();
  await label.waitFor({ state: "detached" });
  await settled(page);
  assert.equal(await said.getAttribute("aria-live"), "polite");
  assert.notEqual(await device(page), first);
  assert.equal(await json.isDisabled(), false);
});

scenario("a first look that is close says no verdict", async (page) => {
  await open(page);
  await held(page);
  await page.getByLabel("Keep free").fill("20");
  await page.getByText("Too close to tell at a first look").waitFor();
  assert.equal(await page.locator(".verdict.tight").count(), 0);
});

scenario("a first look stays where no exact answer comes, and says so", async (page) => {
  await open(page);
  await only(page, (route) =>
    route.fulfill({ status: 503, contentType: "text/html", body: "<h1>Busy</h1>" }),
  );
  await number(page, "Micro-batch b").fill("2");
  await page.getByText("answered with status 503").waitFor();
  await page.getByText("What follows is no more than a first look").waitFor();
  await page.locator(".first-look").getByText("First look", { exact: true }).waitFor();
  assert.equal(await page.getByText("not this run").count(), 0);
  await page.unroute(/\/v1\/(fit-check|estimate)$/);
  await page.getByRole("button", { name: "Ask again" }).click();
  await page.locator(".first-look").waitFor({ state: "detached" });
  await page.locator(".verdict.problem").waitFor({ state: "detached" });
});
