// A plugin with one tool, to copy from.

import { exportTools, outcome, ToolError } from "toolhost";

const wordCount = {
  name: "word_count_js",
  description: "Count the words of a text, separated by white space.",
  input: { text: { type: "string", description: "The text whose words are counted." } },
  output: { type: "object", properties: { words: { type: "integer" } }, required: ["words"] },
  examples: [["three words", { text: "a b c" }]],
  category: "data",
  kind: "read",
  readOnly: true,
  pure: true,
  run({ text }, cx) {
    if (text === "") {
      throw ToolError.invalidInput("text is empty", { recommendations: ["pass a text with at least one character"] });
    }
    cx.check();
    cx.log(`counting within ${cx.remainingMs().toFixed()} ms`);
    const words = text.split(/\s+/).filter((word) => word !== "").length;
    cx.progress("counted", 1, 1);
    return outcome(`${words} words`, { structured: { words } });
  },
};

export const tool = exportTools(wordCount);
