//! The HTML document of the view. It loads nothing, and runs only the script that it contains.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

const SCRIPT: &str = include_str!("view.js");
const STYLE: &str = include_str!("view.css");

/// Returns the document. The key consists of hexadecimal digits.
pub(super) fn document(key: &str) -> String {
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
        source_hash(SCRIPT),
        source_hash(STYLE),
    );
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"toolhost-key\" content=\"{key}\">\n<title>Approval question</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<section id=\"question\" aria-label=\"Approval question\" hidden></section>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// The hash of an inline script or style in a content security policy.
fn source_hash(source: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(source)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_small_and_its_code_cannot_end_its_elements() {
        let document = document("0123");
        assert!(document.len() < 30 << 10, "{}", document.len());
        assert_eq!(document.matches("</script").count(), 1);
        assert_eq!(document.matches("</style").count(), 1);
        for markup in ["innerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!SCRIPT.contains(markup), "{markup} interprets text");
        }
    }
}
