// A tool that describes its calls: what they do, which file they read, and whether the user must approve.

import { display, exportPreviews, exportTools, reads, ToolError } from "toolhost";

export const postcard = {
  name: "postcard_js",
  description: "Write a postcard.",
  input: {
    to: { type: "string", description: "The addressee." },
    text: { type: "string", description: "At most 200 characters." },
  },
  category: "data",
  kind: "other",
  readOnly: true,
  pure: true,
  // This sample only returns the text. A real tool would read the file of `locations`.
  run: ({ to, text }) => `Dear ${to}, ${text}`,

  validate({ text }) {
    if (text.length > 200) {
      throw ToolError.invalidInput("the text does not fit on a postcard", { recommendations: ["use 200 characters"] });
    }
  },
  describeCall: ({ to }) => `Write a postcard to ${to}`,
  locations: ({ to }) => [reads(`addresses/${to}.txt`)],
  confirm: ({ to }) => (to === "Mars" ? "the price is not known in advance" : null),
  renderPermission: ({ to, text }) => [display("table", { data: { columns: ["to", "text"], rows: [[to, text]] } })],
  renderResult: ({ to }, outcome) => [display("text", { text: `To ${to}: ${outcome.llm[0].text}` })],
};

export const tool = exportTools(postcard);
export const preview = exportPreviews(postcard);
