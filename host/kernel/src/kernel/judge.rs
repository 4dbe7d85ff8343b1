//! The middle of the road: may this call run? Rules, hooks, remembered yeses, and at last a person.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};
use toolhost_contract::life::{Found, Origin, Step};
use toolhost_contract::policy::{
    self, Approval, Explanation, HookAsk, HookSaid, NewApproval, OnHeadlessAsk, Policy, Request,
    Scope, Settled, Subject,
};
use toolhost_contract::{
    Answer, Call, CallError, Caller, Denial, ErrorClass, Grant, Outcome, Question, Verdict, text,
};

use super::run::{Run, denied};
use super::{Kernel, Refusal, Within, deferred};
use crate::Entry;
use crate::asks::{Answered, Asking};
use crate::hooks::{HookCall, MAX_ROUNDS, Said, Weights};

/// How often a waiting call looks whether another process has answered.
const LOOK: Duration = Duration::from_millis(100);

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
                Judged::Cleared(Cleared::Run(grant)) if self.hooks.supplies() => {
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
        let call = self.hook_call(entry, run);
        match self.hooks.supply(&call).await {
            Said::Answered { by, outcome } => Cleared::Supplied {
                by: format!("hook:{by}"),
                outcome,
            },
            Said::Go(_) | Said::Changed { .. } | Said::Denied { .. } => Cleared::Run(grant),
        }
    }

    async fn judge(&self, entry: &Arc<Entry>, run: &mut Run<'_>) -> Result<Judged, Refusal> {
        let subject = Subject::of(&entry.tool, &run.input);
        let weights = if self.hooks.is_empty() {
            Weights::default()
        } else {
            // What is forbidden is none of the hooks' business.
            if let Some(denial) = self.policy().forbids(request_of(entry, run, &subject)) {
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
            let held = self.policy().hold(request, &said, &approvals, now);
            run.said = said;
            return match held {
                Ok(hold) => {
                    run.may_speak = hold.may_speak;
                    Ok(Judged::Cleared(Cleared::Run(hold.grant)))
                }
                Err(denial) => Err(run.refused(denial).into()),
            };
        }
        let verdict = self.verdict(entry, run, &subject, &said).await;
        let question = match verdict {
            Verdict::Allow(grant) => return Ok(Judged::Cleared(Cleared::Run(grant))),
            Verdict::Deny(denial) => return Err(run.refused(denial).into()),
            Verdict::Ask(question) => question,
        };
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
            let verdict = self.policy().decide(request, said, &approvals, now);
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
    pub fn decide(&self, entry: &Entry, input: &Value, caller: &Caller) -> Verdict {
        self.ponder(entry, input, caller, |policy, request, approvals, now| {
            policy.decide(request, &HookSaid::default(), approvals, now)
        })
    }

    /// The same, with every layer that had a say.
    pub fn explain(&self, entry: &Entry, input: &Value, caller: &Caller) -> Explanation {
        self.ponder(entry, input, caller, |policy, request, approvals, now| {
            policy.explain(request, &HookSaid::default(), approvals, now)
        })
    }

    fn ponder<T>(
        &self,
        entry: &Entry,
        input: &Value,
        caller: &Caller,
        look: impl FnOnce(&Policy, Request<'_>, &[Approval], i64) -> T,
    ) -> T {
        let subject = Subject::of(&entry.tool, input);
        let within = Within::default();
        let request = request(entry, input, caller, &subject, &within);
        let now = self.journal.clock.now().0;
        look(&self.policy(), request, &self.approvals.all(), now)
    }

    async fn hear_hooks(&self, entry: &Arc<Entry>, run: &mut Run<'_>) -> Result<Heard, Refusal> {
        let call = self.hook_call(entry, run);
        match self.hooks.before(&call).await {
            Said::Go(weights) => {
                for failure in &weights.failures {
                    run.warn(failure);
                }
                Ok(Heard::Weights(weights))
            }
            Said::Changed { input, by } => {
                let by = format!("hook:{by}");
                let step = Step::InputChanged {
                    input: input.clone().into(),
                    by,
                };
                run.life.step(step).await?;
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
        }
    }

    /// Asks until there is an answer that counts.
    pub(super) async fn ask(
        &self,
        entry: &Entry,
        run: &mut Run<'_>,
        question: Question,
    ) -> Result<Judged, Refusal> {
        if let Some(slot) = &run.order {
            // A person is asked about what is so, and not about what may yet become otherwise.
            slot.turn().await;
        }
        let title = format!("{} ({})", entry.tool.display_name, entry.name);
        run.life
            .ask(
                text::inline(&title, 200),
                question.reason.clone(),
                question.rule.clone(),
                question.meta.clone(),
                content(&question, &run.input),
            )
            .await?;
        let answered = {
            let asking = self.asks.open(run.id.clone(), question.clone());
            self.answer_to(&question, run, &run.call(entry), asking)
                .await
        };
        let Some(Answered { answer, by }) = answered else {
            return Err(self.defer(run, &question).await?);
        };
        let nobody = matches!(answer, Answer::NobodyToAsk);
        run.given_up = matches!(answer, Answer::Cancel);
        let note = note_of(&answer).map(ToOwned::to_owned);
        match policy::settle(question, answer) {
            Ok(Settled::Granted { grant, approval }) => {
                // What the rest of the call rests on may have been revoked while the person thought.
                let now = self.journal.clock.now().0;
                if !self.approvals.take_use(grant.approvals(), now).await {
                    run.life.step(Step::Picked).await?;
                    return Ok(Judged::Again(run.input.clone()));
                }
                let scope = approval.as_ref().map_or("once", |new| new.scope.as_str());
                let scope = scope.to_owned();
                if let Some(new) = approval {
                    self.remember(*new, &by).await?;
                }
                run.life.decided("allow", &by, note.as_deref());
                run.life.step(Step::Approved { by, scope, note }).await?;
                Ok(Judged::Cleared(Cleared::Run(grant)))
            }
            Ok(Settled::Modified { input }) => {
                run.life.decided("modify", &by, note.as_deref());
                let step = Step::Modified {
                    input: input.clone().into(),
                    by,
                };
                run.life.step(step).await?;
                run.life.step(Step::Picked).await?;
                Ok(Judged::Again(input))
            }
            Err(denial) => {
                if !nobody {
                    run.life.decided("deny", &by, note.as_deref());
                    run.life.denied_by = Some(by);
                    run.life.denial_note = note;
                }
                Err(denied(denial).into())
            }
        }
    }

    /// The first answer from the prompter, from this process or from another one. None: nobody is there, and the
    /// operator wants the question to stay.
    async fn answer_to(
        &self,
        question: &Question,
        run: &Run<'_>,
        call: &Call,
        mut asking: Asking<'_>,
    ) -> Option<Answered> {
        let asked = run.life.record().updated_at;
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A prompter that falls over is one that nobody sits at.
        let prompting = async { self.prompter.ask(question, call).await };
        let prompting = AssertUnwindSafe(prompting)
            .catch_unwind()
            .map(|answer| answer.unwrap_or(Answer::NobodyToAsk));
        let mut prompting = Some(Box::pin(prompting));
        loop {
            let prompt = async {
                match &mut prompting {
                    Some(prompting) => prompting.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Ok(answered) = &mut asking.answer => {
                    self.prompter.answered_elsewhere(&run.id, &answered.by);
                    return Some(answered);
                }
                answer = prompt => {
                    if answer == Answer::NobodyToAsk
                        && self.policy().on_headless_ask() == OnHeadlessAsk::Callback
                    {
                        // Somebody may still answer from elsewhere.
                        prompting = None;
                        continue;
                    }
                    // Whoever was told meanwhile that their answer counts was told the truth.
                    asking.answer.close();
                    if let Ok(answered) = asking.answer.try_recv() {
                        return Some(answered);
                    }
                    if answer == Answer::NobodyToAsk
                        && self.policy().on_headless_ask() == OnHeadlessAsk::Defer
                        && self.journal.store.is_some()
                        && self.in_advance(question).is_some()
                    {
                        return None;
                    }
                    let by = self.prompter.name().to_owned();
                    return Some(Answered { answer, by });
                }
                _ = look.tick() => {
                    if let Some(answered) = self.journal.answer_from_elsewhere(&run.id, asked, question) {
                        self.prompter.answered_elsewhere(&run.id, &answered.by);
                        return Some(answered);
                    }
                }
            }
        }
    }

    /// The same words may mean another thing in another project, so the yes stays in this one if there is one.
    fn in_advance(&self, question: &Question) -> Option<NewApproval> {
        let scope = match self.settings.project {
            Some(_) => Scope::Project,
            None => Scope::User,
        };
        question.in_advance(scope)
    }

    async fn defer(&self, run: &mut Run<'_>, question: &Question) -> Result<Refusal, Refusal> {
        let yes = self
            .in_advance(question)
            .map(|new| deferred::yes(new, self.settings.project.as_deref()));
        run.life.defer(yes).await?;
        let id = &run.id;
        let error = CallError::new(
            ErrorClass::Denied,
            format!("Permission denied: the call waits for approval as {id}"),
        )
        .code("approval_pending")
        .recommend(format!(
            "after a person has run `host approve {id}`, call again with the same input"
        ));
        Ok(error.into())
    }

    pub(super) async fn enter(&self, entry: &Entry, run: &mut Run<'_>) -> Result<(), Refusal> {
        let found = Found {
            tool: entry.name.to_string(),
            plugin: entry.plugin.name.to_string(),
            version: entry.tool.version.clone(),
            digest: entry.plugin.digest.map(|digest| digest.to_string()),
            effect: entry.tool.effect().as_str(),
            mode: self.mode_of(run).to_string(),
        };
        run.life.found(found).await
    }
}

/// What the policy is told of a call, whether it is made or only asked about.
fn request<'a>(
    entry: &'a Entry,
    input: &'a Value,
    caller: &'a Caller,
    subject: &'a Subject,
    within: &'a Within,
) -> Request<'a> {
    Request {
        plugin: &entry.plugin.name,
        name: &entry.name,
        tool: &entry.tool,
        aliases: &entry.keys,
        // No backend starts a process today. The first that does has to say so.
        executes: false,
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

pub(super) fn request_of<'a>(
    entry: &'a Entry,
    run: &'a Run<'_>,
    subject: &'a Subject,
) -> Request<'a> {
    Request {
        known: run.known,
        ..request(entry, &run.input, &run.caller, subject, &run.within)
    }
}

enum Heard {
    Weights(Weights),
    Judged(Judged),
}

fn note_of(answer: &Answer) -> Option<&str> {
    match answer {
        Answer::Allow { note, .. } | Answer::Deny { note } => note.as_deref(),
        Answer::Cancel | Answer::Modify { .. } | Answer::NobodyToAsk | Answer::TimedOut => None,
    }
}

/// What a person is shown, as data: what kind of question it is, and the members that this kind has.
fn content(question: &Question, input: &Value) -> Value {
    let mut shown = json!({
        "kind": question.kind.as_str(),
        "tool": question.tool,
        "plugin": question.plugin,
        "input": input,
        "offers": question.offers.iter().map(|offer| offer.words.as_str()).collect::<Vec<_>>(),
    });
    if let Some(changes) = &question.changes {
        shown["changes"] = changes.summary();
    }
    if let Some(command) = &question.subject.command {
        shown["command"] = json!(command);
        shown["root_command"] = json!(command.split_whitespace().next());
    }
    if let Some(url) = &question.subject.url {
        shown["urls"] = json!([url]);
    }
    shown
}
