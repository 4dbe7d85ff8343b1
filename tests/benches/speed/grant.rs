//! Policy grants for calls without the kernel.

use std::time::Duration;

use serde_json::Value;
use toolhost_contract::policy::{HookDecisions, Policy, PolicyRequest, Subject, Verdict};
use toolhost_contract::{Descriptor, Effect, Grant, Principal};
use toolhost_runtime::Plugin;

/// Grants like the kernel: calls that read are allowed, calls that write are staged. The caller compiles the policy
/// once, because doing so between timed calls would evict the CPU caches.
pub fn grant(
    policy: &Policy,
    plugin: &Plugin,
    tool: &Descriptor,
    input: &Value,
    timeout: Option<Duration>,
) -> anyhow::Result<Grant> {
    let (caller, subject) = (Principal::default(), Subject::of(tool, input));
    let request = PolicyRequest {
        delegates: false,
        plugin: plugin.name(),
        name: &tool.name,
        tool,
        aliases: &[],
        runs_commands: false,
        shell: None,
        variables: &toolhost_contract::variables::NO_VARIABLES,
        background_job: None,
        digest: None,
        definition: None,
        input,
        subject: &subject,
        timeout: timeout.unwrap_or_else(|| tool.default_timeout()),
        caller: &caller,
        mode: None,
        restriction: None,
        is_tail_call: false,
        effects_known: false,
    };
    let hook_decisions = HookDecisions::default();
    match tool.effect() {
        Effect::Pure | Effect::Reads => match policy.decide(request, &hook_decisions, &[], 0) {
            Verdict::Allow(grant) => Ok(grant),
            Verdict::Ask(_) | Verdict::Deny(_) => anyhow::bail!("a tool that reads is allowed"),
        },
        Effect::Writes | Effect::Destroys => {
            match policy.authorize_staged(request, &hook_decisions, &[], 0) {
                Ok(hold) => Ok(hold.grant),
                Err(denial) => anyhow::bail!("{}", denial.reason),
            }
        }
    }
}
