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
        return outcomeOf(tool, notAsync("run", value));
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
    seedRandom(request.callId);
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
    describeCall: (request) => returnedString("describeCall", run("describeCall", request)),
    locations(request) {
      const locations = list("the result of locations", run("locations", request));
      return locations.map(({ path, ...more }) => ({ path: string(path), ...more }));
    },
    confirm: (request) => optional(run("confirm", request), (value) => returnedString("confirm", value)),
    renderPermission: (request) => list("the result of renderPermission", run("renderPermission", request)),
    renderResult(request, outcome) {
      return list("the result of renderResult", run("renderResult", request, outcomeRecord(outcome)));
    },
  };
}

/** A call before or after it runs; the first argument of every hook. */
export class HookCall extends Context {
  constructor(request) {
    super(request);
    /** Canonical name of the tool. */
    this.tool = request.tool;
    this.input = parseJson(request.input);
    /** Facts about the tool: `aliases`, `version`, `kind` and `effect`. */
    this.facts = parseJson(request.context.extra ?? "{}");
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
      seedRandom(request.callId);
      const decision = before?.(new HookCall(request)) ?? null;
      if (decision !== null && decision[KIND] !== "before") {
        throw unexpected("before", decision, "ask, deny, changeInput or answer");
      }
      const jsonOf = (input) => json(keepNumbers(input, rawNumbers(request.input)));
      return { ...absent, ...decision, updatedInput: optional(decision?.updatedInput, jsonOf) };
    },
    postToolUse(request, outcome) {
      seedRandom(request.callId);
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
    [KIND]: "before", decision: "ask", reason: string(reason), updatedInput: optional(input, object),
    meta: optional(meta, json),
  };
}

/** The call is not made. `outcome` is what the model gets instead of the host's error. */
export function deny(reason, { outcome = null } = {}) {
  return { [KIND]: "before", decision: "deny", reason: string(reason), outcome };
}

/**
 * The call proceeds with this input, which is validated and authorized like the first one. Numbers that are equal to those
 * of the first one keep their text.
 */
export const changeInput = (input) => ({ [KIND]: "before", updatedInput: object(input) });

/** The call is not made; `outcome` is its result. Only for hooks that the operator configured. */
export const answer = (outcome) => ({ [KIND]: "before", decision: "result", outcome });

/** Changes members of an outcome. `text` and the parts `llm` replace the content for the model; `meta` is merged. */
export function update({ text = null, llm = null, summary, structured, meta } = {}) {
  return {
    [KIND]: "update",
    patch: {
      summary: optional(summary, string),
      llm: text === null && llm === null ? null : parts(text, llm ?? []),
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
    llm: parts(text, llm),
    structured: optional(structured, json),
    display: display ?? null,
    error: error ?? null,
    truncated: truncated ?? null,
    tail: tail ?? null,
    meta: optional(meta, json),
  };
}

const parts = (text, llm) => [...(text === null ? [] : [part("text", { text })]), ...list("llm", llm)];

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
    code: optional(code, string), message: string(message),
    recommendations: list("recommendations", recommendations).map(string), retryable,
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
const literal = (value) => (typeof value === "string" ? json(value) : word(value));
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

// The table is the same in all SDKs: docs/errors.md.
const TAGS = {
  denied: [
    "service_not_granted", "capability_missing", "user_denied", "policy_violation", "program_not_allowed",
    "host_not_allowed", "path_not_in_workspace", "not_granted", "private_address", "method_not_allowed",
    "secret_not_allowed",
  ],
  interrupted: ["cancelled", "timeout"],
  unavailable: [
    "not_configured", "no_user", "dns_failed", "connect_failed", "tls_failed", "bad_response", "rate_limited",
    "network_error",
  ],
  "invalid-input": ["bad_request"],
};
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
  for (const key of [...LISTS, "optional", "examples", "hooks"]) {
    list(`${key} of the tool "${tool.name}"`, tool[key] ?? []);
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
  return { ...defaults, ...parseJson(request.input) };
}

function kebabCase(name) {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function outcomeOf(tool, value) {
  if (value?.[KIND] === "outcome") return value;
  const isText = typeof value === "string";
  const made = outcome(isText ? value : null);
  // The host checks the structured result against the output schema, which can be that of a text or of nothing.
  const isData = tool.output || !(isText || value === undefined || value === null);
  return isData ? { ...made, structured: json(value ?? null) } : made;
}

/** Marks a record of the host as one that `outcome` has made; for services.js. */
export const outcomeRecord = (record) => ({ ...record, [KIND]: "outcome" });

/** Rejects promises, which would otherwise count as an outcome or as a call without objections. */
function notAsync(name, value) {
  if (typeof value?.then === "function") throw new TypeError(`${name} must not be async`);
  return value;
}

function returnedString(name, value) {
  if (typeof value === "string") return string(value);
  throw new TypeError(`${name} returned ${literal(value)}; it must return a string`);
}

/** Rejects an input that is no object, which would otherwise count as no change. */
function object(input) {
  if (typeof (input ?? 0) === "object") return input;
  throw new TypeError(`an input must be an object, not ${literal(input)}`);
}

/** Rejects a string, whose characters would become the items, and other values that are no list. */
export function list(name, value) {
  if (Array.isArray(value)) return value;
  throw new TypeError(`${name} must be a list, not ${literal(value)}`);
}

function unexpected(name, value, functions) {
  notAsync(name, value);
  return new TypeError(`${name} returned ${value}; it must return a result of ${functions}, or nothing`);
}

/** The kind of an error of a host service, which has only a code. */
function tagOf(code) {
  const known = Object.keys(TAGS).find((tag) => TAGS[tag].includes(code));
  if (known) return known;
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

// A BigInt is written as a JSON integer; without this function `JSON.stringify` throws.
BigInt.prototype.toJSON = function toJSON() {
  return JSON.rawJSON(this.toString());
};

const exactInteger = (key, value, { source }) => {
  const isRounded = typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(source);
  return isRounded ? BigInt(source) : value;
};

/** The value of a JSON text. Integers beyond ±(2^53 - 1), which a Number would round, are BigInts. */
export function parseJson(text) {
  // A function for each value is slow; only a long number needs it.
  return /\d{16}/.test(text) ? JSON.parse(text, exactInteger) : JSON.parse(text);
}

/** A JSON text in which each number is kept as its text. */
function rawNumbers(text) {
  return JSON.parse(text, (key, value, { source }) => (typeof value === "number" ? JSON.rawJSON(source) : value));
}

/** `value` with the texts of equal numbers of `raw`, so that a hook does not change `1.0` to `1`. */
function keepNumbers(value, raw) {
  if (JSON.isRawJSON(raw)) return Object.is(value, parseJson(raw.rawJSON)) ? raw : value;
  if (typeof (value ?? 0) !== "object" || typeof (raw ?? 0) !== "object" || value.toJSON) return value;
  if (Array.isArray(value)) return value.map((item, index) => keepNumbers(item, raw[index]));
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, keepNumbers(member, raw[key])]));
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
