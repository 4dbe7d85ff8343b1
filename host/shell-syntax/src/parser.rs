//! Recursive-descent parser of shell lists, pipelines and commands, in one pass without backtracking.
//!
//! It builds no syntax tree: commands are added to the [`ScriptBuilder`] as they are found, and every nesting level
//! passes `ScriptBuilder::enter`.

use super::redirection::HereDocument;
use super::{ParseResult, ScriptBuilder, UnparsedCommand};

/// Reserved words, recognized where a command begins.
pub(super) const RESERVED: &[&str] = &[
    "!", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
    "if", "in", "select", "then", "until", "while",
];

/// Parses a whole text.
pub(super) fn parse_script(text: &str, sink: &mut ScriptBuilder) -> ParseResult {
    let mut parser = Parser::new(text, sink);
    parser.list(&[])?;
    match parser.peek() {
        None if parser.documents.is_empty() => Ok(()),
        None => Err(UnparsedCommand::new("a here-document has no body")),
        Some(c) => Err(UnparsedCommand::at("unexpected", &c.to_string())),
    }
}

pub(super) struct Parser<'s> {
    pub text: Vec<char>,
    pub at: usize,
    pub sink: &'s mut ScriptBuilder,
    /// Here-documents whose bodies begin after the next newline.
    pub documents: Vec<HereDocument>,
    /// An enclosing text also has pending here-documents.
    pub has_outer_document: bool,
}

impl<'s> Parser<'s> {
    pub(super) fn new(text: &str, sink: &'s mut ScriptBuilder) -> Self {
        Self {
            text: text.chars().collect(),
            at: 0,
            sink,
            documents: Vec::new(),
            has_outer_document: false,
        }
    }

    /// The next character. Skips line continuations (a backslash and a newline), which count nowhere outside single
    /// quotes.
    pub(super) fn peek(&mut self) -> Option<char> {
        while self.text[self.at..].starts_with(&['\\', '\n']) {
            self.at += 2;
        }
        self.peek_raw()
    }

    /// The next character, including a line continuation.
    pub(super) fn peek_raw(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    /// The character after the next one.
    pub(super) fn peek_second(&mut self) -> Option<char> {
        self.peek()?;
        let first = self.at;
        self.at += 1;
        let second = self.peek();
        self.at = first;
        second
    }

    pub(super) fn has_pending_document(&self) -> bool {
        self.has_outer_document || !self.documents.is_empty()
    }

    pub(super) fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, c: char) -> ParseResult {
        if self.eat(c) {
            Ok(())
        } else {
            Err(UnparsedCommand::new(format!("expected `{c}`")))
        }
    }

    /// Skips blanks and a comment, up to the end of the line.
    pub(super) fn skip_blanks(&mut self) -> ParseResult {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
        if self.peek() == Some('#') {
            while let Some(c) = self.peek_raw().filter(|c| *c != '\n') {
                Self::check_visible(c)?;
                self.at += 1;
            }
        }
        Ok(())
    }

    pub(super) fn skip_lines(&mut self) -> ParseResult {
        loop {
            self.skip_blanks()?;
            if self.peek() != Some('\n') {
                return Ok(());
            }
            self.newline()?;
        }
    }

    /// Parses the commands of `$(…)`, `<(…)` or `>(…)`, after the opening parenthesis or at it.
    pub(super) fn commands_until_parenthesis(&mut self, via: &str) -> ParseResult {
        let waiting = !self.documents.is_empty();
        let documents = std::mem::take(&mut self.documents);
        let outside = self.has_outer_document;
        self.has_outer_document |= waiting;
        let piped = std::mem::replace(&mut self.sink.piped, false);
        self.sink.enter()?;
        self.sink.via.push(via.to_owned());
        self.list(&[])?;
        self.sink.via.pop();
        self.sink.leave();
        if !self.documents.is_empty() {
            return Err(UnparsedCommand::new("a here-document has no body"));
        }
        self.expect(')')?;
        self.documents = documents;
        self.has_outer_document = outside;
        self.sink.piped = piped;
        Ok(())
    }

    /// Parses commands up to one of the `ends`, a closing parenthesis, `;;` or the end of the text. Returns their
    /// number.
    pub(super) fn list(&mut self, ends: &[&str]) -> ParseResult<usize> {
        let mut count = 0;
        loop {
            self.skip_lines()?;
            if matches!(self.peek(), None | Some(')' | ';'))
                || self.keyword().is_some_and(|word| ends.contains(&word))
            {
                return Ok(count);
            }
            self.and_or()?;
            count += 1;
            self.skip_blanks()?;
            match self.peek() {
                Some(';') if matches!(self.peek_second(), Some(';' | '&')) => return Ok(count),
                Some(';' | '&') => self.at += 1,
                Some('\n') => {}
                _ => return Ok(count),
            }
        }
    }

    /// Parses a non-empty list and the reserved word after it.
    pub(super) fn list_then(&mut self, end: &str) -> ParseResult {
        let count = self.list(&[end])?;
        if count == 0 {
            return Err(UnparsedCommand::new(format!("no command before `{end}`")));
        }
        self.expect_keyword(end)
    }

    pub(super) fn and_or(&mut self) -> ParseResult {
        loop {
            self.pipeline()?;
            self.skip_blanks()?;
            match (self.peek(), self.peek_second()) {
                (Some('&'), Some('&')) | (Some('|'), Some('|')) => {
                    self.at += 1;
                    self.peek();
                    self.at += 1;
                }
                _ => return Ok(()),
            }
            self.skip_lines()?;
        }
    }

    pub(super) fn pipeline(&mut self) -> ParseResult {
        self.skip_blanks()?;
        while self.keyword() == Some("!") {
            self.expect_keyword("!")?;
            self.skip_blanks()?;
        }
        let outer = self.sink.piped;
        loop {
            self.command()?;
            self.skip_blanks()?;
            if self.peek() != Some('|') || self.peek_second() == Some('|') {
                break;
            }
            self.at += 1;
            self.eat('&');
            self.skip_lines()?;
            self.sink.piped = true;
        }
        self.sink.piped = outer;
        Ok(())
    }

    pub(super) fn command(&mut self) -> ParseResult {
        self.skip_blanks()?;
        if self.peek() == Some('(') {
            if self.peek_second() == Some('(') {
                return Err(UnparsedCommand::new(
                    "`((` is arithmetic in one shell and a group in another",
                ));
            }
            self.at += 1;
            self.with_depth(|parser| {
                if parser.list(&[])? == 0 {
                    return Err(UnparsedCommand::new("an empty group"));
                }
                parser.expect(')')
            })?;
            return self.redirections();
        }
        let Some(keyword) = self.keyword() else {
            return self.simple_command();
        };
        self.expect_keyword(keyword)?;
        self.with_depth(|parser| parser.compound(keyword))?;
        self.redirections()
    }

    pub(super) fn with_depth(
        &mut self,
        read: impl FnOnce(&mut Self) -> ParseResult,
    ) -> ParseResult {
        self.sink.enter()?;
        read(self)?;
        self.sink.leave();
        Ok(())
    }

    /// The reserved word that begins here, if any.
    pub(super) fn keyword(&mut self) -> Option<&'static str> {
        self.peek();
        let mut end = self.at;
        while self
            .text
            .get(end)
            .is_some_and(|c| c.is_ascii_lowercase() || matches!(c, '!' | '{' | '}'))
        {
            end += 1;
        }
        let delimited = matches!(
            self.text.get(end),
            None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')
        );
        let word = &self.text[self.at..end];
        RESERVED
            .iter()
            .copied()
            .find(|reserved| delimited && reserved.chars().eq(word.iter().copied()))
    }

    pub(super) fn expect_keyword(&mut self, keyword: &str) -> ParseResult {
        if self.keyword() != Some(keyword) {
            return Err(UnparsedCommand::new(format!("expected `{keyword}`")));
        }
        self.at += keyword.len();
        Ok(())
    }
}

/// Whether the text is a valid variable name.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
