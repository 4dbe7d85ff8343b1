//! Authorization of a call: rules, hooks, saved approvals and the user decide whether it runs.

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

/// The result of authorization.
pub(super) enum Cleared {
    Run(Grant),
    /// A hook supplied the outcome: the tool does not run.
    Supplied {
        by: String,
        outcome: Box<Outcome>,
    },
}

/// The result of one evaluation of an input.
pub(super) enum Judged {
    Cleared(Cleared),
    /// The input was changed and has to be evaluated again.
    Again(Value),
}

impl Kernel {
    /// Evaluates the call until its input no longer changes. Each new input is validated and evaluated like the first
    /// one, so that changing the input cannot bypass a rule.
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
            "its input was changed {MAX_ROUNDS} times; check for hooks that revert each other's changes"
        );
        Err(denied(Denial::by_hook(Some(&reason))).into())
    }

    /// Asks the supplying hooks for the outcome of a call that may run.
    async fn supplied(&self, entry: &Arc<Entry>, run: &mut Run<'_>, grant: Grant) -> Cleared {
        if let Some(slot) = &run.order {
            // A cached outcome must still be valid after the calls before this one.
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
            // Hooks do not see calls that a rule forbids.
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
            // Only forbidding rules apply now. The others apply once the changes are known.
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
        // The user is not asked about a call that cannot run.
        lacks_nothing(entry, run)?;
        // Boxed, because few calls ask and the others should not carry the space.
        Box::pin(self.ask(entry, run, *question)).await
    }

    /// Decides by rules and saved approvals. Each use of an approval is counted in the store before it takes effect,
    /// because another process may have revoked it or used it up.
    pub(super) async fn verdict(
        &self,
        entry: &Entry,
        run: &Run<'_>,
        subject: &Subject,
        said: &HookSaid,
    ) -> Verdict {
        // Approvals that could not be used. They are not tried again, so that an unwritable store or a clock that was
        // set back leads to a question instead of an endless loop.
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
                // Another process may have saved an approval in the meantime.
                Verdict::Ask(_) => {
                    if !self.approvals.refresh() {
                        return verdict;
                    }
                }
                Verdict::Deny(_) => return verdict,
            }
        }
    }

    /// Returns the decision of the rules and saved approvals without making the call. Hooks do not run.
    pub fn decide(&self, entry: &Entry, input: &Value, caller: &Principal) -> Verdict {
        self.ponder(entry, input, caller, |policy, request, approvals, now| {
            policy.decide(request, &HookSaid::default(), approvals, now)
        })
    }

    /// Like [`Kernel::decide`], but explains each layer of the decision.
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
        // Explaining a call does not create a session.
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
            // Only valid in the next round: after that, the user may change the input.
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

/// Refuses a call that needs capabilities its plugin was not granted, and names all of them.
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

/// Builds the policy request for a call.
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

/// Returns the running program that the call names.
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
