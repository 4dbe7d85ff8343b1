// Goes through a long timeline page by page, and measures loading and scrolling of a page.
import { checkNoProblems, launch, open, tell } from "./ui_browser.mjs";

const browser = await launch();
const page = await open(browser, process.env.LINK);
let calls = 0;
let pages = 0;
let loading = 0;
let frames = [];
await page.goto(new URL("/timeline?size=2000", page.url()).href);
for (;;) {
  pages += 1;
  calls += await page.locator("table.calls tbody tr").count();
  const navigation = await page.evaluate(() => performance.getEntriesByType("navigation")[0].toJSON());
  loading = Math.max(loading, navigation.domContentLoadedEventEnd);
  if (pages === 1) {
    frames = await page.evaluate(() => new Promise((done) => {
      const times = [];
      let before = performance.now();
      const step = () => {
        const now = performance.now();
        times.push(now - before);
        before = now;
        window.scrollBy(0, 400);
        if (times.length < 120) requestAnimationFrame(step);
        else done(times);
      };
      requestAnimationFrame(step);
    }));
  }
  const older = page.locator("a[rel=next]");
  if (!(await older.count())) break;
  await page.goto(new URL(await older.getAttribute("href"), page.url()).href);
}
tell(`${calls} calls on ${pages} pages`);
frames.sort((one, other) => one - other);
const at = (share) => frames[Math.floor((frames.length - 1) * share)].toFixed(1);
tell(`2,000 calls: loaded in ${loading.toFixed(0)} ms at most; a frame while scrolling takes ${at(0.5)} ms, 95 % at most ${at(0.95)} ms`);
checkNoProblems(page);
await browser.close();
