//! Adjusts the indentation of new lines to the file.

/// The leading white space of `line`.
pub fn of(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// The indentation of lines as written by the model and as in the file.
#[derive(Debug, Default)]
pub struct IndentMap<'a> {
    /// Per line; `None` for a blank line.
    lines: Vec<Option<(&'a str, &'a str)>>,
    /// Each pair once.
    pairs: Vec<(&'a str, &'a str)>,
}

/// Limit of distinct pairs; the first ones suffice for deeply nested code.
const MOST_PAIRS: usize = 64;

impl<'a> IndentMap<'a> {
    /// From pairs of lines. Blank lines have no indentation.
    pub fn of(lines: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut indents = Self::default();
        for (theirs, ours) in lines {
            let pair = (!theirs.trim().is_empty()).then(|| (of(theirs), of(ours)));
            indents.lines.push(pair);
            if let Some(pair) = pair {
                indents.add(pair);
            }
        }
        indents
    }

    fn add(&mut self, pair: (&'a str, &'a str)) {
        if self.pairs.len() < MOST_PAIRS && !self.pairs.contains(&pair) {
            self.pairs.push(pair);
        }
    }

    /// Whether the two sides' depths correspond one to one in the same order. If white space is significant, anything
    /// else would change the meaning.
    pub fn is_consistent(&self) -> bool {
        self.pairs.iter().all(|(theirs, ours)| {
            self.pairs
                .iter()
                .all(|(other, its)| theirs.len().cmp(&other.len()) == ours.len().cmp(&its.len()))
        })
    }

    /// `new` with the indentation of the file.
    pub fn apply(&self, new: &str) -> String {
        let Some(&(first, first_ours)) = self.pairs.first() else {
            return new.to_owned();
        };
        let mut moved = String::with_capacity(new.len());
        for (index, line) in new.split_inclusive('\n').enumerate() {
            let theirs = of(line);
            if line.trim().is_empty() {
                moved.push_str(line);
                continue;
            }
            // If the model lost the depth of some lines, the line in the same position is the best reference.
            let same_place = self.lines.get(index).copied().flatten();
            let same_place = same_place.filter(|(known, _)| *known == theirs);
            let nearest = same_place.or_else(|| {
                let known = self.pairs.iter().rev().copied();
                known
                    .filter(|(known, _)| theirs.starts_with(known))
                    .max_by_key(|(known, _)| known.len())
            });
            match nearest {
                Some((known, ours)) => {
                    moved.push_str(ours);
                    moved.push_str(&self.deeper(&theirs[known.len()..]));
                }
                // Less deep than all known lines: shifted like the first line.
                None => match (
                    first_ours.strip_suffix(first),
                    first.strip_suffix(first_ours),
                ) {
                    (Some(more), _) => {
                        moved.push_str(more);
                        moved.push_str(theirs);
                    }
                    (None, Some(less)) => {
                        moved.push_str(theirs.strip_prefix(less).unwrap_or_default());
                    }
                    (None, None) => moved.push_str(&self.deeper(theirs)),
                },
            }
            moved.push_str(&line[theirs.len()..]);
        }
        moved
    }

    /// Converts the model's kind of white space to the file's.
    fn deeper(&self, space: &str) -> String {
        let only = |text: &str, c: char| !text.is_empty() && text.chars().all(|each| each == c);
        for (theirs, ours) in &self.pairs {
            if only(theirs, ' ') && only(ours, '\t') && only(space, ' ') {
                let width = theirs.len() / ours.len();
                if width > 0 && space.len().is_multiple_of(width) {
                    return "\t".repeat(space.len() / width);
                }
            }
            if only(theirs, '\t') && only(ours, ' ') && only(space, '\t') {
                return " ".repeat(space.len() * (ours.len() / theirs.len()).max(1));
            }
        }
        space.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(theirs: &str, ours: &str, new: &str, expected: &str) {
        let indents = IndentMap::of(theirs.lines().zip(ours.lines()));
        assert_eq!(indents.apply(new), expected, "{theirs:?} for {ours:?}");
    }

    #[test]
    fn lines_move_as_far_as_those_around_them() {
        check(
            "a\n  b",
            "    a\n      b",
            "a\n  c\n    d\n\ne",
            "    a\n      c\n        d\n\n    e",
        );
        check("    a", "a", "    a\n      b", "a\n  b");
        check("  a", "    a", "x\n  a", "  x\n    a");
        check("    a", "  a", "  x\n    a", "x\n  a");
        check("a\n\nb", "a\n\n  b", "a\n\nc\nd", "a\n\n  c\nd");
    }

    #[test]
    fn tabs_and_spaces_follow_the_file() {
        check(
            "    a\n        b",
            "\ta\n\t\tb",
            "    a\n            c",
            "\ta\n\t\t\tc",
        );
        check("\ta", "    a", "\ta\n\t\tb", "    a\n        b");
        check("\ta", "  a", "x\n\ta", "x\n  a");
    }

    #[test]
    fn depths_agree_when_their_order_does() {
        for (theirs, ours, expected) in [
            ("a\n  b", "  a\n    b", true),
            ("a\n  b\n  c", "a\n\tb\n\tc", true),
            ("a\n  b\n  c", "a\n  b\nc", false),
            ("a\nb", "a\n  b", false),
            ("", "", true),
        ] {
            let indents = IndentMap::of(theirs.lines().zip(ours.lines()));
            assert_eq!(indents.is_consistent(), expected, "{theirs:?} for {ours:?}");
        }
    }
}
