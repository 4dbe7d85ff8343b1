//! Authorization of a call: rules, hooks, saved approvals and the user decide whether it runs.

use std::sync::Arc;

use serde_json::Value;
use toolhost_contract::lifecycle::{CallOrigin, Transition, mask_text};
use toolhost_contract::policy::{
    Approval, Explanation, HookDecisions, Policy, PolicyRequest, RunningJob, Subject,
};
use toolhost_contract::variables::NO_VARIABLES;
use toolhost_contract::{Denial, DenialCode, Grant, Outcome, Principal, Verdict, text};

use super::running_call::{RunningCall, denied};
use super::{CallContext, Kernel, Refusal};
use crate::ToolEntry;
use crate::hooks::{AskHint, HookCall, HookDecision, HookHints, MAX_ROUNDS, Stage};

/// The result of authorization.
pub(super) enum Authorization {
    Granted(Grant),
    /// A hook supplied the outcome: the tool does not run.
    Supplied {
        by: String,
        outcome: Box<Outcome>,
    },
}

/// The result of one evaluation of an input.
pub(super) enum Evaluation {
    Decided(Authorization),
    /// The input was changed and has to be evaluated again.
    InputChanged(Value),
}

/// Destinations of a call that its record contains, and characters of each.
const MAX_RECORDED_DESTINATIONS: usize = 16;
const MAX_RECORDED_DESTINATION: usize = 200;

impl Kernel {
    /// Evaluates the call until its input no longer changes. Each new input is validated and evaluated like the first
    /// one, so that changing the input cannot bypass a rule.
    pub(super) async fn authorize(
        &self,
        entry: &Arc<ToolEntry>,
        input: Value,
        run: &mut RunningCall<'_>,
    ) -> Result<Authorization, Refusal> {
        let mut input = input;
        for _ in 0..MAX_ROUNDS {
            let checked = self.validate_input(entry, input, run)?;
            run.input = checked;
            run.attempt.preview = None;
            if entry.tool.hooks.has_preview() {
                Box::pin(self.preview(entry, run)).await?;
            }
            match self.evaluate(entry, run).await? {
                Evaluation::Decided(Authorization::Granted(grant))
                    if run.hooks.run_before(Stage::Supply, entry) =>
                {
                    return Ok(Box::pin(self.ask_suppliers(entry, run, grant)).await);
                }
                Evaluation::Decided(cleared) => return Ok(cleared),
                Evaluation::InputChanged(changed) => {
                    run.attempt.backend_state.clear();
                    input = changed;
                }
            }
        }
        let reason = format!(
            "its input was changed {MAX_ROUNDS} times; check for hooks that revert each other's changes"
        );
        Err(denied(Denial::by_hook(Some(&reason))).into())
    }

    /// Asks the supplying hooks for the outcome of a call that may run.
    async fn ask_suppliers(
        &self,
        entry: &Arc<ToolEntry>,
        run: &mut RunningCall<'_>,
        grant: Grant,
    ) -> Authorization {
        if let Some(slot) = &run.order {
            // A cached outcome must still be valid after the calls before this one.
            slot.wait_turn().await;
        }
        let call = self.hook_call(entry, run);
        match run.hooks.supply(&call).await {
            HookDecision::Answered { by, outcome } => Authorization::Supplied {
                by: format!("hook:{by}"),
                outcome,
            },
            HookDecision::Proceed(_)
            | HookDecision::Changed { .. }
            | HookDecision::Denied { .. } => Authorization::Granted(grant),
        }
    }

    async fn evaluate(
        &self,
        entry: &Arc<ToolEntry>,
        run: &mut RunningCall<'_>,
    ) -> Result<Evaluation, Refusal> {
        run.attempt.variables = run.session.store().variables();
        let subject = run.subject(entry);
        run.attempt.job = find_job(entry, &run.caller, &subject);
        let hints = if run.hooks.run_before(Stage::Decide, entry) {
            // Hooks do not see calls that a rule forbids.
            if let Some(denial) = self
                .policy_for(&run.session)
                .find_denial(call_policy_request(entry, run, &subject))
            {
                return Err(run.deny(denial).into());
            }
            match Box::pin(self.run_pre_hooks(entry, run)).await? {
                HookOutcome::Hints(hints) => hints,
                HookOutcome::Decided(resolved) => return Ok(resolved),
            }
        } else {
            HookHints::default()
        };
        let hook_decisions = HookDecisions {
            ask: run.required_approval(entry, &hints),
            allow: hints.allow,
        };
        if entry.stages_changes() {
            // Only forbidding rules apply now. The others apply once the changes are known.
            let (approvals, now) = (self.approvals.all(), self.journal.clock.now().0);
            let request = call_policy_request(entry, run, &subject);
            let held = self.policy_for(&run.session).authorize_staged(
                request,
                &hook_decisions,
                &approvals,
                now,
            );
            run.attempt.hook_decision = hook_decisions;
            return match held {
                Ok(hold) => {
                    check_can_run(entry, run)?;
                    run.attempt.may_stream = hold.may_stream_output;
                    Ok(Evaluation::Decided(Authorization::Granted(hold.grant)))
                }
                Err(denial) => Err(run.deny(denial).into()),
            };
        }
        let verdict = self.verdict(entry, run, &subject, &hook_decisions).await;
        let question = match verdict {
            Verdict::Allow(grant) => {
                check_can_run(entry, run)?;
                return Ok(Evaluation::Decided(Authorization::Granted(grant)));
            }
            Verdict::Deny(denial) => return Err(run.deny(denial).into()),
            Verdict::Ask(question) => question,
        };
        // The user is not asked about a call that cannot run.
        check_can_run(entry, run)?;
        // Boxed, because few calls ask and the others should not carry the space.
        let evaluation = Box::pin(self.ask_user(entry, run, *question)).await?;
        if let Evaluation::Decided(Authorization::Granted(_)) = &evaluation {
            self.check_still_allowed(entry, run, &subject, &hook_decisions)?;
        }
        Ok(evaluation)
    }

    /// Refuses an approved call that rules or modes forbid now: they can have changed while the user decided.
    pub(super) fn check_still_allowed(
        &self,
        entry: &ToolEntry,
        run: &mut RunningCall<'_>,
        subject: &Subject,
        hook_decisions: &HookDecisions,
    ) -> Result<(), Refusal> {
        let now = self.journal.clock.now().0;
        let request = call_policy_request(entry, run, subject);
        let policy = self.policy_for(&run.session);
        match policy.decide(request, hook_decisions, &[], now) {
            Verdict::Deny(denial) => Err(run.deny(denial).into()),
            Verdict::Allow(_) | Verdict::Ask(_) => Ok(()),
        }
    }

    /// Decides by rules and saved approvals. Each use of an approval is counted in the store before it takes effect,
    /// because another process may have revoked it or used it up.
    pub(super) async fn verdict(
        &self,
        entry: &ToolEntry,
        run: &RunningCall<'_>,
        subject: &Subject,
        hook_decisions: &HookDecisions,
    ) -> Verdict {
        // Approvals that could not be used. They are not tried again, so that an unwritable store or a clock that was
        // set back leads to a question instead of an endless loop.
        let mut spent: Vec<String> = Vec::new();
        loop {
            let now = self.journal.clock.now().0;
            let request = call_policy_request(entry, run, subject);
            let mut approvals = self.approvals.all();
            if !spent.is_empty() {
                Arc::make_mut(&mut approvals).retain(|approval| !spent.contains(&approval.id));
            }
            let policy = self.policy_for(&run.session);
            let verdict = policy.decide(request, hook_decisions, &approvals, now);
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
    pub fn decide(&self, entry: &ToolEntry, input: &Value, caller: &Principal) -> Verdict {
        self.with_request(entry, input, caller, |policy, request, approvals, now| {
            policy.decide(request, &HookDecisions::default(), approvals, now)
        })
    }

    /// Like [`Kernel::decide`], but explains each layer of the decision.
    pub fn explain(&self, entry: &ToolEntry, input: &Value, caller: &Principal) -> Explanation {
        self.with_request(entry, input, caller, |policy, request, approvals, now| {
            policy.explain(request, &HookDecisions::default(), approvals, now)
        })
    }

    fn with_request<T>(
        &self,
        entry: &ToolEntry,
        input: &Value,
        caller: &Principal,
        look: impl FnOnce(&Policy, PolicyRequest<'_>, &[Approval], i64) -> T,
    ) -> T {
        let subject = Subject::of(&entry.tool, input);
        let context = CallContext {
            restriction: self.settings.with_inherited(None),
            ..CallContext::default()
        };
        // Explaining a call does not create a session.
        let session = self.sessions.find(&caller.session_key());
        let variables = session.map(|session| session.store().variables());
        let variables = variables.unwrap_or_default();
        let job = find_job(entry, caller, &subject);
        let request = PolicyRequest {
            variables: &variables,
            background_job: job.as_ref(),
            ..policy_request(entry, input, caller, &subject, &context)
        };
        let now = self.journal.clock.now().0;
        look(
            &self.session_policy(&caller.session_key()),
            request,
            &self.approvals.all(),
            now,
        )
    }

    async fn run_pre_hooks(
        &self,
        entry: &Arc<ToolEntry>,
        run: &mut RunningCall<'_>,
    ) -> Result<HookOutcome, Refusal> {
        let call = HookCall {
            // Only valid in the next round: after that, the user may change the input.
            rewritten: run.attempt.rewritten.take(),
            ..self.hook_call(entry, run)
        };
        match run.hooks.before(&call).await {
            HookDecision::Proceed(mut hints) => {
                hints.add_ask(run.attempt.hook_ask.take());
                for failure in &hints.failures {
                    run.warn(failure);
                }
                Ok(HookOutcome::Hints(hints))
            }
            HookDecision::Changed { input, by, ask } => {
                let step = Transition::InputChanged {
                    input: input.clone().into(),
                    by: format!("hook:{by}"),
                };
                run.journal.step(step).await?;
                run.input_before_hooks
                    .get_or_insert_with(|| run.input.clone());
                run.attempt.rewritten = Some((by, input.clone()));
                run.attempt.hook_ask = AskHint::of_both(run.attempt.hook_ask.take(), ask);
                Ok(HookOutcome::Decided(Evaluation::InputChanged(input)))
            }
            HookDecision::Answered { by, outcome } => Ok(HookOutcome::Decided(
                Evaluation::Decided(Authorization::Supplied {
                    by: format!("hook:{by}"),
                    outcome,
                }),
            )),
            HookDecision::Denied {
                by,
                reason,
                outcome,
            } => {
                run.report.replacement = outcome;
                let mut denial = Denial::by_hook(reason.as_deref());
                denial.rule = Some(format!("hook:{by}"));
                Err(run.deny(denial).into())
            }
        }
    }

    pub(super) fn hook_call(&self, entry: &Arc<ToolEntry>, run: &RunningCall<'_>) -> HookCall {
        HookCall {
            call: run.backend_call(entry),
            name: entry.name.clone(),
            plugin: entry.plugin.name.clone(),
            tool: Arc::clone(&entry.tool),
            digest: entry.plugin.digest,
            mode: self.mode_of(run).to_string(),
            is_narrowed: run.context.restriction.is_some(),
            reads: run.sink.read_set(),
            rewritten: None,
        }
    }

    pub(super) async fn record_tool(
        &self,
        entry: &ToolEntry,
        run: &mut RunningCall<'_>,
    ) -> Result<(), Refusal> {
        let mut found = entry.found(self.mode_of(run));
        let destinations = entry.tool.destinations(&run.input).unwrap_or_default();
        if !destinations.is_empty() {
            let masked = destinations.iter().take(MAX_RECORDED_DESTINATIONS);
            Arc::make_mut(&mut found).destinations = masked
                .map(|text| mask_text(text::head(text, MAX_RECORDED_DESTINATION)))
                .collect();
        }
        run.journal.step(Transition::ToolResolved(found)).await
    }
}

/// Refuses a call that needs capabilities its plugin was not granted, and names all of them, or that its backend cannot limit
/// to the directories of the call.
fn check_can_run(entry: &ToolEntry, run: &mut RunningCall<'_>) -> Result<(), Refusal> {
    let limits = run.context.directory_limits();
    entry.backend.check_directory_limits(&limits)?;
    let missing = entry.missing_grants(&run.input);
    if missing.is_empty() {
        return Ok(());
    }
    let missing = text::escape_lines(&missing.join(", "), 1_000);
    let denial = Denial {
        remedy: Some(format!("start the host with what is missing: {missing}")),
        ..Denial::new(
            DenialCode::CapabilityMissing,
            format!("`{}` cannot run without {missing}", entry.name),
        )
    };
    Err(run.deny(denial).into())
}

/// Builds the policy request for a call.
pub(super) fn policy_request<'a>(
    entry: &'a ToolEntry,
    input: &'a Value,
    caller: &'a Principal,
    subject: &'a Subject,
    context: &'a CallContext,
) -> PolicyRequest<'a> {
    PolicyRequest {
        plugin: &entry.plugin.name,
        name: &entry.name,
        tool: &entry.tool,
        aliases: &entry.keys,
        runs_commands: entry.backend.runs_commands(),
        shell: entry.backend.shell(),
        variables: &NO_VARIABLES,
        background_job: None,
        delegates: entry.backend.only_calls_tools(&entry.tool, input),
        digest: entry.plugin.digest.as_ref(),
        definition: None,
        input,
        subject,
        timeout: entry.timeout,
        caller,
        mode: context.mode,
        restriction: context.restriction.as_deref(),
        is_tail_call: context.origin == CallOrigin::Tail,
        effects_known: false,
    }
}

/// Returns the running program that the call names.
fn find_job(entry: &ToolEntry, caller: &Principal, subject: &Subject) -> Option<RunningJob> {
    let task = subject.task.as_ref()?;
    entry.backend.background_job(caller, &task.task)
}

pub(super) fn call_policy_request<'a>(
    entry: &'a ToolEntry,
    run: &'a RunningCall<'_>,
    subject: &'a Subject,
) -> PolicyRequest<'a> {
    let request = policy_request(entry, &run.input, &run.caller, subject, &run.context);
    PolicyRequest {
        effects_known: run.attempt.changes_known,
        variables: &run.attempt.variables,
        background_job: run.attempt.job.as_ref(),
        ..request
    }
}

enum HookOutcome {
    Hints(HookHints),
    Decided(Evaluation),
}
