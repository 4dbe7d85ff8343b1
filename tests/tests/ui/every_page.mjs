// Loads every page with hostile text, at two widths and in both color schemes, and runs axe on each.
import AxeBuilder from "@axe-core/playwright";
import { check, checkNoProblems, launch, open, tell } from "./ui_browser.mjs";

const browser = await launch();
const page = await open(browser, process.env.LINK);
const rows = await page.locator("a.row").evaluateAll((rows) => rows.map((row) => row.getAttribute("href")));
const number = /question=(\d+)/.exec(rows[0])[1];
const nav = await page.locator("header nav a").evaluateAll((links) => links.map((link) => link.getAttribute("href")));
const paths = new Set([
  ...nav, ...rows, `/questions/${number}/edit`, "/?question=999", "/open?token=%22%3E%3Cscript%3E", "/no-such-page",
  `/?question=${number}&view=split`, ...JSON.parse(process.env.PATHS || "[]"),
]);
let count = 0;
for (const path of paths) {
  for (const [colorScheme, width] of [["light", 1280], ["dark", 390]]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 800 });
    await page.goto(new URL(path, page.url()).href);
    // Buttons are armed, and no animation runs, when axe measures contrasts.
    await page.waitForFunction(() => !document.querySelector('button[data-armed="wait"]'));
    const { violations } = await new AxeBuilder({ page }).analyze();
    const described = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ")}`);
    check(violations.length === 0, `${path} ${colorScheme} ${width}: ${described.join("\n")}`);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    check(overflow <= 0, `${path} is ${overflow} px wider than ${width}`);
    check(!(await page.evaluate(() => window.pwned)), `${path} ran the code of a guest`);
    const raw = await page.evaluate(() => /[\u202a-\u202e\u2066-\u2069\u200b]/.test(document.body.textContent));
    check(!raw, `${path} contains characters that reorder or hide text`);
    count += 1;
  }
}
checkNoProblems(page);
tell(`checked ${count}`);
await browser.close();
