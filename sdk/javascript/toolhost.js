// SDK for JavaScript plugins: `exportTools`, `exportPreviews`, `exportHooks`, `outcome`, and errors with kinds for the
// host. services.js has the host services.
//
// It adapts functions to the world `toolhost:plugin/plugin`: it completes descriptors, parses the input, dispatches
// calls by tool name, and converts exceptions to `tool-error`, because an exception that leaves the component would
// end the instance and lose its text.

import host from "toolhost:plugin/host@0.1.0";

/** Marks results of `outcome`, `update` and the functions for `before`, so that no other object is taken for one. */
const KIND = Symbol("kind");

/** A failed call: `throw ToolError.notFound("…")`. Any other exception becomes `failed`. */
export class ToolError extends Error {
  constructor(tag, message, more = {}) {
    super(message);
    this.tag = tag;
    this.failure = failure(message, more);
  }

  /** The input matches the schema but is invalid. */
  static invalidInput = (message, more) => new ToolError("invalid-input", message, more);
  /** Something named by the input does not exist. */
  static notFound = (message, more) => new ToolError("not-found", message, more);
  /** The sandbox or the operating system denied access. */
  static denied = (message, more) => new ToolError("denied", message, more);
  /** The call was cancelled or ran out of time. */
  static interrupted = (message, more) => new ToolError("interrupted", message, more);
  /** Something the tool needs is currently not available. */
  static unavailable = (message, more) => new ToolError("unavailable", message, more);
  /** Anything else. */
  static failed = (message, more) => new ToolError("failed", message, more);

  /** An error with the records of the WIT: a `tool-error`, or a `failure`, whose code selects the kind. */
  static of({ tag, val, ...failure }) {
    const record = val ?? failure;
    const error = new ToolError(tag ?? tagOf(record.code ?? ""), record.message);
    error.failure = record;
    return error;
  }
}

/** The context of a running call; the last argument of a tool and of the functions that describe its calls. */
export class Context {
  constructor(request) {
    this.callId = request.callId;
    /** The record `context` of the WIT: agentId, sessionId, mode, roots … */
    this.caller = request.context;
  }

  log(message, level = "info") {
    host.log(string(level), string(message));
  }

  progress(message = null, done = null, total = null) {
    host.progress({ message: optional(message, string), progress: done, total });
  }

  /** Streams output, a string or bytes, while the call runs. */
  output(data, stream = "stdout") {
    host.output(string(stream), typeof data === "string" ? encodeUtf8(data) : data);
  }

  emit(event, data) {
    host.emit(string(event), json(data));
  }

  cancelled() {
    return host.cancelled();
  }

  remainingMs() {
    return host.remainingMs();
  }

  /** Throws `interrupted` if the call should stop. Call it in every long loop. */
  check() {
    if (this.cancelled()) throw ToolError.interrupted("the call was cancelled", { code: "cancelled" });
    if (this.remainingMs() <= 0) throw ToolError.interrupted("the call ran out of time", { code: "timeout" });
  }
}

/** The export required by the world. Write `export const tool = exportTools({…}, {…})` in the plugin's module. */
export function exportTools(...tools) {
  const descriptors = tools.map(descriptorOf);
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  return {
    describe: () => descriptors,
    call(request) {
      try {
        seedRandom(request.callId);
        const tool = byName.get(request.tool);
        if (!tool) throw ToolError.notFound(`this plugin has no tool "${request.tool}"`, { code: "tool_not_found" });
        const value = tool.run(inputOf(tool, request), new Context(request));
        return outcomeOf(notAsync("run", value));
      } catch (error) {
        throw toolErrorOf(error);
      }
    },
  };
}

/**
 * The export of the world `plugin-with-preview`. Write `export const preview = exportPreviews({…}, {…})` in the
 * plugin's module, with the tools that have members of `PREVIEWS`.
 *
 * Each gets the input, then the context; `renderResult` gets the outcome between them. `validate` throws an error; an
 * error of another function crashes it, and docs/previews.md states what the host does then. None is async.
 */
export function exportPreviews(...tools) {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const run = (member, request, ...more) => {
    const tool = byName.get(request.tool);
    return notAsync(member, tool[member](inputOf(tool, request), ...more, new Context(request)));
  };
  return {
    validate(request) {
      try {
        const value = run("validate", request) ?? null;
        if (value !== null) throw new TypeError(`validate returned ${value}; it must return nothing, or throw an error`);
      } catch (error) {
        throw toolErrorOf(error).val;
      }
    },
    describeCall: (request) => string(run("describeCall", request)),
    locations: (request) => run("locations", request).map(({ path, ...more }) => ({ path: string(path), ...more })),
    confirm: (request) => optional(run("confirm", request), string),
    renderPermission: (request) => run("renderPermission", request),
    renderResult: (request, outcome) => run("renderResult", request, outcomeRecord(outcome)),
  };
}

/** A call before or after it runs; the first argument of every hook. */
export class HookCall extends Context {
  constructor(request) {
    super(request);
    /** Canonical name of the tool. */
    this.tool = request.tool;
    this.input = JSON.parse(request.input);
    /** Facts about the tool: `aliases`, `version`, `kind` and `effect`. */
    this.facts = JSON.parse(request.context.extra ?? "{}");
  }
}

/**
 * The export of the world `plugin-with-hooks`. Write `export const hooks = exportHooks({ before, after })` in the plugin's
 * module, and name the functions in `hooks` of the tools that they guard.
 *
 * `before(call)` returns `ask(…)`, `deny(…)`, `changeInput(…)` or `answer(…)`, or nothing to proceed. `after(call, outcome)`
 * returns `update(…)`, an outcome that replaces the call's own, or nothing to keep it; it also runs after a call that
 * failed, whose outcome has an `error` and nothing `structured`. An exception or any other value crashes the hook: the host
 * then denies the call, or withholds its outcome. Neither is async.
 */
export function exportHooks({ before, after }) {
  const absent = { decision: "continue", reason: null, updatedInput: null, outcome: null, meta: null };
  return {
    preToolUse(request) {
      const decision = before?.(new HookCall(request)) ?? null;
      if (decision !== null && decision[KIND] !== "before") {
        throw unexpected("before", decision, "ask, deny, changeInput or answer");
      }
      return { ...absent, ...decision };
    },
    postToolUse(request, outcome) {
      const changed = after?.(new HookCall(request), outcomeRecord(outcome)) ?? null;
      if (changed === null) return { action: "keep", patch: null, outcome: null };
      if (changed[KIND] === "update") return { action: "update", patch: changed.patch, outcome: null };
      if (changed[KIND] === "outcome") return { action: "replace", patch: null, outcome: changed };
      throw unexpected("after", changed, "update or outcome");
    },
  };
}

/**
 * The user must approve the call. `meta` is an object for the question, such as `{ risk: "high" }`; `input` replaces the
 * input of the call.
 */
export function ask(reason, { input, meta } = {}) {
  return {
    [KIND]: "before", decision: "ask", reason: string(reason), updatedInput: optional(input, json),
    meta: optional(meta, json),
  };
}

/** The call is not made. `outcome` is what the model gets instead of the host's error. */
export function deny(reason, { outcome = null } = {}) {
  return { [KIND]: "before", decision: "deny", reason: string(reason), outcome };
}

/** The call proceeds with this input, which is validated and authorized like the first one. */
export const changeInput = (input) => ({ [KIND]: "before", updatedInput: json(input) });

/** The call is not made; `outcome` is its result. Only for hooks that the operator configured. */
export const answer = (outcome) => ({ [KIND]: "before", decision: "result", outcome });

/** Changes members of an outcome. `text` and the parts `llm` replace the content for the model; `meta` is merged. */
export function update({ text = null, llm = null, summary, structured, meta } = {}) {
  return {
    [KIND]: "update",
    patch: {
      summary: optional(summary, string),
      llm: text === null ? llm : [part("text", { text }), ...(llm ?? [])],
      structured: optional(structured, json),
      meta: optional(meta, json),
    },
  };
}

/** A path that a call reads, for `locations`; as the input would name it, relative to /workspace. `line` is from 1. */
export const reads = (path, line = null) => ({ path, access: "read", line });

/** A path that a call changes, for `locations`. */
export const writes = (path, line = null) => ({ path, access: "write", line });

/** The record `outcome` of the WIT. `text` is the first part for the model, which otherwise sees `structured`. */
export function outcome(text = null, more = {}) {
  const { structured, summary, llm = [], display, error, truncated, tail, meta } = more;
  return {
    [KIND]: "outcome",
    summary: optional(summary, string),
    llm: text === null ? llm : [part("text", { text }), ...llm],
    structured: optional(structured, json),
    display: display ?? null,
    error: error ?? null,
    truncated: truncated ?? null,
    tail: tail ?? null,
    meta: optional(meta, json),
  };
}

/** A content part for the model: `text`, `json`, `image`, `audio`, `file` or `resource-link`. */
export function part(kind, { text, data = null, mediaType = null, uri = null, name = null }) {
  return {
    kind, text: optional(text, string), data, mediaType: optional(mediaType, string), uri: optional(uri, string),
    name: optional(name, string),
  };
}

/**
 * What the user sees: `none`, `text`, `markdown`, `ansi`, `code`, `diff`, `table`, `file`, `image`, `todo-list` …
 * `data` of a table is `{ columns: ["name"], rows: [["a"]] }`; types.wit has the other kinds.
 */
export function display(kind, { text, diff = null, data } = {}) {
  return { kind, text: optional(text, string), diff, data: optional(data, json) };
}

/** Describes a failure; `outcome(…, { error })` marks a completed call with an error result. */
export function failure(message, { code = null, recommendations = [], retryable = false, cause, details } = {}) {
  return {
    code: optional(code, string), message: string(message), recommendations: recommendations.map(string), retryable,
    cause: optional(cause, string), details: optional(details, json),
  };
}

// QuickJS has no console, no TextEncoder and no TextDecoder. Libraries expect the first; the others are below.
const word = (value) => {
  try {
    return typeof value === "object" && !(value instanceof Error) ? json(value) : string(value);
  } catch {
    return string(value);
  }
};
const line = (level) => (...words) => host.log(level, words.map(word).join(" "));
globalThis.console ??= {
  log: line("info"), info: line("info"), warn: line("warn"), error: line("error"), debug: line("debug"),
};

/** UTF-8 of a string; a lone surrogate becomes U+FFFD. */
export function encodeUtf8(text) {
  const escaped = encodeURIComponent(string(text));
  const bytes = [];
  for (let at = 0; at < escaped.length; at += 1) {
    if (escaped[at] === "%") {
      bytes.push(Number.parseInt(escaped.slice(at + 1, at + 3), 16));
      at += 2;
    } else {
      bytes.push(escaped.charCodeAt(at));
    }
  }
  return new Uint8Array(bytes);
}

/** The string of UTF-8 bytes; throws `invalid-input` if they are invalid. */
export function decodeUtf8(bytes) {
  const escaped = Array.from(bytes, (byte) => `%${byte.toString(16).padStart(2, "0")}`);
  try {
    return decodeURIComponent(escaped.join(""));
  } catch {
    throw ToolError.invalidInput("the bytes are not utf-8 text", { code: "not_utf8" });
  }
}

// The state of the engine's Math.random is part of the snapshot from which every call starts, so every call would get
// the same numbers. The generator is seeded with the id of the call instead. Like the original, not for secrets.
function seedRandom(callId) {
  let state = 1;
  const next = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
  for (const char of `${callId} ${Date.now()} ${performance.now()}`) {
    state = Math.imul(state, 31) + char.codePointAt(0) || 1;
    next();
  }
  Math.random = () => ((next() >>> 5) * 2 ** 26 + (next() >>> 6)) / 2 ** 53;
}

const DENIED = [
  "service_not_granted", "capability_missing", "user_denied", "policy_violation", "program_not_allowed",
  "host_not_allowed", "path_not_in_workspace",
];
/** Members of a tool that are functions of the interface `preview`. */
const PREVIEWS = ["validate", "describeCall", "locations", "confirm", "renderPermission", "renderResult"];
const LISTS = ["aliases", "tags", "requires", "dependsOn", "sinks", "sources"];
const FLAGS = ["canStream", "canBackground"];
const OPTIONS = [
  "displayName", "icon", "category", "kind", "version", "strict", "concurrency", "outputMarkdown",
  "timeoutMs", "inactivityTimeoutMs", "maxOutputBytes",
];
const HINTS = ["readOnly", "pure", "destructive", "idempotent", "openWorld", "interactive"];
const OWN = ["name", "description", "input", "optional", "output", "examples", "extra", "hooks", "run"];

function descriptorOf(tool) {
  const known = [...OWN, ...PREVIEWS, ...LISTS, ...FLAGS, ...OPTIONS, ...HINTS];
  const unknown = Object.keys(tool).find((key) => !known.includes(key));
  if (unknown) throw new TypeError(`unknown member "${unknown}" in the tool "${tool.name}"`);
  for (const key of ["name", "description", "input", "run"]) {
    if (!tool[key]) throw new TypeError(`the tool "${tool.name}" has no "${key}"`);
  }
  const required = Object.keys(tool.input).filter(
    (key) => !tool.optional?.includes(key) && !("default" in tool.input[key]),
  );
  const schema = { type: "object", properties: tool.input, required, additionalProperties: false };
  const pick = (keys, absent) => Object.fromEntries(keys.map((key) => [key, tool[key] ?? absent]));
  return {
    name: tool.name,
    description: tool.description,
    inputSchema: json(schema),
    outputSchema: optional(tool.output, json),
    annotations: pick(HINTS, null),
    examples: (tool.examples ?? []).map(([description, input]) => ({ description, input: json(input) })),
    extra: optional(tool.extra, json),
    hooks: [...PREVIEWS.filter((member) => tool[member]).map(kebabCase), ...(tool.hooks ?? [])],
    ...pick(LISTS, []),
    ...pick(FLAGS, false),
    ...pick(OPTIONS, null),
  };
}

function inputOf(tool, request) {
  const withDefault = Object.entries(tool.input).filter(([, schema]) => "default" in schema);
  const defaults = Object.fromEntries(withDefault.map(([key, schema]) => [key, schema.default]));
  return { ...defaults, ...JSON.parse(request.input) };
}

function kebabCase(name) {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function outcomeOf(value) {
  if (value === undefined || value === null) return outcome();
  if (typeof value === "string") return outcome(value);
  return value[KIND] === "outcome" ? value : outcome(null, { structured: value });
}

/** Marks a record of the host as one that `outcome` has made; for services.js. */
export const outcomeRecord = (record) => ({ ...record, [KIND]: "outcome" });

/** Rejects promises, which would otherwise count as an outcome or as a call without objections. */
function notAsync(name, value) {
  if (typeof value?.then === "function") throw new TypeError(`${name} must not be async`);
  return value;
}

function unexpected(name, value, functions) {
  notAsync(name, value);
  return new TypeError(`${name} returned ${value}; it must return a result of ${functions}, or nothing`);
}

/** The kind of an error of a host service, which has only a code. The table is the same in all SDKs: docs/errors.md. */
function tagOf(code) {
  if (DENIED.includes(code)) return "denied";
  if (code === "cancelled" || code === "timeout") return "interrupted";
  if (code === "not_configured" || code === "no_user") return "unavailable";
  if (code.endsWith("_not_found")) return "not-found";
  return code.startsWith("invalid_") ? "invalid-input" : "failed";
}

function toolErrorOf(error) {
  if (error instanceof ToolError) return { tag: error.tag, val: error.failure };
  const more = { code: "internal_error", cause: error?.stack?.trim() };
  return { tag: "failed", val: failure(error instanceof Error ? `${error.name}: ${error.message}` : error, more) };
}

/** The component boundary requires UTF-8, which has no lone surrogates. */
export function string(value) {
  return String(value).toWellFormed();
}

/** JSON text without lone surrogates, which `JSON.stringify` escapes. */
export function json(value) {
  const text = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`${typeof value} has no JSON text`);
  return text.replace(/\\[^u]|\\ud[89a-f]../g, (escape) => (escape.length > 2 ? "\ufffd" : escape));
}

function optional(value, convert) {
  return value === undefined || value === null ? null : convert(value);
}
