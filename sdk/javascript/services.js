// Host services for JavaScript plugins: session state, programs, questions to the user, sub-agents, other tools and
// resources. Each needs the capability of that name in the plugin's manifest and in `requires` of the tool.
//
// For the worlds `plugin-with-services` and `complete`. A failure is thrown as a `ToolError`; `error.failure.code` tells
// why. Records have the members of the WIT, in camel case.

import agentService from "toolhost:plugin/agents@0.1.0";
import processService from "toolhost:plugin/process@0.1.0";
import resourceService from "toolhost:plugin/resources@0.1.0";
import sessionService from "toolhost:plugin/session@0.1.0";
import toolService from "toolhost:plugin/tools@0.1.0";
import userService from "toolhost:plugin/user@0.1.0";

import { encodeUtf8, json, list, outcomeRecord, parseJson, string, ToolError } from "toolhost";

// Session state: capability `session`. Values are stored only if the result of the call is accepted.

/** The value that this plugin last stored under `key` in this session; null if there is none. */
export function recall(key) {
  const text = done(sessionService.get, key);
  return text === null || text === undefined ? null : parseJson(text);
}

export const remember = (key, value) => done(sessionService.set, key, json(value));

export const forget = (key) => done(sessionService.set, key, null);

/** Records that the agent was shown this file or has written it. `lines` is [first, last]; null for all lines. */
export function recordObservation(path, sha256, lines = null) {
  return done(sessionService.recordObservation, { path: string(path), sha256: string(sha256), lines });
}

/** The last recorded version of this file, from any plugin; null if there is none. */
export const lastObservation = (path) => done(sessionService.lastObservation, path) ?? null;

// Programs: capability `process`.

/**
 * Runs a program to completion; its output is streamed. `options` are `cwd`, `environment` (an object), `stdin` (a string
 * or bytes), `timeoutMs`, `inactivityTimeoutMs`, `tty` and `label`.
 */
export function runProgram(program, args = [], options = {}) {
  return done(processService.run, command(program, args, options));
}

/** Starts a program as a job and returns without waiting for it. */
export function startProgram(program, args = [], options = {}) {
  return done(processService.start, command(program, args, options));
}

/** The programs started in this session. */
export const jobs = () => done(processService.jobs);

/** Output of a job after the byte offset `after`; waits up to `waitMs` if there is none. */
export function readJob(id, { after = 0, max = 65536, waitMs = 0 } = {}) {
  return done(processService.read, id, after, max, waitMs);
}

/** Writes a string or bytes to the standard input of a job. */
export const writeJob = (id, data) => done(processService.write, id, bytes(data));

/** `signal` is `TERM`, `INT`, `HUP`, `QUIT`, `USR1`, `USR2` or `KILL`. */
export const killJob = (id, signal = "TERM") => done(processService.kill, id, signal);

// The user: capability `user`.

/** Asks up to four questions, in the format of `user.ask` in the WIT; returns the answers in the same order. */
export const askUser = (questions) => parseJson(done(userService.ask, json(questions)));

/** Requests another permission mode; returns the resulting one. */
export const changeMode = (to, reason) => done(userService.changeMode, to, reason);

/** Requests permissions, in the format of the WIT; returns those that were granted. */
export function requestPermissions(request) {
  return parseJson(done(userService.requestPermissions, json(request)));
}

// Sub-agents: capability `agents`.

export const agents = () => done(agentService.agents);

/** Delegates a task: takes `{ agent, prompt, … }` and returns `{ text, … }`. */
export const runAgent = (task) => parseJson(done(agentService.run, json(task)));

// Other tools: capability `tools`. Each call is authorized like any other, with this one as its parent.

/** The tools that are visible to this call; `inputSchema` is JSON text. */
export const tools = () => done(toolService.tools);

/** Calls a tool and returns its outcome; an error of the call is thrown. */
export const callTool = (tool, input) => outcomeRecord(done(toolService.call, tool, json(input)));

/** Starts a call that continues after this one. */
export function startTool(tool, input, timeoutMs = null) {
  return done(toolService.start, tool, json(input), timeoutMs);
}

export const runningTools = () => done(toolService.running);

/** Waits up to `waitMs` for the end of a started call and returns its outcome; null while it is running. */
export function waitTool(id, waitMs) {
  const ended = done(toolService.wait, id, waitMs) ?? null;
  if (ended === null) return null;
  if (ended.tag === "err") throw ToolError.of(ended.val);
  return outcomeRecord(ended.val);
}

export const stopTool = (id) => done(toolService.stop, id);

// Resources of MCP servers: capability `resources`.

/** Lists resources of one server, or of all: `[{ uri, name, server, … }]`. */
export const resources = (server = null) => parseJson(done(resourceService.resources, server));

/** Reads a resource of one server, or of the first that has it; returns content parts. */
export const readResource = (uri, server = null) => done(resourceService.read, uri, server);

function done(service, ...args) {
  try {
    return service(...args.map((arg) => (typeof arg === "string" ? string(arg) : arg)));
  } catch (thrown) {
    // The engine throws the error of a `result` as the member `payload` of an exception.
    throw thrown?.payload ? ToolError.of(thrown.payload) : thrown;
  }
}

function command(program, args, options) {
  const { cwd = null, environment = {}, stdin = null, timeoutMs = null, inactivityTimeoutMs = null } = options;
  return {
    program: string(program), arguments: list("the arguments of a program", args).map(string),
    cwd: cwd === null ? null : string(cwd),
    environment: Object.entries(environment).map((pair) => pair.map(string)),
    stdin: stdin === null ? null : bytes(stdin),
    timeoutMs, inactivityTimeoutMs, tty: options.tty ?? false, label: string(options.label ?? program),
  };
}

function bytes(data) {
  return typeof data === "string" ? encodeUtf8(data) : data;
}
