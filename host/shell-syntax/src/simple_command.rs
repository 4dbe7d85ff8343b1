//! Parser of simple commands: assignments, words and redirections.

use super::parser::{Parser, RESERVED, is_name};
use super::redirection::RedirectedInput;
use super::word::WordBuilder;
use super::{ParseResult, SimpleCommand, UnparsedCommand, Word, wrapper};

impl Parser<'_> {
    /// Parses assignments, words and redirections up to the end of the command.
    pub(super) fn simple_command(&mut self) -> ParseResult {
        let index = self.sink.script.commands.len();
        let mut words: Vec<Word> = Vec::new();
        let mut assignments = Vec::new();
        let mut input = RedirectedInput {
            text: None,
            first_document: self.documents.len(),
        };
        let mut empty = true;
        loop {
            self.skip_blanks()?;
            match self.peek() {
                Some('&') if self.peek_second() == Some('>') => {
                    self.redirect_both()?;
                    empty = false;
                    break;
                }
                Some('<' | '>') if self.peek_second() != Some('(') => {
                    self.redirect(&mut input)?;
                    empty = false;
                    continue;
                }
                _ => {}
            }
            let Some((word, piece)) = self.word()? else {
                break;
            };
            empty = false;
            check_index(&piece)?;
            if matches!(self.peek_raw(), Some('<' | '>')) {
                if piece.is_plain() && piece.text.bytes().all(|c| c.is_ascii_digit()) {
                    // A POSIX `sh` supports descriptors of one digit only; in `11>f` it runs the program `11`.
                    if piece.text.len() > 1 {
                        return Err(UnparsedCommand::at("a redirection of", &piece.text));
                    }
                    self.redirect(&mut input)?;
                    continue;
                }
                if piece.text.starts_with('{') {
                    return Err(UnparsedCommand::at("a redirection of", &piece.text));
                }
            }
            if words.is_empty()
                && let Some(name) = self.assignment(&piece)?
            {
                assignments.push(name);
                continue;
            }
            if words.is_empty() && piece.is_plain() {
                if RESERVED.contains(&piece.text.as_str()) {
                    return Err(UnparsedCommand::at("a command named", &piece.text));
                }
                self.skip_blanks()?;
                if self.peek() == Some('(') && assignments.is_empty() {
                    self.at += 1;
                    self.skip_blanks()?;
                    self.expect(')')?;
                    return self.function(piece.text);
                }
            }
            words.push(word);
        }
        if empty {
            return Err(match self.peek() {
                Some(c) => UnparsedCommand::at("unexpected", &c.to_string()),
                None => UnparsedCommand::new("it ends where a command is expected"),
            });
        }
        if words.is_empty() && assignments.is_empty() {
            return Ok(());
        }
        let simple = self.sink.insert(index, words, assignments)?;
        self.add_wrapped(&simple, index, input)
    }

    /// Adds the commands that a wrapper or shell runs.
    fn add_wrapped(
        &mut self,
        simple: &SimpleCommand,
        index: usize,
        input: RedirectedInput,
    ) -> ParseResult {
        if wrapper::add_wrapped(simple, index, self.sink)? {
            for document in self.documents.iter_mut().skip(input.first_document) {
                document.feeds_shell = true;
            }
            match input.text {
                Some(Word::Literal(text)) => self.sink.parse_nested(&text, "<<<")?,
                Some(Word::Dynamic(text)) => {
                    return Err(UnparsedCommand::at("a shell reads", &text));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// The variable's name if the word is an assignment before the command's name.
    pub(super) fn assignment(&mut self, piece: &WordBuilder) -> ParseResult<Option<String>> {
        let plain = &piece.text[..piece.plain];
        let Some((left, value)) = plain.split_once('=') else {
            return Ok(None);
        };
        let name = left.strip_suffix('+').unwrap_or(left);
        if name.ends_with(']') && name.split('[').next().is_some_and(is_name) {
            return Err(UnparsedCommand::at("the index is evaluated in", left));
        }
        if !is_name(name) {
            return Ok(None);
        }
        if value.is_empty() && piece.is_plain() && self.peek_raw() == Some('(') {
            if self.has_pending_document() {
                return Err(UnparsedCommand::new(
                    "a list of values precedes a here-document's body",
                ));
            }
            self.at += 1;
            loop {
                self.skip_lines()?;
                match self.word()? {
                    Some((_, element)) if element.text.starts_with('[') => {
                        return Err(UnparsedCommand::at(
                            "the index is evaluated in",
                            &element.text,
                        ));
                    }
                    Some(_) => {}
                    None => break,
                }
            }
            self.expect(')')?;
            // The word would continue: `a=(1)#x; rm y` contains no comment.
            if self
                .peek()
                .is_some_and(|c| !matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | ')'))
            {
                return Err(UnparsedCommand::new("a list of values is joined to a word"));
            }
        }
        Ok(Some(name.to_owned()))
    }
}

/// Refuses an array index, whose text bash evaluates.
fn check_index(piece: &WordBuilder) -> ParseResult {
    // bash continues to the `]` across blanks and a `#`: `a[ #]=1; rm x` contains no comment.
    let plain = &piece.text[..piece.plain];
    if plain.split_once('[').is_some_and(|(name, _)| is_name(name))
        && plain.matches('[').count() > plain.matches(']').count()
    {
        return Err(UnparsedCommand::at("the index is evaluated in", plain));
    }
    Ok(())
}
