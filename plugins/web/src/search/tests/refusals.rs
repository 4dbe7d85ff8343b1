//! Errors of `web_search`.

use expect_test::{Expect, expect};

use super::*;

// R-454, R-455
#[test]
fn missing_configuration_has_advice() {
    let input = || json!({"query": "x"});
    check(
        "",
        200,
        "",
        input(),
        expect![
            "Unavailable not_configured: no search service is configured: `TOOLHOST_WEB_SEARCH_PROVIDER` is not set (ask the operator to set `provider` in `[web_search]` (or the variable `TOOLHOST_WEB_SEARCH_PROVIDER`) to one of tavily, google, bing, brave, duckduckgo, searxng; duckduckgo needs no key; use web_fetch if you know a URL)"
        ],
    );
    check(
        "PROVIDER=altavista",
        200,
        "",
        input(),
        expect![
            "Unavailable not_configured: `TOOLHOST_WEB_SEARCH_PROVIDER` = `altavista` is not a supported search service (use one of tavily, google, bing, brave, duckduckgo, searxng)"
        ],
    );
    check(
        "PROVIDER=searxng",
        200,
        "",
        input(),
        expect![
            "Unavailable not_configured: searxng is self-hosted and `TOOLHOST_WEB_SEARCH_URL` is not set (ask the operator to set the variable `TOOLHOST_WEB_SEARCH_URL`, for example to `https://searx.example.org`)"
        ],
    );
    check(
        "PROVIDER=searxng URL=s.example",
        200,
        "",
        input(),
        expect![
            "Unavailable not_configured: `TOOLHOST_WEB_SEARCH_URL` cannot be used: `s.example` cannot be fetched: it has no scheme; put `https://` before it ()"
        ],
    );
    check(
        "PROVIDER=google",
        200,
        "",
        input(),
        expect![
            "Unavailable not_configured: google needs a search engine id, but `TOOLHOST_WEB_SEARCH_ENGINE` is not set (ask the operator to set the variable `TOOLHOST_WEB_SEARCH_ENGINE`)"
        ],
    );
    check(
        "PROVIDER=tavily MAX_RESULTS=0",
        200,
        "",
        input(),
        expect![
            "Unavailable not_configured: `TOOLHOST_WEB_SEARCH_MAX_RESULTS` = `0` is not a number from 1 to 20 ()"
        ],
    );
    let cx = Context::test().with_http(|_| {
        Err(Error::denied(
            "secret `web_search` cannot be used here: no secret of that name is configured",
        )
        .code("secret_not_allowed"))
    });
    let error = search(&cx, "PROVIDER=tavily", input()).unwrap_err();
    expect![[r#"Unavailable not_configured: tavily needs a key, but the host has none: secret `web_search` cannot be used here: no secret of that name is configured (ask the operator to put the key into a variable such as `TAVILY_API_KEY` and to add `[secrets.web_search]` with `env = "TAVILY_API_KEY"` and `hosts = ["api.tavily.com"]` to the configuration; duckduckgo and searxng need no key)"#]].assert_eq(&error_line(&error));
}

#[test]
fn what_a_service_answers_instead_is_explained() {
    for (status, answer, expected) in [
        (
            401,
            "",
            "Denied web_search_failed: tavily rejected the key: it responded 401 Unauthorized (ask the operator to check `[secrets.web_search]`)",
        ),
        (
            429,
            "",
            "Unavailable web_search_failed: tavily accepts no more queries at the moment: it responded 429 Too Many Requests (wait a minute and try again)",
        ),
        (
            500,
            "",
            "Unavailable web_search_failed: the search with tavily failed: it answered 500 Internal Server Error ()",
        ),
        (
            418,
            "",
            "Unavailable web_search_failed: the search with tavily failed: it answered 418 ()",
        ),
        (
            200,
            "no",
            "Unavailable web_search_failed: the search with tavily failed: its response is not the expected JSON ()",
        ),
    ] {
        let cx = Context::test().with_http(move |_| {
            Ok(Response {
                status,
                body: answer.into(),
                ..Response::default()
            })
        });
        let error = search(&cx, "PROVIDER=tavily", json!({"query": "x"})).unwrap_err();
        assert_eq!(error_line(&error), expected);
    }
}

#[test]
fn bad_inputs_are_explained() {
    let check = |input: Value, expected: Expect| {
        let admitted = testing::call::<WebSearch>(&Context::test(), input);
        expected.assert_eq(&error_line(&admitted.unwrap_err()));
    };
    check(
        json!({}),
        expect!["InvalidInput invalid_input: `query` is missing ()"],
    );
    check(
        json!({"query": ""}),
        expect![
            "InvalidInput invalid_input: `query`: a length of 0 is less than the minimum of 1 ()"
        ],
    );
    check(
        json!({"query": "  "}),
        expect!["InvalidInput invalid_tool_params: `query` is empty (write what to search for)"],
    );
    check(
        json!({"query": "x".repeat(401)}),
        expect![
            "InvalidInput invalid_input: `query`: a length of 401 is more than the maximum of 400 ()"
        ],
    );
    check(
        json!({"query": "x", "limit": 21}),
        expect!["InvalidInput invalid_input: `limit`: 21 is more than the maximum of 20 ()"],
    );
    check(
        json!({"query": "x", "topic": "sports"}),
        expect![[
            r#"InvalidInput invalid_input: `topic`: "sports" is not one of ["general","news","finance"] ()"#
        ]],
    );
    check(
        json!({"query": "x", "allowed_domains": ["a.example"], "blocked_domains": ["b.example"]}),
        expect![
            "InvalidInput invalid_tool_params: `allowed_domains` and `blocked_domains` are mutually exclusive (omit one of them)"
        ],
    );
    check(
        json!({"query": "x", "allowed_domains": ["a b"]}),
        expect![
            "InvalidInput invalid_tool_params: `a b` is not a domain (write domains as `example.org`)"
        ],
    );
}
