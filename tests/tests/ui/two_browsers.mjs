// Two browsers show one question. One declines; the other one says so without being loaded again.
import { check, checkNoProblems, hear, launch, open, tell } from "./ui_browser.mjs";

const browser = await launch();
const first = await open(browser, process.env.LINK);
const second = await open(browser, process.env.SECOND_LINK);
for (const page of [first, second]) await page.locator("#question-title").waitFor();
await first.keyboard.press("n");
await first.locator("#note").fill("use notes.md instead");
await first.getByRole("button", { name: "Decline", exact: true }).last().click();
await first.locator(".receipt").waitFor();
const hint = second.locator(".closed-hint");
await hint.waitFor();
tell(await hint.textContent());
check(await second.locator("button[data-key=y]").isDisabled(), "the second browser can still approve");
// The next question of the host appears by itself.
tell("declined");
await hear();
await second.locator("a.row").waitFor();
await first.locator("#question-title").waitFor();
checkNoProblems(first);
checkNoProblems(second);
await browser.close();
