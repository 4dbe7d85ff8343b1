"""A plugin with one tool, to copy from."""

import toolhost


@toolhost.tool(
    input={"text": {"type": "string", "description": "The text whose words are counted."}},
    output={"type": "object", "properties": {"words": {"type": "integer"}}, "required": ["words"]},
    examples=[("three words", {"text": "a b c"})],
    category="data",
    kind="read",
    read_only=True,
    pure=True,
)
def word_count_py(cx, text):
    """Count the words of a text, separated by white space."""
    if not text:
        raise toolhost.InvalidInput("text is empty", recommendations=["pass a text with at least one character"])
    cx.check()
    cx.log(f"counting within {cx.remaining_ms():.0f} ms")
    words = len(text.split())
    cx.progress("counted", done=1, total=1)
    return toolhost.outcome(f"{words} words", structured={"words": words})


Tool = toolhost.export(word_count_py)
