//! `web_search` with the service, the key and the number of results of a configuration file.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use e2e::root;
use e2e::test_env::{TestEnv, parse_json};
use serde_json::json;

/// Answers one request with three results of Brave, and returns the head of the request.
fn serve(listener: TcpListener) -> JoinHandle<Vec<String>> {
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let head: Vec<String> = lines
            .map_while(Result::ok)
            .take_while(|line| !line.is_empty())
            .collect();
        let results = ["One", "Two", "Three"].map(|title| {
            json!({"title": title, "url": format!("https://example.org/{title}"), "description": "text"})
        });
        let body = json!({"web": {"results": results}}).to_string();
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        head
    })
}

#[test]
fn r_454_r_455_r_456_the_configuration_selects_service_key_and_number_of_results() {
    let env = TestEnv::new("");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let config = env.path("host.yaml");
    let text = format!(
        "tools:\n  webSearch:\n    provider: brave\n    apiKey: ${{BRAVE_KEY}}\n    maxResults: 2\n    url: http://{address}/search\n"
    );
    std::fs::write(&config, text).unwrap();
    let request = serve(listener);
    let plugin = root().join("plugins/web.wasm");
    let ended = env
        .command(&["call", "web_search", r#"{"query": "tea"}"#, "--json"])
        .args(["--allow-tool", "web_search", "--plugins"])
        .arg(plugin)
        .arg("--config")
        .arg(config)
        .env("BRAVE_KEY", "key-of-the-test")
        .output()
        .unwrap();
    let report = parse_json(&e2e::CommandResult::of(&ended));
    assert_eq!(report["ok"], true, "{report:#}");
    let head = request.join().unwrap();
    assert_eq!(head[0], "GET /search?q=tea&count=2&offset=0 HTTP/1.1");
    let key = head.iter().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("x-subscription-token")
            .then(|| value.trim())
    });
    assert_eq!(key, Some("key-of-the-test"), "{head:#?}");
    let results = report["outcome"]["structured"]["results"].as_array();
    let titles: Vec<_> = results
        .into_iter()
        .flatten()
        .map(|result| &result["title"])
        .collect();
    assert_eq!(titles, ["One", "Two"], "{report:#}");
}
