"""A pydantic-ai agent with a scripted model. A run is defined in mcp_agents.rs."""

import asyncio
import json
import os
import sys

from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

CALLS = json.loads(os.environ["CALLS"])
ANSWER = json.loads(os.environ["ANSWER"])
CANCEL_AFTER = os.environ.get("CANCEL_AFTER")
asked, tools, got = [], [], []


async def fill_in(message, _response_type, _params, _context):
    asked.append(message)
    return ElicitResult(**ANSWER)


def model(messages, info):
    tools[:] = [tool.name for tool in info.function_tools]
    parts = [part for message in messages for part in message.parts]
    results = [part for part in parts if isinstance(part, (ToolReturnPart, RetryPromptPart))]
    got[:] = [
        {"text": part.model_response_str() if isinstance(part, ToolReturnPart) else str(part.content),
         "isError": isinstance(part, RetryPromptPart)}
        for part in results
    ]
    if len(results) < len(CALLS):
        name, arguments = CALLS[len(results)]
        return ModelResponse(parts=[ToolCallPart(name, arguments)])
    return ModelResponse(parts=[TextPart("done")])


async def main():
    command, *args = sys.argv[1:]
    server = MCPToolset(
        StdioTransport(command, args, env=dict(os.environ)),
        elicitation_handler=fill_in,
        max_retries=len(CALLS),
    )
    agent = Agent(FunctionModel(model), toolsets=[server], retries=len(CALLS))
    cancelled = False
    async with server:
        try:
            await asyncio.wait_for(agent.run("go"), float(CANCEL_AFTER) if CANCEL_AFTER else None)
        except TimeoutError:
            cancelled = True
            after = await server.direct_call_tool("current_time", {})
            got.append({"text": str(after), "isError": False})
    print(json.dumps({"tools": tools, "results": got, "asked": asked, "cancelled": cancelled}))


asyncio.run(main())
