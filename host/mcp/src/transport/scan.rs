//! Scanner that finds message ids in lines that cannot be parsed.
//!
//! It reads each byte once and uses constant memory, so that lines may have any length. It scans the whole line,
//! because common clients write `id` after `params`.

use rmcp::model::RequestId;

/// Maximum length of an id, in bytes. Longer ones are ignored.
const ID: usize = 256;
/// Maximum number of messages of a line that are answered.
const MESSAGES: usize = 64;

/// Properties of one message.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) id: Id,
    pub(super) method: bool,
    /// The message has a result or error, so it is a response to a server request.
    pub(super) outcome: bool,
    /// The message was complete.
    pub(super) whole: bool,
}

#[derive(Debug, Default, PartialEq)]
pub(super) enum Id {
    #[default]
    Missing,
    /// The id is not a string or an integer.
    Unreadable,
    Known(RequestId),
}

pub(super) struct Seen {
    pub(super) found: Vec<Found>,
    /// Maximum nesting depth.
    pub(super) deepest: usize,
}

#[derive(Default)]
pub(super) struct Scan {
    found: Vec<Found>,
    message: Found,
    /// Number of open brackets. Brackets around messages are not counted, so the elements of a batch are messages too.
    depth: usize,
    deepest: usize,
    in_string: bool,
    escaped: bool,
    /// The member whose value is being scanned. `None` while its name is scanned.
    member: Option<Member>,
    /// The name of the member, or the value of `id`.
    text: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Member {
    Id,
    Method,
    Outcome,
    Other,
}

/// Scans a complete line.
pub(super) fn scan(line: &[u8]) -> Seen {
    let mut scan = Scan::default();
    scan.feed(line);
    scan.end()
}

impl Scan {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.take(*byte);
        }
    }

    pub(super) fn end(mut self) -> Seen {
        if self.depth > 0 {
            self.finish(false);
        }
        Seen {
            found: self.found,
            deepest: self.deepest,
        }
    }

    fn take(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return self.keep(byte);
        }
        match (byte, self.depth) {
            (b'{', 0) => {
                self.message = Found::default();
                self.member = None;
                self.text.clear();
                self.open();
            }
            (_, 0) => {}
            (b'}' | b']', 1) => {
                self.end_member();
                self.depth = 0;
                self.finish(true);
            }
            (b':', 1) if self.member.is_none() => {
                self.member = Some(match self.text.as_slice() {
                    br#""id""# => Member::Id,
                    br#""method""# => Member::Method,
                    br#""result""# | br#""error""# => Member::Outcome,
                    _ => Member::Other,
                });
                self.text.clear();
            }
            (b',', 1) => self.end_member(),
            (b'{' | b'[', _) => {
                self.keep(byte);
                self.open();
            }
            (b'}' | b']', _) => self.depth -= 1,
            _ => {
                self.in_string = byte == b'"';
                self.keep(byte);
            }
        }
    }

    fn open(&mut self) {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
    }

    fn keep(&mut self, byte: u8) {
        let counts = matches!(self.member, None | Some(Member::Id)) && self.depth == 1;
        let is_blank = byte.is_ascii_whitespace() && !self.in_string;
        if counts && !is_blank && self.text.len() < ID {
            self.text.push(byte);
        }
    }

    fn end_member(&mut self) {
        match self.member.take() {
            Some(Member::Id) => {
                let id = serde_json::from_slice(&self.text);
                self.message.id = id.map_or(Id::Unreadable, Id::Known);
            }
            Some(Member::Method) => self.message.method = true,
            Some(Member::Outcome) => self.message.outcome = true,
            Some(Member::Other) | None => {}
        }
        self.text.clear();
    }

    fn finish(&mut self, whole: bool) {
        self.message.whole = whole;
        let message = std::mem::take(&mut self.message);
        if self.found.len() < MESSAGES {
            self.found.push(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(id: i64) -> Id {
        Id::Known(RequestId::Number(id))
    }

    fn check(line: &[u8], expected: &[(Id, &str)]) {
        let found: Vec<_> = scan(line)
            .found
            .into_iter()
            .map(|found| {
                let words = [
                    (found.method, "method"),
                    (found.outcome, "outcome"),
                    (found.whole, "whole"),
                ];
                let words: Vec<_> = words.iter().filter(|word| word.0).map(|w| w.1).collect();
                (found.id, words.join(" "))
            })
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(id, words)| {
                let id = match id {
                    Id::Missing => Id::Missing,
                    Id::Unreadable => Id::Unreadable,
                    Id::Known(id) => Id::Known(id.clone()),
                };
                (id, (*words).to_owned())
            })
            .collect();
        assert_eq!(found, expected, "{}", String::from_utf8_lossy(line));
    }

    #[test]
    fn the_id_is_found_wherever_it_stands_and_nowhere_else() {
        let text = RequestId::String("a\"},{".into());
        for (line, id) in [
            (&br#"{"id":1,"method":"m"}"#[..], known(1)),
            (br#" { "id" : 1 , "method" : "m" }"#, known(1)),
            (
                br#"{"method":"m","params":{"id":2,"a":[{"id":3}]},"id":1}"#,
                known(1),
            ),
            (
                br#"{"params":"\\\"},\"id\":2,{","method":"m","id":1}"#,
                known(1),
            ),
            (br#"{"method":"m","id":"a\"},{"}"#, Id::Known(text)),
            (b"{\"method\":\"\xff\xfe\",\"id\":1}", known(1)),
            (br#"log of mine {"id":1,"method":"m"}"#, known(1)),
            (br#"{"id":null,"method":"m"}"#, Id::Unreadable),
            (br#"{"id":1.5,"method":"m"}"#, Id::Unreadable),
            (br#"{"id":[1],"method":"m"}"#, Id::Unreadable),
            (br#"{"id":,"method":"m"}"#, Id::Unreadable),
            (br#"{"method":"m","params":{"id":2}}"#, Id::Missing),
            (br#"{"method":"id","x":"id"}"#, Id::Missing),
        ] {
            check(line, &[(id, "method whole")]);
        }
        let long = format!(r#"{{"id":"{}","method":"m"}}"#, "x".repeat(ID));
        check(long.as_bytes(), &[(Id::Unreadable, "method whole")]);
    }

    #[test]
    fn what_is_cut_off_or_no_request_is_told_apart() {
        check(b"", &[]);
        check(b"text }]}", &[]);
        check(br#"{not json {"id":1}"#, &[(Id::Missing, "")]);
        check(br#"{"id":12"#, &[(Id::Missing, "")]);
        check(
            br#"{"id":1,"method":"m","params":{"#,
            &[(known(1), "method")],
        );
        check(br#"{"id":1,"result":{}}"#, &[(known(1), "outcome whole")]);
        check(br#"{"error":{},"id":1}"#, &[(known(1), "outcome whole")]);
        check(b"{}", &[(Id::Missing, "whole")]);
    }

    #[test]
    fn messages_side_by_side_are_each_found_and_not_without_end() {
        let both = [(known(1), "method whole"), (known(2), "method whole")];
        check(br#"{"id":1,"method":"m"}{"id":2,"method":"m"}"#, &both);
        check(br#"[{"id":1,"method":"m"}, {"id":2,"method":"m"}]"#, &both);
        assert_eq!(scan(&b"{}".repeat(1000)).found.len(), MESSAGES);
    }

    #[test]
    fn depth_is_counted_outside_of_strings() {
        for (line, deepest) in [
            (&b"{}"[..], 1),
            (br#"{"a":[[{}]],"b":[]}"#, 4),
            (br#"{"a":"[[[["}"#, 1),
        ] {
            assert_eq!(scan(line).deepest, deepest);
        }
    }
}
