//! What `export_hooks!` expands to calls of: runs a hook with the types of the SDK and converts its result.

use serde_json::Value;

use crate::bindings::hook::exports::toolhost::plugin::hooks as wit;
use crate::{After, Before, Context, HookCall, Outcome};

/// The hook functions of one plugin; a missing one has no effect.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    pub before: Option<fn(&Context, &HookCall) -> Before>,
    pub after: Option<fn(&Context, &HookCall, &Outcome) -> After>,
}

pub fn before(hooks: Hooks, request: wit::Request) -> wit::PreToolUseResult {
    let Some(before) = hooks.before else {
        return Before::proceed().into();
    };
    let (cx, call) = read(request);
    before(&cx, &call).into()
}

pub fn after(hooks: Hooks, request: wit::Request, outcome: wit::Outcome) -> wit::PostToolUseResult {
    let Some(after) = hooks.after else {
        return After::keep().into();
    };
    let (cx, call) = read(request);
    after(&cx, &call, &outcome.into()).into()
}

fn read(request: wit::Request) -> (Context, HookCall) {
    let cx = super::context(request.call_id, request.context);
    let extra = |member: &str| cx.extra().and_then(|extra| extra.get(member));
    let text = |member: &str| {
        let value = extra(member).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let aliases = extra("aliases").and_then(Value::as_array);
    let aliases = aliases.into_iter().flatten().filter_map(Value::as_str);
    let call = HookCall {
        tool: request.tool,
        // A hook must not approve an input that it cannot read; the host treats a crash as a denial.
        input: serde_json::from_str(&request.input).expect("the host sends an input as JSON"),
        aliases: aliases.map(str::to_owned).collect(),
        version: text("version"),
        kind: text("kind"),
        effect: text("effect"),
    };
    (cx, call)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;
    use crate::bindings::toolhost::plugin::types;

    fn witness(cx: &Context, call: &HookCall) -> Before {
        Before::ask(format!("{} {call:?}", cx.mode())).meta(json!({"risk": "high"}))
    }

    fn shorten(_: &Context, call: &HookCall, outcome: &Outcome) -> After {
        match outcome.llm.first().and_then(|part| part.text.as_deref()) {
            Some(text) if call.is("bash") => After::text(&text[..1]),
            _ => After::keep(),
        }
    }

    fn request() -> wit::Request {
        let extra = json!({
            "event": "PreToolUse", "aliases": ["bash", 1], "version": "1.2.3", "kind": "execute", "effect": "destroys",
        });
        let context = types::Context {
            agent_id: "a".to_owned(),
            parent_agent_id: None,
            session_id: "s".to_owned(),
            task_id: "t".to_owned(),
            user_id: None,
            mode: "plan".to_owned(),
            roots: Vec::new(),
            extra: Some(extra.to_string()),
        };
        wit::Request {
            call_id: "c".to_owned(),
            tool: "shell".to_owned(),
            input: r#"{"command": "ls"}"#.to_owned(),
            context,
        }
    }

    fn outcome() -> wit::Outcome {
        Outcome::text("hello").into()
    }

    #[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
    fn check(hooks: Hooks, expected: Expect) {
        let decision = before(hooks, request());
        let revised = after(hooks, request(), outcome());
        expected.assert_eq(&format!("{decision:?}\n{revised:?}"));
    }

    #[test]
    fn a_hook_receives_the_call_and_its_result_counts() {
        let hooks = Hooks {
            before: Some(witness),
            after: Some(shorten),
        };
        check(
            hooks,
            expect![[r#"
            PreToolUseResult { decision: "ask", reason: Some("plan HookCall { tool: \"shell\", input: Object {\"command\": String(\"ls\")}, aliases: [\"bash\"], version: \"1.2.3\", kind: \"execute\", effect: \"destroys\" }"), updated-input: None, outcome: None, meta: Some("{\"risk\":\"high\"}") }
            PostToolUseResult { action: "update", patch: Some(Patch { summary: None, llm: Some([Part { kind: "text", text: Some("h"), data: None, media-type: None, uri: None, name: None }]), structured: None, meta: None }), outcome: None }"#]],
        );
    }

    #[test]
    fn missing_hooks_have_no_effect() {
        let hooks = Hooks {
            before: None,
            after: None,
        };
        check(
            hooks,
            expect![[r#"
            PreToolUseResult { decision: "continue", reason: None, updated-input: None, outcome: None, meta: None }
            PostToolUseResult { action: "keep", patch: None, outcome: None }"#]],
        );
    }

    #[test]
    #[should_panic(expected = "the host sends an input as JSON")]
    fn unreadable_input_panics() {
        let hooks = Hooks {
            before: Some(witness),
            after: None,
        };
        let request = wit::Request {
            input: "{".to_owned(),
            ..request()
        };
        before(hooks, request);
    }
}
