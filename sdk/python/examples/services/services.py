"""Tools that use all host services, and hooks that guard one of them."""

import toolhost
from toolhost import services
from postcard import postcard_py
from values import values_py


def code_of(function, *arguments, **more):
    """The code of the error that the function raises."""
    try:
        function(*arguments, **more)
    except toolhost.ToolError as error:
        return error.failure.code
    return None


def host(cx):
    cx.output("some output\n")
    cx.emit("sample", {"language": "py"})
    return {}


def session(cx):
    services.remember("sent", {"letters": 1})
    recalled = services.recall("sent")
    services.forget("sent")
    # A lone surrogate, for example of a file name, has no UTF-8 and becomes U+FFFD.
    services.remember("\udcff", "\udcff")
    services.record_observation("/workspace/a.txt", "0" * 64, lines=(1, 2))
    seen = services.last_observation("/workspace/a.txt")
    return {
        "recalled": recalled,
        "forgotten": services.recall("sent"),
        "repaired": services.recall("\ufffd"),
        "seen": {"path": seen.path, "sha256": seen.sha256, "lines": seen.lines},
        "unseen": services.last_observation("/workspace/b.txt"),
    }


def run(cx, command):
    ended = services.run_program("bash", ["-c", command], timeout_ms=20_000)
    return {
        "stdout": ended.stdout.decode(),
        "kind": ended.exit_status.kind,
        "code": ended.exit_status.code,
        "refused": code_of(services.run_program, "ls"),
    }


# The host compares command, terminal and typed text with the input of the call, which the user has approved.
def start(cx, command, tty):
    job = services.start_program("bash", ["-c", command], tty=tty, label="a sample")
    return {"id": job.id, "state": job.state, "label": job.label}


def write(cx, task_id, chars):
    services.write_job(task_id, chars.encode())
    return {}


def jobs(cx, task_id):
    label = next(job.label for job in services.jobs() if job.id == task_id)
    output, after = "", 0
    while "got " not in output:
        chunk = services.read_job(task_id, after=after, max=1000, wait_ms=1000)
        output, after = output + chunk.bytes.decode(), chunk.next
    killed = services.kill_job(task_id).id
    return {"label": label, "output": output[output.index("got ") :].strip(), "killed": killed}


def user(cx):
    answers = services.ask_user([{"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]}])
    granted = services.request_permissions({"reason": "a sample", "write": ["a.txt"], "scope": "turn"})
    return {"answers": answers, "granted": granted["write"], "mode": services.change_mode("plan", "a sample")}


def agents(cx):
    names = [agent.name for agent in services.agents()]
    return {"names": names, "text": services.run_agent({"agent": "echo", "text": "hello"})["text"]}


def tools(cx):
    return {
        "visible": any(tool.name == "echo_py" for tool in services.tools()),
        "text": services.call_tool("echo_py", {"text": "hello"}).llm[0].text,
        "refused": code_of(services.call_tool, "other", {}),
    }


def background(cx):
    started = services.start_tool("echo_py", {"text": "hello"}, timeout_ms=20_000)
    ended = None
    while ended is None:
        ended = services.wait_tool(started.id, 1000)
    listed = any(call.id == started.id for call in services.running_tools())
    endless = services.start_tool("echo_py", {"text": "wait"})
    waiting = services.wait_tool(endless.id, 0)
    stopped = services.stop_tool(endless.id).id == endless.id
    code = None
    while code is None:
        code = code_of(services.wait_tool, endless.id, 1000)
    return {
        "tool": started.tool,
        "text": ended.llm[0].text,
        "listed": listed,
        "waiting": waiting,
        "stopped": stopped,
        "code": code,
    }


def resources(cx):
    first = services.resources()[0]
    text = services.read_resource(first["uri"], first["server"])[0].text
    absent = code_of(services.read_resource, "note://absent")
    return {"uri": first["uri"], "server": first["server"], "text": text, "absent": absent}


def denied(cx):
    services.run_program("ls")


def absent(cx):
    services.read_resource("note://absent")


PARTS = {
    part.__name__: part
    for part in (host, session, run, start, write, jobs, user, agents, tools, background, resources, denied, absent)
}


@toolhost.tool(
    input={
        "part": {"type": "string", "enum": list(PARTS), "description": "The service."},
        "command": {"type": "string", "description": "The command of run and start."},
        "tty": {"type": "boolean", "description": "Whether start uses a terminal."},
        "task_id": {"type": "string", "description": "The job of write and jobs."},
        "chars": {"type": "string", "description": "The input of write."},
    },
    optional=("command", "tty", "task_id", "chars"),
    kind="execute",
    destructive=True,
    requires=("session", "user", "agents", "tools", "resources", "process", "fs.read", "fs.write"),
)
def services_py(cx, part, **more):
    """Use one of the host services."""
    return PARTS[part](cx, **more)


async def never():
    """A coroutine is no decision."""


def validate(text):
    return never() if text == "unchecked" else None


@toolhost.tool(
    input={"text": {"type": "string", "description": "The text."}},
    read_only=True,
    pure=True,
    can_background=True,
    hooks=("pre-tool-use", "post-tool-use"),
    validate=validate,
)
def echo_py(cx, text):
    """Return a text."""
    if text == "fail":
        raise toolhost.Failed("it failed", code="sample")
    while text == "wait":
        cx.check()
    return text


def before(call):
    # Only where the operator configured this plugin as a hook for `services_py`.
    if call.input.get("command") == "answered":
        return toolhost.answer(toolhost.outcome("an answer"))
    text = call.input.get("text")
    if text == "forbidden":
        return toolhost.deny("the text is forbidden", outcome=toolhost.outcome(f"{call.tool} refuses it"))
    if text == "risky":
        return toolhost.ask(f"the text is risky ({call.facts['effect']})", meta={"risk": "high"})
    if text == "typo":
        return toolhost.change_input({"text": "type"})
    if text == "invalid":
        return False
    return None


def after(call, outcome):
    if outcome.error:
        return toolhost.update(text=f"after {outcome.error.code}")
    text = outcome.llm[0].text
    if text == "secret":
        return toolhost.update(text="[removed]", summary="one word", meta={"removed": 1})
    if text == "lost":
        return never()
    if text == "other":
        return toolhost.outcome("another outcome", structured={"replaced": True})
    return None


Tool = toolhost.export(services_py, echo_py, postcard_py, values_py)
Preview = toolhost.export_previews(echo_py, postcard_py, values_py)
Hooks = toolhost.export_hooks(before=before, after=after)
