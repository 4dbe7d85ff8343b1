//! A rough shell parser that splits a command line into commands and words.

/// One command of a line: its words without quotes, and its output redirections.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Command {
    pub words: Vec<String>,
    pub writes: Vec<String>,
}

/// The commands of a line: sequential, piped, nested and in the background.
pub fn commands(line: &str) -> Vec<Command> {
    let mut splitter = Splitter::default();
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            // A backslash at the end of a line joins the next one.
            '\\' if letters.next_if_eq(&'\n').is_some() => {}
            '\\' => splitter.push(letters.next().unwrap_or('\\')),
            '\'' => {
                splitter.start();
                letters
                    .by_ref()
                    .take_while(|letter| *letter != '\'')
                    .for_each(|letter| splitter.push(letter));
            }
            '"' => {
                splitter.start();
                while let Some(letter) = letters.next().filter(|letter| *letter != '"') {
                    let letter = if letter == '\\' {
                        letters.next()
                    } else {
                        Some(letter)
                    };
                    splitter.push(letter.unwrap_or('\\'));
                }
            }
            ' ' | '\t' => splitter.end_word(),
            '>' => {
                splitter.end_redirected();
                while letters
                    .next_if(|letter| matches!(letter, '>' | '|'))
                    .is_some()
                {}
                splitter.writing = true;
                // `>&2` duplicates a descriptor instead of opening a file.
                if letters.next_if_eq(&'&').is_some() {
                    splitter.push('&');
                }
            }
            ';' | '|' | '&' | '\n' | '(' | ')' | '`' => splitter.end_command(),
            '{' | '}' if splitter.word.is_none() => splitter.end_command(),
            letter => splitter.push(letter),
        }
    }
    splitter.end_command();
    splitter.done
}

#[derive(Default)]
struct Splitter {
    done: Vec<Command>,
    command: Command,
    word: Option<String>,
    /// The next word is a redirection target.
    writing: bool,
}

impl Splitter {
    fn start(&mut self) {
        self.word.get_or_insert_default();
    }

    fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    fn end_word(&mut self) {
        if let Some(word) = self.word.take() {
            let list = if self.writing {
                &mut self.command.writes
            } else {
                &mut self.command.words
            };
            list.push(word);
            self.writing = false;
        }
    }

    /// Ends the word before a `>`, which may be a descriptor number.
    fn end_redirected(&mut self) {
        let number = |word: &String| word.bytes().all(|byte| byte.is_ascii_digit());
        if self.word.take_if(|word| number(word)).is_none() {
            self.end_word();
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.writing = false;
        let command = std::mem::take(&mut self.command);
        if command != Command::default() {
            self.done.push(command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[&str]) {
        let found: Vec<String> = commands(line)
            .into_iter()
            .map(|Command { words, writes }| {
                let writes = writes.iter().map(|file| format!(" > {file}"));
                format!("{}{}", words.join("·"), writes.collect::<String>())
            })
            .collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn words_lose_their_quotes() {
        check(
            r#"r''m  "-rf" 'a b' c\ d "e \" f""#,
            &[r#"rm·-rf·a b·c d·e " f"#],
        );
        check(r#"echo """#, &["echo·"]);
        check("echo 'open", &["echo·open"]);
        check("echo \\", &["echo·\\"]);
    }

    #[test]
    fn commands_are_found_wherever_they_stand() {
        check(
            "a 1; b && c || d | e & f\ng",
            &["a·1", "b", "c", "d", "e", "f", "g"],
        );
        check(
            "echo $(a `b`) ( c ) { d; }",
            &["echo·$", "a", "b", "c", "d"],
        );
        check("find . -exec rm {} +", &["find·.·-exec·rm", "+"]);
        check("", &[]);
    }

    #[test]
    fn redirections_are_files_that_are_written() {
        check("a >b 2>/dev/null c", &["a·c > b > /dev/null"]);
        check("a>>b; c >| d 2>&1", &["a > b", "c > d > &1"]);
        check("a >", &["a"]);
    }
}
