"""A small agent for Anthropic's Messages API. Needs only Python 3.9 and `host`.

    python3 agent.py "What is in notes.txt?" --plugins ./plugins --allow-path .

Arguments after the task are passed to `host`. One `host turns` process serves the whole conversation, so its state
(files read, approvals, background tasks) persists across turns.
"""
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

BASE_URL = os.environ.get("BASE_URL", "https://api.anthropic.com")
MODEL = os.environ.get("MODEL", "claude-sonnet-4-5")
HOST = os.environ.get("HOST_PROGRAM", "host")
MAX_TURNS = 50


def ask_model(messages, tools):
    body = {"model": MODEL, "max_tokens": 8192, "messages": messages, "tools": tools}
    headers = {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
        "x-api-key": os.environ.get("API_KEY", ""),
    }
    request = urllib.request.Request(f"{BASE_URL}/v1/messages", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=600) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        sys.exit(f"the model's API answers {error.code}: {error.read().decode(errors='replace')}")


def ask_person(question):
    """Approves this call only, or denies it."""
    print(f"{question['tool']}: {question['reason']}\n{json.dumps(question['input'])}", file=sys.stderr)
    if not sys.stdin.isatty():
        return {"id": question["id"], "deny": "no user is available"}
    if input("allow it? [y/N] ").strip().lower() == "y":
        return {"id": question["id"], "allow": 0}
    return {"id": question["id"], "deny": True}


def run_tools(host, turn):
    """Sends a turn to `host` and answers its questions until all results have arrived."""
    line = {"turn": turn}
    while True:
        print(json.dumps(line), file=host.stdin, flush=True)
        output = json.loads(host.stdout.readline() or '{"error": "host has ended"}')
        if "results" in output:
            return output["results"]
        if "ask" in output:
            line = {"answer": ask_person(output["ask"])}
        elif "interview" in output:
            line = {"answer": {"id": output["interview"]["id"], "replies": None}}
        else:
            sys.exit(output["error"])


def main(task, flags):
    tools = json.loads(subprocess.check_output([HOST, "tools", "--format", "anthropic", *flags]))
    command = [HOST, "turns", "--format", "anthropic", *flags]
    messages = [{"role": "user", "content": task}]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as host:
        for _ in range(MAX_TURNS):
            turn = ask_model(messages, tools)
            messages.append({"role": "assistant", "content": turn["content"]})
            print("".join(block["text"] for block in turn["content"] if block["type"] == "text"))
            results = run_tools(host, turn)
            if not results["content"]:
                return
            messages.append(results)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: agent.py TASK [FLAGS of host]")
    main(sys.argv[1], sys.argv[2:])
