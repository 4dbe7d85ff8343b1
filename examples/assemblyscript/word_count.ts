// A tool in AssemblyScript.

import { stringMember } from "./json";
import { describePure, ErrorKind, failure, log, outcome, progress, Request } from "./toolhost";

export { cabi_realloc } from "./toolhost";

const INPUT = `{
  "type": "object",
  "required": ["text"],
  "properties": {"text": {"type": "string", "description": "The text whose words are counted."}},
  "additionalProperties": false
}`;
const OUTPUT = `{"type": "object", "required": ["words"], "properties": {"words": {"type": "integer"}}}`;

export function describe(environment: usize, length: i32): usize {
  return describePure("word_count_as", "Count the words of a text, separated by white space.", "data", INPUT, OUTPUT);
}

export function call(request: usize): usize {
  const text = stringMember(new Request(request).input, "text");
  if (text === null || text.length == 0) {
    return failure(ErrorKind.InvalidInput, "empty_text", "text is empty");
  }
  log("info", "counting words");
  progress("counting");
  let words = 0;
  let inWord = false;
  for (let at = 0; at < text.length; at++) {
    const space = isSpace(text.charCodeAt(at));
    if (!space && !inWord) words++;
    inWord = !space;
  }
  return outcome(`${words} words`, `{"words":${words}}`);
}

function isSpace(code: i32): bool {
  return code == 0x20 || (code >= 0x09 && code <= 0x0d) || code == 0xa0 || code == 0x2028 || code == 0x2029;
}
