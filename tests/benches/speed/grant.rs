//! What the policy gives a call that is made without the kernel.

use std::time::Duration;

use serde_json::Value;
use toolhost_contract::policy::{HookSaid, Policy, Request, Subject, Verdict};
use toolhost_contract::{Descriptor, Effect, Grant, Principal};
use toolhost_runtime::Plugin;

/// As the kernel does: what only reads is allowed, what writes runs on a stage. The policy is compiled once by the
/// caller: one made anew between two timed calls would leave nothing of them in the processor's caches.
pub fn grant(
    policy: &Policy,
    plugin: &Plugin,
    tool: &Descriptor,
    input: &Value,
    timeout: Option<Duration>,
) -> anyhow::Result<Grant> {
    let (caller, subject) = (Principal::default(), Subject::of(tool, input));
    let request = Request {
        delegates: false,
        plugin: plugin.name(),
        name: &tool.name,
        tool,
        aliases: &[],
        executes: false,
        shell: None,
        variables: &toolhost_contract::variables::NO_VARIABLES,
        job: None,
        digest: None,
        definition: None,
        input,
        subject: &subject,
        timeout,
        caller: &caller,
        mode: None,
        narrow: None,
        tail: false,
        known: false,
    };
    let said = HookSaid::default();
    match tool.effect() {
        Effect::Pure | Effect::Reads => match policy.decide(request, &said, &[], 0) {
            Verdict::Allow(grant) => Ok(grant),
            Verdict::Ask(_) | Verdict::Deny(_) => anyhow::bail!("a tool that reads is allowed"),
        },
        Effect::Writes | Effect::Destroys => match policy.hold(request, &said, &[], 0) {
            Ok(hold) => Ok(hold.grant),
            Err(denial) => anyhow::bail!("{}", denial.reason),
        },
    }
}
