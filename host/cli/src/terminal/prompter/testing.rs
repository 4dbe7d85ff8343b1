//! Questions for the unit tests of the prompter.

use std::sync::Arc;

use serde_json::{Value, json};
use toolhost_contract::policy::{
    HookAsk, HookDecisions, Mount, PathContext, PolicyRequest, PromptKind,
};
use toolhost_contract::{
    Annotations, Call, ChangeKind, ChangeSet, Descriptor, FileChange, FileDiff, FileKind,
    PluginName, Policy, PolicySpec, Principal, Question, Subject, ToolName, Verdict,
};
use toolhost_runtime::file_diff;

use super::untrusted_text::{KeyMode, TerminalLayout};
use crate::terminal::style::Style;

#[derive(Debug, Clone)]
pub struct QuestionSpec {
    pub plugin: &'static str,
    pub tool: &'static str,
    pub kind: &'static str,
    pub hints: Annotations,
    pub input: Value,
    pub meta: Option<Value>,
    pub agent: Option<&'static str>,
    /// The call has run, and its changes are not applied yet.
    pub is_staged: bool,
}

pub fn tool(plugin: &'static str, tool: &'static str, input: Value) -> QuestionSpec {
    QuestionSpec {
        plugin,
        tool,
        kind: "other",
        hints: Annotations::default(),
        input,
        meta: None,
        agent: None,
        is_staged: false,
    }
}

pub fn staged_write(path: &str, content: &str) -> QuestionSpec {
    QuestionSpec {
        is_staged: true,
        ..write(path, content)
    }
}

pub fn write(path: &str, content: &str) -> QuestionSpec {
    let input = json!({"path": path, "content": content});
    QuestionSpec {
        kind: "edit",
        hints: Annotations {
            destructive: Some(false),
            ..Annotations::default()
        },
        ..tool("files", "write_file", input)
    }
}

pub fn delete(path: &str) -> QuestionSpec {
    QuestionSpec {
        kind: "delete",
        ..tool("files", "delete_file", json!({ "path": path }))
    }
}

pub fn command(command: &str) -> QuestionSpec {
    QuestionSpec {
        kind: "execute",
        ..tool("system", "bash", json!({ "command": command }))
    }
}

/// The question about a call in /w, which guests see as /workspace, without rules.
pub fn question(spec: &QuestionSpec) -> (Question, Call) {
    let name = ToolName::parse(spec.tool).unwrap();
    let mut tool = Descriptor::new(name.clone(), "");
    spec.kind.clone_into(&mut tool.kind);
    tool.annotations = spec.hints;
    let plugin = PluginName::parse(spec.plugin).unwrap();
    let subject = Subject::of(&tool, &spec.input);
    let mut caller = Principal::default();
    if let Some(agent) = spec.agent {
        caller.parent_agent = Some(caller.agent);
        caller.agent = agent.to_owned();
    }
    let request = PolicyRequest {
        plugin: &plugin,
        name: &name,
        tool: &tool,
        digest: Some(&toolhost_contract::Digest([1; 32])),
        definition: None,
        input: &spec.input,
        subject: &subject,
        timeout: tool.default_timeout(),
        caller: &caller,
        mode: None,
        restriction: None,
        aliases: &[],
        runs_commands: spec.kind == "execute",
        shell: None,
        variables: &toolhost_contract::variables::NO_VARIABLES,
        background_job: None,
        delegates: false,
        is_tail_call: false,
        effects_known: false,
    };
    let path_context = PathContext {
        cwd: "/w".to_owned(),
        home: Some("/home/me".to_owned()),
        root: None,
        mounts: vec![Mount {
            guest: "/workspace".to_owned(),
            host: "/w".to_owned(),
        }],
    };
    let policy = Policy::new(PolicySpec {
        path_context,
        ..PolicySpec::default()
    })
    .unwrap();
    let decisions = HookDecisions {
        ask: spec.meta.clone().map(|meta| HookAsk {
            reason: None,
            meta: Some(meta),
        }),
        ..HookDecisions::default()
    };
    let Verdict::Ask(question) = policy.decide(request, &decisions, &[], 0) else {
        panic!("not asked about {spec:?}")
    };
    let target = spec.input.get("path").or(spec.input.get("command"));
    let id = format!("call-{}", target.unwrap_or(&Value::Null));
    let call = Call {
        caller,
        ..Call::new(id, name, spec.input.clone())
    };
    let mut question = *question;
    if spec.is_staged {
        let member = |name| spec.input[name].as_str().unwrap();
        question.changes = Some(change_set(&[(member("path"), None, member("content"))]));
    }
    (question, call)
}

/// A question about staged changes: path, original text, proposed text.
pub fn staged_question(files: &[(&str, Option<&str>, &str)]) -> (Question, Call) {
    let (mut question, call) = question(&write("/w/a.rs", "x"));
    question.kind = PromptKind::Edit;
    question.changes = Some(change_set(files));
    (question, call)
}

fn change_set(files: &[(&str, Option<&str>, &str)]) -> Arc<ChangeSet> {
    let change = |(path, before, after): &(&str, Option<&str>, &str)| FileChange {
        path: (*path).to_owned(),
        kind: match before {
            Some(_) => ChangeKind::Modified,
            None => ChangeKind::Created,
        },
        file_kind: FileKind::File,
        sizes: (
            before.map(|text| text.len() as u64),
            Some(after.len() as u64),
        ),
        link_targets: (None, None),
        modes: None,
        executable: false,
        diff: Some(file_diff(path, before.map(ToOwned::to_owned), Some(after))),
        no_diff_reason: None,
        content: None,
    };
    Arc::new(ChangeSet {
        changes: files.iter().map(change).collect(),
    })
}

/// Each change with its size and added lines.
pub fn format_changes(set: &ChangeSet) -> String {
    let shown = set.changes.iter().map(|change| {
        let body = change.diff.as_ref().map_or("", FileDiff::body);
        let added: Vec<&str> = body.lines().filter(|line| line.starts_with('+')).collect();
        let (kind, size) = (change.kind.as_str(), change.sizes.1.unwrap_or(0));
        format!("{kind} {} {size} {}", change.path, added.join(" "))
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// A terminal without colours.
pub fn layout(width: usize, height: usize) -> TerminalLayout {
    TerminalLayout {
        width,
        height,
        style: Style::PLAIN,
        keys: KeyMode::Keys,
    }
}

/// Prefixes a line in the first column, because `expect!` removes the common indentation.
pub fn with_header(screen: &str) -> String {
    format!("screen:\n{screen}")
}
