"""A session with the Python SDK 2.x, printed as JSON. A session is defined in mcp_third_party_clients.rs."""

import asyncio
import json
import os
import sys

import httpx2
import mcp.types as types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

ERA, KIND, *TARGET = sys.argv[1:]
CALLS = json.loads(os.environ["CALLS"])
ANSWER = json.loads(os.environ["ANSWER"])
MODE = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}[ERA]
asked = []


async def fill_in(_context, params):
    asked.append({"message": params.message, "schema": params.requested_schema})
    return types.ElicitResult(**ANSWER)


async def session(target):
    async with Client(target, mode=MODE, elicitation_callback=fill_in) as client:
        tools = (await client.list_tools()).tools
        results = []
        for name, arguments in CALLS:
            try:
                result = await client.call_tool(name, arguments)
                results.append({
                    "text": "".join(getattr(part, "text", "") for part in result.content),
                    "isError": bool(result.is_error),
                    "structured": result.structured_content,
                })
            except Exception as error:
                results.append({"refused": str(error)})
        print(json.dumps({
            "version": client.protocol_version,
            "tools": [tool.name for tool in tools],
            "results": results,
            "asked": asked,
        }))


async def main():
    if KIND == "stdio":
        await session(StdioServerParameters(command=TARGET[0], args=TARGET[1:], env=dict(os.environ)))
    else:
        headers = {"Authorization": f"Bearer {TARGET[1]}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            await session(streamable_http_client(TARGET[0], http_client=http))


asyncio.run(main())
