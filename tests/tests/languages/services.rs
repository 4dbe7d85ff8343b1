//! The sample that uses all host services and hooks, in each language of an SDK.

use std::fs;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use e2e::session::{Session, result_value};
use e2e::test_env::TestEnv;
use e2e::{root, run};
use serde_json::{Value, json};

/// An MCP server with one resource, as a shell script.
const SERVER: &str = r#"
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
    case $line in
    *'"initialize"'*) answer='"result":{"protocolVersion":"2025-11-25","capabilities":{"resources":{}},
        "serverInfo":{"name":"notes","version":"1"}}' ;;
    *'"resources/list"'*) answer='"result":{"resources":[{"uri":"note://1","name":"one"}]}' ;;
    *'"resources/read"'*'note://1'*) answer='"result":{"contents":[{"uri":"note://1","text":"a note"}]}' ;;
    *) answer='"error":{"code":-32601,"message":"not found"}' ;;
    esac
    [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$(printf '%s' "$answer" | tr -d '\n')"
done
"#;

const SETTINGS: &str = r#"
[agents.echo]
command = ["cat"]
[mcp_servers.notes]
command = "sh"
args = ["server.sh"]
sandbox = "none"
"#;

/// Held while the host compiles a component, so that the tests of one component do not all compile it.
static COMPILE: Mutex<()> = Mutex::new(());

/// The packed sample with the configuration that its services need.
pub struct Sample {
    env: TestEnv,
    suffix: &'static str,
}

impl Sample {
    /// `manifest` is below `sdk`; the names of the tools end with `suffix`.
    pub fn pack(component: &str, manifest: &str, suffix: &'static str) -> Self {
        let env = TestEnv::new(SETTINGS);
        fs::write(env.path("server.sh"), SERVER).unwrap();
        let manifest = root().join("sdk").join(manifest);
        let plugin = env.path("plugin.wasm");
        let files = [manifest, plugin].map(|path| path.to_str().unwrap().to_owned());
        let [manifest, plugin] = &files;
        let packed = run(&[
            "pack",
            component,
            "--manifest",
            manifest,
            "--output",
            plugin,
        ]);
        assert_eq!(packed.code, Some(0), "{}", packed.stderr);
        let approved = env.run(&["mcp", "approve", "notes", "--yes", "--config", "host.toml"]);
        assert_eq!(approved.code, Some(0), "{}", approved.stderr);
        let _compile = COMPILE.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = run(&["plugins", "--plugins", plugin]);
        assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
        Self { env, suffix }
    }

    pub fn plugin(&self) -> String {
        self.env.path("plugin.wasm").to_str().unwrap().to_owned()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.env.command(arguments);
        let workspace = format!("{}:rw", self.env.workspace().display());
        command.args(["--plugins", "plugin.wasm", "--config", "host.toml"]);
        command.args(["--events", "events.jsonl", "--allow-program", "bash"]);
        command.args(["--allow-path", &workspace]);
        command
    }

    fn session(&self) -> Session {
        let mut command = self.command(&["turns"]);
        command.args(["--mode", "yolo"]);
        Session::of(command)
    }

    /// What the tool `services` returns for a part of its input.
    fn part(&self, session: &mut Session, part: &str, more: &Value, answers: &[Value]) -> Value {
        let mut input = more.clone();
        input["part"] = json!(part);
        let tool = format!("services_{}", self.suffix);
        let (report, _) = session.call(&tool, &input, answers);
        assert_eq!(report["ok"], true, "{part}: {report}");
        result_value(&report)
    }

    pub fn check_services(&self) {
        let mut session = self.session();
        let none = json!({});
        let mut check = |part: &str, more: &Value, answers: &[Value], expected: Value| {
            let value = self.part(&mut session, part, more, answers);
            assert_eq!(value, expected, "{part}");
        };
        check("host", &none, &[], json!({}));
        check(
            "session",
            &none,
            &[],
            json!({
                "recalled": {"letters": 1},
                "forgotten": null,
                "repaired": "\u{fffd}",
                "seen": {"path": "/workspace/a.txt", "sha256": "0".repeat(64), "lines": [1, 2]},
                "unseen": null,
            }),
        );
        check(
            "run",
            &json!({"command": "echo hello; exit 3"}),
            &[],
            json!({"stdout": "hello\n", "kind": "exited", "code": 3, "refused": "program_not_allowed"}),
        );
        check(
            "agents",
            &none,
            &[],
            json!({"names": ["echo"], "text": "hello"}),
        );
        check(
            "tools",
            &none,
            &[],
            json!({"visible": true, "text": "hello", "refused": "service_not_granted"}),
        );
        let echo = format!("echo_{}", self.suffix);
        check(
            "background",
            &none,
            &[],
            json!({"tool": echo, "text": "hello", "listed": true, "waiting": null, "stopped": true, "code": "cancelled"}),
        );
        check(
            "resources",
            &none,
            &[],
            json!({"uri": "note://1", "server": "notes", "text": "a note", "absent": "mcp_resource_not_found"}),
        );
        self.check_refusals(&mut session);
        self.check_jobs(&mut session);
        let answers = [json!({"replies": ["b"]}), json!({"replies": [true]})];
        let value = self.part(&mut session, "user", &none, &answers);
        assert_eq!(
            value,
            json!({"answers": ["b"], "granted": ["a.txt"], "mode": "plan"})
        );
        assert_eq!(session.end().code, Some(0));
        self.check_events();
    }

    /// Errors of services that the tool passes on. Each SDK derives the class from the code.
    fn check_refusals(&self, session: &mut Session) {
        let tool = format!("services_{}", self.suffix);
        for (part, class, code) in [
            ("denied", "permission_denied", "program_not_allowed"),
            ("absent", "not_found", "mcp_resource_not_found"),
        ] {
            let (report, _) = session.call(&tool, &json!({ "part": part }), &[]);
            let error = &report["error"];
            assert_eq!(
                (&error["class"], &error["code"]),
                (&json!(class), &json!(code)),
                "{report}"
            );
        }
    }

    fn check_jobs(&self, session: &mut Session) {
        let command = json!({"command": "read line; echo got $line; sleep 600", "tty": true});
        let started = self.part(session, "start", &command, &[]);
        assert_eq!(
            (&started["state"], &started["label"]),
            (&json!("running"), &json!("a sample"))
        );
        let job = &started["id"];
        let typed = json!({"task_id": job, "chars": "hello\n"});
        self.part(session, "write", &typed, &[]);
        let read = self.part(session, "jobs", &json!({ "task_id": job }), &[]);
        assert_eq!(
            read,
            json!({"label": "a sample", "output": "got hello", "killed": job})
        );
    }

    /// What `host.output` and `host.emit` have sent.
    fn check_events(&self) {
        let events = fs::read_to_string(self.env.path("events.jsonl")).unwrap();
        let language = format!(r#"{{"language":"{}"}}"#, self.suffix);
        assert!(events.contains(&language), "{events}");
        assert!(events.contains("some output"), "{events}");
    }

    /// Only a hook that the operator configured may answer in place of a tool.
    fn check_configured_hook(&self) {
        let hook = format!(
            "[[hook]]\nplugin = \"services-{0}\"\nmatcher = \"services_{0}\"\non = [\"before\"]\n",
            self.suffix
        );
        fs::write(self.env.path("hook.toml"), hook).unwrap();
        let tool = format!("services_{}", self.suffix);
        let input = r#"{"part": "host", "command": "answered"}"#;
        let workspace = format!("{}:rw", self.env.workspace().display());
        let arguments = ["call", &tool, input, "--json", "--mode", "yolo"];
        let grants = ["--allow-program", "bash", "--allow-path", &workspace];
        let settings = ["--plugins", "plugin.wasm", "--config", "hook.toml"];
        let report = self
            .env
            .run_json(&[&arguments[..], &grants, &settings].concat());
        let text = &report["outcome"]["content"][0]["text"];
        assert_eq!(text, "an answer", "{report}");
    }

    /// The report of a call of the tool that the hooks guard.
    fn echo(&self, text: &str, flags: &[&str]) -> Value {
        let tool = format!("echo_{}", self.suffix);
        let input = json!({ "text": text }).to_string();
        let mut command = self.command(&["call", &tool, &input, "--json"]);
        let output = command.args(flags).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// A `validate` that neither succeeds nor fails refuses the call, with this code.
    pub fn check_validation(&self, code: &str) {
        let refused = self.echo("unchecked", &[]);
        assert_eq!(refused["error"]["code"], code, "{refused}");
    }

    /// Results of other types than objects, and mistakes of the author that the SDK reports.
    pub fn check_values(&self) {
        let tool = format!("values_{}", self.suffix);
        let call = |result: &str| {
            let input = json!({ "result": result }).to_string();
            let arguments = ["call", &tool, &input, "--json", "--allow-tool", "*"];
            let output = self.command(&arguments).output().unwrap();
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
        };
        let text: Value = call("text");
        assert_eq!(text["outcome"]["content"][0]["text"], "hello", "{text}");
        assert_eq!(text["outcome"]["structured"], "hello", "{text}");
        let nothing = call("nothing");
        assert_eq!(nothing["ok"], true, "{nothing}");
        for (result, expected) in [
            ("advice", "recommendations must be a list, not "),
            (
                "arguments",
                "the arguments of a program must be a list, not ",
            ),
            ("unclear", "approval"),
        ] {
            let report = call(result);
            let message = report["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains(expected), "{result}: {report}");
        }
    }

    /// `Math.random` has other numbers in each call, also in a preview.
    pub fn check_random_numbers(&self) {
        let tool = format!("values_{}", self.suffix);
        let arguments = ["call", &tool, r#"{"result": "text"}"#];
        let [first, second] = [(), ()].map(|()| {
            let output = self.command(&arguments).output().unwrap();
            let shown = String::from_utf8(output.stderr).unwrap();
            let line = shown.lines().find(|line| line.contains("random 0."));
            line.map_or_else(|| panic!("{shown}"), str::to_owned)
        });
        assert_ne!(first, second);
    }

    /// A hook changes the text and no number.
    pub fn check_numbers(&self) {
        let tool = format!("numbers_{}", self.suffix);
        let mut texts = Vec::new();
        for _ in 0..2 {
            let input = r#"{"id": 9007199254740993, "ratio": 1.0, "text": "typo"}"#;
            let arguments = ["call", &tool, input, "--json"];
            let output = self.command(&arguments).output().unwrap();
            let report: Value =
                serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
            let structured = &report["outcome"]["structured"];
            assert_eq!(structured["id"], 9_007_199_254_740_993_u64, "{report}");
            assert_eq!(structured["next"], 9_007_199_254_740_994_u64, "{report}");
            texts.push(structured["text"].to_string());
        }
        let events = fs::read_to_string(self.env.path("events.jsonl")).unwrap();
        let changed = r#"{"id":9007199254740993,"ratio":1.0,"text":"type"#;
        assert!(events.contains(changed), "{events}");
        // The numbers of `Math.random` in the hook.
        assert!(texts[0].starts_with("\"type 0."), "{texts:?}");
        assert_ne!(texts[0], texts[1]);
    }

    pub fn check_hooks(&self) {
        let tool = format!("echo_{}", self.suffix);
        let call = |text: &str, flags: &[&str]| self.echo(text, flags);
        let content = |report: &Value| report["outcome"]["content"][0]["text"].clone();

        let kept = call("hello", &[]);
        assert_eq!(content(&kept), "hello", "{kept}");
        let changed = call("typo", &[]);
        assert_eq!(content(&changed), "type", "{changed}");
        let denied = call("forbidden", &[]);
        assert_eq!(content(&denied), format!("{tool} refuses it"), "{denied}");
        let invalid = call("invalid", &[]);
        assert_eq!(invalid["error"]["code"], "hook_denied", "{invalid}");
        let lost = call("lost", &[]);
        assert_eq!(lost["outcome"]["error"]["code"], "hook_failed", "{lost}");
        assert_eq!(lost["outcome"]["content"], json!([]), "{lost}");
        let asked = call("risky", &["--allow-tool", "*"]);
        let message = asked["error"]["message"].as_str().unwrap();
        assert!(message.contains("the text is risky (pure)"), "{asked}");
        let updated = call("secret", &[]);
        assert_eq!(content(&updated), "[removed]", "{updated}");
        assert_eq!(updated["outcome"]["summary"], "one word", "{updated}");
        assert_eq!(updated["outcome"]["meta"]["removed"], 1, "{updated}");
        let replaced = call("other", &[]);
        assert_eq!(content(&replaced), "another outcome", "{replaced}");
        assert_eq!(replaced["outcome"]["structured"], json!({"replaced": true}));
        self.check_configured_hook();
        let failed = call("fail", &[]);
        assert_eq!(failed["error"]["message"], "after sample", "{failed}");
    }
}
