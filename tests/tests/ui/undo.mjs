// A user finds a change in the timeline, undoes it, redoes it, and cannot undo what has changed since.
import { check, checkNoProblems, hear, launch, open, tell } from "./ui_browser.mjs";

const browser = await launch();
const page = await open(browser, process.env.LINK);
await page.getByRole("link", { name: "Timeline" }).click();
// Keys that are typed before have no effect.
await page.waitForURL((url) => url.pathname === "/timeline");
await page.keyboard.press("/");
await page.keyboard.type("old.txt");
await page.keyboard.press("Enter");
await page.waitForURL((url) => url.search.includes("q=old.txt"));
await page.locator("table.calls tbody th a").first().click();
const confirm = async (name) => {
  await page.getByRole("link", { name: `${name}…` }).click();
  const button = page.getByRole("button", { name: `${name} these changes` });
  await button.waitFor();
  return button;
};
const undo = await confirm("Undo");
const path = await page.locator(".file-head code").first().textContent();
const line = async (kind) => (await page.locator(`tr.${kind} .line`).first().textContent()).trim();
check(path.includes("old.txt"), path);
tell(`old.txt: -${await line("removed")} +${await line("added")}`);
await undo.click();
await page.getByText("Changes, undone").waitFor();
tell("undone");
await hear();
await (await confirm("Redo")).click();
await page.getByText("Undo, reverted by a redo").waitFor();
tell("redone");
await hear();
await page.getByRole("link", { name: "Undo…" }).first().click();
await page.getByText("Files have changed since").waitFor();
check((await page.getByRole("button", { name: "these changes" }).count()) === 0, "it offers an undo");
tell(await page.locator(".notice li").first().textContent());
checkNoProblems(page);
await browser.close();
