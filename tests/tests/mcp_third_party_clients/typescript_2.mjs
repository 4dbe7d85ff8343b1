// A session with the TypeScript client 2.x, printed as JSON. A session is defined in mcp_third_party_clients.rs.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [era, kind, ...target] = process.argv.slice(2);
const mode = { legacy: "legacy", auto: "auto", modern: { pin: "2026-07-28" } }[era];
const asked = [];
const transport =
  kind === "stdio"
    ? new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env, stderr: "inherit" })
    : new StreamableHTTPClientTransport(new URL(target[0]), {
        requestInit: { headers: { Authorization: `Bearer ${target[1]}` } },
      });
const client = new Client(
  { name: "typescript-2", version: "0" },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
);
client.setRequestHandler("elicitation/create", async ({ params }) => {
  asked.push({ message: params.message, schema: params.requestedSchema });
  return JSON.parse(process.env.ANSWER);
});
await client.connect(transport);
const { tools } = await client.listTools();
const results = [];
for (const [name, args] of JSON.parse(process.env.CALLS)) {
  try {
    const result = await client.callTool({ name, arguments: args });
    results.push({
      text: result.content.map((part) => part.text ?? "").join(""),
      isError: Boolean(result.isError),
      structured: result.structuredContent ?? null,
    });
  } catch (error) {
    results.push({ refused: String(error.message) });
  }
}
const version = client.getNegotiatedProtocolVersion();
console.log(JSON.stringify({ version, tools: tools.map((tool) => tool.name), results, asked }));
await client.close();
