//! Keys, as a terminal in raw mode sends them.

/// What was typed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Enter,
    Escape,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-D.
    EndOfInput,
    /// Another key, or several keys at once, such as pasted text.
    Other,
}

/// Parses the bytes of one read. A single key is one character or one control sequence; more than one key was not typed
/// by hand, or not in answer to what is on the screen.
pub fn parse(bytes: &[u8]) -> Key {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Key::Other;
    };
    // Out of habit, Enter follows a letter.
    let text = match text.strip_suffix(['\r', '\n']) {
        Some("") => return Key::Enter,
        Some(text) => text,
        None => text,
    };
    match text {
        "\u{1b}" => Key::Escape,
        "\u{4}" => Key::EndOfInput,
        "\u{1b}[A" | "\u{1b}OA" => Key::Up,
        "\u{1b}[B" | "\u{1b}OB" => Key::Down,
        "\u{1b}[5~" => Key::PageUp,
        "\u{1b}[6~" => Key::PageDown,
        "\u{1b}[H" | "\u{1b}OH" | "\u{1b}[1~" => Key::Home,
        "\u{1b}[F" | "\u{1b}OF" | "\u{1b}[4~" => Key::End,
        text => {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (Some(c), None) if !c.is_control() => Key::Char(c),
                _ => Key::Other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_counts_and_several_at_once_do_not() {
        for (bytes, key) in [
            (&b"y"[..], Key::Char('y')),
            (b"y\n", Key::Char('y')),
            ("ä".as_bytes(), Key::Char('ä')),
            (b"\r", Key::Enter),
            (b"\n", Key::Enter),
            (b"\x1b", Key::Escape),
            (b"\x1b[A", Key::Up),
            (b"\x1b[6~", Key::PageDown),
            (b"\x04", Key::EndOfInput),
            (b"yy", Key::Other),
            (b"yes\n", Key::Other),
            (b"y\ny", Key::Other),
            (b"\x1b[200~y\x1b[201~", Key::Other),
            (b"\x1by", Key::Other),
            (b"\x07", Key::Other),
            (b"\xff", Key::Other),
        ] {
            assert_eq!(parse(bytes), key, "{bytes:?}");
        }
    }
}
