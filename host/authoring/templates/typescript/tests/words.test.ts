// Run with `npm test`.

import assert from "node:assert";
import { test } from "node:test";

import { countWords } from "../src/words";

test("words are separated by white space", () => {
  assert.equal(countWords("one\ntwo"), 2);
});
