// A small agent for OpenAI's Chat Completions API. Needs only Node 22.18 (or 22.6 with `--experimental-strip-types`)
// and `host`.
//
//     node agent.ts "What is in notes.txt?" --plugins ./plugins --allow-path .
//
// Arguments after the task are passed to `host`. Each turn is one `host batch`, which has no session and no prompts:
// flags and the configuration determine what the tools may do.
import { spawnSync } from "node:child_process";

type Message = { role: string; content?: unknown; tool_calls?: unknown[] };

const baseUrl = process.env.BASE_URL ?? "https://api.openai.com/v1";
const model = process.env.MODEL ?? "gpt-5";
const program = process.env.HOST_PROGRAM ?? "host";
const maxTurns = 50;

async function askModel(messages: Message[], tools: unknown): Promise<Message> {
  const response = await fetch(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${process.env.API_KEY ?? ""}` },
    body: JSON.stringify({ model, messages, tools }),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  const body = (await response.json()) as { choices: { message: Message }[] };
  return body.choices[0].message;
}

/** Runs `host` and parses its output; exit code 1 means that a tool failed, which is reported to the model. */
function host(args: string[], input = ""): unknown {
  const ended = spawnSync(program, args, {
    input,
    encoding: "utf8",
    maxBuffer: 256 * 1024 * 1024,
    stdio: ["pipe", "pipe", "inherit"],
  });
  if (ended.error) throw ended.error;
  if (ended.status !== 0 && ended.status !== 1) throw new Error(`host ended with ${ended.status}`);
  return JSON.parse(ended.stdout);
}

async function main(task: string, flags: string[]): Promise<void> {
  const tools = host(["tools", "--format", "openai", "--strict", ...flags]);
  const messages: Message[] = [{ role: "user", content: task }];
  for (let turn = 0; turn < maxTurns; turn += 1) {
    const message = await askModel(messages, tools);
    messages.push(message);
    if (message.content) console.log(message.content);
    if (!message.tool_calls?.length) return;
    const results = host(["batch", "--format", "openai", ...flags], JSON.stringify(message));
    messages.push(...(results as Message[]));
  }
}

const [task, ...flags] = process.argv.slice(2);
if (!task) throw new Error("usage: agent.ts TASK [FLAGS of host]");
await main(task, flags);
