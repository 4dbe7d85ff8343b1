"""Tool calls through langchain-mcp-adapters by a scripted agent. A run is defined in mcp_agents.rs."""

import asyncio
import json
import os
import sys

from langchain_core.tools import ToolException
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.sessions import create_session
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp.types import ElicitResult

CALLS = json.loads(os.environ["CALLS"])
ANSWER = json.loads(os.environ["ANSWER"])
CANCEL_AFTER = os.environ.get("CANCEL_AFTER")
asked, got = [], []


async def fill_in(_mcp_context, params, _context):
    asked.append(params.message)
    return ElicitResult(**ANSWER)


def words(content):
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


async def call(tools, name, arguments):
    """Call a tool and record the content of the tool message, which the model would receive."""
    request = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
    try:
        message = await tools[name].ainvoke(request)
        got.append({"text": words(message.content), "isError": message.status == "error"})
    except ToolException as error:
        got.append({"text": str(error), "isError": True})


async def main():
    command, *args = sys.argv[1:]
    connection = {"transport": "stdio", "command": command, "args": args, "env": dict(os.environ)}
    callbacks = Callbacks(on_elicitation=fill_in)
    from langchain_mcp_adapters.callbacks import CallbackContext

    mcp_callbacks = callbacks.to_mcp_format(context=CallbackContext(server_name="host"))
    cancelled = False
    async with create_session(connection, mcp_callbacks=mcp_callbacks) as session:
        await session.initialize()
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}
        for name, arguments in CALLS:
            try:
                await asyncio.wait_for(call(tools, name, arguments), float(CANCEL_AFTER) if CANCEL_AFTER else None)
            except TimeoutError:
                cancelled = True
                await call(tools, "current_time", {})
    print(json.dumps({"tools": sorted(tools), "results": got, "asked": asked, "cancelled": cancelled}))


asyncio.run(main())
