// A custom tool of Pegasus as a plugin: `execute` becomes `run`, and the host creates the result envelope.

import { exportTools, ToolError } from "toolhost";
import type { Context, Tool } from "toolhost";

interface Params {
  input: string;
  optional?: number;
}

const myCustomTool: Tool<Params> = {
  name: "my_custom_tool",
  description: "Turn a title into a name for a file.",
  category: "custom",
  input: {
    input: { type: "string", description: "The title." },
    optional: { type: "integer", minimum: 1, description: "Maximum length of the name." },
  },
  optional: ["optional"],
  output: {
    type: "object",
    properties: { name: { type: "string" }, taskId: { type: "string" } },
    required: ["name", "taskId"],
  },
  readOnly: true,
  pure: true,

  run({ input, optional }, cx: Context) {
    const words = input.toLowerCase().match(/[a-z0-9]+/g);
    if (!words) {
      throw ToolError.invalidInput("`input` has no letters or digits", { code: "no_words" });
    }
    const name = words.join("-").slice(0, optional).replace(/-$/, "");
    return { name, taskId: cx.caller.taskId };
  },
};

export const tool = exportTools(myCustomTool);
