"use strict";
// Shows the approval question of one call. The texts come from the host, which escapes them; they are shown as text only.
(() => {
  const key = document.querySelector("meta[name=toolhost-key]").content;
  const panel = document.querySelector("#question");
  const version = "2026-01-26";
  /** Requests without a running call, 20 s each: a client can ask its user before it sends the call. */
  const maxMisses = 30;
  const pending = new Map();
  let lastId = 0;
  let tool;
  let request;
  let shown;
  let answered;
  /** The last answer that is on its way. */
  let answering = Promise.resolve();
  let isEnded = false;

  // JSON-RPC with the client.

  const post = (message) => window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const notify = (method, params) => post({ method, params });
  const ask = (method, params) =>
    new Promise((resolve, reject) => {
      lastId += 1;
      pending.set(lastId, { resolve, reject });
      post({ id: lastId, method, params });
    });

  window.addEventListener("message", (event) => {
    const message = event.data;
    if (event.source !== window.parent || message?.jsonrpc !== "2.0") return;
    if (message.method === undefined) {
      const waiting = pending.get(message.id);
      pending.delete(message.id);
      if (message.error) waiting?.reject(new Error(String(message.error.message)));
      else waiting?.resolve(message.result);
    } else if (message.id === undefined) {
      notifications[message.method]?.(message.params ?? {});
    } else if (message.method === "ping" || message.method === "ui/resource-teardown") {
      if (message.method !== "ping") end();
      post({ id: message.id, result: {} });
    } else {
      post({ id: message.id, error: { code: -32601, message: "unknown method" } });
    }
  });

  const notifications = {
    "ui/notifications/tool-input": ({ arguments: input }) => follow(input ?? {}),
    "ui/notifications/tool-result": end,
    "ui/notifications/tool-cancelled": end,
    "ui/notifications/host-context-changed": applyContext,
  };

  /** Calls a tool of the host through the client, and returns the value of its result. */
  async function call(name, input) {
    const result = await ask("tools/call", { name, arguments: input });
    if (result.isError) throw new Error(result.content?.find((part) => part.type === "text")?.text ?? "refused");
    return result.structuredContent;
  }

  function applyContext(context) {
    const page = document.documentElement;
    if (context.theme === "light" || context.theme === "dark") page.dataset.theme = context.theme;
    for (const [name, value] of Object.entries(context.styles?.variables ?? {})) {
      if (/^--(color|font)-[a-z0-9-]+$/.test(name) && typeof value === "string") page.style.setProperty(name, value);
    }
    tool = context.toolInfo?.tool?.name ?? tool;
    request = context.toolInfo?.id ?? request;
  }

  // The question.

  /** Asks the host for the question of the call until the call has ended. */
  async function follow(input) {
    let misses = 0;
    try {
      while (!isEnded && misses < maxMisses) {
        const query = { key, arguments: input, tool, request, shown };
        const { running, question } = await call("toolhost_question", query);
        await answering;
        if (isEnded) return;
        misses = running ? 0 : misses + 1;
        // What arrives now can be older than the answer.
        if (question && question.ticket === answered) continue;
        if (question && question.ticket !== shown) show(question);
        else if (!question && shown) close("The question is closed.");
      }
    } catch (error) {
      if (!isEnded) close(`The question of this call cannot be shown: ${error.message}`);
    }
  }

  async function end() {
    isEnded = true;
    await answering;
    if (shown) close("The question is closed.");
  }

  function close(text) {
    shown = undefined;
    panel.hidden = false;
    panel.replaceChildren(element("p", { role: "status" }, [isolated(text)]));
  }

  function show(question) {
    shown = question.ticket;
    const { title, blocks, choices } = question.content;
    const facts = blocks.filter((block) => block.type === "fact");
    const others = blocks.filter((block) => block.type !== "fact");
    const hasSubject = others.some((block) => block.type !== "input");
    panel.replaceChildren(
      element("div", { role: "status" }, [element("h1", {}, [isolated(title)])]),
      element("dl", {}, facts.flatMap(fact)),
      ...others.map((block) => (block.type === "input" ? input(block, hasSubject) : section(block))),
      ...answers(question, choices),
    );
    panel.hidden = false;
  }

  function fact({ label, value, isWarning }) {
    return [
      element("dt", {}, [label]),
      element("dd", isWarning ? { class: "warning" } : {}, [isolated(value)]),
    ];
  }

  function section(block) {
    if (block.type === "text") return group([element("h2", {}, [block.label]), text(block.lines, block.label)]);
    return group([
      element("p", {}, [`Not applied yet. ${block.summary}`]),
      ...block.files.flatMap((file) => [
        element("h2", {}, [`${file.kind}: `, isolated(file.path)]),
        ...(file.lines.length > 0 ? [difference(file)] : []),
        ...(file.hidden > 0 ? [element("p", { class: "warning" }, [`… ${file.hidden} lines not shown completely`])] : []),
      ]),
    ]);
  }

  function input(block, isFolded) {
    const lines = text(block.lines, "Input");
    if (!isFolded) return group([element("h2", {}, ["Input"]), lines]);
    return element("details", {}, [element("summary", {}, ["Input"]), lines]);
  }

  const group = (children) => element("section", {}, children);

  const text = (lines, label) =>
    scroll(label, element("pre", {}, lines.flatMap((line, index) => (index ? ["\n", isolated(line)] : [isolated(line)]))));

  /** A part that scrolls must be reachable with the keyboard. */
  const scroll = (label, child) =>
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, [child]);

  /** A unified difference as a table, with the number of each line. */
  function difference({ lines, path }) {
    let before = 0;
    let after = 0;
    const rows = lines.map((line) => {
      const part = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
      if (part) {
        before = Number(part[1]);
        after = Number(part[2]);
        return row("part", "", line);
      }
      if (line.startsWith("+")) return row("added", after++, line);
      if (line.startsWith("-")) return row("removed", before++, line);
      if (!line.startsWith(" ")) return row("part", "", line);
      before += 1;
      return row("same", after++, line);
    });
    return scroll(`Changes of ${path}`, element("table", {}, [element("tbody", {}, rows)]));
  }

  const row = (kind, number, line) =>
    element("tr", { class: kind }, [element("td", {}, [String(number)]), element("td", {}, [isolated(line)])]);

  // The answers.

  function answers({ ticket, armingMs }, choices) {
    const note = element("textarea", { id: "note", rows: "2", maxlength: "2000" }, []);
    const problem = element("p", { class: "warning", role: "alert" }, []);
    const buttons = [];
    const button = (label, value, receipt) => {
      const isApproval = value !== "deny" && value !== "stop";
      const made = element("button", { type: "button", "data-answer": value }, [isolated(label)]);
      made.disabled = isApproval;
      const send = async () => {
        buttons.forEach((one) => { one.disabled = true; });
        try {
          await call("toolhost_answer", { ticket, answer: value, note: note.value });
          answered = ticket;
          if (shown === ticket) close(receipt);
        } catch (error) {
          problem.textContent = error.message;
          buttons.forEach((one) => { one.disabled = false; });
        }
      };
      made.addEventListener("click", () => { answering = send(); });
      buttons.push(made);
      return made;
    };
    const [once, ...rest] = choices.filter(({ value }) => value !== "deny" && value !== "stop");
    const scopes = rest.map(({ value, text }) => button(text, value, "You approved this call and saved the approval."));
    const approve = button("Approve once", once.value, "You approved this call.");
    const decline = button("Decline", "deny", "You declined this call.");
    const stop = button("Decline and stop the turn", "stop", "You declined this call and stopped the turn.");
    // A click that was meant for something else must not approve.
    setTimeout(() => buttons.forEach((one) => { one.disabled = false; }), armingMs);
    const saved = element("details", {}, [
      element("summary", {}, ["Approve and save the approval"]),
      element("div", { class: "scopes" }, scopes),
    ]);
    return [
      element("label", { for: "note" }, ["Message to the agent if you decline (optional)"]),
      note,
      element("div", { class: "actions" }, [approve, decline, stop]),
      ...(scopes.length > 0 ? [saved] : []),
      problem,
    ];
  }

  // Elements. Strings become text, never markup.

  function element(name, attributes, children) {
    const made = document.createElement(name);
    for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
    made.append(...children);
    return made;
  }

  /** Text that cannot change the direction of the text around it. */
  function isolated(text) {
    return element("bdi", {}, [text]);
  }

  // Start.

  const report = () => {
    const { height } = document.body.getBoundingClientRect();
    notify("ui/notifications/size-changed", { height: Math.ceil(height) });
  };
  const start = async () => {
    const info = { name: "toolhost-question", version: "1" };
    const about = { appInfo: info, appCapabilities: { availableDisplayModes: ["inline"] }, protocolVersion: version };
    const { hostContext } = await ask("ui/initialize", about);
    applyContext(hostContext ?? {});
    notify("ui/notifications/initialized", {});
    new ResizeObserver(report).observe(document.body);
  };
  start();
})();
