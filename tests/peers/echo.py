"""An MCP server in a few lines, whose tool returns its input: what the pipe and a small interpreter cost."""

import json
import sys

INITIALIZED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "echo", "version": "0"},
}
TOOLS = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}

for line in sys.stdin:
    message = json.loads(line)
    match message["method"]:
        case "initialize":
            result = INITIALIZED
        case "tools/list":
            result = TOOLS
        case "tools/call":
            text = message["params"]["arguments"]["text"]
            result = {"content": [{"type": "text", "text": text}], "isError": False}
        case _:
            continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
