//! `tests/examples.json`: calls of a plugin's tools with their expected results.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use toolhost_contract::text;
use toolhost_hostfiles::read_text;

const MAX_BYTES: u64 = 4 << 20;
const MAX_CALLS: usize = 1_000;

/// A call and what it must return. A member that is absent is not compared.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedCall {
    pub tool: String,
    pub input: Value,
    /// The text for the model.
    pub text: Option<String>,
    pub structured: Option<Value>,
    /// The code of the error that the call must end with.
    pub error: Option<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("{file}: {reason}")]
pub struct ExpectedError {
    file: String,
    reason: String,
}

impl ExpectedCall {
    /// Reads the calls. A file that does not exist has none.
    pub fn read(file: &Path) -> Result<Vec<Self>, ExpectedError> {
        let failed = |reason| ExpectedError {
            file: file.display().to_string(),
            reason,
        };
        let json = match read_text(file, MAX_BYTES) {
            Ok(json) => json,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error.to_string())),
        };
        let calls: Vec<Self> = serde_json::from_str(&json)
            .map_err(|error| failed(text::escape_line(&error.to_string(), 400)))?;
        if calls.len() > MAX_CALLS {
            return Err(failed(format!(
                "{} calls; the limit is {MAX_CALLS}",
                calls.len()
            )));
        }
        Ok(calls)
    }

    /// Returns what differs. `outcome` is the text for the model and the structured result, or the code and the message of
    /// an error.
    pub fn difference(
        &self,
        outcome: Result<(&str, Option<&Value>), (&str, &str)>,
    ) -> Option<String> {
        match (outcome, &self.error) {
            (Err((code, _)), Some(expected)) if code == expected => None,
            (Err((code, message)), None) => Some(format!("{}: {}", shown(code), shown(message))),
            (Err((code, message)), Some(expected)) => Some(format!(
                "{}: {}; expected the error `{}`",
                shown(code),
                shown(message),
                shown(expected)
            )),
            (Ok(_), Some(expected)) => Some(format!(
                "it succeeded; expected the error `{}`",
                shown(expected)
            )),
            (Ok((text, structured)), None) => {
                if let Some(expected) = &self.structured
                    && structured != Some(expected)
                {
                    let got = structured.map_or("nothing".to_owned(), Value::to_string);
                    return Some(format!(
                        "structured result {}; expected {}",
                        shown(&got),
                        shown(&expected.to_string())
                    ));
                }
                let expected = self.text.as_ref().filter(|expected| *expected != text)?;
                Some(format!(
                    "text `{}`; expected `{}`",
                    shown(text),
                    shown(expected)
                ))
            }
        }
    }
}

fn shown(text: &str) -> String {
    text::escape_line(text, 500)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_compared_by_the_members_that_are_present() {
        let call = |mut json: Value| {
            json["tool"] = "a".into();
            json["input"] = json!({});
            serde_json::from_value::<ExpectedCall>(json).unwrap()
        };
        let six = json!({"words": 6});
        let good = Ok(("6 words", Some(&six)));
        let failed = Err(("file_not_found", "no\u{1b} file"));
        let cases = [
            (json!({}), good, None),
            (
                json!({"structured": {"words": 6}, "text": "6 words"}),
                good,
                None,
            ),
            (
                json!({"structured": {"words": 5}}),
                good,
                Some("structured result {\"words\":6}; expected {\"words\":5}"),
            ),
            (
                json!({"text": "5 words"}),
                good,
                Some("text `6 words`; expected `5 words`"),
            ),
            (
                json!({"error": "x"}),
                good,
                Some("it succeeded; expected the error `x`"),
            ),
            (json!({"error": "file_not_found"}), failed, None),
            (
                json!({"error": "x"}),
                failed,
                Some("file_not_found: no\\u{1b} file; expected the error `x`"),
            ),
            (json!({}), failed, Some("file_not_found: no\\u{1b} file")),
            (
                json!({"structured": 1}),
                Ok(("a", None)),
                Some("structured result nothing; expected 1"),
            ),
        ];
        for (expected, outcome, difference) in cases {
            assert_eq!(call(expected).difference(outcome).as_deref(), difference);
        }
    }

    #[test]
    fn a_wrong_file_is_an_error_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("examples.json");
        assert_eq!(ExpectedCall::read(&file).unwrap(), []);
        for wrong in [
            "{}",
            "[{\"tool\": \"a\"}]",
            "[{\"tool\": \"a\", \"input\": {}, \"txt\": 1}]",
            "\u{1b}",
        ] {
            std::fs::write(&file, wrong).unwrap();
            let error = ExpectedCall::read(&file).unwrap_err().to_string();
            assert!(
                error.contains("examples.json: ") && !error.contains('\u{1b}'),
                "{error}"
            );
        }
    }
}
