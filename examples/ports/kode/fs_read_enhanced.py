"""`fs_read_enhanced` of Kode-SDK as a plugin: `metadata` becomes words of the decorator, `hooks` guard its own calls."""

import base64
import json

import toolhost

#: Characters of content that are returned in full, and of longer content.
MOST = 1_000_000
SHORTENED = 1_000


@toolhost.tool(
    input={
        "path": {"type": "string", "description": "Path of the file."},
        "encoding": {
            "type": "string",
            "enum": ["utf8", "base64"],
            "default": "utf8",
            "description": "How the content is returned.",
        },
    },
    output={"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]},
    category="file",
    kind="read",
    version="1.0.0",
    tags=["filesystem", "read"],
    timeout_ms=30_000,
    concurrency="parallel",
    read_only=True,
    requires=["fs.read"],
    hooks=["pre-tool-use", "post-tool-use"],
)
def fs_read_enhanced(cx, path, encoding):
    """Read the content of a file, as text or as base64."""
    with open(path, "rb") as file:
        content = file.read()
    if encoding == "base64":
        return {"content": base64.b64encode(content).decode()}
    try:
        return {"content": content.decode()}
    except UnicodeDecodeError as error:
        raise toolhost.InvalidInput(
            f"{path} is not UTF-8 text", code="not_utf8", recommendations=["set encoding to base64"]
        ) from error


def before(call):
    if call.input["path"].startswith("/etc/"):
        return toolhost.ask("it reads a system file", meta={"risk": "high"})
    return None


def after(call, outcome):
    if outcome.structured is None:  # The call failed.
        return None
    content = json.loads(outcome.structured)["content"]
    if len(content) <= MOST:
        return None
    return toolhost.update(structured={"content": content[:SHORTENED] + "...(truncated)"})


Tool = toolhost.export(fs_read_enhanced)
Hooks = toolhost.export_hooks(before=before, after=after)
