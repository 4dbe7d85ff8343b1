"""A tool that describes its calls: what they do, which file they read, and whether the user must approve."""

import toolhost


def validate(to, text):
    if len(text) > 200:
        raise toolhost.InvalidInput("the text does not fit on a postcard", recommendations=["use 200 characters"])


def describe_call(to, text):
    return f"Write a postcard to {to}"


def locations(to, text):
    return [toolhost.reads(f"addresses/{to}.txt")]


def confirm(to, text):
    return "the price is not known in advance" if to == "Mars" else None


def render_permission(to, text):
    return [toolhost.display("table", data={"columns": ["to", "text"], "rows": [[to, text]]})]


def render_result(outcome, to, text):
    return [toolhost.display("text", text=f"To {to}: {outcome.llm[0].text}")]


# This sample only returns the text. A real tool would read the file of `locations`.
@toolhost.tool(
    input={
        "to": {"type": "string", "description": "The addressee."},
        "text": {"type": "string", "description": "At most 200 characters."},
    },
    category="data",
    kind="other",
    read_only=True,
    pure=True,
    validate=validate,
    describe_call=describe_call,
    locations=locations,
    confirm=confirm,
    render_permission=render_permission,
    render_result=render_result,
)
def postcard_py(cx, to, text):
    """Write a postcard."""
    return f"Dear {to}, {text}"


Tool = toolhost.export(postcard_py)
Preview = toolhost.export_previews(postcard_py)
