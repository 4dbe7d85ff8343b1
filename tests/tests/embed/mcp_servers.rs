//! MCP servers that an embedding program connects.

use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::{host as host_program, root};
use serde_json::json;
use toolhost::mcp_servers::{
    McpServer, ServerConfig, ServerError, ServerProgram, ServerSandbox, TIMEOUT, TransportConfig,
};
use toolhost::{Access, Decision, Host, Launcher};

use super::{files, text};

/// A server that is another host and serves a directory of plugins.
fn config_of_server(plugins: &Path) -> ServerConfig {
    let plugins = plugins.display().to_string();
    let args = ["run", "--no-store", "--watch", "--plugins", &plugins];
    let program = host_program(&[]).get_program().to_owned();
    ServerConfig {
        name: "own".to_owned(),
        transport: TransportConfig::Stdio(ServerProgram {
            command: program.to_str().unwrap().into(),
            args: args.map(Into::into).into(),
            env: [].into(),
            cwd: root(),
            sandbox: ServerSandbox::Unconfined,
        }),
        include: vec!["base64_*".to_owned(), "current_time".to_owned()],
        exclude: Vec::new(),
        timeout: TIMEOUT,
        is_trusted: false,
    }
}

async fn connected(
    config: ServerConfig,
    launcher: Option<Launcher>,
) -> (Host, Result<McpServer, ServerError>) {
    let builder = files().rule(Decision::Allow, "mcp__own__base64_encode");
    let builder = match launcher {
        Some(launcher) => builder.launcher(launcher),
        None => builder,
    };
    let host = builder.build().await.unwrap();
    let server = host.connect(config).await;
    (host, server)
}

fn tools_of_server(host: &Host) -> Vec<String> {
    let tools = host.tools();
    let names = tools.iter().map(|tool| tool.name.to_string());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("mcp__")).collect();
    names.sort_unstable();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn an_mcp_server_is_connected_and_disconnected() {
    let plugins = tempfile::tempdir().unwrap();
    let plugin = |name: &str| {
        let temporary = plugins.path().join(format!("{name}.part"));
        fs::copy(root().join(format!("plugins/{name}.wasm")), &temporary).unwrap();
        fs::rename(temporary, plugins.path().join(format!("{name}.wasm"))).unwrap();
    };
    plugin("data");
    let (_, refused) = connected(config_of_server(plugins.path()), None).await;
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("`Builder::launcher`"), "{error}");

    let launcher = Launcher {
        program: host_program(&[]).get_program().into(),
        args: vec!["process-launcher".into()],
    };
    let (host, server) = connected(config_of_server(plugins.path()), Some(launcher)).await;
    let server = server.unwrap();
    let listed = ["mcp__own__base64_decode", "mcp__own__base64_encode"];
    assert_eq!(tools_of_server(&host), listed);
    assert!(server.changes().is_empty());
    let input = json!({"text": "hi"});
    let report = host.call("mcp__own__base64_encode", input.clone()).await;
    assert!(text(&report).contains("aGk="), "{}", text(&report));
    // Without a rule, tools of a server need approval.
    let denied = host.call("mcp__own__base64_decode", json!({"text": "aGk="}));
    assert!(denied.await.result.is_err());

    for (name, reason) in [
        ("Own", "has this name"),
        ("o/wn", "is not a valid server name"),
    ] {
        let mut config = config_of_server(plugins.path());
        config.name = name.to_owned();
        let error = host.connect(config).await.err().unwrap().to_string();
        assert!(error.contains(reason), "{error}");
    }

    // A tool that the server adds is left out until it is approved.
    plugin("system");
    let added = async {
        while server.changes().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(tools_of_server(&host), listed);
        server.approve_changes(&server.changes()).unwrap();
        while tools_of_server(&host).len() == listed.len() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(2), added)
        .await
        .expect("the server announces the change");
    assert_eq!(tools_of_server(&host)[2], "mcp__own__current_time");

    server.disconnect().await;
    let report = host.call("mcp__own__base64_encode", input).await;
    assert_eq!(report.result.unwrap_err().code, "tool_not_registered");
    // The name is free again, and dropping a server removes its tools.
    let again = host.connect(config_of_server(plugins.path())).await;
    assert_eq!(tools_of_server(&host).len(), 3);
    drop(again.unwrap());
    assert!(tools_of_server(&host).is_empty());
    host.shut_down().await.unwrap();
}

/// Otherwise a tool could replace the program, which runs outside of the sandbox.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_tools_can_write_to_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("server.sh"), "exit 1").unwrap();
    let host = files()
        .allow_path(folder.path(), Access::ReadWrite)
        .build()
        .await
        .unwrap();
    let mut config = config_of_server(folder.path());
    config.transport = TransportConfig::Stdio(ServerProgram {
        command: "sh".into(),
        args: vec!["server.sh".into()],
        env: [].into(),
        cwd: folder.path().to_owned(),
        sandbox: ServerSandbox::Unconfined,
    });
    let error = host.connect(config).await.err().unwrap().to_string();
    assert!(
        error.contains("server.sh is in a directory that tools can write to"),
        "{error}"
    );
}
