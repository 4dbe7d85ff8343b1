"""What the tools do, without the host: unit tests import it."""


def count_words(text: str) -> int:
    return len(text.split())
