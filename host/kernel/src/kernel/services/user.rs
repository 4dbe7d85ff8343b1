//! The interface `user` for a running call: questions, modes and permission requests.

use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};
use toolhost_contract::bus::Channel;
use toolhost_contract::lifecycle::mask_value;
use toolhost_contract::policy::{Mode, UnknownMode};
use toolhost_contract::{
    AnswerOption, BoxFuture, Failure, QuestionForm, UserAnswer, UserQuestion, UserQuestionKind,
    UserService, text,
};
use toolhost_store::{EventRow, Write};

use super::CallServices;
use crate::kernel::Kernel;
use crate::prompter::AttributedReplies;

/// Maximum number of questions per call. More indicate a loop.
const MAX_QUESTIONS: usize = 16;
/// Maximum number of entries per list of a permission request.
const MAX_ENTRIES: usize = 16;
/// Maximum size of one entry, in bytes. The user is shown all of it.
const MAX_ENTRY_BYTES: usize = 500;
/// Maximum size of all entries of a request, in bytes.
const MAX_REQUEST_BYTES: usize = 4096;

/// What a call asks the user about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InterviewSubject {
    /// Questions of the tool.
    Questions,
    Mode,
    Permissions,
}

impl InterviewSubject {
    fn as_str(self) -> &'static str {
        match self {
            Self::Questions => "questions",
            Self::Mode => "mode",
            Self::Permissions => "permissions",
        }
    }
}

impl UserService for CallServices {
    fn ask_user(
        &self,
        queries: Vec<UserQuestion>,
    ) -> BoxFuture<'_, Result<Vec<UserAnswer>, Failure>> {
        Box::pin(self.interview(InterviewSubject::Questions, queries))
    }

    fn change_mode(&self, to: String, reason: String) -> BoxFuture<'_, Result<String, Failure>> {
        Box::pin(async move {
            let to: Mode = to
                .parse()
                .map_err(|error: UnknownMode| Failure::new("invalid_mode", error.to_string()))?;
            // The user is not asked about a mode that the operator has disabled.
            if let Err(off) = self.kernel()?.policy().with_mode(to) {
                return Err(Failure::new("invalid_mode", off.to_string()));
            }
            let now = self.mode_now();
            // Switching to an equally strict or stricter mode needs no approval; a less strict one does.
            let chosen = if now.is_at_least(to) {
                to
            } else {
                self.ask_wider_mode(to, reason).await?
            };
            self.session.set_mode(chosen);
            Ok(chosen.to_string())
        })
    }

    fn request_permissions(&self, request: Value) -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(self.permissions(request))
    }
}

impl CallServices {
    async fn interview(
        &self,
        subject: InterviewSubject,
        queries: Vec<UserQuestion>,
    ) -> Result<Vec<UserAnswer>, Failure> {
        if self.counts.questions.fetch_add(1, Relaxed) >= MAX_QUESTIONS {
            let message = format!("this call has reached the limit of {MAX_QUESTIONS} questions");
            return Err(Failure::new("too_many_questions", message));
        }
        let kernel = self.kernel()?;
        let interview = QuestionForm {
            call: self.id.clone(),
            plugin: self.entry.plugin.name.to_string(),
            tool: self.entry.name.to_string(),
            agent: self
                .caller
                .parent_agent
                .as_ref()
                .map(|_| self.caller.agent.clone()),
            questions: queries,
        };
        let user = &self.caller.user;
        let _waits = kernel.question_quota.take(user, 1).map_err(|full| {
            let message = format!("{full}; continue without an answer, or ask later");
            Failure::new("too_many_questions", message)
        })?;
        let replies = {
            let _wait = self.waiting.begin();
            kernel.prompter.attributed_interview(&interview).await
        };
        let Some(replies) = replies else {
            return Err(Failure {
                recommendations: vec![
                    "continue with your best judgement and state your assumptions".to_owned(),
                ],
                ..Failure::new("no_user", "no user is available")
            });
        };
        self.record_replies(&kernel, subject, &replies);
        match replies.replies {
            Some(replies)
                if replies.len() == interview.questions.len()
                    && interview
                        .questions
                        .iter()
                        .zip(&replies)
                        .all(|(query, reply)| query.accepts(reply)) =>
            {
                Ok(replies)
            }
            Some(_) => Err(Failure::new(
                "invalid_answer",
                "the answers do not match the questions",
            )),
            None => Err(Failure::new(
                "dismissed",
                "the user dismissed the question; continue with your best judgement or ask differently",
            )),
        }
    }

    /// Records who answered. The replies to questions of the tool itself are not recorded.
    fn record_replies(
        &self,
        kernel: &Kernel,
        subject: InterviewSubject,
        given: &AttributedReplies,
    ) {
        let outcome = match given.replies {
            Some(_) => "answered",
            None => "dismissed",
        };
        let mut body = json!({"about": subject.as_str(), "outcome": outcome, "by": given.by});
        if subject != InterviewSubject::Questions {
            body["replies"] = mask_value(&json!(given.replies));
        }
        let journal = &kernel.journal;
        journal.queue(|| {
            Write::Event(EventRow {
                channel: Channel::Control.as_str().to_owned(),
                session: self.caller.session.to_string(),
                call: Some(self.id.0.clone()),
                at_ms: journal.clock.now().0,
                kind: "questions.answered".to_owned(),
                body,
            })
        });
    }

    /// Asks the user for a mode that allows more. The user may choose another one.
    async fn ask_wider_mode(&self, to: Mode, reason: String) -> Result<Mode, Failure> {
        let now = self.mode_now();
        let option = |mode: Mode, description: &str| AnswerOption {
            label: mode.as_str().to_owned(),
            description: description.to_owned(),
            preview: None,
        };
        let stay = AnswerOption {
            label: "stay".to_owned(),
            description: format!("stay in {now}; other text is passed to the agent"),
            preview: None,
        };
        let description = match to {
            Mode::DontAsk | Mode::ReadOnly => "continue without changes",
            Mode::Plan => "continue without changes except notes of the plan",
            Mode::Ask => "continue and ask before every call",
            Mode::Default => "continue and ask before changes",
            Mode::AcceptEdits => "continue and change files without asking",
            Mode::Auto | Mode::Yolo => "continue without asking",
            Mode::Custom => "continue and let the hooks decide",
        };
        let mut options = vec![option(to, description)];
        if to == Mode::Default {
            options.push(option(
                Mode::AcceptEdits,
                "continue and change files without asking",
            ));
        }
        options.push(stay);
        let query = UserQuestion {
            question: format!("{reason}\n\nLeave {now} mode?"),
            header: "mode".to_owned(),
            kind: UserQuestionKind::Choice,
            options,
            multi_select: false,
            placeholder: None,
        };
        let replies = self.interview(InterviewSubject::Mode, vec![query]).await?;
        let Some(UserAnswer::Text(answer)) = replies.into_iter().next() else {
            return Err(Failure::new(
                "user_denied",
                "the user did not choose a mode",
            ));
        };
        let chosen = [to, Mode::AcceptEdits]
            .into_iter()
            .find(|mode| mode.as_str() == answer);
        chosen.ok_or_else(|| {
            let message = if answer == "stay" {
                format!("the user wants to stay in {now} mode")
            } else {
                format!(
                    "the user wants to stay in {now} mode: {}",
                    text::escape_lines(&answer, 2_000)
                )
            };
            Failure::new("user_denied", message)
        })
    }

    /// Asks the user for permissions for the session. They cannot exceed what the operator granted and only avoid
    /// questions: reads follow the mode of the session, and each call is still evaluated.
    async fn permissions(&self, request: Value) -> Result<Value, Failure> {
        let list = |name: &str| -> Vec<String> {
            let items = request[name].as_array().into_iter().flatten();
            items
                .filter_map(Value::as_str)
                .take(MAX_ENTRIES)
                .map(str::to_owned)
                .collect()
        };
        let (read, write, hosts) = (list("read"), list("write"), list("hosts"));
        if read.is_empty() && write.is_empty() && hosts.is_empty() {
            return Err(Failure::new(
                "invalid_permission_request",
                "name at least one of `read`, `write` and `hosts`",
            ));
        }
        for name in read.iter().chain(&write).chain(&hosts) {
            // The user must be able to read exactly what is granted.
            let steps_back = name.split('/').any(|step| step == "..");
            let is_visible = text::escape_line(name, usize::MAX) == *name;
            if name.trim().is_empty() || name.len() > MAX_ENTRY_BYTES || steps_back || !is_visible {
                let shown = text::escape_line(name, 80);
                let message = format!(
                    "`{shown}` cannot be requested: it must have 1 to {MAX_ENTRY_BYTES} bytes, no `..` and no invisible \
                     characters"
                );
                return Err(Failure::new("invalid_permission_request", message));
            }
        }
        let size: usize = [&read, &write, &hosts]
            .into_iter()
            .flatten()
            .map(String::len)
            .sum();
        if size > MAX_REQUEST_BYTES {
            return Err(Failure::new(
                "invalid_permission_request",
                format!(
                    "the requested names have {size} bytes; the limit is {MAX_REQUEST_BYTES}, which a user can review"
                ),
            ));
        }
        let kernel = self.kernel()?;
        if kernel.policy().approves_only_once() {
            return Err(Failure::new(
                "policy_violation",
                "this host approves each call separately (`disable_always_allow`)",
            ));
        }
        // Each on its own line: a separator could be part of a name.
        let lines = |label: &str, names: &[String]| -> String {
            let line = |name| format!("\n  {label}: {name}");
            names.iter().map(line).collect()
        };
        // The reason of the tool is short and comes first, so that the text of the host is next to the answer.
        let reason =
            text::escape_line(request["reason"].as_str().unwrap_or("no reason given"), 500);
        let question = format!(
            "reason given by the tool: {reason}\n\nAllow until this session ends?{}{}{}",
            lines("read", &read),
            lines("change", &write),
            lines("reach", &hosts)
        );
        let query = UserQuestion {
            question,
            header: "permissions".to_owned(),
            kind: UserQuestionKind::YesNo,
            options: Vec::new(),
            multi_select: false,
            placeholder: None,
        };
        let subject = InterviewSubject::Permissions;
        let replies = self.interview(subject, vec![query]).await?;
        if replies.first() != Some(&UserAnswer::YesNo(true)) {
            return Err(Failure::new("user_denied", "the user denied the request"));
        }
        kernel
            .allow_in_session(&self.caller.session_key(), &write, &hosts)
            .await?;
        Ok(json!({"read": read, "write": write, "hosts": hosts, "scope": "session"}))
    }
}
