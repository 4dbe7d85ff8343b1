//! Asking the user: the question, the first valid answer, and the resulting decision.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};
use toolhost_contract::life::Step;
use toolhost_contract::policy::{self, NewApproval, OnHeadlessAsk, Scope, Settled};
use toolhost_contract::variables::Variables;
use toolhost_contract::{Answer, Call, CallError, Edit, ErrorClass, Grant, Question, text};

use super::judge::{Cleared, Judged};
use super::run::{Run, denied};
use super::{Kernel, Refusal, deferred};
use crate::Entry;
use crate::asks::{Answered, Asking};

/// How often a waiting call checks whether another process has answered.
const LOOK: Duration = Duration::from_millis(100);

impl Kernel {
    /// Asks the user until there is a valid answer.
    pub(super) async fn ask(
        &self,
        entry: &Entry,
        run: &mut Run<'_>,
        question: Question,
    ) -> Result<Judged, Refusal> {
        if let Some(slot) = &run.order {
            // The question must describe the state after the calls before this one, so they end first.
            slot.turn().await;
        }
        let _waits = self
            .questions
            .take(&run.caller.user, 1)
            .map_err(CallError::from)?;
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
                self.granted(run, grant, approval, by, note).await
            }
            Ok(Settled::Edited { grant, edits }) => {
                let note = Some(changed(&edits));
                let judged = self.granted(run, grant, None, by, note).await?;
                if let Judged::Cleared(_) = judged {
                    run.edits = edits;
                }
                Ok(judged)
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
            Err(mut denial) => {
                if nobody {
                    let remedies = [denial.remedy.as_deref(), self.prompter.remedy()];
                    let remedies: Vec<&str> = remedies.into_iter().flatten().collect();
                    denial.remedy = (!remedies.is_empty()).then(|| remedies.join("; "));
                } else {
                    run.life.decided("deny", &by, note.as_deref());
                    run.life.denied_by = Some(by);
                    run.life.denial_note = note;
                }
                Err(denied(denial).into())
            }
        }
    }

    async fn granted(
        &self,
        run: &mut Run<'_>,
        grant: Grant,
        approval: Option<Box<NewApproval>>,
        by: String,
        note: Option<String>,
    ) -> Result<Judged, Refusal> {
        // An approval that this call relies on may have been revoked while the user decided.
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

    /// Returns the first answer from the prompter, this process or another one. Returns `None` if no user is available
    /// and the operator wants the question to be deferred.
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
        // A prompter that panics counts as one without a user.
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
                        // The answer may still come from elsewhere.
                        prompting = None;
                        continue;
                    }
                    // An answer that was accepted in the meantime takes precedence.
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
                    let by = self.prompter.who(&run.id);
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

    /// Returns the approval to save in advance. It is limited to this project, if there is one, because the same call
    /// can mean something else in another project.
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
            "once a user has run `host approve {id}`, call again with the same input"
        ));
        Ok(error.into())
    }
}

fn note_of(answer: &Answer) -> Option<&str> {
    match answer {
        Answer::Allow { note, .. } | Answer::Deny { note } => note.as_deref(),
        Answer::Edit { .. }
        | Answer::Cancel
        | Answer::Modify { .. }
        | Answer::NobodyToAsk
        | Answer::TimedOut => None,
    }
}

/// Describes the edits for the record. The contents are in the commit.
fn changed(edits: &[Edit]) -> String {
    let mut paths: Vec<String> = edits
        .iter()
        .take(20)
        .map(|edit| text::inline(&edit.path, 300))
        .collect();
    if edits.len() > paths.len() {
        paths.push(format!("{} more", edits.len() - paths.len()));
    }
    format!("with changes to {}", paths.join(", "))
}

/// Returns the question as data: its kind, and the members of that kind.
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
    if !question.variables.is_empty() {
        let variables = question.variables.iter().cloned();
        shown["variables"] = json!(variables.collect::<Variables>());
    }
    if !question.subject.urls.is_empty() {
        shown["urls"] = json!(question.subject.urls);
    }
    shown
}
