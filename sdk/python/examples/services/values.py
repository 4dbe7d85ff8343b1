"""A tool with results of other types than objects, and with mistakes that the SDK has to report."""

import toolhost
from toolhost import services


def advice():
    raise toolhost.Failed("no", recommendations="one text")


RESULTS = {
    "text": lambda: "hello",
    "nothing": lambda: None,
    "advice": advice,
    "arguments": lambda: services.run_program("bash", "-c true"),
    "unclear": lambda: "hello",
}


@toolhost.tool(
    input={"result": {"type": "string", "enum": list(RESULTS), "description": "The value."}},
    output={"type": ["string", "null"]},
    read_only=True,
    pure=True,
    describe_call=lambda result: 5 if result == "unclear" else f"return {result}",
    confirm=lambda result: True if result == "unclear" else None,
)
def values_py(cx, result):
    """Return a value."""
    cx.log(f"an integer: {isinstance(cx.remaining_ms(), int)}")
    return RESULTS[result]()
