//! Parser of redirections and here-documents.

use super::parser::Parser;
use super::{Parsed, Target, Unparsed, Word};

/// A here-document whose body follows after the next newline.
pub(super) struct Document {
    end: String,
    strip_tabs: bool,
    expands: bool,
    /// A shell executes the body.
    pub feeds_shell: bool,
}

/// Standard input of a command as set by its redirections.
#[derive(Default)]
pub(super) struct Input {
    /// The here-string.
    pub text: Option<Word>,
    /// Index of the command's first here-document.
    pub first_document: usize,
}

impl Parser<'_> {
    /// Parses redirections after a compound command.
    pub(super) fn redirections(&mut self) -> Parsed {
        let mut input = Input::default();
        loop {
            self.skip_blanks()?;
            match self.peek() {
                Some('&') if self.second() == Some('>') => return self.redirect_both(),
                Some('<' | '>') => self.redirect(&mut input)?,
                Some('0'..='9') if matches!(self.second(), Some('<' | '>')) => {
                    self.at += 1;
                    self.redirect(&mut input)?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Parses `&>`. bash redirects both streams; a POSIX `sh` starts the command in the background, so words after the
    /// path would be arguments for one and a command for the other.
    pub(super) fn redirect_both(&mut self) -> Parsed {
        self.at += 1;
        self.redirect(&mut Input::default())?;
        self.skip_blanks()?;
        match self.peek() {
            None | Some('\n' | ';' | '|' | '&' | ')') if self.second() != Some('>') => Ok(()),
            _ => Err(Unparsed::new(
                "words after `&>` are arguments in one shell and a command in another",
            )),
        }
    }

    pub(super) fn redirect(&mut self, input: &mut Input) -> Parsed {
        if self.eat('<') {
            if self.eat('<') {
                if self.eat('<') {
                    input.text = Some(self.target()?);
                    return Ok(());
                }
                return self.here_document();
            }
            if self.eat('&') {
                return match self.target()? {
                    Word::Literal(fd) if is_descriptor(&fd) => Ok(()),
                    other => Err(Unparsed::at("input from the descriptor", other.shown())),
                };
            }
            let both = self.eat('>');
            let path = self.target()?;
            if both {
                self.write(path.clone(), true);
            }
            if !is_process(&path) && !matches!(path.literal(), Some("/dev/null" | "/dev/stdin")) {
                self.sink.script.reads.push(Target {
                    path,
                    append: false,
                });
            }
            return Ok(());
        }
        self.expect('>')?;
        if self.eat('&') {
            let path = self.target()?;
            if !path.literal().is_some_and(is_descriptor) {
                self.write(path, false);
            }
            return Ok(());
        }
        let append = self.eat('>');
        if !append {
            self.eat('|');
        }
        let path = self.target()?;
        self.write(path, append);
        Ok(())
    }

    pub(super) fn write(&mut self, path: Word, append: bool) {
        let harmless = matches!(
            path.literal(),
            Some("/dev/null" | "/dev/stdout" | "/dev/stderr")
        );
        if !harmless && !is_process(&path) {
            self.sink.script.writes.push(Target { path, append });
        }
    }

    pub(super) fn target(&mut self) -> Parsed<Word> {
        self.skip_blanks()?;
        match self.word()? {
            Some((word, _)) => Ok(word),
            None => Err(Unparsed::new("a redirection without a path")),
        }
    }

    pub(super) fn here_document(&mut self) -> Parsed {
        let strip_tabs = self.eat('-');
        self.skip_blanks()?;
        let start = self.at;
        let Some((word, piece)) = self.word()? else {
            return Err(Unparsed::new("a here-document without a delimiter"));
        };
        let raw: String = self.text[start..self.at].iter().collect();
        let bare = raw.strip_prefix('\\').unwrap_or(&raw);
        let quoted = |mark: char| {
            raw.strip_prefix(mark)
                .and_then(|rest| rest.strip_suffix(mark))
        };
        let simple = [Some(bare), quoted('\''), quoted('"')].contains(&Some(piece.text.as_str()));
        let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if !simple
            || word.literal().is_none()
            || piece.text.is_empty()
            || !piece.text.chars().all(safe)
        {
            return Err(Unparsed::at("unsupported here-document delimiter", &raw));
        }
        self.documents.push(Document {
            end: piece.text.clone(),
            strip_tabs,
            expands: piece.is_plain(),
            feeds_shell: false,
        });
        Ok(())
    }

    /// Parses the end of a line and the bodies of its here-documents.
    pub(super) fn newline(&mut self) -> Parsed {
        if self.waits_outside {
            return Err(Unparsed::new(
                "a substitution spans the line of a here-document",
            ));
        }
        self.at += 1;
        for document in std::mem::take(&mut self.documents) {
            let body = self.document_body(&document)?;
            let mut dynamic = false;
            if document.expands {
                dynamic = self
                    .sink
                    .inside("<<", |sink| Parser::new(&body, sink).document())?;
            }
            if document.feeds_shell {
                if dynamic {
                    return Err(Unparsed::new(
                        "a shell reads a here-document that is not known in advance",
                    ));
                }
                self.sink.nested(&body, "<<")?;
            }
        }
        Ok(())
    }

    pub(super) fn document_body(&mut self, document: &Document) -> Parsed<String> {
        let mut body = String::new();
        loop {
            let rest = &self.text[self.at..];
            if rest.is_empty() {
                return Err(Unparsed::at(
                    "a here-document never reaches its delimiter",
                    &document.end,
                ));
            }
            let length = rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
            let tabs = if document.strip_tabs {
                rest[..length].iter().take_while(|c| **c == '\t').count()
            } else {
                0
            };
            let line: String = rest[tabs..length].iter().collect();
            // The newline of the last line is optional; the one before a body's next line is not.
            self.at += length + usize::from(length < rest.len());
            if line == document.end {
                return Ok(body);
            }
            let backslashes = line.bytes().rev().take_while(|c| *c == b'\\').count();
            if document.expands && backslashes % 2 == 1 {
                return Err(Unparsed::new(
                    "a line of a here-document ends in a backslash",
                ));
            }
            body.push_str(&line);
            body.push('\n');
        }
    }
}

fn is_descriptor(text: &str) -> bool {
    text == "-"
        || text
            .strip_suffix('-')
            .unwrap_or(text)
            .bytes()
            .all(|c| c.is_ascii_digit())
}

fn is_process(word: &Word) -> bool {
    matches!(word, Word::Dynamic(text) if text.starts_with("<(") || text.starts_with(">("))
}
