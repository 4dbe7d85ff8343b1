"""Non-interactive Claude Code with a scripted model on loopback. A run is defined in mcp_agents.rs."""

import http.server
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading

CALLS = json.loads(os.environ["CALLS"])
ANSWER = json.loads(os.environ["ANSWER"])
CANCEL_AFTER = os.environ.get("CANCEL_AFTER")
# Without a terminal, a hook answers forms.
HOOK = """
import json, sys
with open(sys.argv[1], "a", encoding="utf-8") as asked:
    print(json.dumps(json.load(sys.stdin)["message"]), file=asked)
print(json.dumps({"hookSpecificOutput": {"hookEventName": "Elicitation", **json.loads(sys.argv[2])}}))
"""
PREFIX = "mcp__host__"
tools, got = [], []


def words(content):
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content if isinstance(part, dict))


def answer(request):
    """Return the content blocks of the model's next message."""
    offered = [tool["name"] for tool in request.get("tools", [])]
    ours = [name.removeprefix(PREFIX) for name in offered if name.startswith(PREFIX)]
    blocks = [
        block
        for message in request["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]
    if not ours:
        return [{"type": "text", "text": "done"}]
    tools[:] = ours
    got[:] = [{"text": words(block.get("content", "")), "isError": bool(block.get("is_error"))} for block in blocks]
    if len(blocks) < len(CALLS):
        name, arguments = CALLS[len(blocks)]
        return [{"type": "tool_use", "id": f"toolu_{len(blocks)}", "name": PREFIX + name, "input": arguments}]
    return [{"type": "text", "text": "done"}]


def events(blocks):
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": message}
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
            return self.send(200, "application/json", b'{"input_tokens": 1}')
        blocks = answer(request)
        if request.get("stream"):
            text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events(blocks))
            return self.send(200, "text/event-stream", text.encode())
        whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": blocks,
                 "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        return self.send(200, "application/json", json.dumps(whole).encode())

    def do_GET(self):
        self.send(404, "application/json", b"{}")

    do_HEAD = do_GET

    def send(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def user(text):
    return {"type": "user", "message": {"role": "user", "content": text}}


def interrupted(words, **options):
    """Interrupt the first call after CANCEL_AFTER seconds and continue with another one."""
    words = [*words, "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options) as claude:
        def send(message):
            claude.stdin.write(json.dumps(message) + "\n")
            claude.stdin.flush()

        send(user("go"))
        ends = []
        for line in claude.stdout:
            message = json.loads(line)
            if message["type"] == "assistant" and not ends and '"tool_use"' in line:
                interrupt = {"type": "control_request", "request_id": "1", "request": {"subtype": "interrupt"}}
                threading.Timer(float(CANCEL_AFTER), send, [interrupt]).start()
            if message["type"] == "result":
                ends.append(message)
                if len(ends) == 2:
                    break
                CALLS.append(["current_time", {}])
                send(user("go on"))
        claude.stdin.close()
        return subprocess.CompletedProcess(words, claude.wait(timeout=120), str(ends), "")


def main():
    claude, command, *args = sys.argv[1:]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        settings = os.path.join(home, "mcp.json")
        names = {name: os.environ[name] for name in os.environ if name.startswith(("TOOLHOST_", "XDG_"))}
        with open(settings, "w", encoding="utf-8") as file:
            json.dump({"mcpServers": {"host": {"command": command, "args": args, "env": names}}}, file)
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": home,
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "0",
            # Wait for the MCP servers before the first turn.
            "MCP_CONNECTION_NONBLOCKING": "false",
            "DISABLE_AUTOUPDATER": "1",
        }
        allowed = sorted({PREFIX + name for name, _ in [*CALLS, ("current_time", {})]})
        asked = os.path.join(home, "asked")
        hook = shlex.join([sys.executable, "-c", HOOK, asked, json.dumps(ANSWER)])
        hooks = {"Elicitation": [{"hooks": [{"type": "command", "command": hook}]}]}
        words = [claude, "-p", "--mcp-config", settings, "--strict-mcp-config", "--allowedTools", ",".join(allowed),
                 "--settings", json.dumps({"hooks": hooks})]
        options = {"env": environment, "cwd": home, "text": True}
        if CANCEL_AFTER:
            ended = interrupted(words, **options)
        else:
            ended = subprocess.run([*words, "go"], stdin=subprocess.DEVNULL, capture_output=True, timeout=240,
                                   check=False, **options)
        questions = []
        if os.path.exists(asked):
            with open(asked, encoding="utf-8") as lines:
                questions = [json.loads(line) for line in lines]
    if len(got) < len(CALLS):
        sys.exit(f"it ended with {ended.returncode} after {len(got)} calls: {ended.stdout} {ended.stderr}")
    results = got[1:] if CANCEL_AFTER else got
    print(json.dumps({"tools": tools, "results": results, "asked": questions, "cancelled": bool(CANCEL_AFTER)}))


main()
