//! Search for candidate positions of patterns with several literal prefixes, such as `alpha|beta` or case-insensitive
//! words, or with literals after a prefix that is not literal, such as `[a-z]+_error`.
//!
//! For a single prefix the regex engine does this itself. For several it uses vector instructions that it supports only
//! on x86 and ARM; in the sandbox it falls back to scanning byte by byte. The loops here are written so that the
//! compiler vectorizes them for any target.

use regex_syntax::hir::literal::{Extractor, Literal, Seq};
use regex_syntax::hir::{Hir, HirKind};

/// With more prefixes the regex engine is as fast.
const MOST: usize = 8;
const LONGEST: usize = 8;
/// Shorter literals within a pattern are on too many lines.
const SHORTEST_INNER: usize = 3;
/// Bytes tested together.
const BLOCK: usize = 64;
/// Difference between lower and upper case in ASCII.
const CASE: u8 = 0x20;
/// Frequent characters of text, most frequent first; tests on other bytes are more selective.
const FREQUENT: &[u8] = b" etaonisrlcdupmfh_gb.,;:()\"v";

/// Literals of which each match contains one: at its start, or somewhere within it.
pub struct Candidates {
    needles: Vec<Needle>,
    /// The largest offset of a tested byte.
    reach: usize,
}

/// One prefix, and its bytes that are tested first. With two tests every tenth block of source text passes; with three
/// hardly any.
struct Needle {
    bytes: Vec<Byte>,
    tests: [(usize, Byte); 3],
}

/// A tested byte, where `text | mask` must equal `value`.
#[derive(Clone, Copy)]
struct Byte {
    mask: u8,
    value: u8,
}

impl Byte {
    fn fits(self, byte: u8) -> bool {
        byte | self.mask == self.value
    }
}

impl Candidates {
    /// For patterns whose matches lie within a line. `None` if the regex engine alone is as fast.
    pub fn of(hir: &Hir) -> Option<Self> {
        let beginnings = Extractor::new().extract(hir);
        let is_several = beginnings.len().is_some_and(|count| count > 1);
        let prefixes = is_several.then(|| Self::of_longest(&beginnings, 2));
        prefixes.flatten().or_else(|| {
            // The engine looks for a single prefix.
            let shortest = beginnings.min_literal_len();
            let has_prefix = shortest.is_some_and(|shortest| shortest >= SHORTEST_INNER);
            if has_prefix { None } else { Self::inner(hir) }
        })
    }

    /// The best literals after the start: those of which the shortest is longest.
    fn inner(hir: &Hir) -> Option<Self> {
        let HirKind::Concat(parts) = hir.kind() else {
            return None;
        };
        let rests = (1..parts.len()).map(|from| Hir::concat(parts[from..].to_vec()));
        let literals = rests.map(|rest| Extractor::new().extract(&rest));
        literals
            .filter_map(|literals| Self::of_longest(&literals, SHORTEST_INNER))
            .max_by_key(|candidates| {
                let lengths = candidates.needles.iter().map(|needle| needle.bytes.len());
                lengths.min()
            })
    }

    /// The longest beginnings of the literals that are few enough.
    fn of_longest(literals: &Seq, shortest: usize) -> Option<Self> {
        if literals.min_literal_len()? < shortest {
            return None;
        }
        (shortest..=LONGEST)
            .rev()
            .find_map(|length| Self::of_length(literals, length))
    }

    fn of_length(beginnings: &Seq, length: usize) -> Option<Self> {
        let mut beginnings = beginnings.clone();
        beginnings.keep_first_bytes(length);
        let literals: Vec<&[u8]> = beginnings
            .literals()?
            .iter()
            .map(Literal::as_bytes)
            .collect();
        let mut folded: Vec<Vec<u8>> = literals
            .iter()
            .map(|literal| literal.to_ascii_lowercase())
            .collect();
        folded.sort();
        folded.dedup();
        // If case folding merges prefixes, case is ignored, which only adds candidates.
        let ignore_case = folded.len() < literals.len();
        let bytes = |literal: &[u8]| -> Vec<Byte> {
            let byte = |&byte: &u8| {
                let mask = if ignore_case && byte.is_ascii_alphabetic() {
                    CASE
                } else {
                    0
                };
                Byte {
                    mask,
                    value: byte | mask,
                }
            };
            literal.iter().map(byte).collect()
        };
        let needles: Vec<Vec<Byte>> = if ignore_case {
            folded.iter().map(|literal| bytes(literal)).collect()
        } else {
            literals.iter().map(|literal| bytes(literal)).collect()
        };
        if needles.len() > MOST {
            return None;
        }
        let needles: Vec<Needle> = needles
            .into_iter()
            .map(Needle::new)
            .collect::<Option<_>>()?;
        let reach = needles
            .iter()
            .flat_map(|needle| needle.tests)
            .map(|(offset, _)| offset)
            .max()?;
        Some(Self { needles, reach })
    }

    /// The first candidate at or after `from`.
    pub fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        while let Some(bytes) = text.get(at..at + BLOCK + self.reach) {
            let likely = self.needles.iter().filter(|needle| needle.may_be_in(bytes));
            if let Some(found) = likely
                .filter_map(|needle| needle.find(text, at, at + BLOCK))
                .min()
            {
                return Some(found);
            }
            at += BLOCK;
        }
        self.needles
            .iter()
            .filter_map(|needle| needle.find(text, at, text.len()))
            .min()
    }
}

impl Needle {
    fn new(bytes: Vec<Byte>) -> Option<Self> {
        if bytes.len() < 2 {
            return None;
        }
        let frequency = |byte: Byte| {
            let index = FREQUENT.iter().position(|frequent| *frequent == byte.value);
            index.map_or(0, |index| FREQUENT.len() - index)
        };
        let mut offsets: Vec<usize> = (0..bytes.len()).collect();
        offsets.sort_by_key(|&offset| frequency(bytes[offset]));
        // The second byte of a two-byte prefix is tested twice.
        let tests = [0, 1, 2]
            .map(|nth| offsets[nth.min(offsets.len() - 1)])
            .map(|offset| (offset, bytes[offset]));
        Some(Self { bytes, tests })
    }

    /// Whether all tests pass at one of the first positions of `bytes`. Without early exit, so that it vectorizes.
    fn may_be_in(&self, bytes: &[u8]) -> bool {
        let [(first, one), (second, two), (third, three)] = self.tests;
        let ones = &bytes[first..first + BLOCK];
        let twos = &bytes[second..second + BLOCK];
        let threes = &bytes[third..third + BLOCK];
        let hits = ones
            .iter()
            .zip(twos)
            .zip(threes)
            .fold(0, |hit, ((&first, &second), &third)| {
                hit | u8::from(one.fits(first))
                    & u8::from(two.fits(second))
                    & u8::from(three.fits(third))
            });
        hits != 0
    }

    /// Checks the positions from `at` to `end` exactly.
    fn find(&self, text: &[u8], at: usize, end: usize) -> Option<usize> {
        (at..end).find(|&at| self.is_at(&text[at..]))
    }

    fn is_at(&self, text: &[u8]) -> bool {
        self.bytes.len() <= text.len()
            && self
                .bytes
                .iter()
                .zip(text)
                .all(|(byte, found)| byte.fits(*found))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use regex_syntax::ParserBuilder;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
    fn check(pattern: &str, text: &str, expected: Expect) {
        let hir = ParserBuilder::new()
            .utf8(false)
            .build()
            .parse(pattern)
            .unwrap();
        let answer = match Candidates::of(&hir) {
            None => "left to the engine".to_owned(),
            Some(candidates) => {
                // The positions must not depend on the alignment of the text to blocks.
                let positions = |shift: usize| {
                    let shifted = format!("{}{text}", "\n".repeat(shift));
                    let next = |from: &mut usize| {
                        let at = candidates.find(shifted.as_bytes(), *from)?;
                        *from = at + 1;
                        Some(at - shift)
                    };
                    let mut from = 0;
                    std::iter::from_fn(|| next(&mut from)).collect::<Vec<usize>>()
                };
                for shift in 1..150 {
                    assert_eq!(positions(shift), positions(0), "shifted by {shift}");
                }
                format!("{:?}", positions(0))
            }
        };
        expected.assert_eq(&answer);
    }

    #[test]
    fn one_beginning_is_left_to_the_engine() {
        check("alpha", "", expect!["left to the engine"]);
        check(r"alpha\w+beta", "", expect!["left to the engine"]);
        check(r"\w+al", "", expect!["left to the engine"]);
        check(r"\w+(alpha)?", "", expect!["left to the engine"]);
        check("a|b", "", expect!["left to the engine"]);
        check("alpha|", "", expect!["left to the engine"]);
    }

    #[test]
    fn several_beginnings() {
        check("alpha|beta", "alpha beta Alpha alp", expect!["[0, 6]"]);
        check("fo+|ba[rz]", "foo ba baz fo", expect!["[0, 7, 11]"]);
    }

    #[test]
    fn literals_within() {
        check(r"[a-z]+zqx\w*", "zqx zq azqxb", expect!["[0, 8]"]);
        check(r"(?i)\w+_error", "my_Error _err", expect!["[2]"]);
        check(r"\w+(get|set)_\w+alphabet", "get_ alphabet", expect!["[5]"]);
        check(r"a\s+foo", "a foo", expect!["[2]"]);
        check(r"\w+alpha|\w+beta", "alpha beta", expect!["[0, 6]"]);
    }

    #[test]
    fn letter_case() {
        check("(?i)todo", "TODO tOdO t0do toda", expect!["[0, 5]"]);
        check("(?i)class", "claſs CLASS", expect!["[0, 7]"]);
        check("(?i)interface_name", "InterFace_Name", expect!["[0]"]);
    }
}
