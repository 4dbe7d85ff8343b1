"""The tools of the plugin `@NAME@`. Import everything at the top of a module: later imports fail in the sandbox."""

import toolhost

from words import count_words


@toolhost.tool(
    name="@TOOL@",
    input={"text": {"type": "string", "description": "The text whose words are counted."}},
    output={
        "type": "object",
        "properties": {"words": {"type": "integer", "description": "Number of words."}},
        "required": ["words"],
    },
    examples=[("a sentence of six words", {"text": "to be or not to be"})],
    category="data",
    read_only=True,
    pure=True,
)
def run(cx: toolhost.Context, text: str) -> dict[str, int]:
    """Count the words of a text, separated by white space."""
    return {"words": count_words(text)}


Tool = toolhost.export(run)
