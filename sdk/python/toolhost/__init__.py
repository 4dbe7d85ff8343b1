"""SDK for Python plugins: a decorator, `export`, `export_previews`, `export_hooks`, and errors with kinds for the host.
`toolhost.services` has the host services.

It adapts functions to the world `toolhost:plugin/plugin`: it completes descriptors, parses the input, dispatches calls
by tool name, and converts exceptions to `tool-error`, because an exception that leaves the component would end the
instance and lose its text.
"""

import inspect
import json
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

# `componentize-py` generates this package from the WIT; `componentize-py bindings` writes it for editors and tests.
from componentize_py_types import Err
from wit_world.imports import host, types


class ToolError(Exception):
    """A failed call. Raise one of the six subclasses below; any other exception becomes `Failed`."""

    variant: Any = types.ToolError_Failed
    #: The record `failure` of the WIT.
    failure: types.Failure

    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(message)
        self.failure = failure(message, **more)


class InvalidInput(ToolError):
    """The input matches the schema but is invalid."""

    variant = types.ToolError_InvalidInput


class NotFound(ToolError):
    """Something named by the input does not exist."""

    variant = types.ToolError_NotFound


class Denied(ToolError):
    """The sandbox or the operating system denied access."""

    variant = types.ToolError_Denied


class Interrupted(ToolError):
    """The call was cancelled or ran out of time."""

    variant = types.ToolError_Interrupted


class Unavailable(ToolError):
    """Something the tool needs is currently not available."""

    variant = types.ToolError_Unavailable


class Failed(ToolError):
    """Anything else."""


def error_of(record: Any) -> ToolError:
    """The exception for a record of the WIT: a `tool-error`, or a `failure`, whose code selects the class."""
    for kind in ToolError.__subclasses__():
        if isinstance(record, kind.variant):
            record = record.value
            break
    else:
        kind = _kind_of(record.code or "")
    error = kind(record.message)
    error.failure = record
    return error


# The table is the same in all SDKs: docs/errors.md.
_KINDS = {
    Denied: {
        "service_not_granted",
        "capability_missing",
        "user_denied",
        "policy_violation",
        "program_not_allowed",
        "host_not_allowed",
        "path_not_in_workspace",
        "not_granted",
        "private_address",
        "method_not_allowed",
        "secret_not_allowed",
    },
    Interrupted: {"cancelled", "timeout"},
    Unavailable: {
        "not_configured",
        "no_user",
        "dns_failed",
        "connect_failed",
        "tls_failed",
        "bad_response",
        "rate_limited",
        "network_error",
    },
    InvalidInput: {"bad_request"},
}


def _kind_of(code: str) -> type[ToolError]:
    """The class of an error of a host service, which has only a code."""
    for kind, codes in _KINDS.items():
        if code in codes:
            return kind
    if code.endswith("_not_found"):
        return NotFound
    return InvalidInput if code.startswith("invalid_") else Failed


class Context:
    """The context of a running call; the first argument of every tool."""

    def __init__(self, request: Any) -> None:
        self.call_id: str = request.call_id
        #: The record `context` of the WIT: agent_id, session_id, mode, roots …
        self.caller = request.context

    def log(self, message: str, level: str = "info") -> None:
        host.log(_text(level), _text(message))

    def progress(self, message: str | None = None, done: float | None = None, total: float | None = None) -> None:
        done, total = (None if value is None else float(value) for value in (done, total))
        host.progress(host.ProgressUpdate(_optional(message), done, total))

    def output(self, data: str | bytes, stream: str = "stdout") -> None:
        """Streams output while the call runs."""
        host.output(_text(stream), _text(data).encode() if isinstance(data, str) else bytes(data))

    def emit(self, event: str, data: Any) -> None:
        host.emit(_text(event), _json(data))

    def cancelled(self) -> bool:
        return host.cancelled()

    def remaining_ms(self) -> int:
        return int(host.remaining_ms())

    def check(self) -> None:
        """Raises `Interrupted` if the call should stop. Call it in every long loop."""
        if self.cancelled():
            raise Interrupted("the call was cancelled", code="cancelled")
        if self.remaining_ms() <= 0:
            raise Interrupted("the call ran out of time", code="timeout")


#: A function that `tool` makes a tool; its own type is kept.
Function = TypeVar("Function", bound=Callable[..., Any])

#: The functions of the interface `preview`, which the words of the same names in `tool` set.
PREVIEWS = ("validate", "describe_call", "locations", "confirm", "render_permission", "render_result")


_LISTS = ("aliases", "tags", "depends_on", "sinks", "sources")


def tool(
    *,
    input: Mapping[str, Any],
    optional: Iterable[str] = (),
    name: str | None = None,
    output: Mapping[str, Any] | None = None,
    requires: Iterable[str] = (),
    examples: Iterable[tuple[str, Mapping[str, Any]]] = (),
    hooks: Iterable[str] = (),
    **rest: Any,
) -> Callable[[Function], Function]:
    """Makes a function `f(cx, **input)` a tool. Its name and docstring are shown to models.

    `input` maps each parameter to its JSON Schema. A parameter is required unless its schema has a `default` or
    it is named in `optional`. `output` is the JSON Schema of the structured result, which is also a returned string or
    None then; `examples` is a list of (description, input) pairs. The words of `PREVIEWS` are functions `f(**input)` that
    describe a call; see `export_previews`. Every other word is a member of `annotations` (`read_only`, `pure`,
    `destructive`, `idempotent`, `open_world`, `interactive`) or of `descriptor` in the WIT, with `_` for `-`.
    """
    optional, requires, hooks = _list("optional", optional), _list("requires", requires), _list("hooks", hooks)
    lists = {key: _list(key, rest.pop(key)) for key in _LISTS if key in rest}

    def decorate(function: Any) -> Any:
        hints = {hint: rest.pop(hint, None) for hint in types.Annotations.__annotations__}
        function.previews = {word: rest.pop(word) for word in PREVIEWS if word in rest}
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
            "requires": requires,
            "hooks": [*(word.replace("_", "-") for word in function.previews), *hooks],
            "examples": [types.Example(description, _json(value)) for description, value in examples],
            **lists,
            **rest,
        }
        if isinstance(members.get("extra"), dict):
            members["extra"] = _json(members["extra"])
        unknown = members.keys() - types.Descriptor.__annotations__.keys()
        if unknown:
            raise TypeError(f"unknown word {sorted(unknown)[0]!r} in @tool of {function.__name__!r}")
        if not members["description"]:
            raise TypeError(f"the tool {function.__name__!r} has no docstring, which is what a model reads")
        empty = {key: [] for key in _LISTS}
        flags = {"can_stream": False, "can_background": False}
        absent = dict.fromkeys(types.Descriptor.__annotations__)
        function.descriptor = types.Descriptor(**{**absent, **empty, **flags, **members})
        # The host fills in defaults; doing it here as well makes direct calls in unit tests consistent.
        function.defaults = {key: value["default"] for key, value in input.items() if "default" in value}
        return function

    return decorate


def export(*functions: Callable[..., Any]) -> type:
    """The class required by the world. Write `Tool = toolhost.export(…)` at the end of the plugin's module."""
    tools = {function.descriptor.name: function for function in functions}

    class Tool:
        def describe(self, environment):
            return [function.descriptor for function in tools.values()]

        def call(self, request):
            try:
                function = tools.get(request.tool)
                if function is None:
                    raise NotFound(f"this plugin has no tool {request.tool!r}", code="tool_not_found")
                return _outcome_of(function, function(Context(request), **_arguments(function, request)))
            except (Exception, SystemExit) as error:
                raise Err(_tool_error(error)) from None

    return Tool


def export_previews(*functions: Callable[..., Any]) -> type:
    """The class required by the interface `preview` of the world `plugin-with-preview`. Write
    `Preview = toolhost.export_previews(…)` after `Tool`, with the tools that have functions of `PREVIEWS`.

    `validate` raises an error or returns None. `describe_call` returns a line. `locations` returns a list of `reads(path)` and
    `writes(path)`. `confirm` returns the reason for which the user must approve the call, or None. `render_permission`,
    and `render_result`, whose first argument is the outcome, return a list of `display(…)`. An exception of another
    function than `validate` crashes it: docs/previews.md states what the host does then. None is a coroutine.
    """
    from wit_world.exports import preview

    tools = {function.descriptor.name: function for function in functions}

    def run(word, request, *first):
        function = tools[request.tool]
        value = function.previews[word](*first, **_arguments(function, request))
        # The text of a coroutine would be taken for a result.
        if inspect.isawaitable(value):
            raise TypeError(f"{word} must not be async")
        return value

    class Preview:
        def validate(self, request):
            try:
                value = run("validate", request)
                # It could be an error that was returned instead of raised.
                if value is not None:
                    raise TypeError(f"validate returned {value!r}; it must return None or raise an error")
            except (Exception, SystemExit) as error:
                raise Err(_tool_error(error).value) from None

        def describe_call(self, request):
            return _returned_text("describe_call", run("describe_call", request))

        def locations(self, request):
            locations = _list("the result of locations", run("locations", request))
            return [preview.Location(_text(path), access, line) for path, access, line in locations]

        def confirm(self, request):
            reason = run("confirm", request)
            return None if reason is None else _returned_text("confirm", reason)

        def render_permission(self, request):
            return _list("the result of render_permission", run("render_permission", request))

        def render_result(self, request, outcome):
            return _list("the result of render_result", run("render_result", request, outcome))

    return Preview


class HookCall(Context):
    """A call before or after it runs; the first argument of every hook."""

    def __init__(self, request: Any) -> None:
        super().__init__(request)
        #: Canonical name of the tool.
        self.tool: str = request.tool
        self.input: dict[str, Any] = json.loads(request.input)
        #: Facts about the tool: `aliases`, `version`, `kind` and `effect`.
        self.facts: dict[str, Any] = json.loads(request.context.extra or "{}")


def export_hooks(
    *,
    before: "Callable[[HookCall], _Before | None] | None" = None,
    after: "Callable[[HookCall, types.Outcome], _Update | types.Outcome | None] | None" = None,
) -> type:
    """The class required by the interface `hooks` of the world `plugin-with-hooks`. Write
    `Hooks = toolhost.export_hooks(…)` after `Tool`, and name the functions in `hooks=` of the tools that they guard.

    `before(call)` returns `ask(…)`, `deny(…)`, `change_input(…)` or `answer(…)`, or None to proceed. `after(call, outcome)`
    returns `update(…)`, an outcome that replaces the call's own, or None to keep it; it also runs after a call that
    failed, whose outcome has an `error` and nothing `structured`. An exception or any other value crashes the hook: the
    host then denies the call, or withholds its outcome. Neither is a coroutine.
    """
    from wit_world.exports import hooks

    class Hooks:
        def pre_tool_use(self, request):
            decision = before(HookCall(request)) if before else None
            if not isinstance(decision, _Before | None):
                raise _unexpected("before", decision, "ask, deny, change_input or answer")
            absent = {"decision": "continue", "reason": None, "updated_input": None, "outcome": None, "meta": None}
            return hooks.PreToolUseResult(**{**absent, **(decision or {})})

        def post_tool_use(self, request, outcome):
            changed = after(HookCall(request), outcome) if after else None
            if changed is None:
                return hooks.PostToolUseResult("keep", None, None)
            if isinstance(changed, types.Outcome):
                return hooks.PostToolUseResult("replace", None, changed)
            if not isinstance(changed, _Update):
                raise _unexpected("after", changed, "update or outcome")
            return hooks.PostToolUseResult("update", hooks.Patch(**changed), None)

    return Hooks


class _Before(dict[str, Any]):
    """The result of `ask`, `deny`, `change_input` or `answer`."""


class _Update(dict[str, Any]):
    """The result of `update`."""


def _unexpected(name: str, value: Any, functions: str) -> TypeError:
    return TypeError(f"{name} returned {value!r}; it must return a result of {functions}, or None")


def ask(reason: str, *, input: Any = None, meta: Any = None) -> _Before:
    """The user must approve the call. `meta` is an object for the question, such as {"risk": "high"}; `input` replaces
    the input of the call."""
    input, meta = _optional_json(input), _optional_json(meta)
    return _Before(decision="ask", reason=_text(reason), updated_input=input, meta=meta)


def deny(reason: str, *, outcome: types.Outcome | None = None) -> _Before:
    """The call is not made. `outcome` is what the model gets instead of the host's error."""
    return _Before(decision="deny", reason=_text(reason), outcome=outcome)


def change_input(input: Mapping[str, Any]) -> _Before:
    """The call proceeds with this input, which is validated and authorized like the first one."""
    return _Before(updated_input=_json(input))


def answer(outcome: types.Outcome) -> _Before:
    """The call is not made; `outcome` is its result. Only for hooks that the operator configured."""
    return _Before(decision="result", outcome=outcome)


def update(
    *,
    text: str | None = None,
    llm: Iterable[types.Part] | None = None,
    summary: str | None = None,
    structured: Any = None,
    meta: Mapping[str, Any] | None = None,
) -> _Update:
    """Changes members of an outcome. `text` and the parts `llm` replace the content for the model; `meta` is merged."""
    return _Update(
        summary=_optional(summary),
        llm=None if text is None and llm is None else _parts(text, llm or ()),
        structured=_optional_json(structured),
        meta=_optional_json(meta),
    )


def reads(path: str, line: int | None = None) -> tuple[str, str, int | None]:
    """A path that a call reads, for `locations`; as the input would name it, relative to /workspace.

    `line` is the line that the call concerns, from 1.
    """
    return path, "read", line


def writes(path: str, line: int | None = None) -> tuple[str, str, int | None]:
    """A path that a call changes, for `locations`."""
    return path, "write", line


def outcome(
    text: str | None = None,
    *,
    structured: Any = None,
    summary: str | None = None,
    llm: Iterable[types.Part] = (),
    display: types.Display | None = None,
    error: types.Failure | None = None,
    truncated: Any = None,
    tail: Any = None,
    meta: Mapping[str, Any] | None = None,
) -> types.Outcome:
    """The record `outcome` of the WIT. `text` is the first part for the model, which otherwise sees `structured`."""
    return types.Outcome(
        summary=_optional(summary),
        llm=_parts(text, llm),
        structured=_optional_json(structured),
        display=display,
        error=error,
        truncated=truncated,
        tail=tail,
        meta=_optional_json(meta),
    )


def part(
    kind: str,
    *,
    text: str | None = None,
    data: bytes | None = None,
    media_type: str | None = None,
    uri: str | None = None,
    name: str | None = None,
) -> types.Part:
    """A content part for the model: `text`, `json`, `image`, `audio`, `file` or `resource-link`."""
    return types.Part(kind, _optional(text), data, _optional(media_type), _optional(uri), _optional(name))


def display(kind: str, *, text: str | None = None, diff: Any = None, data: Any = None) -> types.Display:
    """What the user sees: `none`, `text`, `markdown`, `ansi`, `code`, `diff`, `table`, `file`, `image`, `todo-list` …

    `data` of a table is {"columns": ["name"], "rows": [["a"]]}; types.wit has the other kinds.
    """
    return types.Display(kind, _optional(text), diff, _optional_json(data))


def failure(
    message: str,
    *,
    code: str | None = None,
    recommendations: Iterable[str] = (),
    retryable: bool = False,
    cause: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> types.Failure:
    """Describes a failure; `outcome(error=…)` marks a completed call with an error result.

    `details` is a dictionary for programs, which models do not get.
    """
    recommendations = [_text(recommendation) for recommendation in _list("recommendations", recommendations)]
    details = _optional_json(details)
    return types.Failure(_optional(code), _text(message), recommendations, retryable, _optional(cause), details)


def _parts(text: str | None, llm: Iterable[types.Part]) -> list[types.Part]:
    return [*([] if text is None else [part("text", text=text)]), *_list("llm", llm)]


def _arguments(function: Any, request: Any) -> dict[str, Any]:
    return {**function.defaults, **json.loads(request.input)}


def _outcome_of(function: Any, value: Any) -> types.Outcome:
    if isinstance(value, types.Outcome):
        return value
    made = outcome(value if isinstance(value, str) else None)
    # The host checks the structured result against the output schema, which can be that of a text or of nothing.
    if function.descriptor.output_schema is not None or not (value is None or isinstance(value, str)):
        made.structured = _json(value)
    return made


def _tool_error(error: BaseException) -> Any:
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
    # The location is for the author, who has no other trace of errors inside the sandbox.
    return kind.variant(failure(message, code=code, cause="".join(traceback.format_tb(error.__traceback__)[-3:])))


def _list(name: str, values: Any) -> list[Any]:
    """Rejects a text, whose characters would become the items, and other values that are no list."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list, not {values!r}")
    return list(values)


def _returned_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} returned {value!r}; it must return a str")
    return _text(value)


def _json(value: Any) -> str:
    return _text(json.dumps(value, ensure_ascii=False, allow_nan=False))


def _optional_json(value: Any) -> str | None:
    return None if value is None else _json(value)


def _text(value: Any) -> str:
    # The component boundary requires UTF-8. Python strings may contain lone surrogates (non-UTF-8 file names).
    return str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _optional(value: Any) -> str | None:
    return None if value is None else _text(value)
