"""A session with the Python SDK 1.x, printed as JSON. A session is defined in mcp_third_party_clients.rs."""

import asyncio
import json
import os
import sys

import httpx
import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

ERA, KIND, *TARGET = sys.argv[1:]
CALLS = json.loads(os.environ["CALLS"])
ANSWER = json.loads(os.environ["ANSWER"])
asked = []


async def fill_in(_context, params):
    asked.append({"message": params.message, "schema": params.requestedSchema})
    return types.ElicitResult(**ANSWER)


async def session(read, write):
    async with ClientSession(read, write, elicitation_callback=fill_in) as client:
        hello = await client.initialize()
        tools = (await client.list_tools()).tools
        results = []
        for name, arguments in CALLS:
            try:
                result = await client.call_tool(name, arguments)
                results.append({
                    "text": "".join(getattr(part, "text", "") for part in result.content),
                    "isError": bool(result.isError),
                    "structured": result.structuredContent,
                })
            except Exception as error:
                results.append({"refused": str(error)})
        print(json.dumps({
            "version": hello.protocolVersion,
            "tools": [tool.name for tool in tools],
            "results": results,
            "asked": asked,
        }))


async def main():
    if KIND == "stdio":
        server = StdioServerParameters(command=TARGET[0], args=TARGET[1:], env=dict(os.environ))
        async with stdio_client(server) as (read, write):
            await session(read, write)
    else:
        headers = {"Authorization": f"Bearer {TARGET[1]}"}
        async with httpx.AsyncClient(headers=headers, timeout=60) as http:
            async with streamable_http_client(TARGET[0], http_client=http) as (read, write, _):
                await session(read, write)


assert ERA == "legacy"
asyncio.run(main())
