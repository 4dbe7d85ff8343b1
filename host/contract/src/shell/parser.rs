//! The grammar: lists, pipelines, compound commands and redirections, read in one pass without looking back.
//!
//! There is no syntax tree. Commands go to the [`Sink`] as they are met, and every way down passes `Sink::enter`.

use super::word::Piece;
use super::{Parsed, Sink, Target, Unparsed, Word, wrapper};

/// Words with a meaning of their own where a command begins.
pub(super) const RESERVED: &[&str] = &[
    "!", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
    "if", "in", "select", "then", "until", "while",
];

/// Reads a whole text.
pub(super) fn script(text: &str, sink: &mut Sink) -> Parsed {
    let mut parser = Parser::new(text, sink);
    parser.list(&[])?;
    match parser.peek() {
        None if parser.documents.is_empty() => Ok(()),
        None => Err(Unparsed::new("a here-document has no body")),
        Some(c) => Err(Unparsed::at("unexpected", &c.to_string())),
    }
}

pub(super) struct Parser<'s> {
    pub text: Vec<char>,
    pub at: usize,
    pub sink: &'s mut Sink,
    /// Here-documents whose bodies begin after the next newline.
    documents: Vec<Document>,
    /// A text around this one waits for a body too.
    waits_outside: bool,
}

struct Document {
    end: String,
    strip_tabs: bool,
    expands: bool,
    /// A shell reads the body as commands.
    feeds_shell: bool,
}

/// What the redirections of one command told.
#[derive(Default)]
struct Input {
    /// The here-string.
    text: Option<Word>,
    /// Index of the command's first here-document.
    first_document: usize,
}

impl<'s> Parser<'s> {
    fn new(text: &str, sink: &'s mut Sink) -> Self {
        Self {
            text: text.chars().collect(),
            at: 0,
            sink,
            documents: Vec::new(),
            waits_outside: false,
        }
    }

    /// The next character; a backslash and a newline are nothing, wherever they stand outside single quotes.
    pub fn peek(&mut self) -> Option<char> {
        while self.text[self.at..].starts_with(&['\\', '\n']) {
            self.at += 2;
        }
        self.raw()
    }

    /// The next character as it stands.
    pub fn raw(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    /// The character after the next one.
    pub fn second(&mut self) -> Option<char> {
        self.peek()?;
        let first = self.at;
        self.at += 1;
        let second = self.peek();
        self.at = first;
        second
    }

    pub fn waits_for_document(&self) -> bool {
        self.waits_outside || !self.documents.is_empty()
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, c: char) -> Parsed {
        if self.eat(c) {
            Ok(())
        } else {
            Err(Unparsed::new(format!("a `{c}` is missing")))
        }
    }

    /// Blanks and a comment, up to the end of the line.
    fn skip_blanks(&mut self) -> Parsed {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
        if self.peek() == Some('#') {
            while let Some(c) = self.raw().filter(|c| *c != '\n') {
                self.check_seen(c)?;
                self.at += 1;
            }
        }
        Ok(())
    }

    fn skip_lines(&mut self) -> Parsed {
        loop {
            self.skip_blanks()?;
            if self.peek() != Some('\n') {
                return Ok(());
            }
            self.newline()?;
        }
    }

    /// The end of a line, after which the bodies of its here-documents stand.
    fn newline(&mut self) -> Parsed {
        if self.waits_outside {
            return Err(Unparsed::new(
                "a substitution goes over the line of a here-document",
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
                        "a shell gets a here-document that is not known yet",
                    ));
                }
                self.sink.nested(&body, "<<")?;
            }
        }
        Ok(())
    }

    fn document_body(&mut self, document: &Document) -> Parsed<String> {
        let mut body = String::new();
        loop {
            let rest = &self.text[self.at..];
            if rest.is_empty() {
                return Err(Unparsed::at(
                    "a here-document never ends with",
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
            // The newline of the last line is optional, the one before a body's next line is not.
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

    /// `$(…)` and its kin; the opening parenthesis is next or just eaten.
    pub fn commands_until_parenthesis(&mut self, via: &str) -> Parsed {
        let waiting = !self.documents.is_empty();
        let documents = std::mem::take(&mut self.documents);
        let outside = self.waits_outside;
        self.waits_outside |= waiting;
        let piped = std::mem::replace(&mut self.sink.piped, false);
        self.sink.enter()?;
        self.sink.via.push(via.to_owned());
        self.list(&[])?;
        self.sink.via.pop();
        self.sink.leave();
        if !self.documents.is_empty() {
            return Err(Unparsed::new("a here-document has no body"));
        }
        self.expect(')')?;
        self.documents = documents;
        self.waits_outside = outside;
        self.sink.piped = piped;
        Ok(())
    }

    /// Commands up to one of the `ends`, a closing parenthesis, `;;` or the end of the text.
    fn list(&mut self, ends: &[&str]) -> Parsed<usize> {
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
                Some(';') if matches!(self.second(), Some(';' | '&')) => return Ok(count),
                Some(';' | '&') => self.at += 1,
                Some('\n') => {}
                _ => return Ok(count),
            }
        }
    }

    /// A list that must hold a command, and the word after it.
    fn list_then(&mut self, end: &str) -> Parsed {
        let count = self.list(&[end])?;
        if count == 0 {
            return Err(Unparsed::new(format!("no command before `{end}`")));
        }
        self.expect_keyword(end)
    }

    fn and_or(&mut self) -> Parsed {
        loop {
            self.pipeline()?;
            self.skip_blanks()?;
            match (self.peek(), self.second()) {
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

    fn pipeline(&mut self) -> Parsed {
        self.skip_blanks()?;
        while self.keyword() == Some("!") {
            self.expect_keyword("!")?;
            self.skip_blanks()?;
        }
        let outer = self.sink.piped;
        loop {
            self.command()?;
            self.skip_blanks()?;
            if self.peek() != Some('|') || self.second() == Some('|') {
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

    fn command(&mut self) -> Parsed {
        self.skip_blanks()?;
        if self.peek() == Some('(') {
            if self.second() == Some('(') {
                return Err(Unparsed::new(
                    "`((` is arithmetic in one shell and a group in another",
                ));
            }
            self.at += 1;
            self.deeper(|parser| {
                if parser.list(&[])? == 0 {
                    return Err(Unparsed::new("an empty group"));
                }
                parser.expect(')')
            })?;
            return self.redirections();
        }
        let Some(keyword) = self.keyword() else {
            return self.simple();
        };
        self.expect_keyword(keyword)?;
        self.deeper(|parser| parser.compound(keyword))?;
        self.redirections()
    }

    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.sink.enter()?;
        read(self)?;
        self.sink.leave();
        Ok(())
    }

    fn compound(&mut self, keyword: &'static str) -> Parsed {
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
            other => Err(Unparsed::new(format!(
                "`{other}` where a command should be"
            ))),
        }
    }

    fn conditional(&mut self) -> Parsed {
        self.list_then("then")?;
        loop {
            if self.list(&["elif", "else", "fi"])? == 0 {
                return Err(Unparsed::new("no command after `then`"));
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

    fn for_each(&mut self) -> Parsed {
        self.skip_blanks()?;
        let name = self.plain_word()?;
        if !is_name(&name) || name.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
            return Err(Unparsed::at("a loop over the variable", &name));
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
                return Err(Unparsed::new("a loop without `do`"));
            }
        } else {
            self.eat(';');
        }
        self.skip_lines()?;
        self.expect_keyword("do")?;
        self.list_then("done")
    }

    fn case(&mut self) -> Parsed {
        self.skip_blanks()?;
        self.word()?
            .ok_or_else(|| Unparsed::new("`case` without a word"))?;
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
                    .ok_or_else(|| Unparsed::new("`case` without a pattern"))?;
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
                    return Err(Unparsed::new("a branch of `case` without `;;`"));
                }
            } else {
                return self.expect_keyword("esac");
            }
        }
    }

    /// The body of a function.
    fn function(&mut self, name: String) -> Parsed {
        if !name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '-'))
        {
            return Err(Unparsed::at("a function named", &name));
        }
        self.sink.script.functions.push(name);
        self.skip_lines()?;
        if self.peek() != Some('(') && self.keyword().is_none() {
            return Err(Unparsed::new("a function without a body"));
        }
        self.deeper(Self::command)
    }

    /// The reserved word that begins here, if one does.
    fn keyword(&mut self) -> Option<&'static str> {
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

    fn expect_keyword(&mut self, keyword: &str) -> Parsed {
        if self.keyword() != Some(keyword) {
            return Err(Unparsed::new(format!("a `{keyword}` is missing")));
        }
        self.at += keyword.len();
        Ok(())
    }

    fn plain_word(&mut self) -> Parsed<String> {
        match self.word()? {
            Some((_, piece)) if piece.is_plain() => Ok(piece.text),
            _ => Err(Unparsed::new("a name is missing")),
        }
    }

    /// Assignments, words and redirections up to the end of the command.
    fn simple(&mut self) -> Parsed {
        let index = self.sink.script.commands.len();
        let mut words: Vec<Word> = Vec::new();
        let mut assignments = Vec::new();
        let mut input = Input {
            text: None,
            first_document: self.documents.len(),
        };
        let mut empty = true;
        loop {
            self.skip_blanks()?;
            match self.peek() {
                Some('&') if self.second() == Some('>') => {
                    self.redirect_both()?;
                    empty = false;
                    break;
                }
                Some('<' | '>') if self.second() != Some('(') => {
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
            if matches!(self.raw(), Some('<' | '>')) {
                if piece.is_plain() && piece.text.bytes().all(|c| c.is_ascii_digit()) {
                    self.redirect(&mut input)?;
                    continue;
                }
                if piece.text.starts_with('{') {
                    return Err(Unparsed::at("a redirection of", &piece.text));
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
                    return Err(Unparsed::at("a command named", &piece.text));
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
                Some(c) => Unparsed::at("unexpected", &c.to_string()),
                None => Unparsed::new("it ends where a command should be"),
            });
        }
        if words.is_empty() && assignments.is_empty() {
            return Ok(());
        }
        let simple = self.sink.insert(index, words, assignments)?;
        if wrapper::unwrap(&simple, index, self.sink)? {
            for document in self.documents.iter_mut().skip(input.first_document) {
                document.feeds_shell = true;
            }
            match input.text {
                Some(Word::Literal(text)) => self.sink.nested(&text, "<<<")?,
                Some(Word::Dynamic(text)) => return Err(Unparsed::at("a shell gets", &text)),
                None => {}
            }
        }
        Ok(())
    }

    /// The variable's name, when the word sets one before the command's name.
    fn assignment(&mut self, piece: &Piece) -> Parsed<Option<String>> {
        let plain = &piece.text[..piece.plain];
        let Some((left, value)) = plain.split_once('=') else {
            return Ok(None);
        };
        let name = left.strip_suffix('+').unwrap_or(left);
        if name.ends_with(']') && name.split('[').next().is_some_and(is_name) {
            return Err(Unparsed::at("the index is evaluated in", left));
        }
        if !is_name(name) {
            return Ok(None);
        }
        if value.is_empty() && piece.is_plain() && self.raw() == Some('(') {
            if self.waits_for_document() {
                return Err(Unparsed::new(
                    "a list of values stands before a here-document's body",
                ));
            }
            self.at += 1;
            loop {
                self.skip_lines()?;
                match self.word()? {
                    Some((_, element)) if element.text.starts_with('[') => {
                        return Err(Unparsed::at("the index is evaluated in", &element.text));
                    }
                    Some(_) => {}
                    None => break,
                }
            }
            self.expect(')')?;
            // The word would go on: in `a=(1)#x; rm y` there is no comment.
            if self
                .peek()
                .is_some_and(|c| !matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | ')'))
            {
                return Err(Unparsed::new("a list of values is glued to a word"));
            }
        }
        Ok(Some(name.to_owned()))
    }

    /// Redirections after a compound command.
    fn redirections(&mut self) -> Parsed {
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

    /// `&>`: bash redirects both streams, a plain `sh` starts the command in the background and reads on, so what
    /// follows the path would be arguments for one and a command for the other.
    fn redirect_both(&mut self) -> Parsed {
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

    fn redirect(&mut self, input: &mut Input) -> Parsed {
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

    fn write(&mut self, path: Word, append: bool) {
        let harmless = matches!(
            path.literal(),
            Some("/dev/null" | "/dev/stdout" | "/dev/stderr")
        );
        if !harmless && !is_process(&path) {
            self.sink.script.writes.push(Target { path, append });
        }
    }

    fn target(&mut self) -> Parsed<Word> {
        self.skip_blanks()?;
        match self.word()? {
            Some((word, _)) => Ok(word),
            None => Err(Unparsed::new("a redirection without a path")),
        }
    }

    fn here_document(&mut self) -> Parsed {
        let strip_tabs = self.eat('-');
        self.skip_blanks()?;
        let start = self.at;
        let Some((word, piece)) = self.word()? else {
            return Err(Unparsed::new("a here-document without an end"));
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
            return Err(Unparsed::at("a here-document that ends with", &raw));
        }
        self.documents.push(Document {
            end: piece.text.clone(),
            strip_tabs,
            expands: piece.is_plain(),
            feeds_shell: false,
        });
        Ok(())
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

/// Whether a variable can be called so.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
