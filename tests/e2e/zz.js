import { launched, open, settled, chip, DESK } from "./browser.js";
const browser = await launched();
const page = await browser.newPage({ viewport: DESK });
const cdp = await page.context().newCDPSession(page);
await cdp.send("Performance.enable");
let last = {};
const m = async (what) => {
  const { metrics } = await cdp.send("Performance.getMetrics");
  const now = Object.fromEntries(metrics.map(({ name, value }) => [name, value]));
  console.log(what, ["TaskDuration","ScriptDuration","LayoutDuration","RecalcStyleDuration","V8CompileDuration","LayoutCount","RecalcStyleCount","Nodes"].map((k) => k + " " + ((now[k]??0) - (last[k] ?? 0)).toFixed(3)).join("  "));
  last = now;
};
for (let i = 0; i < 3; i++) {
  await page.goto(process.env.PAGE_ORIGIN + "/"); await settled(page); await m("open");
  await page.waitForTimeout(1500); await m("idle 1.5");
  await chip(page, "/training/micro_batch_size", 2).click(); await settled(page); await m("chip");
  await page.waitForTimeout(1500); await m("idle");
  await page.goto("about:blank"); last = {};
}
await browser.close();
