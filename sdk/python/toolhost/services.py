"""Host services for Python plugins: session state, programs, questions to the user, sub-agents, other tools, resources.

Each needs the capability of that name in the plugin's manifest and in `requires` of the tool. For the worlds
`plugin-with-services` and `complete`. A failure is raised as a `toolhost.ToolError`; `error.failure.code` tells why.
Records have the members of the WIT, with `_` for `-`.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from componentize_py_types import Err
from wit_world.imports import agents as _agents
from wit_world.imports import process as _process
from wit_world.imports import resources as _resources
from wit_world.imports import session as _session
from wit_world.imports import tools as _tools
from wit_world.imports import user as _user

import toolhost
from toolhost import _json, _list, _optional, _text

# Session state: capability `session`. Values are stored only if the result of the call is accepted.


def recall(key: str) -> Any:
    """The value that this plugin last stored under `key` in this session, or None."""
    text = _done(_session.get, key)
    return None if text is None else json.loads(text)


def remember(key: str, value: Any) -> None:
    _done(_session.set, key, _json(value))


def forget(key: str) -> None:
    _done(_session.set, key, None)


def record_observation(path: str, sha256: str, lines: tuple[int, int] | None = None) -> None:
    """Records that the agent was shown this file or has written it. `lines` is (first, last), or None for all lines."""
    lines = None if lines is None else tuple(lines)
    _done(_session.record_observation, _session.FileObservation(_text(path), _text(sha256), lines))


def last_observation(path: str) -> _session.FileObservation | None:
    """The last recorded version of this file, from any plugin, or None."""
    return _done(_session.last_observation, path)


# Programs: capability `process`.


def run_program(program: str, arguments: Iterable[str] = (), **options: Any) -> Any:
    """Runs a program to completion; its output is streamed.

    `options` are `cwd`, `environment` (a dictionary), `stdin` (bytes), `timeout_ms`, `inactivity_timeout_ms`, `tty` and
    `label`.
    """
    return _done(_process.run, _command(program, arguments, **options))


def start_program(program: str, arguments: Iterable[str] = (), **options: Any) -> Any:
    """Starts a program as a job and returns without waiting for it."""
    return _done(_process.start, _command(program, arguments, **options))


def jobs() -> list[Any]:
    """The programs started in this session."""
    return _done(_process.jobs)


def read_job(id: str, *, after: float = 0, max: int = 65536, wait_ms: int = 0) -> Any:
    """Output of a job after the byte offset `after`; waits up to `wait_ms` if there is none."""
    return _done(_process.read, id, float(after), max, wait_ms)


def write_job(id: str, data: bytes) -> None:
    """Writes bytes to the standard input of a job."""
    _done(_process.write, id, bytes(data))


def kill_job(id: str, signal: str = "TERM") -> None:
    """`signal` is `TERM`, `INT`, `HUP`, `QUIT`, `USR1`, `USR2` or `KILL`."""
    return _done(_process.kill, id, signal)


# The user: capability `user`.


def ask_user(questions: Any) -> Any:
    """Asks up to four questions, in the format of `user.ask` in the WIT; returns the answers in the same order."""
    return json.loads(_done(_user.ask, _json(questions)))


def change_mode(to: str, reason: str) -> str:
    """Requests another permission mode; returns the resulting one."""
    return _done(_user.change_mode, to, reason)


def request_permissions(request: Any) -> Any:
    """Requests permissions, in the format of the WIT; returns those that were granted."""
    return json.loads(_done(_user.request_permissions, _json(request)))


# Sub-agents: capability `agents`.


def agents() -> list[Any]:
    return _done(_agents.agents)


def run_agent(task: Mapping[str, Any]) -> Any:
    """Delegates a task: takes {"agent", "prompt", …} and returns {"text", …}."""
    return json.loads(_done(_agents.run, _json(task)))


# Other tools: capability `tools`. Each call is authorized like any other, with this one as its parent.


def tools() -> list[Any]:
    """The tools that are visible to this call; `input_schema` is JSON text."""
    return _done(_tools.tools)


def call_tool(tool: str, input: Mapping[str, Any]) -> Any:
    """Calls a tool and returns its outcome; an error of the call is raised."""
    return _done(_tools.call, tool, _json(input))


def start_tool(tool: str, input: Mapping[str, Any], timeout_ms: int | None = None) -> Any:
    """Starts a call that continues after this one."""
    return _done(_tools.start, tool, _json(input), timeout_ms)


def running_tools() -> list[Any]:
    return _done(_tools.running)


def wait_tool(id: str, wait_ms: int) -> Any:
    """Waits up to `wait_ms` for the end of a started call; returns its outcome, or None while it is running."""
    ended = _done(_tools.wait, id, wait_ms)
    if isinstance(ended, Err):
        raise toolhost.error_of(ended.value)
    return None if ended is None else ended.value


def stop_tool(id: str) -> Any:
    return _done(_tools.stop, id)


# Resources of MCP servers: capability `resources`.


def resources(server: str | None = None) -> Any:
    """Lists resources of one server, or of all: [{"uri", "name", "server", …}]."""
    return json.loads(_done(_resources.resources, server))


def read_resource(uri: str, server: str | None = None) -> list[Any]:
    """Reads a resource of one server, or of the first that has it; returns content parts."""
    return _done(_resources.read, uri, server)


def _done(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*(_text(value) if isinstance(value, str) else value for value in arguments))
    except Err as error:
        raise toolhost.error_of(error.value) from None


def _command(
    program: str,
    arguments: Iterable[str],
    *,
    cwd: str | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout_ms: int | None = None,
    inactivity_timeout_ms: int | None = None,
    tty: bool = False,
    label: str | None = None,
) -> _process.Command:
    return _process.Command(
        program=_text(program),
        arguments=[_text(argument) for argument in _list("the arguments of a program", arguments)],
        cwd=_optional(cwd),
        environment=[(_text(name), _text(value)) for name, value in (environment or {}).items()],
        stdin=stdin,
        timeout_ms=timeout_ms,
        inactivity_timeout_ms=inactivity_timeout_ms,
        tty=tty,
        label=_text(program if label is None else label),
    )
