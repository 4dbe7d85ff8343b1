// Tools that use all host services, and hooks that guard one of them.

import {
  answer, ask, changeInput, decodeUtf8, deny, exportHooks, exportPreviews, exportTools, outcome, ToolError, update,
} from "toolhost";
import * as services from "toolhost/services";

import { postcard } from "../postcard/postcard.js";
import { changeText, numbers, values } from "./values.js";

const textOf = ({ llm }) => llm[0].text;

/** The code of the error that `call` throws. */
function codeOf(call) {
  try {
    call();
  } catch (error) {
    return error.failure.code;
  }
  return null;
}

const parts = {
  host(_, cx) {
    cx.output("some output\n");
    cx.emit("sample", { language: "js" });
    return {};
  },

  session() {
    services.remember("sent", { letters: 1 });
    const recalled = services.recall("sent");
    services.forget("sent");
    // A lone surrogate has no UTF-8 and becomes U+FFFD.
    services.remember("\udcff", "\udcff");
    services.recordObservation("/workspace/a.txt", "0".repeat(64), [1, 2]);
    const { path, sha256, lines } = services.lastObservation("/workspace/a.txt");
    return {
      recalled, forgotten: services.recall("sent"), seen: { path, sha256, lines },
      unseen: services.lastObservation("/workspace/b.txt"), repaired: services.recall("\ufffd"),
    };
  },

  run({ command }) {
    const { stdout, exitStatus } = services.runProgram("bash", ["-c", command], { timeoutMs: 20000 });
    const refused = codeOf(() => services.runProgram("ls"));
    return { stdout: decodeUtf8(stdout), kind: exitStatus.kind, code: exitStatus.code, refused };
  },

  // The host compares command, terminal and typed text with the input of the call, which the user has approved.
  start({ command, tty }) {
    const { id, state, label } = services.startProgram("bash", ["-c", command], { tty, label: "a sample" });
    return { id, state, label };
  },

  write({ task_id, chars }) {
    services.writeJob(task_id, chars);
    return {};
  },

  jobs({ task_id }) {
    const { label } = services.jobs().find(({ id }) => id === task_id);
    let output = "";
    for (let after = 0; !output.includes("got ");) {
      const chunk = services.readJob(task_id, { after, max: 1000, waitMs: 1000 });
      output += decodeUtf8(chunk.bytes);
      after = chunk.next;
    }
    return { label, output: output.slice(output.indexOf("got ")).trim(), killed: services.killJob(task_id).id };
  },

  user() {
    const answers = services.askUser([{ question: "Which?", options: [{ label: "a" }, { label: "b" }] }]);
    const granted = services.requestPermissions({ reason: "a sample", write: ["a.txt"], scope: "turn" });
    return { answers, granted: granted.write, mode: services.changeMode("plan", "a sample") };
  },

  agents() {
    const names = services.agents().map(({ name }) => name);
    return { names, text: services.runAgent({ agent: "echo", text: "hello" }).text };
  },

  tools() {
    const names = services.tools().map(({ name }) => name);
    return {
      visible: names.includes("echo_js"),
      text: textOf(services.callTool("echo_js", { text: "hello" })),
      refused: codeOf(() => services.callTool("other", {})),
    };
  },

  background() {
    const { id, tool } = services.startTool("echo_js", { text: "hello" }, 20000);
    let ended = null;
    while (ended === null) ended = services.waitTool(id, 1000);
    const listed = services.runningTools().some((call) => call.id === id);
    const endless = services.startTool("echo_js", { text: "wait" });
    const waiting = services.waitTool(endless.id, 0);
    const stopped = services.stopTool(endless.id).id === endless.id;
    let code = null;
    while (code === null) code = codeOf(() => services.waitTool(endless.id, 1000));
    return { tool, text: textOf(ended), listed, waiting, stopped, code };
  },

  resources() {
    const [{ uri, server }] = services.resources();
    const [{ text }] = services.readResource(uri, server);
    return { uri, server, text, absent: codeOf(() => services.readResource("note://absent")) };
  },

  denied: () => services.runProgram("ls"),
  absent: () => services.readResource("note://absent"),
};

const sample = {
  name: "services_js",
  description: "Use one of the host services.",
  input: {
    part: { type: "string", enum: Object.keys(parts), description: "The service." },
    command: { type: "string", description: "The command of run and start." },
    tty: { type: "boolean", default: false, description: "Whether start uses a terminal." },
    task_id: { type: "string", description: "The job of write and jobs." },
    chars: { type: "string", description: "The input of write." },
  },
  optional: ["command", "task_id", "chars"],
  kind: "execute",
  destructive: true,
  requires: ["session", "user", "agents", "tools", "resources", "process", "fs.read", "fs.write"],
  run: (input, cx) => parts[input.part](input, cx),
};

const echo = {
  name: "echo_js",
  description: "Return a text.",
  input: { text: { type: "string", description: "The text." } },
  readOnly: true,
  pure: true,
  canBackground: true,
  hooks: ["pre-tool-use", "post-tool-use"],
  validate: ({ text }) => (text === "unchecked" ? Promise.reject(ToolError.invalidInput("async")) : undefined),
  run({ text }, cx) {
    if (text === "fail") throw ToolError.failed("it failed", { code: "sample" });
    while (text === "wait") cx.check();
    return text;
  },
};

function before(call) {
  const { tool, input, facts } = call;
  if (input.text === "forbidden") return deny("the text is forbidden", { outcome: outcome(`${tool} refuses it`) });
  if (input.text === "risky") return ask(`the text is risky (${facts.effect})`, { meta: { risk: "high" } });
  // Only where the operator configured this plugin as a hook for `services_js`.
  if (input.command === "answered") return answer(outcome("an answer"));
  if (tool === numbers.name) return changeText(call);
  if (input.text === "typo") return changeInput({ text: "type" });
  if (input.text === "invalid") return Promise.resolve(deny("async"));
  return undefined;
}

function after(call, result) {
  if (result.error) return update({ text: `after ${result.error.code}` });
  if (textOf(result) === "secret") return update({ text: "[removed]", summary: "one word", meta: { removed: 1 } });
  if (textOf(result) === "lost") return false;
  if (textOf(result) === "other") return outcome("another outcome", { structured: { replaced: true } });
  return undefined;
}

export const tool = exportTools(sample, echo, postcard, values, numbers);
export const preview = exportPreviews(echo, postcard, values);
export const hooks = exportHooks({ before, after });
