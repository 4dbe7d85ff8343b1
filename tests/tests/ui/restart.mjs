// A tab stays open while the host exits and starts again at the same address.
import { checkNoProblems, hear, launch, open, tell } from "./ui_browser.mjs";

const browser = await launch();
const page = await open(browser, process.env.LINK);
await page.getByText("No questions").waitFor();
// Before that, an exit is a failed connection.
await page.locator('html[data-events="open"]').waitFor();
const banner = page.locator("#connection");
tell("open");
await page.waitForFunction(() => document.getElementById("connection").textContent.includes("has exited"));
tell(await banner.textContent());
const link = await hear();
await page.waitForFunction(() => document.getElementById("connection").textContent.includes("started again"));
tell(await banner.textContent());
await page.goto(link);
await page.waitForURL((url) => url.pathname === "/");
await page.getByText("No questions").waitFor();
checkNoProblems(page);
await browser.close();
