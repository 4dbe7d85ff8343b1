"""What a Python plugin author imports: one decorator, one `export`, and errors that the host can tell apart.

It stands between an ordinary function and the world `toolhost:plugin/plugin`: it fills in everything optional of
a descriptor, parses the input, routes a call by the tool's name, and turns what is raised into a `tool-error`. An
exception that leaves the component would kill the instance and lose its text, so none does.
"""

import inspect
import json
import traceback

# `componentize-py` makes this package out of the WIT; `componentize-py bindings` writes it for editors and tests.
from componentize_py_types import Err
from wit_world.imports import host, types


class ToolError(Exception):
    """A call that could not be done. Raise one of the six kinds below; any other exception becomes `Failed`."""

    variant = types.ToolError_Failed

    def __init__(self, message, *, code=None, recommendations=(), retryable=False, cause=None):
        super().__init__(message)
        self.failure = failure(
            message, code=code, recommendations=recommendations, retryable=retryable, cause=cause
        )


class InvalidInput(ToolError):
    """The input fits the schema and still makes no sense."""

    variant = types.ToolError_InvalidInput


class NotFound(ToolError):
    """A thing that the input names does not exist."""

    variant = types.ToolError_NotFound


class Denied(ToolError):
    """The sandbox or the operating system said no."""

    variant = types.ToolError_Denied


class Interrupted(ToolError):
    """The call noticed that it was cancelled, or ran out of time, and stopped."""

    variant = types.ToolError_Interrupted


class Unavailable(ToolError):
    """Something that the tool needs is not there just now."""

    variant = types.ToolError_Unavailable


class Failed(ToolError):
    """Anything else."""


class Context:
    """What a running call knows and may say; the first argument of every tool."""

    def __init__(self, request):
        self.call_id = request.call_id
        #: The record `context` of the WIT: agent_id, session_id, mode, roots …
        self.caller = request.context

    def log(self, message, level="info"):
        host.log(level, _text(message))

    def progress(self, message=None, done=None, total=None):
        done, total = (None if value is None else float(value) for value in (done, total))
        host.progress(host.ProgressUpdate(_optional(message), done, total))

    def output(self, data, stream="stdout"):
        """Shows a piece of output while the call runs."""
        host.output(stream, _text(data).encode() if isinstance(data, str) else bytes(data))

    def emit(self, event, data):
        host.emit(event, _json(data))

    def cancelled(self):
        return host.cancelled()

    def remaining_ms(self):
        return host.remaining_ms()

    def check(self):
        """Raises `Interrupted` when it is time to stop. Worth a line in every long loop."""
        if self.cancelled():
            raise Interrupted("the call was cancelled", code="cancelled")
        if self.remaining_ms() <= 0:
            raise Interrupted("the call ran out of time", code="timeout")


def tool(*, input, optional=(), name=None, output=None, requires=(), examples=(), **rest):
    """Makes a function `f(cx, **input)` a tool: its name and docstring are what a model sees.

    `input` maps each parameter to its JSON Schema. A parameter is required unless its schema has a `default` or
    it is named in `optional`. `output` is the JSON Schema of the structured result, `examples` a list of
    (description, input) pairs. Every other word is a member of `annotations` (`read_only`, `pure`, `destructive`,
    `idempotent`, `open_world`, `interactive`) or of `descriptor` in the WIT, with `_` for `-`.
    """

    def decorate(function):
        hints = {hint: rest.pop(hint, None) for hint in types.Annotations.__annotations__}
        schema = {
            "type": "object",
            "properties": input,
            "required": [key for key, value in input.items() if key not in optional and "default" not in value],
            "additionalProperties": False,
        }
        members = {
            "name": name or function.__name__,
            "description": inspect.cleandoc(function.__doc__ or ""),
            "input_schema": _json(schema),
            "output_schema": None if output is None else _json(output),
            "annotations": types.Annotations(**hints),
            "requires": list(requires),
            "examples": [types.Example(description, _json(value)) for description, value in examples],
            **{key: list(value) if isinstance(value, tuple) else value for key, value in rest.items()},
        }
        if isinstance(members.get("extra"), dict):
            members["extra"] = _json(members["extra"])
        unknown = members.keys() - types.Descriptor.__annotations__.keys()
        if unknown:
            raise TypeError(f"unknown word {sorted(unknown)[0]!r} in @tool of {function.__name__!r}")
        if not members["description"]:
            raise TypeError(f"the tool {function.__name__!r} has no docstring, which is what a model reads")
        empty = {"aliases": [], "tags": [], "depends_on": [], "hooks": []}
        flags = {"can_stream": False, "can_modify": False, "can_background": False}
        absent = dict.fromkeys(types.Descriptor.__annotations__)
        function.descriptor = types.Descriptor(**{**absent, **empty, **flags, **members})
        # The host fills defaults in; doing it here as well keeps a direct call in a unit test honest.
        function.defaults = {key: value["default"] for key, value in input.items() if "default" in value}
        return function

    return decorate


def export(*functions):
    """The class that the world asks for. Write `Tool = toolhost.export(…)` at the end of the plugin's module."""
    tools = {function.descriptor.name: function for function in functions}

    class Tool:
        def describe(self, environment):
            return [function.descriptor for function in tools.values()]

        def call(self, request):
            try:
                function = tools.get(request.tool)
                if function is None:
                    raise NotFound(f"this plugin has no tool {request.tool!r}", code="tool_not_found")
                arguments = {**function.defaults, **json.loads(request.input)}
                return _outcome_of(function(Context(request), **arguments))
            except (Exception, SystemExit) as error:
                raise Err(_tool_error(error)) from None

    return Tool


def outcome(
    text=None, *, structured=None, summary=None, llm=(), display=None, error=None, truncated=None, tail=None, meta=None
):
    """The record `outcome` of the WIT. `text` is the first part for the model; without any, it sees `structured`."""
    parts = ([] if text is None else [part("text", text=text)]) + list(llm)
    return types.Outcome(
        summary=_optional(summary),
        llm=parts,
        structured=None if structured is None else _json(structured),
        display=display,
        error=error,
        truncated=truncated,
        tail=tail,
        meta=None if meta is None else _json(meta),
    )


def part(kind, *, text=None, data=None, media_type=None, uri=None, name=None):
    """A piece of content for the model: `text`, `json`, `image`, `audio`, `file` or `resource-link`."""
    return types.Part(kind, _optional(text), data, media_type, uri, name)


def display(kind, *, text=None, diff=None, data=None):
    """What people see: `none`, `text`, `markdown`, `ansi`, `diff`, `table`, `todo-list` …"""
    return types.Display(kind, _optional(text), diff, None if data is None else _json(data))


def failure(message, *, code=None, recommendations=(), retryable=False, cause=None):
    """Why something did not work; as `outcome(error=…)` it says that a call ran, and the answer is no."""
    return types.Failure(code, _text(message), list(recommendations), retryable, _optional(cause))


def _outcome_of(value):
    if isinstance(value, types.Outcome):
        return value
    if value is None or isinstance(value, str):
        return outcome(value)
    return outcome(structured=value)


def _tool_error(error):
    if isinstance(error, ToolError):
        return error.variant(error.failure)
    kind, code = Failed, "internal_error"
    for known, its_kind, its_code in (
        (FileNotFoundError, NotFound, "file_not_found"),
        (PermissionError, Denied, "permission_denied"),
        (IsADirectoryError, InvalidInput, "target_is_directory"),
        (OSError, Failed, "io_error"),
    ):
        if isinstance(error, known):
            kind, code = its_kind, its_code
            break
    message = f"{type(error).__name__}: {error}"
    # The place is for the author, who otherwise has no trace of what happened inside the sandbox.
    return kind.variant(failure(message, code=code, cause="".join(traceback.format_tb(error.__traceback__)[-3:])))


def _json(value):
    return _text(json.dumps(value, ensure_ascii=False, allow_nan=False))


def _text(value):
    # The boundary carries UTF-8. Python's strings may hold lone surrogates (a file name that is no UTF-8).
    return str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _optional(value):
    return None if value is None else _text(value)
