//! Process arguments, which other users can read, contain no token of the host.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use e2e::http::{Client, Server};
use e2e::{CommandResult, root};
use serde_json::json;

use crate::audit::SERVER;
use crate::home::{Home, poll_until};

const HTTP_TOKEN: &str = "the-http-token-of-ann-7c1f";
const STATE_KEY: &str = "the-state-key-of-several-hosts-7c1f";
/// Environment variables of the host, each for one kind of process or request.
const VARIABLES: [(&str, &str); 6] = [
    ("NET_SECRET", "the-secret-of-a-host-7c1f"),
    ("SEARCH_KEY", "the-key-of-a-search-7c1f"),
    ("SERVER_TOKEN", "the-token-of-a-server-7c1f"),
    ("HOOK_TOKEN", "the-token-of-a-hook-7c1f"),
    ("AGENT_TOKEN", "the-token-of-an-agent-7c1f"),
    ("PROGRAM_TOKEN", "the-token-of-a-program-7c1f"),
];
const SETTINGS: &str = r#"
[secrets.KEY]
env = "NET_SECRET"
hosts = ["https://api.example.org"]

[web_search]
provider = "tavily"
api_key = "${SEARCH_KEY}"

[mcp]
state_key = "STATE_KEY_FILE"

[mcp_servers.s]
command = "sh"
args = ["server.sh"]
cwd = "HOME"
sandbox = "none"
env = { TOKEN = "${SERVER_TOKEN}", LIST = "HOME/list.json" }

[[hook]]
name = "h"
on = ["before"]
command = ["sh", "HOME/hook.sh"]
env = ["HOOK_TOKEN"]

[agents.general]
description = "x"
command = ["sh", "HOME/agent.sh"]
"#;
/// Script that writes its token and the arguments of all processes to files.
const NOTE: &str =
    "cd HOME; printenv TOKEN > got-ROLE; cat /proc/[0-9]*/cmdline > arguments-ROLE 2> /dev/null";

/// A home with a server, a hook and an agent, each with a token.
fn home() -> Home {
    let home = Home::new();
    let directory = home.at("").display().to_string();
    for (role, variable, rest) in [
        ("server", "TOKEN", SERVER),
        ("hook", "HOOK_TOKEN", "cat > /dev/null; echo {}"),
        ("agent", "AGENT_TOKEN", "echo done"),
    ] {
        let note = NOTE.replace("HOME", &directory).replace("TOKEN", variable);
        let script = format!("{}\n{rest}\n", note.replace("ROLE", role));
        fs::write(home.at(&format!("{role}.sh")), script).unwrap();
    }
    for (file, text) in [
        ("tokens", format!("ann {HTTP_TOKEN}\n")),
        ("list.json", "[]".to_owned()),
        ("key", STATE_KEY.to_owned()),
    ] {
        fs::write(home.at(file), text).unwrap();
        fs::set_permissions(home.at(file), Permissions::from_mode(0o600)).unwrap();
    }
    fs::create_dir(home.at("workspace")).unwrap();
    let settings = SETTINGS.replace("STATE_KEY_FILE", &home.at("key").to_string_lossy());
    home.write(&settings.replace("HOME", directory.trim_end_matches('/')));
    home
}

fn serve(home: &Home) -> Server {
    let mut command = home.host(&["run", "--http", "127.0.0.1:0", "--mode", "yolo"]);
    command.args(["--allow-program", "bash", "--allow-env", "PROGRAM_TOKEN"]);
    command.args(["--allow-host", "api.example.org"]);
    command.arg("--http-token-file").arg(home.at("tokens"));
    let folder = format!("{}:rw", home.at("workspace").display());
    command.args(["--allow-path", &folder]).envs(VARIABLES);
    for plugin in ["shell", "agent", "web"] {
        let file = root().join(format!("plugins/{plugin}.wasm"));
        command.arg("--plugins").arg(file);
    }
    Server::start(command)
}

#[test]
fn process_arguments_contain_no_token() {
    let home = home();
    let mut approve = home.host(&["mcp", "approve", "s", "--yes"]);
    let approved = CommandResult::of(&approve.envs(VARIABLES).output().unwrap());
    assert_eq!(approved.code, Some(0), "{approved:?}");
    fs::remove_file(home.at("got-server")).unwrap();
    let server = serve(&home);
    let mut client = Client::connect(&server.address).with_token(HTTP_TOKEN);
    client.start_session();
    let read = |name: &str| fs::read_to_string(home.at(name)).unwrap_or_default();
    let command = "printenv PROGRAM_TOKEN > got; exec sleep 613";
    let program = json!({"command": command, "run_in_background": true});
    let started = client.call(1, "shell", &program).text();
    poll_until("the program and the server have their tokens", || {
        read("workspace/got").ends_with('\n') && read("got-server").ends_with('\n')
    });
    let answer = client.call(2, "task", &json!({"prompt": "x"})).text();
    assert!(answer.contains("done"), "{answer}");

    // Each process has its token.
    for (file, variable) in [
        ("workspace/got", "PROGRAM_TOKEN"),
        ("got-server", "SERVER_TOKEN"),
        ("got-hook", "HOOK_TOKEN"),
        ("got-agent", "AGENT_TOKEN"),
    ] {
        let (_, token) = VARIABLES
            .iter()
            .find(|(name, _)| *name == variable)
            .unwrap();
        assert_eq!(read(file).trim_end(), *token, "{file} {started}");
    }
    let arguments = |role: &str| read(&format!("arguments-{role}")).replace('\0', " ");
    let (hook, agent) = (arguments("hook"), arguments("agent"));
    assert!(hook.contains("hook.sh"), "{hook}");
    for process in [
        "sleep 613",
        "server.sh",
        "agent.sh",
        "process-launcher watch",
    ] {
        assert!(agent.contains(process), "{process}: {agent}");
    }
    let all = [arguments("server"), hook, agent].concat();
    let tokens = VARIABLES.iter().map(|(_, value)| *value);
    for token in tokens.chain([HTTP_TOKEN, STATE_KEY]) {
        assert!(!all.contains(token), "{token}: {all}");
    }
}
