//! Replacement of secrets by `***` in text and JSON values.

use toolhost_sdk::Value;

use crate::secret_finder::{is_secret_name, secrets};

const MASK: &str = "***";

/// The text with masked secrets.
pub fn mask_text(text: String) -> String {
    let text = mask_blocks(text);
    let secrets = secrets(&text);
    if secrets.is_empty() {
        return text;
    }
    let mut masked = String::with_capacity(text.len());
    let mut from = 0;
    for secret in secrets {
        masked.push_str(&text[from..secret.start]);
        masked.push_str(MASK);
        from = secret.end;
    }
    masked.push_str(&text[from..]);
    masked
}

/// The value with masked texts, and with masked members whose name denotes a secret.
pub fn mask_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(mask_text(text)),
        Value::Array(items) => items.into_iter().map(mask_value).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| {
                let secret = is_secret_name(&name);
                let value = match value {
                    Value::String(text) if secret && !text.is_empty() => MASK.into(),
                    Value::Number(_) if secret => MASK.into(),
                    other => mask_value(other),
                };
                (name, value)
            })
            .collect(),
        other => other,
    }
}

/// Masks private keys from their first to their last line. A key without an end was truncated and is still secret.
fn mask_blocks(mut text: String) -> String {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    const DASHES: &str = "-----";
    let mut from = 0;
    while let Some(begin) = text[from..].find(BEGIN).map(|at| from + at) {
        let label = &text[begin + BEGIN.len()..];
        let private = label
            .find(DASHES)
            .is_some_and(|end| label[..end].len() < 60 && label[..end].contains("PRIVATE KEY"));
        if !private {
            from = begin + BEGIN.len();
            continue;
        }
        let end = text[begin..].find(END).map_or(text.len(), |at| {
            let label = begin + at + END.len();
            text[label..]
                .find(DASHES)
                .map_or(text.len(), |at| label + at + DASHES.len())
        });
        text.replace_range(begin..end, MASK);
        from = begin + MASK.len();
    }
    text
}

#[cfg(test)]
mod tests {
    use toolhost_sdk::json;

    use super::*;

    /// Text between « and » must become `***`, and nothing else. A · is removed: it keeps secret scanners from
    /// reporting this file.
    fn check(lines: &[&str]) {
        for line in lines {
            let mut expected = String::new();
            for (index, piece) in line.split(['«', '»']).enumerate() {
                expected.push_str(if index % 2 == 0 { piece } else { MASK });
            }
            let given = line.replace(['«', '»', '·'], "");
            let masked = mask_text(given.clone());
            assert_eq!(masked, expected, "{given}");
            assert_eq!(
                mask_text(masked.clone()),
                masked,
                "a second time it changes nothing"
            );
        }
    }

    #[test]
    fn r_216_values_of_secret_names() {
        check(&[
            "password=«hunter2»",
            "a PASSWORD=«hunter2» b",
            "mysql --password=«x» -u root",
            "DB_PASSWORD='«pa ss»'",
            "export AWS_SECRET_ACCESS_KEY=\"«abc/def+g»\"",
            "password: «hunter2»",
            "  api_key: '«abc»'",
            r#"{"password": "«hunter2»", "user": "ann"}"#,
            r#"{\"password\": \"«hunter2»\"}"#,
            "client-secret = \"«abc»\"",
            "X-Api-Key: «0123abcd»",
            "accessToken=«abc123»;expires=1",
            "https://h/x?token=«abc»&page=2",
            "pwd=«x»",
            "token=«YWJj==»",
            "password := \"«x»\"",
            ":password => '«x»'",
            r#"password = "«pa\"ss»""#,
            "password=«ä€ß» b",
            "passwd=«x»\npassphrase=«y»\nsecret=«z»",
        ]);
    }

    #[test]
    fn r_216_headers_and_addresses() {
        check(&[
            "Authorization: Bearer «abc.def-ghi»",
            "authorization: Basic «dXNlcjpwYXNz»",
            "curl -H 'Authorization: token «abc»' x",
            "sent Bearer «0123456789abcdef0123»",
            "postgres://ann:«s3cr3t»@db.local/x",
            "git clone https://ann:«x»@h/r.git",
        ]);
    }

    #[test]
    fn r_216_keys_that_are_known_by_their_shape() {
        check(&[
            "use «s·k-0123456789abcdefghij» now",
            "«g·hp_0123456789abcdefghijABCDEFGHIJ012345»",
            "«g·ithub_pat_0123456789abcdefghij_ABCDEFGHIJ»",
            "«g·lpat-0123456789abcdefghij»",
            "id «A·KIAIOSFODNN7EXAMPLE»",
            "«x·oxb-123456789012-abcdefghij»",
            "«A·IzaSyA0123456789abcdefghijklmnopqrstuv»",
            "«e·yJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc_DEF-123»",
            "«n·pm_0123456789abcdefghijABCDEFGHIJ012345»",
            "«s·k_live_0123456789abcdefghij»",
        ]);
    }

    #[test]
    fn r_216_private_keys() {
        check(&[
            "a\n«-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----»\nb",
            "«-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl»",
            "«-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----»",
            r#"{"pem": "«-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----»"}"#,
        ]);
        check(&[
            "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
            "-----BEGIN ",
        ]);
    }

    #[test]
    fn r_216_what_only_looks_alike_stays() {
        check(&[
            "password:",
            "Enter password: ",
            "password=",
            "password=\"\"",
            "fn login(password: String, token: &str) {",
            "let token = parse(input);",
            "if token == other {",
            "token => next",
            "password=$PASSWORD token=${TOKEN} secret=$(cat x)",
            "crate::token::Token",
            "token := next1234",
            "Authorization: required",
            "max_tokens=4096",
            "tokens: 17",
            "PWD=/home/ann",
            "OLDPWD=/tmp",
            "the secret of success",
            "PASSWORD_FILE=/run/secrets/x",
            "https://example.org:8080/a@b",
            "basic arithmetic",
            "bearer of news",
            "task-force-of-the-year-was-chosen",
            "monkey: 5",
            "key: value",
            "ghp_short",
        ]);
    }

    #[test]
    fn any_text_is_gone_over_once() {
        for piece in [
            "pwd=/",
            "pwd:",
            "token==",
            "a://:",
            "bearer ",
            "-----BEGIN ",
            "password=\"",
            "secret: \\",
            "ä=",
        ] {
            mask_text(piece.repeat(50_000));
        }
    }

    #[test]
    fn r_216_json_values_are_masked_by_their_names() {
        let given = json!({
            "password": "a b", "token": 7, "apiKey": ["sk-0123456789abcdefghij"], "secret": "", "tokens": 5,
            "nested": {"private_key": "x", "note": "password=y"}, "password_set": true,
        });
        let expected = json!({
            "password": "***", "token": "***", "apiKey": ["***"], "secret": "", "tokens": 5,
            "nested": {"private_key": "***", "note": "password=***"}, "password_set": true,
        });
        assert_eq!(mask_value(given), expected);
        assert_eq!(mask_value(expected.clone()), expected);
    }
}
