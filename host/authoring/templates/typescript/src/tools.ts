// The tools of the plugin `@NAME@`.

import { exportTools } from "toolhost";

import { countWords } from "./words";

export const tool = exportTools({
  name: "@TOOL@",
  description: "Count the words of a text, separated by white space.",
  input: { text: { type: "string", description: "The text whose words are counted." } },
  output: {
    type: "object",
    properties: { words: { type: "integer", description: "Number of words." } },
    required: ["words"],
  },
  examples: [["a sentence of six words", { text: "to be or not to be" }]],
  category: "data",
  readOnly: true,
  pure: true,
  run: (input) => ({ words: countWords(input.text as string) }),
});
