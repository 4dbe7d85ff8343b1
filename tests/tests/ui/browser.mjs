// What the scripts share: a browser, and a line-based conversation with the test that starts them.
import { chromium } from "playwright-core";
import readline from "node:readline";

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Reports a step to the test. */
export const tell = (line) => console.log(line);

/** Waits until the test has done its next step, and returns what it says. */
export const hear = async () => (await lines.next()).value;

export function check(condition, message) {
  if (!condition) throw new Error(message);
}

export async function launch() {
  // Without its own sandbox, because tests may run as root; it only loads pages of the host.
  return chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
}

/** A page in a new browser profile, connected with a link. Errors and rejected inline code of any page are failures. */
export async function open(browser, link, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => { page.problems.push("a dialog was opened"); dialog.dismiss(); });
  page.on("console", (message) => {
    // Lost connections are part of some tests.
    const isNetwork = /Failed to load resource|net::ERR/.test(message.text());
    if (message.type() === "error" && !isNetwork) page.problems.push(message.text());
  });
  await page.goto(link);
  await page.waitForURL((url) => url.pathname === "/");
  return page;
}

export function checkNoProblems(page) {
  check(page.problems.length === 0, page.problems.join("\n"));
}
