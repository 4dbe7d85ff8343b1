"""Run with `PYTHONPATH=src python3 -m unittest discover tests`."""

import unittest

from words import count_words


class CountWords(unittest.TestCase):
    def test_words_are_separated_by_white_space(self) -> None:
        self.assertEqual(count_words("one\ntwo"), 2)


if __name__ == "__main__":
    unittest.main()
