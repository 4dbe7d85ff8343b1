//! Errors of `web_fetch`.

use expect_test::expect;

use super::*;

#[test]
fn bad_inputs_are_explained() {
    check(
        json!({}),
        expect![
            "InvalidInput invalid_tool_params: no URL to fetch (pass one in `url` or several in `urls`)"
        ],
    );
    check(
        json!({"prompt": "What is new?"}),
        expect![
            "InvalidInput invalid_tool_params: no URL to fetch (pass one in `url` or several in `urls`)"
        ],
    );
    check(
        json!({"url": "example.org"}),
        expect![
            "InvalidInput invalid_url: `example.org` cannot be fetched: it has no scheme; put `https://` before it (write the complete URL, for example `https://example.org/page?x=1`)"
        ],
    );
    check(
        json!({"url": "file:///etc/passwd"}),
        expect![
            "InvalidInput invalid_url: `file:///etc/passwd` cannot be fetched: only `http` and `https` are supported (write the complete URL, for example `https://example.org/page?x=1`)"
        ],
    );
    check(
        json!({"url": "https://ann:pw@example.org/"}),
        expect![
            "InvalidInput invalid_url: the URL contains a user name or password; remove them (send a header `authorization` with `http_request` instead)"
        ],
    );
    check(
        json!({"url": "https://example.org/none"}),
        expect![
            "NotFound web_fetch_http_error: https://example.org/none answered 404 Not Found (check the address, or find the page with web_search)"
        ],
    );
    check(
        json!({"url": "https://example.org/login"}),
        expect![
            "Denied web_fetch_http_error: https://example.org/login answered 403 Forbidden (the page requires a login or rejects bots; try another source)"
        ],
    );
    check(
        json!({"url": "https://example.org/busy"}),
        expect![
            "Unavailable web_fetch_http_error: https://example.org/busy answered 503 Service Unavailable (try again later)"
        ],
    );
    check(
        json!({"url": "https://example.org/a", "format": "pdf"}),
        expect![[
            r#"InvalidInput invalid_input: `format`: "pdf" is not one of ["markdown","text","html","raw"] ()"#
        ]],
    );
    check(
        json!({"url": "https://example.org/a", "max_chars": 0}),
        expect!["InvalidInput invalid_input: `max_chars`: 0 is less than the minimum of 1 ()"],
    );
    check(
        json!({"urls": ["https://example.org/a", "https://example.org/b"], "start_index": 5}),
        expect![
            "InvalidInput invalid_tool_params: `start_index` = 5 requires a single URL (continue one page at a time)"
        ],
    );
    let many = |most: usize| -> Vec<String> {
        (0..most)
            .map(|n| format!("https://example.org/{n}"))
            .collect()
    };
    check(
        json!({"url": "https://example.org/a", "urls": many(20)}),
        expect![
            "InvalidInput invalid_tool_params: 21 URLs are more than 20 (fetch the others with another call)"
        ],
    );
    check(
        json!({"urls": many(21)}),
        expect![
            "InvalidInput invalid_input: `urls`: a length of 21 is more than the maximum of 20 ()"
        ],
    );
    check(
        json!({"url": format!("https://example.org/{}", "x".repeat(2048))}),
        expect![
            "InvalidInput invalid_input: `url`: a length of 2068 is more than the maximum of 2048 ()"
        ],
    );
}
