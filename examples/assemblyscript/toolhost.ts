// Bindings of the world `toolhost:plugin/plugin`, by hand: the memory layout of the canonical ABI for the records that this
// plugin uses. Strings are UTF-16 on both sides, which the build states in the component.
//
// Memory is never freed (`--runtime stub`): an instance serves one call.

// @ts-ignore: decorator
@external("toolhost:plugin/host@0.1.0", "log")
declare function hostLog(level: usize, levelLength: i32, message: usize, messageLength: i32): void;

// @ts-ignore: decorator
@external("toolhost:plugin/host@0.1.0", "progress")
declare function hostProgress(
  hasMessage: i32, message: usize, messageLength: i32, hasProgress: i32, progress: f64, hasTotal: i32, total: f64,
): void;

export function log(level: string, message: string): void {
  hostLog(changetype<usize>(level), level.length, changetype<usize>(message), message.length);
}

export function progress(message: string): void {
  hostProgress(1, changetype<usize>(message), message.length, 0, 0, 0, 0);
}

/** Called by the host to place arguments and results of imports in this memory. */
export function cabi_realloc(old: usize, oldSize: usize, align: usize, size: usize): usize {
  const block = heap.alloc(size);
  if (old) memory.copy(block, old, oldSize);
  return block;
}

/** Replaces the `abort` of the compiler, which imports a function that no component host has. */
export function fail(message: string | null, file: string | null, line: u32, column: u32): void {
  if (message !== null && file !== null) log("error", `${message} at ${file}:${line}:${column}`);
  unreachable();
}

/** Zeroed memory: every option is none and every list empty. */
function zeroed(size: usize): usize {
  const block = heap.alloc(size);
  memory.fill(block, 0, size);
  return block;
}

function readString(at: usize): string {
  return String.UTF16.decodeUnsafe(load<usize>(at), load<usize>(at, 4) << 1);
}

function writeString(at: usize, text: string): void {
  store<usize>(at, changetype<usize>(text));
  store<i32>(at, text.length, 4);
}

function writeSome(at: usize, text: string): void {
  store<u8>(at, 1);
  writeString(at + 4, text);
}

/** A list with one element. */
function writeOne(at: usize, element: usize): void {
  store<usize>(at, element);
  store<i32>(at, 1, 4);
}

// Offsets in the record `request`.
const REQUEST_TOOL: usize = 8;
const REQUEST_INPUT: usize = 16;

/** One call, as the host passes it. */
export class Request {
  tool: string;
  /** A JSON object. */
  input: string;

  constructor(at: usize) {
    this.tool = readString(at + REQUEST_TOOL);
    this.input = readString(at + REQUEST_INPUT);
  }
}

// Size of the record `descriptor`, and offsets in it.
const DESCRIPTOR: usize = 228;
const DESCRIPTION: usize = 28;
const CATEGORY: usize = 48;
const INPUT_SCHEMA: usize = 92;
const OUTPUT_SCHEMA: usize = 100;
const READ_ONLY: usize = 114;
const PURE: usize = 116;

/** The result of `describe` for one tool that is pure. */
export function describePure(
  name: string, description: string, category: string, inputSchema: string, outputSchema: string,
): usize {
  const descriptor = zeroed(DESCRIPTOR);
  writeString(descriptor, name);
  writeString(descriptor + DESCRIPTION, description);
  writeSome(descriptor + CATEGORY, category);
  writeString(descriptor + INPUT_SCHEMA, inputSchema);
  writeSome(descriptor + OUTPUT_SCHEMA, outputSchema);
  // The options of `read-only` and `pure`: some(true).
  store<u16>(descriptor + READ_ONLY, 0x0101);
  store<u16>(descriptor + PURE, 0x0101);
  const result = zeroed(8);
  writeOne(result, descriptor);
  return result;
}

// Size of `result<outcome, tool-error>` and offset of its payload, which `truncation` aligns to 8; offsets in `outcome`.
const RESULT: usize = 248;
const PAYLOAD: usize = 8;
const LLM: usize = 12;
const STRUCTURED: usize = 20;
// Size of the record `part`; offset of its text.
const PART: usize = 68;
const PART_TEXT: usize = 8;

/** The result of a call that completed: text for the model, and JSON text. */
export function outcome(text: string, structured: string): usize {
  const part = zeroed(PART);
  writeString(part, "text");
  writeSome(part + PART_TEXT, text);
  const result = zeroed(RESULT);
  writeOne(result + PAYLOAD + LLM, part);
  writeSome(result + PAYLOAD + STRUCTURED, structured);
  return result;
}

/** The cases of `tool-error`. */
export const enum ErrorKind { InvalidInput, NotFound, Denied, Interrupted, Unavailable, Failed }

// Offset of the failure in `tool-error`; offsets in `failure`.
const FAILURE: usize = 4;
const CODE: usize = 0;
const MESSAGE: usize = 12;

/** The result of a call that failed. */
export function failure(kind: ErrorKind, code: string, message: string): usize {
  const result = zeroed(RESULT);
  store<u8>(result, 1);
  store<u8>(result + PAYLOAD, <u8>kind);
  const at = result + PAYLOAD + FAILURE;
  writeSome(at + CODE, code);
  writeString(at + MESSAGE, message);
  return result;
}
