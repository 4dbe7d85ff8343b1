//! Addresses of pages with parameters.

use form_urlencoded::Serializer;

/// Returns the address with these parameters, without empty ones.
pub fn link<'a>(path: &str, parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut query = Serializer::new(String::new());
    for (name, value) in parameters {
        if !value.is_empty() {
            query.append_pair(name, value);
        }
    }
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// The page of a call.
pub fn call(id: &str) -> String {
    link("/call", [("id", id)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded() {
        assert_eq!(
            call("a/b?c=\"<&#\u{202e}"),
            "/call?id=a%2Fb%3Fc%3D%22%3C%26%23%E2%80%AE"
        );
        assert_eq!(link("/timeline", [("tool", "")]), "/timeline");
    }
}
