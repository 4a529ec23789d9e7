/** A file that is dropped on the page. */

/**
 * @param {import("playwright-core").Page} page
 * @param {string} name
 * @param {string | Buffer} content
 */
export async function dropped(page, name, content) {
  const transfer = await page.evaluateHandle(
    ({ name: name_, base64 }) => {
      const bytes = Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
      const transfer_ = new DataTransfer();
      transfer_.items.add(new File([bytes], name_));
      return transfer_;
    },
    { name, base64: Buffer.from(content).toString("base64") },
  );
  await page.dispatchEvent("body", "drop", { dataTransfer: transfer });
}
