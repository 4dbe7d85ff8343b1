// Takes the pictures of the documentation, and compares each with the one in the tree or replaces it.
import fs from "node:fs";
import { check, launch, open, tell } from "./ui_browser.mjs";

/** Fonts differ between machines, so pictures are compared after scaling them down. */
const MAX_DIFFERENT = 0.06;
const MAX_BYTES = 100_000;

const replacements = JSON.parse(process.env.REPLACEMENTS);
const folder = process.env.PICTURES;
const renew = process.env.RENEW === "1";
const shots = JSON.parse(process.env.SHOTS);

const browser = await launch();
const page = await open(browser, process.env.LINK);
const compare = await (await browser.newContext()).newPage();

/** Replaces what differs in each run: times, sessions and the temporary directory. */
const settle = (replacements) => {
  document.querySelectorAll("time.relative").forEach((time) => { time.textContent = "12 s ago"; });
  document.querySelectorAll(".session").forEach((session) => { session.textContent = "7f3a2c91d0"; });
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    for (const [from, to] of replacements) walker.currentNode.data = walker.currentNode.data.replaceAll(from, to);
  }
};

/** The share of different points of two pictures, at a quarter of their size. */
const difference = async ([one, other]) => {
  const load = async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    return image;
  };
  const images = [await load(one), await load(other)];
  const [width, height] = [images[0].width >> 2, images[0].height >> 2];
  if (images[1].width >> 2 !== width || images[1].height >> 2 !== height) return 1;
  const points = images.map((image) => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0, width, height);
    return context.getImageData(0, 0, width, height).data;
  });
  let different = 0;
  for (let at = 0; at < points[0].length; at += 4) {
    if ([0, 1, 2].some((channel) => Math.abs(points[0][at + channel] - points[1][at + channel]) > 48)) different += 1;
  }
  return different / (width * height);
};

for (const shot of shots) {
  await page.emulateMedia({ colorScheme: shot.dark ? "dark" : "light", reducedMotion: "reduce" });
  await page.setViewportSize({ width: shot.width, height: shot.height });
  await page.goto(new URL("/", page.url()).href);
  if (shot.path) {
    await page.goto(new URL(shot.path, page.url()).href);
  } else {
    const row = page.locator("a.row", { hasText: shot.row }).first();
    await page.goto(new URL(await row.getAttribute("href"), page.url()).href + (shot.query || ""));
  }
  await page.waitForFunction(() => !document.querySelector('button[data-armed="wait"]'));
  if (shot.key) await page.keyboard.press(shot.key);
  await page.evaluate(settle, replacements);
  const file = `${folder}/${shot.name}.png`;
  const taken = await page.screenshot({ animations: "disabled", caret: "hide" });
  check(taken.length <= MAX_BYTES, `${shot.name} has ${taken.length} bytes`);
  if (renew) {
    fs.writeFileSync(file, taken);
    continue;
  }
  const before = fs.readFileSync(file);
  const share = await compare.evaluate(difference, [taken.toString("base64"), before.toString("base64")]);
  if (share > MAX_DIFFERENT) {
    fs.writeFileSync(`${process.env.OUTPUT}/${shot.name}.png`, taken);
    check(false, `${shot.name} differs in ${(share * 100).toFixed(1)} % of its points from ${file}; the new picture is in ${process.env.OUTPUT}; \`cargo xtask picture\` replaces it`);
  }
}
tell("done");
await browser.close();
