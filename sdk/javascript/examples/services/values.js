// Tools with results of other types than objects, with numbers that JavaScript would change, and with mistakes that the
// SDK has to report.

import { changeInput, ToolError } from "toolhost";
import * as services from "toolhost/services";

const results = {
  text: () => "hello",
  nothing: () => undefined,
  advice() {
    throw ToolError.failed("no", { recommendations: "one text" });
  },
  arguments: () => services.runProgram("bash", "-c true"),
  unclear: () => "hello",
};

export const values = {
  name: "values_js",
  description: "Return a value.",
  input: { result: { type: "string", enum: Object.keys(results), description: "The value." } },
  output: { type: ["string", "null"] },
  readOnly: true,
  pure: true,
  run: ({ result }) => results[result](),
  describeCall: ({ result }) => (result === "unclear" ? 5 : `random ${Math.random()}`),
  confirm: ({ result }) => (result === "unclear" ? true : null),
};

export const numbers = {
  name: "numbers_js",
  description: "Return the input, of which a hook has changed the text.",
  input: {
    id: { type: "integer", description: "Of up to 64 bits." },
    ratio: { type: "number", description: "A share." },
    text: { type: "string", description: "A text." },
  },
  readOnly: true,
  pure: true,
  hooks: ["pre-tool-use"],
  run: ({ id, ratio, text }) => ({ id, ratio, text, next: typeof id === "bigint" ? id + 1n : id + 1 }),
};

export function changeText({ tool, input }) {
  if (tool !== numbers.name || input.text !== "typo") return undefined;
  return changeInput({ ...input, text: `type ${Math.random()}` });
}
