// Reads a string member of a JSON object that the host has validated.

const QUOTE: i32 = 0x22;
const BACKSLASH: i32 = 0x5c;

/** The index behind the string that starts at `at`. */
function stringEnd(json: string, at: i32): i32 {
  at++;
  while (at < json.length && json.charCodeAt(at) != QUOTE) at += json.charCodeAt(at) == BACKSLASH ? 2 : 1;
  return at + 1;
}

/** The text of the string between `from` and `to`, which include its quotes. No escape is shorter than its text. */
function unquote(json: string, from: i32, to: i32): string {
  // Not `text += …`: each step would copy the text, and memory is never freed.
  const units = heap.alloc(<usize>(to - from) << 1);
  let length: usize = 0;
  for (let at = from + 1; at < to - 1; at++) {
    let code = json.charCodeAt(at);
    if (code == BACKSLASH) {
      code = json.charCodeAt(++at);
      const place = "bfnrt".indexOf(String.fromCharCode(code));
      if (place >= 0) {
        code = "\b\f\n\r\t".charCodeAt(place);
      } else if (code == 0x75) {
        code = <i32>parseInt(json.substr(at + 1, 4), 16);
        at += 4;
      }
    }
    store<u16>(units + (length++ << 1), <u16>code);
  }
  return String.UTF16.decodeUnsafe(units, length << 1);
}

/** The text of a string member of an object; null if it has none of that name, or of another type. */
export function stringMember(json: string, name: string): string | null {
  let depth = 0;
  let found: string | null = null;
  for (let at = 0; at < json.length;) {
    const code = json.charCodeAt(at);
    if (code == QUOTE) {
      const end = stringEnd(json, at);
      let next = end;
      while (next < json.length && json.charCodeAt(next) <= 0x20) next++;
      if (depth == 1 && json.charCodeAt(next) == 0x3a && unquote(json, at, end) == name) {
        next++;
        while (next < json.length && json.charCodeAt(next) <= 0x20) next++;
        // The last one counts, as for the host.
        found = json.charCodeAt(next) == QUOTE ? unquote(json, next, stringEnd(json, next)) : null;
      }
      at = end;
      continue;
    }
    if (code == 0x7b || code == 0x5b) depth++;
    if (code == 0x7d || code == 0x5d) depth--;
    at++;
  }
  return found;
}
