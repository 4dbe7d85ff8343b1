// A user opens the link, reads a change and approves it with one key.
import { check, checkNoProblems, launch, open, tell } from "./ui_browser.mjs";

const browser = await launch();
const page = await open(browser, process.env.LINK);
check(!page.url().includes("token"), `the token is in the address: ${page.url()}`);
const title = page.locator("#question-title");
await title.waitFor();
check((await title.textContent()) === "Plugin files wants to modify workspace/old.txt", await title.textContent());
check((await page.locator("tr.added").textContent()).includes("new"), "the added line");
// At the width of a phone, the answers follow the diff and do not cover it.
const viewport = page.viewportSize();
await page.setViewportSize({ width: 390, height: 800 });
check(await page.locator("form.answers").evaluate((form) => getComputedStyle(form).position) === "static", "the answers");
await page.setViewportSize(viewport);
const approve = page.locator("button[data-key=y]");
// The key does nothing until the button is armed.
await page.evaluate(() => { window.wasDisabled = document.querySelector("button[data-key=y]").disabled; });
await page.waitForFunction(() => !document.querySelector("button[data-key=y]").disabled);
check(await approve.isEnabled(), "armed");
await page.keyboard.press("y");
await page.locator(".receipt").waitFor();
tell(await page.locator(".receipt").textContent());
await page.getByText("No questions").waitFor();
checkNoProblems(page);
await browser.close();
