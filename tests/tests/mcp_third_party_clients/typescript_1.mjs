// A session with the TypeScript SDK 1.x, printed as JSON. A session is defined in mcp_third_party_clients.rs.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [era, kind, ...target] = process.argv.slice(2);
if (era !== "legacy") throw new Error(`unsupported era ${era}`);
const asked = [];
const transport =
  kind === "stdio"
    ? new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env, stderr: "inherit" })
    : new StreamableHTTPClientTransport(new URL(target[0]), {
        requestInit: { headers: { Authorization: `Bearer ${target[1]}` } },
      });
const client = new Client({ name: "typescript-1", version: "0" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
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
const version = transport.protocolVersion ?? "2025-11-25";
console.log(JSON.stringify({ version, tools: tools.map((tool) => tool.name), results, asked }));
await client.close();
