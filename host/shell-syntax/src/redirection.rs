//! Parser of redirections and here-documents.

use super::parser::Parser;
use super::{ParseResult, RedirectTarget, UnparsedCommand, Word};

/// A here-document whose body follows after the next newline.
pub(super) struct HereDocument {
    delimiter: String,
    strip_tabs: bool,
    expands: bool,
    /// A shell executes the body.
    pub feeds_shell: bool,
}

/// Standard input of a command as set by its redirections.
#[derive(Default)]
pub(super) struct RedirectedInput {
    /// The here-string.
    pub text: Option<Word>,
    /// Index of the command's first here-document.
    pub first_document: usize,
}

impl Parser<'_> {
    /// Parses redirections after a compound command.
    pub(super) fn redirections(&mut self) -> ParseResult {
        let mut input = RedirectedInput::default();
        loop {
            self.skip_blanks()?;
            match self.peek() {
                Some('&') if self.peek_second() == Some('>') => return self.redirect_both(),
                Some('<' | '>') => self.redirect(&mut input)?,
                Some('0'..='9') if matches!(self.peek_second(), Some('<' | '>')) => {
                    self.at += 1;
                    self.redirect(&mut input)?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Parses `&>`. bash redirects both streams; a POSIX `sh` starts the command in the background, so words after the
    /// path would be arguments for one and a command for the other.
    pub(super) fn redirect_both(&mut self) -> ParseResult {
        self.at += 1;
        self.redirect(&mut RedirectedInput::default())?;
        self.skip_blanks()?;
        match self.peek() {
            None | Some('\n' | ';' | '|' | '&' | ')') if self.peek_second() != Some('>') => Ok(()),
            _ => Err(UnparsedCommand::new(
                "words after `&>` are arguments in one shell and a command in another",
            )),
        }
    }

    pub(super) fn redirect(&mut self, input: &mut RedirectedInput) -> ParseResult {
        if self.eat('<') {
            if self.eat('<') {
                if self.eat('<') {
                    input.text = Some(self.redirect_target()?);
                    return Ok(());
                }
                return self.here_document();
            }
            if self.eat('&') {
                return match self.redirect_target()? {
                    Word::Literal(fd) if is_descriptor(&fd) => Ok(()),
                    other => Err(UnparsedCommand::at(
                        "input from the descriptor",
                        other.as_written(),
                    )),
                };
            }
            let both = self.eat('>');
            let path = self.redirect_target()?;
            if both {
                self.add_write(path.clone(), true);
            }
            if !is_process_substitution(&path)
                && !matches!(path.literal(), Some("/dev/null" | "/dev/stdin"))
            {
                self.sink.script.reads.push(RedirectTarget {
                    path,
                    append: false,
                });
            }
            return Ok(());
        }
        self.expect('>')?;
        if self.eat('&') {
            let path = self.redirect_target()?;
            if !path.literal().is_some_and(is_descriptor) {
                self.add_write(path, false);
            }
            return Ok(());
        }
        let append = self.eat('>');
        if !append {
            self.eat('|');
        }
        let path = self.redirect_target()?;
        self.add_write(path, append);
        Ok(())
    }

    pub(super) fn add_write(&mut self, path: Word, append: bool) {
        let harmless = matches!(
            path.literal(),
            Some("/dev/null" | "/dev/stdout" | "/dev/stderr")
        );
        if !harmless && !is_process_substitution(&path) {
            self.sink
                .script
                .writes
                .push(RedirectTarget { path, append });
        }
    }

    pub(super) fn redirect_target(&mut self) -> ParseResult<Word> {
        self.skip_blanks()?;
        match self.word()? {
            Some((word, _)) => Ok(word),
            None => Err(UnparsedCommand::new("a redirection without a path")),
        }
    }

    pub(super) fn here_document(&mut self) -> ParseResult {
        let strip_tabs = self.eat('-');
        self.skip_blanks()?;
        let start = self.at;
        let Some((word, piece)) = self.word()? else {
            return Err(UnparsedCommand::new("a here-document without a delimiter"));
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
            return Err(UnparsedCommand::at(
                "unsupported here-document delimiter",
                &raw,
            ));
        }
        self.documents.push(HereDocument {
            delimiter: piece.text.clone(),
            strip_tabs,
            expands: piece.is_plain(),
            feeds_shell: false,
        });
        Ok(())
    }

    /// Parses the end of a line and the bodies of its here-documents.
    pub(super) fn newline(&mut self) -> ParseResult {
        if self.has_outer_document {
            return Err(UnparsedCommand::new(
                "a substitution spans the line of a here-document",
            ));
        }
        self.at += 1;
        for document in std::mem::take(&mut self.documents) {
            let body = self.document_body(&document)?;
            let mut dynamic = false;
            if document.expands {
                dynamic = self.sink.with_context("<<", |sink| {
                    Parser::new(&body, sink).here_document_expansions()
                })?;
            }
            if document.feeds_shell {
                if dynamic {
                    return Err(UnparsedCommand::new(
                        "a shell reads a here-document that is not known in advance",
                    ));
                }
                self.sink.parse_nested(&body, "<<")?;
            }
        }
        Ok(())
    }

    pub(super) fn document_body(&mut self, document: &HereDocument) -> ParseResult<String> {
        let mut body = String::new();
        loop {
            let rest = &self.text[self.at..];
            if rest.is_empty() {
                return Err(UnparsedCommand::at(
                    "a here-document never reaches its delimiter",
                    &document.delimiter,
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
            if line == document.delimiter {
                return Ok(body);
            }
            let backslashes = line.bytes().rev().take_while(|c| *c == b'\\').count();
            if document.expands && backslashes % 2 == 1 {
                return Err(UnparsedCommand::new(
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

fn is_process_substitution(word: &Word) -> bool {
    matches!(word, Word::Dynamic(text) if text.starts_with("<(") || text.starts_with(">("))
}
