// Types of toolhost.js, for editors and TypeScript. The names are those of wit/v0.1/types.wit, in camel case.

declare global {
  /** Logs to the host. The engine has no other functions of `console`. */
  interface Console {
    log(...words: unknown[]): void;
    info(...words: unknown[]): void;
    warn(...words: unknown[]): void;
    error(...words: unknown[]): void;
    debug(...words: unknown[]): void;
  }
  var console: Console;
}

/** A value that has a JSON text. A `BigInt` is written as an integer. */
export type Json = unknown;
export type JsonSchema = Record<string, unknown>;

export interface FailureOptions {
  code?: string;
  recommendations?: string[];
  retryable?: boolean;
  cause?: unknown;
  /** A JSON object for programs; models do not get it. */
  details?: Record<string, Json>;
}

export interface Failure {
  code: string | null;
  message: string;
  recommendations: string[];
  retryable: boolean;
  cause: string | null;
  /** JSON text. */
  details: string | null;
}

export type ToolErrorTag = "invalid-input" | "not-found" | "denied" | "interrupted" | "unavailable" | "failed";

export class ToolError extends Error {
  constructor(tag: ToolErrorTag, message: string, more?: FailureOptions);
  readonly tag: ToolErrorTag;
  readonly failure: Failure;
  static invalidInput(message: string, more?: FailureOptions): ToolError;
  static notFound(message: string, more?: FailureOptions): ToolError;
  static denied(message: string, more?: FailureOptions): ToolError;
  static interrupted(message: string, more?: FailureOptions): ToolError;
  static unavailable(message: string, more?: FailureOptions): ToolError;
  static failed(message: string, more?: FailureOptions): ToolError;
  static of(record: Failure | { tag: ToolErrorTag; val: Failure }): ToolError;
}

export interface Caller {
  agentId: string;
  parentAgentId: string | null;
  sessionId: string;
  taskId: string;
  userId: string | null;
  mode: string;
  roots: { path: string; access: string }[];
  extra: string | null;
}

/** The record `request` of the WIT; `input` is JSON text. */
export interface Request {
  callId: string;
  tool: string;
  input: string;
  context: Caller;
}

export class Context {
  constructor(request: Pick<Request, "callId" | "context">);
  readonly callId: string;
  readonly caller: Caller;
  log(message: unknown, level?: "trace" | "debug" | "info" | "warn" | "error"): void;
  progress(message?: string | null, done?: number | null, total?: number | null): void;
  output(data: string | Uint8Array, stream?: string): void;
  emit(event: string, data: Json): void;
  cancelled(): boolean;
  remainingMs(): number;
  check(): void;
}

export interface Part {
  kind: string;
  text: string | null;
  data: Uint8Array | null;
  mediaType: string | null;
  uri: string | null;
  name: string | null;
}

export interface FileDiff {
  fileName: string;
  diff: string;
  original: string | null;
  new: string;
}

export interface Display {
  kind: string;
  text: string | null;
  diff: FileDiff | null;
  data: string | null;
}

export interface OutcomeOptions {
  structured?: Json;
  summary?: string;
  llm?: Part[];
  display?: Display;
  error?: Failure;
  truncated?: { originalBytes: number; shownBytes: number; savedTo: string | null };
  /** `input` is JSON text. */
  tail?: { tool: string; input: string };
  meta?: Json;
}

declare const kind: unique symbol;

/** The record `outcome` of the WIT, made by `outcome` or by the host. JSON values are text. */
export interface Outcome {
  readonly [kind]: "outcome";
  summary: string | null;
  llm: Part[];
  structured: string | null;
  display: Display | null;
  error: Failure | null;
  truncated: { originalBytes: number; shownBytes: number; savedTo: string | null } | null;
  tail: { tool: string; input: string } | null;
  meta: string | null;
}

/** A call before or after it runs. */
export class HookCall extends Context {
  constructor(request: Request);
  readonly tool: string;
  readonly input: any;
  /** `aliases`, `version`, `kind` and `effect`. */
  readonly facts: Record<string, any>;
}

/** The result of `ask`, `deny`, `changeInput` or `answer`. */
export interface Before {
  readonly [kind]: "before";
  decision?: "ask" | "deny" | "result";
}

/** The result of `update`. */
export interface Update {
  readonly [kind]: "update";
  patch: unknown;
}

export interface HookFunctions {
  before?(call: HookCall): Before | null | undefined;
  after?(call: HookCall, outcome: Outcome): Update | Outcome | null | undefined;
}

/** A path that a call will use: `reads(path)` or `writes(path)`. */
export interface Location {
  path: string;
  access: "read" | "write";
  line: number | null;
}

export interface Tool<Input = any> {
  /** Canonical name, `[a-z][a-z0-9_]{0,63}`: the one a model calls. */
  name: string;
  description: string;
  /** The JSON Schema of each parameter; required unless it has a `default` or is named in `optional`. */
  input: Record<string, JsonSchema>;
  optional?: string[];
  /** The JSON Schema of the structured result, of any type. */
  output?: JsonSchema;
  /** [description, input] */
  examples?: [string, Json][];
  extra?: Json;
  /**
   * An outcome, a string (text for the model), nothing, or any other value (the structured result). With `output`, a string
   * and nothing (`null`) are structured results too.
   */
  run(input: Input, cx: Context): Outcome | Json;

  // Functions that describe a call, for `exportPreviews`.
  /** Throws an error to refuse the call. */
  validate?(input: Input, cx: Context): void;
  /** The call in one line. */
  describeCall?(input: Input, cx: Context): string;
  /** Paths that the call will use and the input does not name. */
  locations?(input: Input, cx: Context): Location[];
  /** The reason for which the user must approve the call. */
  confirm?(input: Input, cx: Context): string | null | undefined;
  /** Content for the prompt in which the user decides. */
  renderPermission?(input: Input, cx: Context): Display[];
  /** Content for the user in place of the display of the outcome. */
  renderResult?(input: Input, outcome: Outcome, cx: Context): Display[];

  readOnly?: boolean;
  pure?: boolean;
  destructive?: boolean;
  idempotent?: boolean;
  openWorld?: boolean;
  interactive?: boolean;

  displayName?: string;
  icon?: string;
  category?: string;
  kind?: string;
  version?: string;
  strict?: boolean;
  concurrency?: "parallel" | "serial" | "exclusive";
  outputMarkdown?: boolean;
  timeoutMs?: number;
  inactivityTimeoutMs?: number;
  maxOutputBytes?: number;
  aliases?: string[];
  tags?: string[];
  requires?: string[];
  dependsOn?: string[];
  hooks?: string[];
  sinks?: string[];
  sources?: ("network" | "people" | "private")[];
  canStream?: boolean;
  canBackground?: boolean;
}

export function exportTools(...tools: Tool[]): { describe(): unknown; call(request: unknown): unknown };
export function exportPreviews(...tools: Tool[]): Record<string, (request: unknown, outcome: unknown) => unknown>;
export function exportHooks(hooks: HookFunctions): Record<string, (request: unknown, outcome: unknown) => unknown>;
export function ask(reason: string, more?: { input?: Json; meta?: Json }): Before;
export function deny(reason: string, more?: { outcome?: Outcome }): Before;
export function changeInput(input: Json): Before;
export function answer(outcome: Outcome): Before;
export function update(
  changes?: { text?: string | null; llm?: Part[] | null; summary?: string; structured?: Json; meta?: Json },
): Update;
export function reads(path: string, line?: number | null): Location;
export function writes(path: string, line?: number | null): Location;
export function outcome(text?: string | null, more?: OutcomeOptions): Outcome;
export function part(kind: string, members: Partial<Omit<Part, "kind">>): Part;
export function display(kind: string, members?: { text?: string; diff?: FileDiff; data?: Json }): Display;
export function failure(message: string, more?: FailureOptions): Failure;
/** The value of a JSON text. Integers beyond ±(2^53 - 1), which a `number` would round, are BigInts. */
export function parseJson(text: string): any;
export function encodeUtf8(text: string): Uint8Array;
export function decodeUtf8(bytes: Uint8Array): string;
