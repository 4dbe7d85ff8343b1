//! Parser of words: quotes, expansions and the commands inside them.

use super::parser::Parser;
use super::{ParseResult, UnparsedCommand, Word, parser};
use toolhost_text as text;

/// A word during parsing.
pub(super) struct WordBuilder {
    pub text: String,
    /// Length in bytes of the prefix of `text` that was written without quotes or expansions.
    pub plain: usize,
    pub dynamic: bool,
    open: bool,
    bracket: bool,
    brace: bool,
    start: usize,
}

impl WordBuilder {
    fn new(start: usize) -> Self {
        Self {
            text: String::new(),
            plain: 0,
            dynamic: false,
            open: true,
            bracket: false,
            brace: false,
            start,
        }
    }

    /// Whether the word has no quotes, escapes or expansions.
    pub fn is_plain(&self) -> bool {
        !self.dynamic && self.open
    }

    fn push_plain(&mut self, c: char) {
        match c {
            '*' | '?' => self.dynamic = true,
            '[' => self.bracket = true,
            ']' if self.bracket => self.dynamic = true,
            '{' => self.brace = true,
            // `{}` alone is no brace expansion; `find -exec` uses it.
            '}' if self.brace && !self.text.ends_with('{') => self.dynamic = true,
            _ => {}
        }
        self.text.push(c);
        if self.open {
            self.plain = self.text.len();
        }
    }

    fn push_quoted(&mut self, c: char) {
        // A quoted tilde is not expanded but would look like a home directory in a literal word.
        if c == '~' && self.text.is_empty() {
            self.dynamic = true;
        }
        self.open = false;
        self.text.push(c);
    }
}

/// Whether a character is invisible, or looks like a blank at which the shell does not split.
fn is_invisible(c: char) -> bool {
    (c.is_whitespace() && !matches!(c, ' ' | '\t' | '\n'))
        || text::needs_escape(c) && !matches!(c, '\t' | '\n')
        || matches!(c, '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}')
}

impl Parser<'_> {
    /// Parses one word; `None` if something else begins here.
    pub(super) fn word(&mut self) -> ParseResult<Option<(Word, WordBuilder)>> {
        // `peek` skips line continuations, which are not part of a word.
        self.peek();
        let mut piece = WordBuilder::new(self.at);
        if self.process_substitution()? {
            piece.dynamic = true;
        } else {
            while let Some(c) = self.peek() {
                match c {
                    '<' | '>' if self.peek_second() == Some('(') && self.at > piece.start => {
                        return Err(UnparsedCommand::new(
                            "a process substitution is joined to a word",
                        ));
                    }
                    ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                    '\\' => {
                        self.at += 1;
                        let escaped = self
                            .peek_raw()
                            .ok_or_else(|| UnparsedCommand::new("it ends in a backslash"))?;
                        Self::check_visible(escaped)?;
                        piece.push_quoted(escaped);
                        self.at += 1;
                    }
                    '\'' => self.single_quoted(&mut piece)?,
                    '"' => self.double_quoted(&mut piece)?,
                    '$' => self.dollar(&mut piece, false)?,
                    '`' => self.backquoted(&mut piece, false)?,
                    c => {
                        Self::check_visible(c)?;
                        piece.push_plain(c);
                        self.at += 1;
                    }
                }
            }
        }
        if self.at == piece.start {
            return Ok(None);
        }
        // `~` and `~/…` are the home directory; `~name`, `~+` and a tilde before a quote are known only to the shell.
        if piece.text.starts_with('~') {
            let rest = &piece.text[1..];
            piece.dynamic |=
                !(rest.is_empty() && piece.open || rest.starts_with('/') && piece.plain >= 2);
        }
        // zsh replaces `=rm` with the path of the program `rm`.
        piece.dynamic |=
            piece.plain >= 2 && piece.text.starts_with('=') && !piece.text.starts_with("==");
        let word = if piece.dynamic {
            Word::Dynamic(self.text[piece.start..self.at].iter().collect())
        } else {
            Word::Literal(piece.text.clone())
        };
        Ok(Some((word, piece)))
    }

    pub(super) fn check_visible(c: char) -> ParseResult {
        if is_invisible(c) {
            return Err(UnparsedCommand::new(format!(
                "an invisible or misleading character \\u{{{:x}}} outside quotes",
                c as u32
            )));
        }
        Ok(())
    }

    /// Rejects a quoted newline before a pending here-document body, because shells differ.
    fn check_quoted(&self, c: char) -> ParseResult {
        if c == '\n' && self.has_pending_document() {
            return Err(UnparsedCommand::new(
                "a quoted newline precedes a here-document's body",
            ));
        }
        Ok(())
    }

    fn single_quoted(&mut self, piece: &mut WordBuilder) -> ParseResult {
        self.at += 1;
        piece.open = false;
        loop {
            let c = self
                .peek_raw()
                .ok_or_else(|| UnparsedCommand::new("a single quote is never closed"))?;
            self.at += 1;
            if c == '\'' {
                return Ok(());
            }
            self.check_quoted(c)?;
            piece.push_quoted(c);
        }
    }

    fn double_quoted(&mut self, piece: &mut WordBuilder) -> ParseResult {
        self.at += 1;
        piece.open = false;
        loop {
            match self
                .peek()
                .ok_or_else(|| UnparsedCommand::new("a double quote is never closed"))?
            {
                '"' => {
                    self.at += 1;
                    return Ok(());
                }
                '$' => self.dollar(piece, true)?,
                '`' => self.backquoted(piece, true)?,
                '\\' => {
                    self.at += 1;
                    match self.peek_raw() {
                        Some(c @ ('$' | '`' | '"' | '\\')) => {
                            piece.push_quoted(c);
                            self.at += 1;
                        }
                        _ => piece.push_quoted('\\'),
                    }
                }
                c => {
                    self.check_quoted(c)?;
                    piece.push_quoted(c);
                    self.at += 1;
                }
            }
        }
    }

    /// Parses an expansion that starts with `$`.
    fn dollar(&mut self, piece: &mut WordBuilder, quoted: bool) -> ParseResult {
        piece.open = false;
        self.at += 1;
        match self.peek() {
            Some('(') => {
                piece.dynamic = true;
                self.at += 1;
                if self.peek() == Some('(') {
                    self.arithmetic()
                } else {
                    self.commands_until_parenthesis("$(…)")
                }
            }
            Some('{') => {
                piece.dynamic = true;
                self.at += 1;
                self.sink.enter()?;
                self.braced(quoted)?;
                self.sink.leave();
                Ok(())
            }
            Some('[') => Err(UnparsedCommand::new(
                "`$[` is arithmetic in one shell and text in another",
            )),
            Some('\'') if !quoted => self.ansi_quoted(piece),
            Some('"') if !quoted => {
                piece.dynamic = true;
                self.double_quoted(piece)
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                piece.dynamic = true;
                self.name();
                Ok(())
            }
            // `$$'…'` is a number and a single-quoted text, so the second character belongs to the first `$`.
            Some('0'..='9' | '@' | '*' | '#' | '?' | '-' | '$' | '!') => {
                piece.dynamic = true;
                self.at += 1;
                Ok(())
            }
            _ => {
                piece.push_quoted('$');
                Ok(())
            }
        }
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self
            .peek()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
        {
            name.push(c);
            self.at += 1;
        }
        name
    }

    /// Parses `$'…'`. A POSIX `sh` sees a `$` and single quotes, so both must end at the same position.
    fn ansi_quoted(&mut self, piece: &mut WordBuilder) -> ParseResult {
        let start = self.at;
        self.single_quoted(piece)?;
        let body = &self.text[start + 1..self.at - 1];
        if body.ends_with(&['\\']) {
            return Err(UnparsedCommand::new(
                "`$'…\\'` ends in different places in different shells",
            ));
        }
        piece.dynamic = true;
        Ok(())
    }

    /// Parses the rest of `${…}`.
    fn braced(&mut self, quoted: bool) -> ParseResult {
        let refused = || UnparsedCommand::new("an expansion `${…}` that could evaluate text");
        let length = self.peek() == Some('#') && self.peek_second() != Some('}');
        if length {
            self.at += 1;
        }
        match self.peek() {
            Some(c) if c.is_ascii_alphanumeric() || c == '_' => {
                self.name();
            }
            Some('@' | '*' | '#' | '?' | '-' | '$') => self.at += 1,
            _ => return Err(refused()),
        }
        match self.peek() {
            Some('}') => {
                self.at += 1;
                return Ok(());
            }
            _ if length => return Err(refused()),
            // `:1:2`, `[…]` and `@P` are rejected: they evaluate arithmetic or prompts, in which a value may run
            // commands.
            Some(':') if matches!(self.peek_second(), Some('-' | '=' | '?' | '+')) => self.at += 2,
            Some('-' | '=' | '?' | '+' | '#' | '%' | '/' | '^' | ',') => self.at += 1,
            _ => return Err(refused()),
        }
        let mut piece = WordBuilder::new(self.at);
        loop {
            match self
                .peek()
                .ok_or_else(|| UnparsedCommand::new("`${` is never closed"))?
            {
                '}' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' => {
                    self.at += 1;
                    self.peek_raw()
                        .ok_or_else(|| UnparsedCommand::new("it ends in a backslash"))?;
                    self.at += 1;
                }
                // Whether these quote inside `"${…}"` depends on the shell and on the operator.
                '\'' | '"' if quoted => {
                    return Err(UnparsedCommand::new("quotes inside `\"${…}\"`"));
                }
                '{' => return Err(UnparsedCommand::new("a brace inside `${…}`")),
                '<' | '>' if self.peek_second() == Some('(') => {
                    return Err(UnparsedCommand::new("a process substitution inside `${…}`"));
                }
                '\'' => self.single_quoted(&mut piece)?,
                '"' => self.double_quoted(&mut piece)?,
                '$' => self.dollar(&mut piece, quoted)?,
                '`' => self.backquoted(&mut piece, quoted)?,
                c => {
                    self.check_quoted(c)?;
                    if !quoted {
                        Self::check_visible(c)?;
                    }
                    self.at += 1;
                }
            }
        }
    }

    /// Parses `$((…))` of numbers. Names are rejected: a shell evaluates the value of the variable, and a value such as
    /// `a[$(rm x)]` runs a command.
    fn arithmetic(&mut self) -> ParseResult {
        self.at += 1;
        let mut open = 0_usize;
        loop {
            match self
                .peek()
                .ok_or_else(|| UnparsedCommand::new("`$((` is never closed"))?
            {
                '(' => open += 1,
                ')' if open > 0 => open -= 1,
                ')' if self.peek_second() == Some(')') => {
                    self.at += 2;
                    return Ok(());
                }
                '0'..='9'
                | ' '
                | '\t'
                | '+'
                | '-'
                | '*'
                | '/'
                | '%'
                | '<'
                | '>'
                | '='
                | '!'
                | '&'
                | '|'
                | '^'
                | '~'
                | '?'
                | ':'
                | ',' => {}
                _ => {
                    return Err(UnparsedCommand::new(
                        "arithmetic on variables can run commands",
                    ));
                }
            }
            self.at += 1;
        }
    }

    /// Parses `` `…` ``, which ends at the first unescaped backquote, whatever quotes surround it.
    fn backquoted(&mut self, piece: &mut WordBuilder, quoted: bool) -> ParseResult {
        piece.open = false;
        piece.dynamic = true;
        self.at += 1;
        let mut inner = String::new();
        loop {
            let c = self
                .peek_raw()
                .ok_or_else(|| UnparsedCommand::new("a backquote is never closed"))?;
            self.at += 1;
            match (c, self.peek_raw()) {
                ('`', _) => break,
                ('\\', Some('"')) if quoted => {
                    return Err(UnparsedCommand::new(
                        "an escaped quote inside backquotes inside quotes",
                    ));
                }
                ('\\', Some(escaped @ ('$' | '`' | '\\'))) => {
                    inner.push(escaped);
                    self.at += 1;
                }
                // Shells join the lines before they read the quotes inside.
                ('\\', Some('\n')) => self.at += 1,
                (c, _) => {
                    self.check_quoted(c)?;
                    inner.push(c);
                }
            }
        }
        self.sink
            .with_context("`…`", |sink| parser::parse_script(&inner, sink))
    }

    /// Parses `<(…)` or `>(…)`; `false` if neither begins here.
    fn process_substitution(&mut self) -> ParseResult<bool> {
        let via = match self.peek() {
            Some('<') => "<(…)",
            Some('>') => ">(…)",
            _ => return Ok(false),
        };
        if self.peek_second() != Some('(') {
            return Ok(false);
        }
        self.at += 2;
        self.commands_until_parenthesis(via)?;
        if self
            .peek()
            .is_some_and(|c| !matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | ')'))
        {
            return Err(UnparsedCommand::new(
                "a process substitution is joined to a word",
            ));
        }
        Ok(true)
    }

    /// Parses the body of a here-document with an unquoted delimiter. Returns whether it contains expansions.
    pub(super) fn here_document_expansions(&mut self) -> ParseResult<bool> {
        let mut piece = WordBuilder::new(self.at);
        while let Some(c) = self.peek() {
            match c {
                '\\' => {
                    piece.dynamic = true;
                    self.at = (self.at + 2).min(self.text.len());
                }
                '$' => self.dollar(&mut piece, true)?,
                '`' => self.backquoted(&mut piece, true)?,
                _ => self.at += 1,
            }
        }
        Ok(piece.dynamic)
    }
}
