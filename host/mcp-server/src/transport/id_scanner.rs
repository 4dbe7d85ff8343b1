//! Scanner that finds message ids in lines that cannot be parsed.
//!
//! It reads each byte once and uses constant memory, so that lines may have any length. It scans the whole line,
//! because common clients write `id` after `params`.

use rmcp::model::RequestId;

use super::open_requests::MAX_ID;

/// Maximum number of messages of a line that are answered.
const MAX_MESSAGES: usize = 64;

/// Properties of one message.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ScannedMessage {
    pub(super) id: ScannedId,
    pub(super) has_method: bool,
    /// The message has a result or error, so it is a response to a server request.
    pub(super) is_response: bool,
    /// The message was complete.
    pub(super) is_complete: bool,
}

#[derive(Debug, Default, PartialEq)]
pub(super) enum ScannedId {
    #[default]
    Missing,
    /// The id is not a string or an integer.
    Unreadable,
    Known(RequestId),
}

pub(super) struct ScanResult {
    pub(super) messages: Vec<ScannedMessage>,
    /// Maximum nesting depth.
    pub(super) max_depth: usize,
}

#[derive(Default)]
pub(super) struct IdScanner {
    messages: Vec<ScannedMessage>,
    message: ScannedMessage,
    /// Number of open brackets. Brackets around messages are not counted, so the elements of a batch are messages too.
    depth: usize,
    deepest: usize,
    in_string: bool,
    escaped: bool,
    /// The member whose value is being scanned. `None` while its name is scanned.
    member: Option<TopLevelMember>,
    /// The name of the member, or the value of `id`.
    text: Vec<u8>,
}

#[derive(Clone, Copy)]
enum TopLevelMember {
    Id,
    Method,
    Outcome,
    Other,
}

/// Scans a complete line.
pub(super) fn scan(line: &[u8]) -> ScanResult {
    let mut scan = IdScanner::default();
    scan.feed(line);
    scan.into_result()
}

/// Returns the id of the request that the text contains, if it contains exactly one message.
pub(crate) fn request_id(text: &[u8]) -> Option<RequestId> {
    let [message] = <[_; 1]>::try_from(scan(text).messages).ok()?;
    match message.id {
        ScannedId::Known(id) if message.has_method && message.is_complete => Some(id),
        ScannedId::Known(_) | ScannedId::Missing | ScannedId::Unreadable => None,
    }
}

impl IdScanner {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.feed_byte(*byte);
        }
    }

    pub(super) fn into_result(mut self) -> ScanResult {
        if self.depth > 0 {
            self.end_message(false);
        }
        ScanResult {
            messages: self.messages,
            max_depth: self.deepest,
        }
    }

    fn feed_byte(&mut self, byte: u8) {
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
                self.message = ScannedMessage::default();
                self.member = None;
                self.text.clear();
                self.open();
            }
            (_, 0) => {}
            (b'}' | b']', 1) => {
                self.end_member();
                self.depth = 0;
                self.end_message(true);
            }
            (b':', 1) if self.member.is_none() => {
                self.member = Some(match self.text.as_slice() {
                    br#""id""# => TopLevelMember::Id,
                    br#""method""# => TopLevelMember::Method,
                    br#""result""# | br#""error""# => TopLevelMember::Outcome,
                    _ => TopLevelMember::Other,
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
        let counts = matches!(self.member, None | Some(TopLevelMember::Id)) && self.depth == 1;
        let is_blank = byte.is_ascii_whitespace() && !self.in_string;
        if counts && !is_blank && self.text.len() < MAX_ID {
            self.text.push(byte);
        }
    }

    fn end_member(&mut self) {
        match self.member.take() {
            Some(TopLevelMember::Id) => {
                let id = serde_json::from_slice(&self.text);
                self.message.id = id.map_or(ScannedId::Unreadable, ScannedId::Known);
            }
            Some(TopLevelMember::Method) => self.message.has_method = true,
            Some(TopLevelMember::Outcome) => self.message.is_response = true,
            Some(TopLevelMember::Other) | None => {}
        }
        self.text.clear();
    }

    fn end_message(&mut self, whole: bool) {
        self.message.is_complete = whole;
        let message = std::mem::take(&mut self.message);
        if self.messages.len() < MAX_MESSAGES {
            self.messages.push(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(id: i64) -> ScannedId {
        ScannedId::Known(RequestId::Number(id))
    }

    fn check(line: &[u8], expected: &[(ScannedId, &str)]) {
        let found: Vec<_> = scan(line)
            .messages
            .into_iter()
            .map(|found| {
                let flags = [
                    (found.has_method, "method"),
                    (found.is_response, "outcome"),
                    (found.is_complete, "whole"),
                ];
                let flags: Vec<_> = flags.iter().filter(|flag| flag.0).map(|w| w.1).collect();
                (found.id, flags.join(" "))
            })
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(id, flags)| {
                let id = match id {
                    ScannedId::Missing => ScannedId::Missing,
                    ScannedId::Unreadable => ScannedId::Unreadable,
                    ScannedId::Known(id) => ScannedId::Known(id.clone()),
                };
                (id, (*flags).to_owned())
            })
            .collect();
        assert_eq!(found, expected, "{}", String::from_utf8_lossy(line));
    }

    #[test]
    fn the_id_is_found_at_any_position_of_the_message() {
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
            (br#"{"method":"m","id":"a\"},{"}"#, ScannedId::Known(text)),
            (b"{\"method\":\"\xff\xfe\",\"id\":1}", known(1)),
            (br#"log of mine {"id":1,"method":"m"}"#, known(1)),
            (br#"{"id":null,"method":"m"}"#, ScannedId::Unreadable),
            (br#"{"id":1.5,"method":"m"}"#, ScannedId::Unreadable),
            (br#"{"id":[1],"method":"m"}"#, ScannedId::Unreadable),
            (br#"{"id":,"method":"m"}"#, ScannedId::Unreadable),
            (br#"{"method":"m","params":{"id":2}}"#, ScannedId::Missing),
            (br#"{"method":"id","x":"id"}"#, ScannedId::Missing),
        ] {
            check(line, &[(id, "method whole")]);
        }
        let long = format!(r#"{{"id":"{}","method":"m"}}"#, "x".repeat(MAX_ID));
        check(long.as_bytes(), &[(ScannedId::Unreadable, "method whole")]);
    }

    #[test]
    fn incomplete_messages_and_responses_are_recognized() {
        check(b"", &[]);
        check(b"text }]}", &[]);
        check(br#"{not json {"id":1}"#, &[(ScannedId::Missing, "")]);
        check(br#"{"id":12"#, &[(ScannedId::Missing, "")]);
        check(
            br#"{"id":1,"method":"m","params":{"#,
            &[(known(1), "method")],
        );
        check(br#"{"id":1,"result":{}}"#, &[(known(1), "outcome whole")]);
        check(br#"{"error":{},"id":1}"#, &[(known(1), "outcome whole")]);
        check(b"{}", &[(ScannedId::Missing, "whole")]);
    }

    #[test]
    fn adjacent_messages_are_found_up_to_a_limit() {
        let both = [(known(1), "method whole"), (known(2), "method whole")];
        check(br#"{"id":1,"method":"m"}{"id":2,"method":"m"}"#, &both);
        check(br#"[{"id":1,"method":"m"}, {"id":2,"method":"m"}]"#, &both);
        assert_eq!(scan(&b"{}".repeat(1000)).messages.len(), MAX_MESSAGES);
    }

    #[test]
    fn depth_is_counted_outside_of_strings() {
        for (line, deepest) in [
            (&b"{}"[..], 1),
            (br#"{"a":[[{}]],"b":[]}"#, 4),
            (br#"{"a":"[[[["}"#, 1),
        ] {
            assert_eq!(scan(line).max_depth, deepest);
        }
    }
}
