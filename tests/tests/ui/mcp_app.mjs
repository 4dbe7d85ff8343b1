// An MCP client that shows MCP Apps: the client and the bridge of the official packages in Node, and the view in a
// sandboxed frame of another origin, with the content security policy that the specification prescribes.
import AxeBuilder from "@axe-core/playwright";
import { AppBridge, getToolUiResourceUri, isToolVisibilityAppOnly } from "@modelcontextprotocol/ext-apps/app-bridge";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { readFileSync } from "node:fs";
import { check, launch, tell } from "./ui_browser.mjs";

const [command, ...args] = JSON.parse(process.env.SERVER);
const { old, other, hostile } = JSON.parse(process.env.FILES);
const mode = { legacy: "legacy", modern: { pin: "2026-07-28" } }[process.env.ERA];
const extensions = { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } };
const policy =
  "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
  "media-src 'self' data:; connect-src 'none'; frame-src 'none'; object-src 'none'; base-uri 'self'";
const clientPage = `<!doctype html><html lang="en"><title>Client</title><body><main><h1>Chat</h1>
<iframe id="view" title="View" sandbox="allow-scripts" src="https://view.test/" style="width: 100%; height: 0; border: 0"></iframe>
</main><script>
const frame = document.querySelector("iframe");
addEventListener("message", (event) => { if (event.source === frame.contentWindow) fromView(event.data); });
window.toView = (message) => frame.contentWindow.postMessage(message, "*");
</script></body></html>`;

const client = new Client(
  { name: "apps", version: "0" },
  { capabilities: { extensions }, versionNegotiation: { mode } },
);
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));
const { tools } = await client.listTools();
const forApps = tools.filter((tool) => isToolVisibilityAppOnly(tool)).map((tool) => tool.name);
check(forApps.join() === "toolhost_question,toolhost_answer", `tools of the view: ${forApps}`);
const browser = await launch();

/** Starts a call, and opens its view in a page of its own. */
async function callWithView(name, input, { theme, width }) {
  const tool = tools.find((one) => one.name === name);
  const { contents } = await client.readResource({ uri: getToolUiResourceUri(tool) });
  const context = await browser.newContext({ viewport: { width, height: 900 } });
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => { if (message.type() === "error") problems.push(message.text()); });
  page.on("request", (request) => { if (!/^https:\/\/(client|view)\.test\//.test(request.url())) problems.push(request.url()); });
  const html = { contentType: "text/html; charset=utf-8" };
  await page.route("https://client.test/", (route) => route.fulfill({ ...html, body: clientPage }));
  await page.route("https://view.test/", (route) =>
    route.fulfill({ ...html, body: contents[0].text, headers: { "content-security-policy": policy } }),
  );
  const call = { page, problems, isClosing: false };
  // Messages can be on their way when the page is closed.
  const inPage = (code, value) =>
    page.evaluate(code, value).catch((error) => { if (!call.isClosing) problems.push(error.message); });
  const transport = {
    start: async () => {},
    close: async () => {},
    send: (message) => inPage((sent) => window.toView(sent), message),
  };
  await page.exposeFunction("fromView", (message) => transport.onmessage?.(message));
  const capabilities = { serverTools: {}, logging: {} };
  const bridge = new AppBridge(client, { name: "apps", version: "0" }, capabilities, { hostContext: { theme, toolInfo: { tool } } });
  const initialized = new Promise((resolve) => { bridge.oninitialized = resolve; });
  bridge.onsizechange = ({ height }) =>
    inPage((height) => { document.querySelector("iframe").style.height = `${height}px`; }, height);
  await bridge.connect(transport);
  const result = client.callTool({ name, arguments: input });
  await page.goto("https://client.test/");
  await initialized;
  await bridge.sendToolInput({ arguments: input });
  result.then((value) => bridge.sendToolResult(value)).catch(() => {});
  const view = page.frameLocator("#view");
  await view.getByRole("heading", { level: 1 }).waitFor();
  return Object.assign(call, { view, result, bridge });
}

async function end(call) {
  await call.bridge.teardownResource({});
  check(call.problems.length === 0, call.problems.join("\n"));
  call.isClosing = true;
  await call.page.context().close();
}

const text = (result) => result.content.map((part) => part.text ?? "").join("");
const edit = { path: old, old_string: "old", new_string: "new" };

// Approve. The button does nothing until it is armed.
let call = await callWithView("edit_file", edit, { theme: "light", width: 900 });
check((await call.view.locator("h1").textContent()) === "Make these changes?", "the title");
check((await call.view.locator("tr.added").textContent()).includes("+new"), "the added line");
check((await call.view.locator("tr.removed").textContent()).includes("-old"), "the removed line");
check(readFileSync(old, "utf8") === "old\n", "nothing is applied yet");
const height = await call.page.locator("#view").evaluate((frame) => frame.clientHeight);
check(height > 200, `the frame has the height of the question: ${height}`);
await call.view.getByRole("button", { name: "Approve once" }).click();
await call.view.getByText("You approved this call.").waitFor();
check(!(await call.result).isError, text(await call.result));
check(readFileSync(old, "utf8") === "new\n", "the change is applied");
await end(call);

// Decline, with a message to the agent.
call = await callWithView("edit_file", { ...edit, old_string: "new", new_string: "newer" }, { theme: "dark", width: 390 });
await call.view.getByLabel(/Message to the agent/).fill("use notes.md instead");
await call.view.getByRole("button", { name: "Decline", exact: true }).click();
await call.view.getByText("You declined this call.").waitFor();
const declined = await call.result;
check(declined.isError && text(declined).includes("use notes.md instead"), text(declined));
check(readFileSync(old, "utf8") === "new\n", "the change is not applied");
await end(call);

// Hostile text stays text, in both color schemes and widths.
for (const [theme, width] of [["light", 900], ["dark", 390]]) {
  call = await callWithView("write_file", { path: hostile, content: `${hostile}\n`.repeat(40) }, { theme, width });
  const shown = call.page.frame({ url: "https://view.test/" });
  const state = await shown.evaluate(() => ({
    pwned: window.pwned,
    hasRaw: /[\u202a-\u202e\u2066-\u2069\u200b]/.test(document.body.textContent),
    elements: document.querySelectorAll("#question script, #question img").length,
    overflow: document.documentElement.scrollWidth - window.innerWidth,
  }));
  check(!state.pwned && state.elements === 0, "text became markup");
  check(!state.hasRaw, "characters that reorder or hide text are not escaped");
  check(state.overflow <= 0, `${state.overflow} px too wide`);
  await shown.waitForFunction(() => !document.querySelector("button:disabled"));
  const { violations } = await new AxeBuilder({ page: call.page }).analyze();
  check(violations.length === 0, violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ")}`).join("\n"));
  await call.view.getByRole("button", { name: "Decline", exact: true }).click();
  check((await call.result).isError, "declined");
  await end(call);
}

// Save an approval for the session: the next call has no question, and its view shows nothing.
const write = { path: other, content: "one\n" };
call = await callWithView("write_file", write, { theme: "light", width: 900 });
await call.view.getByText("Approve and save the approval").click();
await call.view.locator("button[data-answer=session]").click();
check(!(await call.result).isError, text(await call.result));
await end(call);
const again = await client.callTool({ name: "write_file", arguments: { ...write, content: "two\n" } });
check(!again.isError, text(again));
check(readFileSync(other, "utf8") === "two\n", "written without a question");
tell("done");
await browser.close();
await client.close();
