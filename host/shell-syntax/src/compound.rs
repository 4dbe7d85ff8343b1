//! Parser of compound commands: loops, branches, groups and functions.

use super::parser::{Parser, is_name};
use super::{ParseResult, UnparsedCommand};

impl Parser<'_> {
    pub(super) fn compound(&mut self, keyword: &'static str) -> ParseResult {
        match keyword {
            "{" => self.list_then("}"),
            "if" => self.conditional(),
            "while" | "until" => {
                self.list_then("do")?;
                self.list_then("done")
            }
            "for" => self.for_each(),
            "case" => self.case(),
            "function" => {
                self.skip_blanks()?;
                let name = self.plain_word()?;
                self.skip_blanks()?;
                if self.eat('(') {
                    self.skip_blanks()?;
                    self.expect(')')?;
                }
                self.function(name)
            }
            other => Err(UnparsedCommand::new(format!(
                "`{other}` where a command is expected"
            ))),
        }
    }

    pub(super) fn conditional(&mut self) -> ParseResult {
        self.list_then("then")?;
        loop {
            if self.list(&["elif", "else", "fi"])? == 0 {
                return Err(UnparsedCommand::new("no command after `then`"));
            }
            match self.keyword() {
                Some("elif") => {
                    self.expect_keyword("elif")?;
                    self.list_then("then")?;
                }
                Some("else") => {
                    self.expect_keyword("else")?;
                    return self.list_then("fi");
                }
                _ => return self.expect_keyword("fi"),
            }
        }
    }

    pub(super) fn for_each(&mut self) -> ParseResult {
        self.skip_blanks()?;
        let name = self.plain_word()?;
        if !is_name(&name) || name.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
            return Err(UnparsedCommand::at("a loop over the variable", &name));
        }
        self.skip_lines()?;
        if self.keyword() == Some("in") {
            self.expect_keyword("in")?;
            loop {
                self.skip_blanks()?;
                if self.word()?.is_none() {
                    break;
                }
            }
            if !self.eat(';') && self.peek() != Some('\n') {
                return Err(UnparsedCommand::new("a loop without `do`"));
            }
        } else {
            self.eat(';');
        }
        self.skip_lines()?;
        self.expect_keyword("do")?;
        self.list_then("done")
    }

    pub(super) fn case(&mut self) -> ParseResult {
        self.skip_blanks()?;
        self.word()?
            .ok_or_else(|| UnparsedCommand::new("`case` without a word"))?;
        self.skip_lines()?;
        self.expect_keyword("in")?;
        loop {
            self.skip_lines()?;
            if self.keyword() == Some("esac") {
                return self.expect_keyword("esac");
            }
            self.eat('(');
            loop {
                self.skip_blanks()?;
                self.word()?
                    .ok_or_else(|| UnparsedCommand::new("`case` without a pattern"))?;
                self.skip_blanks()?;
                if !self.eat('|') {
                    break;
                }
            }
            self.expect(')')?;
            self.list(&["esac"])?;
            if self.eat(';') {
                let ended = self.eat(';');
                if !self.eat('&') && !ended {
                    return Err(UnparsedCommand::new("a branch of `case` without `;;`"));
                }
            } else {
                return self.expect_keyword("esac");
            }
        }
    }

    /// Parses the body of a function.
    pub(super) fn function(&mut self, name: String) -> ParseResult {
        if !name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '-'))
        {
            return Err(UnparsedCommand::at("a function named", &name));
        }
        self.sink.script.functions.push(name);
        self.skip_lines()?;
        if self.peek() != Some('(') && self.keyword().is_none() {
            return Err(UnparsedCommand::new("a function without a body"));
        }
        self.with_depth(Self::command)
    }

    pub(super) fn plain_word(&mut self) -> ParseResult<String> {
        match self.word()? {
            Some((_, piece)) if piece.is_plain() => Ok(piece.text),
            _ => Err(UnparsedCommand::new("expected a name")),
        }
    }
}
