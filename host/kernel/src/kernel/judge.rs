//! The middle of the road: may this call run? Rules, hooks, remembered yeses, and at last a person.

use std::sync::Arc;

use serde_json::Value;
use toolhost_contract::life::{Origin, Step};
use toolhost_contract::policy::{
    Approval, Explanation, HookAsk, HookSaid, Policy, Request, RunningJob, Subject,
};
use toolhost_contract::variables::NO_VARIABLES;
use toolhost_contract::{Denial, DenialCode, Grant, Outcome, Principal, Verdict, text};

use super::run::{Run, denied};
use super::{Kernel, Refusal, Within};
use crate::Entry;
use crate::hooks::{HookCall, MAX_ROUNDS, Said, Weights};

/// What a call may do now.
pub(super) enum Cleared {
    Run(Grant),
    /// Somebody had the answer: the tool does not run.
    Supplied {
        by: String,
        outcome: Box<Outcome>,
    },
}

/// What one look at an input led to.
pub(super) enum Judged {
    Cleared(Cleared),
    /// The input is another one: look again from the start.
    Again(Value),
}

impl Kernel {
    /// Looks at the call until nobody changes its input any more. Every new input is checked and judged like the
    /// first one, so that no way of changing it leads around a rule.
    pub(super) async fn clear(
        &self,
        entry: &Arc<Entry>,
        input: Value,
        run: &mut Run<'_>,
    ) -> Result<Cleared, Refusal> {
        let mut input = input;
        for _ in 0..MAX_ROUNDS {
            let checked = self.check(entry, input, run)?;
            run.input = checked;
            match self.judge(entry, run).await? {
                Judged::Cleared(Cleared::Run(grant)) if self.hooks().supplies() => {
                    return Ok(Box::pin(self.supplied(entry, run, grant)).await);
                }
                Judged::Cleared(cleared) => return Ok(cleared),
                Judged::Again(changed) => input = changed,
            }
        }
        let reason = format!(
            "its input was changed {MAX_ROUNDS} times; hooks that change each other's input go in a circle"
        );
        Err(denied(Denial::by_hook(Some(&reason))).into())
    }

    /// The call may run. Does somebody have its answer already?
    async fn supplied(&self, entry: &Arc<Entry>, run: &mut Run<'_>, grant: Grant) -> Cleared {
        if let Some(slot) = &run.order {
            // What is answered from memory must hold after the calls before it.
            slot.turn().await;
        }
        let call = self.hook_call(entry, run);
        match self.hooks().supply(&call).await {
            Said::Answered { by, outcome } => Cleared::Supplied {
                by: format!("hook:{by}"),
                outcome,
            },
            Said::Go(_) | Said::Changed { .. } | Said::Denied { .. } => Cleared::Run(grant),
        }
    }

    async fn judge(&self, entry: &Arc<Entry>, run: &mut Run<'_>) -> Result<Judged, Refusal> {
        run.variables = run.session.shelf().variables();
        let subject = Subject::of(&entry.tool, &run.input);
        run.job = job_of(entry, &run.caller, &subject);
        let weights = if self.hooks().is_empty() {
            Weights::default()
        } else {
            // What is forbidden is none of the hooks' business.
            if let Some(denial) = self
                .policy_of(&run.session)
                .forbids(request_of(entry, run, &subject))
            {
                return Err(run.refused(denial).into());
            }
            match Box::pin(self.hear_hooks(entry, run)).await? {
                Heard::Weights(weights) => weights,
                Heard::Judged(judged) => return Ok(judged),
            }
        };
        let said = HookSaid {
            ask: weights.ask.map(|ask| HookAsk {
                reason: ask.reason.or_else(|| Some(format!("hook `{}`", ask.by))),
                meta: ask.meta,
            }),
            allow: weights.allow,
        };
        if entry.holds_back() {
            // A rule that forbids it counts now; everything else when it is known what the call changes.
            let (approvals, now) = (self.approvals.all(), self.journal.clock.now().0);
            let request = request_of(entry, run, &subject);
            let held = self
                .policy_of(&run.session)
                .hold(request, &said, &approvals, now);
            run.said = said;
            return match held {
                Ok(hold) => {
                    lacks_nothing(entry, run)?;
                    run.may_speak = hold.may_speak;
                    Ok(Judged::Cleared(Cleared::Run(hold.grant)))
                }
                Err(denial) => Err(run.refused(denial).into()),
            };
        }
        let verdict = self.verdict(entry, run, &subject, &said).await;
        let question = match verdict {
            Verdict::Allow(grant) => {
                lacks_nothing(entry, run)?;
                return Ok(Judged::Cleared(Cleared::Run(grant)));
            }
            Verdict::Deny(denial) => return Err(run.refused(denial).into()),
            Verdict::Ask(question) => question,
        };
        // Nobody is asked about a call that cannot run.
        lacks_nothing(entry, run)?;
        // Few calls are asked about; the others should not carry the room for it.
        Box::pin(self.ask(entry, run, *question)).await
    }

    /// What the rules and remembered yeses say. A yes that was revoked or used up in another process meanwhile is
    /// no yes, so each use is counted in the store before it counts here.
    pub(super) async fn verdict(
        &self,
        entry: &Entry,
        run: &Run<'_>,
        subject: &Subject,
        said: &HookSaid,
    ) -> Verdict {
        // Yeses that could not be used. They are not tried again, so that a store that cannot be written, or a clock
        // that was set back, ends in a question and not in a circle.
        let mut spent: Vec<String> = Vec::new();
        loop {
            let now = self.journal.clock.now().0;
            let request = request_of(entry, run, subject);
            let mut approvals = self.approvals.all();
            if !spent.is_empty() {
                Arc::make_mut(&mut approvals).retain(|approval| !spent.contains(&approval.id));
            }
            let policy = self.policy_of(&run.session);
            let verdict = policy.decide(request, said, &approvals, now);
            match &verdict {
                Verdict::Allow(grant) => {
                    if self.approvals.take_use(grant.approvals(), now).await {
                        return verdict;
                    }
                    spent.extend_from_slice(grant.approvals());
                }
                // Another process may have been told yes a moment ago.
                Verdict::Ask(_) => {
                    if !self.approvals.refresh() {
                        return verdict;
                    }
                }
                Verdict::Deny(_) => return verdict,
            }
        }
    }

    /// What the rules and remembered yeses say of a call that is not made. Hooks are not heard.
    pub fn decide(&self, entry: &Entry, input: &Value, caller: &Principal) -> Verdict {
        self.ponder(entry, input, caller, |policy, request, approvals, now| {
            policy.decide(request, &HookSaid::default(), approvals, now)
        })
    }

    /// The same, with every layer that had a say.
    pub fn explain(&self, entry: &Entry, input: &Value, caller: &Principal) -> Explanation {
        self.ponder(entry, input, caller, |policy, request, approvals, now| {
            policy.explain(request, &HookSaid::default(), approvals, now)
        })
    }

    fn ponder<T>(
        &self,
        entry: &Entry,
        input: &Value,
        caller: &Principal,
        look: impl FnOnce(&Policy, Request<'_>, &[Approval], i64) -> T,
    ) -> T {
        let subject = Subject::of(&entry.tool, input);
        let within = Within::default();
        // Asking about a call makes no session.
        let session = self.sessions.find(&caller.session_key());
        let variables = session.map(|session| session.shelf().variables());
        let variables = variables.unwrap_or_default();
        let job = job_of(entry, caller, &subject);
        let request = Request {
            variables: &variables,
            job: job.as_ref(),
            ..request(entry, input, caller, &subject, &within)
        };
        let now = self.journal.clock.now().0;
        look(
            &self.policy_in(&caller.session_key()),
            request,
            &self.approvals.all(),
            now,
        )
    }

    async fn hear_hooks(&self, entry: &Arc<Entry>, run: &mut Run<'_>) -> Result<Heard, Refusal> {
        let call = HookCall {
            // Only in the round that follows: a person may change the input after that.
            rewritten: run.rewritten.take(),
            ..self.hook_call(entry, run)
        };
        match self.hooks().before(&call).await {
            Said::Go(weights) => {
                for failure in &weights.failures {
                    run.warn(failure);
                }
                Ok(Heard::Weights(weights))
            }
            Said::Changed { input, by } => {
                let step = Step::InputChanged {
                    input: input.clone().into(),
                    by: format!("hook:{by}"),
                };
                run.life.step(step).await?;
                run.rewritten = Some((by, input.clone()));
                Ok(Heard::Judged(Judged::Again(input)))
            }
            Said::Answered { by, outcome } => {
                Ok(Heard::Judged(Judged::Cleared(Cleared::Supplied {
                    by: format!("hook:{by}"),
                    outcome,
                })))
            }
            Said::Denied {
                by,
                reason,
                outcome,
            } => {
                run.instead = outcome;
                let mut denial = Denial::by_hook(reason.as_deref());
                denial.rule = Some(format!("hook:{by}"));
                Err(run.refused(denial).into())
            }
        }
    }

    pub(super) fn hook_call(&self, entry: &Arc<Entry>, run: &Run<'_>) -> HookCall {
        HookCall {
            call: run.call(entry),
            name: entry.name.clone(),
            plugin: entry.plugin.name.clone(),
            tool: Arc::clone(&entry.tool),
            digest: entry.plugin.digest,
            mode: self.mode_of(run).to_string(),
            reads: run.sink.read_set(),
            rewritten: None,
        }
    }

    pub(super) async fn enter(&self, entry: &Entry, run: &mut Run<'_>) -> Result<(), Refusal> {
        let found = entry.found(self.mode_of(run));
        run.life.step(Step::Found(found)).await
    }
}

/// Refuses a call that cannot run with what its plugin was granted, and names all that is missing.
fn lacks_nothing(entry: &Entry, run: &mut Run<'_>) -> Result<(), Refusal> {
    let missing = entry.backend.missing(&entry.tool, &run.input);
    if missing.is_empty() {
        return Ok(());
    }
    let missing = text::block(&missing.join(", "), 1_000);
    let denial = Denial {
        remedy: Some(format!("start the host with what is missing: {missing}")),
        ..Denial::new(
            DenialCode::CapabilityMissing,
            format!("`{}` cannot run without {missing}", entry.name),
        )
    };
    Err(run.refused(denial).into())
}

/// What the policy is told of a call, whether it is made or only asked about.
pub(super) fn request<'a>(
    entry: &'a Entry,
    input: &'a Value,
    caller: &'a Principal,
    subject: &'a Subject,
    within: &'a Within,
) -> Request<'a> {
    Request {
        plugin: &entry.plugin.name,
        name: &entry.name,
        tool: &entry.tool,
        aliases: &entry.keys,
        executes: entry.backend.executes(),
        shell: entry.backend.shell(),
        variables: &NO_VARIABLES,
        job: None,
        delegates: entry.backend.delegates(&entry.tool),
        digest: entry.plugin.digest.as_ref(),
        definition: None,
        input,
        subject,
        timeout: entry.timeout,
        caller,
        mode: within.mode,
        narrow: within.restriction.as_deref(),
        tail: within.origin == Origin::Tail,
        known: false,
    }
}

/// The running program that the call names.
fn job_of(entry: &Entry, caller: &Principal, subject: &Subject) -> Option<RunningJob> {
    let task = subject.task.as_ref()?;
    entry.backend.job(caller, &task.task)
}

pub(super) fn request_of<'a>(
    entry: &'a Entry,
    run: &'a Run<'_>,
    subject: &'a Subject,
) -> Request<'a> {
    let request = request(entry, &run.input, &run.caller, subject, &run.within);
    Request {
        known: run.known,
        variables: &run.variables,
        job: run.job.as_ref(),
        ..request
    }
}

enum Heard {
    Weights(Weights),
    Judged(Judged),
}
