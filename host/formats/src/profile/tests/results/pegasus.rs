//! Tests of results in the Pegasus profile.

use expect_test::expect;
use serde_json::{Value, json};

use super::{check, first_page, page, render, shown, value};
use crate::profile::Profile;

// R-360, R-361, R-362, R-363, R-364, R-365, R-366, R-367, R-368, R-369
#[test]
fn r_360_system_and_file_results_of_pegasus() {
    let entry = json!({
        "name": "a", "path": "/w/a", "isDir": false, "size": 1, "modified": "2024-02-29T23:59:59Z", "isSymlink": false,
    });
    check(
        Profile::Pegasus,
        &[
            (
                "current_time",
                json!({}),
                json!({"timestamp": 1, "iso": "1970-01-01T00:00:00.001Z", "timezone": "UTC", "formatted": "x", "offset": "+00:00"}),
            ),
            ("sleep", json!({}), json!({"slept": 2.5})),
            (
                "get_env",
                json!({}),
                json!({"key": "A", "value": null, "note": "it is a secret"}),
            ),
            (
                "get_env",
                json!({}),
                json!({"key": "A", "value": "b", "note": null}),
            ),
            ("set_env", json!({}), json!({"previous": null})),
            ("read_file", json!({}), page()),
            ("read_file", json!({}), first_page()),
            (
                "write_file",
                json!({}),
                json!({"path": "/w/a", "bytesWritten": 3}),
            ),
            (
                "list_directory",
                json!({}),
                json!({"path": "/w", "files": [entry], "count": 1, "total": 1, "truncated": false}),
            ),
            (
                "delete_file",
                json!({}),
                json!({"deleted": true, "path": "/w/a"}),
            ),
            (
                "move_file",
                json!({}),
                json!({"success": true, "from": "/w/a", "to": "/w/b"}),
            ),
            (
                "get_file_info",
                json!({}),
                json!({"exists": true, "path": "/w/a", "size": 1, "modified": "1970-01-02T00:00:01.5Z", "isFile": true, "isSymlink": false}),
            ),
            (
                "get_file_info",
                json!({}),
                json!({"exists": false, "path": "/w/x"}),
            ),
        ],
        expect![[r#"
            current_time: {"timestamp":1,"iso":"1970-01-01T00:00:00.001Z","timezone":"UTC"}
            sleep: {"slept":2.5}
            get_env: {"value":null,"note":"it is a secret"}
            get_env: {"value":"b"}
            set_env: {"previous":null}
            read_file: {"content":"one\ntwo\n","size":8}
            read_file: {"content":"one\ntwo\n","size":8,"note":"lines 1 to 2 of 9 are shown; call read_file with offset 3 to continue","truncated":true}
            write_file: {"bytesWritten":3}
            list_directory: {"files":[{"name":"a","path":"/w/a","isDir":false,"size":1,"modified":1709251199000,"isSymlink":false}],"total":1}
            delete_file: {"deleted":true}
            move_file: {"success":true}
            get_file_info: {"exists":true,"size":1,"modified":86401500,"isFile":true}
            get_file_info: {"exists":false,"size":null,"modified":null}"#]],
    );
}

// R-370, R-371, R-372, R-373, R-374, R-375, R-376, R-377
#[test]
fn r_370_network_and_data_results_of_pegasus() {
    let response = json!({
        "url": "https://a.example/", "status": 404, "statusText": "Not Found", "headers": {"a": "b"}, "body": "no",
        "truncated": false, "duration_ms": 3,
    });
    check(
        Profile::Pegasus,
        &[
            ("http_get", json!({}), response.clone()),
            ("http_post", json!({}), response.clone()),
            ("http_request", json!({}), response),
            (
                "web_search",
                json!({}),
                json!({"results": [{"title": "t", "url": "u", "snippet": "s"}], "provider": "p"}),
            ),
            ("json_parse", json!({}), json!({"data": [1]})),
            ("json_stringify", json!({}), json!({"text": "[1]"})),
            (
                "base64_encode",
                json!({}),
                json!({"encoded": "eA==", "size": 1}),
            ),
            (
                "base64_decode",
                json!({}),
                json!({"decoded": "x", "binary": false}),
            ),
            (
                "base64_decode",
                json!({}),
                json!({"bytes_base64": "/w==", "binary": true}),
            ),
        ],
        expect![[r#"
            http_get: {"status":404,"headers":{"a":"b"},"body":"no"}
            http_post: {"status":404,"headers":{"a":"b"},"body":"no"}
            http_request: {"status":404,"headers":{"a":"b"},"body":"no"}
            web_search: {"results":[{"title":"t","url":"u","snippet":"s"}]}
            json_parse: {"data":[1]}
            json_stringify: {"text":"[1]"}
            base64_encode: {"encoded":"eA=="}
            base64_decode: {"decoded":"x"}
            base64_decode: {"bytes_base64":"/w==","binary":true}"#]],
    );
}

#[test]
fn dates_become_milliseconds() {
    for (iso, expected) in [
        ("1970-01-01T00:00:00Z", Some(0)),
        ("2000-02-28T23:59:59Z", Some(951_782_399_000)),
        ("2000-02-29T00:00:00.25Z", Some(951_782_400_250)),
        ("2024-02-29T23:59:59Z", Some(1_709_251_199_000)),
        ("2100-03-01T00:00:00Z", Some(4_107_542_400_000)),
        ("1969-12-31T23:59:59Z", Some(-1000)),
        ("2024-02-29", None),
        ("2024-02-29T23:59:59+01:00", None),
        ("2024-13-29T23:59:59Z", None),
        ("9999999-01-01T00:00:00Z", None),
        ("2024-01-01T00:00Z", None),
        ("2024-01-01T00:00:00.äZ", None),
        ("", None),
    ] {
        let info = json!({"exists": true, "size": 1, "modified": iso});
        let text = shown(&render(
            Profile::Pegasus,
            "get_file_info",
            &json!({}),
            &value(info),
        ));
        let shown: Value = serde_json::from_str(&text).unwrap();
        let expected = expected.map_or(json!(iso), |number: i64| json!(number));
        assert_eq!(shown["modified"], expected, "{iso}");
    }
}
