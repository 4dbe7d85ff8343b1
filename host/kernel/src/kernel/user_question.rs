//! Asking the user: the question, the first valid answer, and the resulting decision.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};
use toolhost_contract::lifecycle::Transition;
use toolhost_contract::policy::{
    self, AnswerOutcome, ApprovalScope, NewApproval, Offer, OnHeadlessAsk,
};
use toolhost_contract::variables::Variables;
use toolhost_contract::{
    Answer, Call, CallError, ErrorClass, Grant, Question, UserEdit, UserId, text,
};

use super::authorization::{Authorization, Evaluation};
use super::running_call::{RunningCall, denied};
use super::{Kernel, Refusal, deferred};
use crate::ToolEntry;
use crate::journal::{IN_ADVANCE, store_error};
use crate::pending_questions::{AttributedAnswer, QuestionGuard};

/// How often a waiting call checks whether another process has answered.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl Kernel {
    /// Asks the user until there is a valid answer.
    pub(super) async fn ask_user(
        &self,
        entry: &ToolEntry,
        run: &mut RunningCall<'_>,
        mut question: Question,
    ) -> Result<Evaluation, Refusal> {
        if let Some(slot) = &run.order {
            // The question must describe the state after the calls before this one, so they end first.
            slot.wait_turn().await;
        }
        let _waits = self
            .question_quota
            .take(&run.caller.user, 1)
            .map_err(CallError::from)?;
        self.describe_question(entry, run, &mut question).await;
        run.attempt.backend_state.clear();
        let title = format!("{} ({})", entry.tool.display_name, entry.name);
        let answered = {
            let request = run
                .journal
                .ask(
                    text::escape_line(&title, 200),
                    question.reason.clone(),
                    question.rule.clone(),
                    question.meta.clone(),
                    question_content(&question, &run.input),
                    question.changes.clone(),
                )
                .await?;
            let asking = self
                .pending_questions
                .open(run.id.clone(), question.clone());
            // Published last, because a subscriber can answer immediately.
            run.journal.publish(request);
            self.await_answer(&question, run, &run.backend_call(entry), asking)
                .await
        };
        let Some(AttributedAnswer { answer, by }) = answered else {
            return Err(self.defer(run, &question).await?);
        };
        let no_prompter = matches!(answer, Answer::NoPrompter);
        let was_asked = !no_prompter && !matches!(answer, Answer::Unreviewable { .. });
        run.report.stop_turn = matches!(answer, Answer::Cancel);
        let note = note_of(&answer).map(ToOwned::to_owned);
        match policy::apply_answer(question, answer) {
            Ok(AnswerOutcome::Granted { grant, approval }) => {
                self.apply_grant(run, grant, approval, by, note).await
            }
            Ok(AnswerOutcome::Edited { grant, edits }) => {
                let note = Some(describe_edits(&edits));
                let resolved = self.apply_grant(run, grant, None, by, note).await?;
                if let Evaluation::Decided(_) = resolved {
                    run.attempt.edits = edits;
                }
                Ok(resolved)
            }
            Ok(AnswerOutcome::Modified { input }) => {
                run.journal
                    .record_decision("modify", None, &by, note.as_deref());
                let step = Transition::InputModified {
                    input: input.clone().into(),
                    by,
                };
                run.journal.step(step).await?;
                run.journal.step(Transition::ValidationStarted).await?;
                run.input_before_hooks = None;
                Ok(Evaluation::InputChanged(input))
            }
            Err(mut denial) => {
                if no_prompter {
                    let remedies = [denial.remedy.as_deref(), self.prompter.remedy()];
                    let remedies: Vec<&str> = remedies.into_iter().flatten().collect();
                    denial.remedy = (!remedies.is_empty()).then(|| remedies.join("; "));
                } else if was_asked {
                    run.journal
                        .record_decision("deny", None, &by, note.as_deref());
                    run.journal.denied_by = Some(by);
                    run.journal.denial_note = note;
                }
                Err(denied(denial).into())
            }
        }
    }

    async fn apply_grant(
        &self,
        run: &mut RunningCall<'_>,
        grant: Grant,
        approval: Option<Box<NewApproval>>,
        by: String,
        note: Option<String>,
    ) -> Result<Evaluation, Refusal> {
        // An approval that this call relies on may have been revoked while the user decided.
        let now = self.journal.clock.now().0;
        if !self.approvals.take_use(grant.approvals(), now).await {
            run.journal.step(Transition::ValidationStarted).await?;
            return Ok(Evaluation::InputChanged(run.input_of_rerun()));
        }
        let scope = approval
            .as_ref()
            .map_or(ApprovalScope::Once, |new| new.scope);
        if let Some(new) = approval {
            self.save_approval(*new, &by).await?;
        }
        run.journal
            .record_decision("allow", Some(scope), &by, note.as_deref());
        run.journal
            .step(Transition::Approved {
                by,
                scope: scope.as_str().to_owned(),
                note,
            })
            .await?;
        Ok(Evaluation::Decided(Authorization::Granted(grant)))
    }

    /// Returns the first answer from the prompter, this process or another one. Returns `None` if no user is available
    /// and the operator wants the question to be deferred.
    async fn await_answer(
        &self,
        question: &Question,
        run: &RunningCall<'_>,
        call: &Call,
        mut asking: QuestionGuard<'_>,
    ) -> Option<AttributedAnswer> {
        let asked_at = run.journal.record().updated_at;
        let mut look = interval(POLL_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A prompter that panics counts as one without a user.
        let prompting = async { self.prompter.ask(question, call).await };
        let prompting = AssertUnwindSafe(prompting)
            .catch_unwind()
            .map(|answer| answer.unwrap_or(Answer::NoPrompter));
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
                    if answer == Answer::NoPrompter
                        && self.policy().on_headless_ask() == OnHeadlessAsk::Callback
                    {
                        // The answer may still come from elsewhere.
                        prompting = None;
                        continue;
                    }
                    // An answer that was accepted in the meantime takes precedence.
                    asking.answer.close();
                    if let Ok(answered) = asking.answer.try_recv() {
                        return Some(answered);
                    }
                    if answer == Answer::NoPrompter
                        && self.policy().on_headless_ask() == OnHeadlessAsk::Defer
                        && self.journal.store.is_some()
                        && self.advance_approval(question).is_some()
                    {
                        return None;
                    }
                    let by = self.prompter.author(&run.id);
                    return Some(AttributedAnswer { answer, by });
                }
                _ = look.tick() => {
                    if let Some(answered) = self.journal.external_answer(&run.id, asked_at, question) {
                        self.prompter.answered_elsewhere(&run.id, &answered.by);
                        return Some(answered);
                    }
                }
            }
        }
    }

    /// Returns the approval to save in advance. It is limited to this project, if there is one, because the same call
    /// can mean something else in another project.
    fn advance_approval(&self, question: &Question) -> Option<NewApproval> {
        let scope = match self.settings.project {
            Some(_) => ApprovalScope::Project,
            None => ApprovalScope::User,
        };
        question.advance_approval(scope)
    }

    async fn defer(
        &self,
        run: &mut RunningCall<'_>,
        question: &Question,
    ) -> Result<Refusal, Refusal> {
        let approval = self
            .advance_approval(question)
            .map(|new| deferred::advance_approval(new, self.settings.project.as_deref()));
        let same = self.find_deferred(&run.caller.user, approval.as_ref())?;
        let id = if let Some(same) = same {
            same
        } else {
            run.journal.defer(approval).await?;
            run.id.to_string()
        };
        let error = CallError::new(
            ErrorClass::Denied,
            format!("Permission denied: the call waits for approval as {id}"),
        )
        .code("approval_pending")
        .recommend(format!(
            "once a user has run `host approve {id}`, call again with the same input"
        ));
        Ok(error.into())
    }

    /// Returns the id of the user's deferred call that the same approval would answer. Without one, fails if too many calls
    /// are deferred; those of other processes count too.
    fn find_deferred(
        &self,
        user: &UserId,
        approval: Option<&Value>,
    ) -> Result<Option<String>, CallError> {
        let Some(store) = self.store() else {
            return Ok(None);
        };
        let (mut own, mut all, mut same) = (0, 0, None);
        store
            .deferred_calls(|call| {
                let by = call.record.get("userId").and_then(Value::as_str);
                let is_own = by == user.name();
                own += u64::from(is_own);
                all += 1;
                if is_own && approval.is_some() && call.record.get(IN_ADVANCE) == approval {
                    same = Some(call.id);
                }
            })
            .map_err(store_error)?;
        if same.is_none() {
            self.question_quota.check_with(user, own, all)?;
        }
        Ok(same)
    }
}

fn note_of(answer: &Answer) -> Option<&str> {
    match answer {
        Answer::Allow { note, .. } | Answer::Deny { note } => note.as_deref(),
        Answer::Edit { .. }
        | Answer::Cancel
        | Answer::Modify { .. }
        | Answer::NoPrompter
        | Answer::Unreviewable { .. }
        | Answer::TimedOut => None,
    }
}

/// Describes the edits for the record. The contents are in the commit.
fn describe_edits(edits: &[UserEdit]) -> String {
    let mut paths: Vec<String> = edits
        .iter()
        .take(20)
        .map(|edit| text::escape_line(&edit.path, 300))
        .collect();
    if edits.len() > paths.len() {
        paths.push(format!("{} more", edits.len() - paths.len()));
    }
    format!("with changes to {}", paths.join(", "))
}

/// Returns an offer as data. `covers` is `call`, `subject` (what the call accesses) or `tool` (every call of the tool).
fn choice(offer: &Offer) -> Value {
    let covers = match (offer.scope, offer.narrowing.tool) {
        (ApprovalScope::Once, _) => "call",
        (_, true) => "tool",
        (_, false) => "subject",
    };
    json!({"text": offer.text, "scope": offer.scope.as_str(), "covers": covers})
}

/// Returns the question as data: its kind, and the members of that kind.
fn question_content(question: &Question, input: &Value) -> Value {
    let mut shown = json!({
        "kind": question.kind.as_str(),
        "tool": question.tool,
        "plugin": question.plugin,
        "input": input,
        "choices": question.offers.iter().map(choice).collect::<Vec<_>>(),
    });
    if let Some(description) = &question.description {
        shown["description"] = json!(description);
    }
    if let Some(changes) = &question.changes {
        shown["changes"] = changes.summary();
    }
    if let Some(command) = &question.subject.command {
        shown["command"] = json!(command);
        shown["root_command"] = json!(command.split_whitespace().next());
    }
    if !question.variables.is_empty() {
        let variables = question.variables.iter().cloned();
        shown["variables"] = json!(variables.collect::<Variables>());
    }
    if !question.subject.urls.is_empty() {
        shown["urls"] = json!(question.subject.urls);
    }
    shown
}
