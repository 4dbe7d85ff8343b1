//! Configuration keys in the spelling of other systems.

use std::time::Duration;

use super::*;
use toolhost_kernel::OnDuplicate;

// R-444, R-445, R-446, R-447, R-448, R-449
#[test]
fn r_444_to_449_keys_of_kode() {
    let config = parse_ok(
        FileFormat::Json,
        r#"{"permission": {"mode": "approval", "requireApprovalTools": ["bash_run"], "autoAllowTools": ["fs_read"],
            "autoDenyTools": ["fs_rm"]}, "toolTimeoutMs": 60000, "concurrency": 5}"#,
    );
    let ours = parse_ok(
        FileFormat::Toml,
        r#"timeout = "60s"
[pools]
all = 5
[permission]
mode = "ask"
require_approval_tools = ["bash_run"]
auto_allow_tools = ["fs_read"]
auto_deny_tools = ["fs_rm"]
"#,
    );
    assert_eq!(config, ours);
}

// R-450, R-451, R-453, R-454, R-455, R-456, R-457, R-458
#[test]
fn r_450_to_458_keys_of_a_yaml_file() {
    let config = parse_ok(
        FileFormat::Yaml,
        r#"
tools:
  timeout: 30000
  maxConcurrent: 3
  allowedPaths: ["./data", "./docs", "./src"]
  webSearch:
    provider: tavily
    apiKey: "${TAVILY_API_KEY}"
    maxResults: 10
  mcpServers:
    - name: one
      url: "http://localhost:1/mcp"
      enabled: true
  grep: { timeout: 5s }
"#,
    );
    assert_eq!(config.timeout, Some(Duration::from_secs(30)));
    assert_eq!(config.pools.all.unwrap().get(), 3);
    let paths: Vec<_> = config
        .allowed_paths
        .iter()
        .flatten()
        .map(|entry| entry.path.as_str())
        .collect();
    assert_eq!(paths, ["./data", "./docs", "./src"]);
    let key = config
        .web_search
        .as_ref()
        .and_then(|search| search.api_key.as_ref());
    assert_eq!(key.unwrap().reveal(), "${TAVILY_API_KEY}");
    assert!(
        !format!("{config:?}").contains("TAVILY"),
        "the debug output contains the key"
    );
    let server = &config.mcp_servers.as_ref().unwrap().0["one"];
    assert_eq!(server.url.as_deref(), Some("http://localhost:1/mcp"));
    assert_eq!(config.tools.by_name.len(), 1);
}

// R-452
#[test]
fn r_452_the_limit_of_an_agent() {
    let config = parse_ok(
        FileFormat::Yaml,
        "settings:\n  agent:\n    maxConcurrentTools: 7\n",
    );
    assert_eq!(config.pools.all.unwrap().get(), 7);
}

// R-440, R-441, R-442, R-443
#[test]
fn r_440_to_443_keys_of_gemini() {
    let config = parse_ok(
        FileFormat::Json,
        r#"{"toolDiscoveryCommand": "npm run list-tools", "toolCallCommand": "npm run call",
            "mcpServers": {"one": {"command": "server", "args": ["-v"], "env": {"A": "b"}, "includeTools": ["x"]},
            "two": {"httpUrl": "http://localhost/mcp", "trust": false, "timeout": 5000}},
            "useTools": ["grep"], "onDuplicate": "replace"}"#,
    );
    assert_eq!(config.mcp_servers.as_ref().unwrap().0.len(), 2);
    assert_eq!(
        config.mcp_servers.as_ref().unwrap().0["one"].include_tools,
        ["x"]
    );
    assert_eq!(
        config.tool_discovery_command.as_deref(),
        Some("npm run list-tools")
    );
    assert_eq!(config.tool_call_command.as_deref(), Some("npm run call"));
    assert!(matches!(config.use_tools, Some(UseTools::Only(names)) if names.len() == 1));
    assert_eq!(config.on_duplicate, Some(OnDuplicate::Replace));
}

#[test]
fn a_tool_can_have_the_name_of_a_foreign_setting() {
    let config = parse_ok(FileFormat::Toml, "[tools.web_search]\nenabled = false\n");
    assert_eq!(config.tools.by_name.len(), 1);
}

#[test]
fn a_key_in_two_spellings_is_an_error_that_names_both() {
    check_error(
        FileFormat::Toml,
        "timeout = \"1s\"\ntoolTimeoutMs = 1000\n",
        &expect!["toolhost.toml: `timeout` and `toolTimeoutMs` are the same setting; keep one"],
    );
    check_error(
        FileFormat::Yaml,
        "concurrency: 3\nsettings: { agent: { maxConcurrentTools: 3 } }\n",
        &expect![
            "toolhost.yaml: `concurrency` and `settings.agent.maxConcurrentTools` are the same setting; keep one"
        ],
    );
    check_error(
        FileFormat::Yaml,
        "tools:\n  maxConcurrent: 3\n  max_concurrent: 3\n",
        &expect![
            "toolhost.yaml:3: `maxConcurrent` and `max_concurrent` are the same setting; keep one"
        ],
    );
    check_error(
        FileFormat::Toml,
        "[tools]\ntimeout = 5\ntimeout_ms = 5\n",
        &expect!["toolhost.toml:3: `timeout` and `timeout_ms` are the same setting; keep one"],
    );
    check_error(
        FileFormat::Json,
        "{\"useTools\": [],\n\"use_tools\": []}",
        &expect!["toolhost.json:2: `useTools` and `use_tools` are the same setting; keep one"],
    );
    check_error(
        FileFormat::Toml,
        "[permission]\nautoAllowTools = []\nauto_allow_tools = []\n",
        &expect![
            "toolhost.toml:3: `autoAllowTools` and `auto_allow_tools` are the same setting; keep one"
        ],
    );
    check_error(
        FileFormat::Toml,
        "[policy]\nmode = \"plan\"\n[permission]\nmode = \"auto\"\n",
        &expect![
            "toolhost.toml: `policy.mode` and `permission.mode` are the same setting; keep one"
        ],
    );
}

#[test]
fn an_invalid_foreign_value_is_an_error_with_its_line() {
    check_error(
        FileFormat::Toml,
        "toolTimeoutMs = 0\n",
        &expect!["toolhost.toml:1: 0 ms is too short for a call; use at least 1"],
    );
    check_error(
        FileFormat::Yaml,
        "tools:\n  timeout: -1\n",
        &expect!["toolhost.yaml:2: -1 ms is negative; use at least 1"],
    );
    check_error(
        FileFormat::Yaml,
        "tools:\n  webSearch: { provider: altavista }\n",
        &expect![
            "toolhost.yaml:2: unknown value `altavista`; expected one of: tavily, google, bing, duckduckgo, brave, searxng"
        ],
    );
    check_error(
        FileFormat::Json,
        "{\"tools\": {\n\"webSearch\": {\"apiKey\": \"x\"}}}",
        &expect!["toolhost.json:2: missing key `provider`"],
    );
    check_error(
        FileFormat::Toml,
        "[tools.timeout]\nenabled = true\n",
        &expect![
            "toolhost.toml:1: `timeout` under `tools` is a setting, so a tool of that name cannot be configured here; use `use_tools` and `[plugin.NAME]`"
        ],
    );
    check_error(
        FileFormat::Yaml,
        "mcpServers:\n  one: { trust: true }\n",
        &expect![
            "toolhost.yaml:2: server `one` needs exactly one of `url`, `httpUrl` and `command`"
        ],
    );
    check_error(
        FileFormat::Yaml,
        "tools:\n  mcpServers:\n    - { url: x }\n",
        &expect!["toolhost.yaml:2: missing key `name`"],
    );
    check_error(
        FileFormat::Yaml,
        "mcpServers:\n  - { name: a, url: x }\n  - { name: a, url: y }\n",
        &expect!["toolhost.yaml:2: duplicate server `a`; keep one"],
    );
    check_error(
        FileFormat::Yaml,
        "permission:\n  requireAprovalTools: []\n",
        &expect![
            "toolhost.yaml:2: unknown key `require_aproval_tools`; did you mean `require_approval_tools`?"
        ],
    );
    check_error(
        FileFormat::Toml,
        "[pools]\nnetwork = 0\n",
        &expect!["toolhost.toml:2: expected a positive integer, found the number 0"],
    );
}
