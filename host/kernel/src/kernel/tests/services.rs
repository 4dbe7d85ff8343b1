//! Fixture for the services of calls: scripted tools, a scripted user, and fake sub-agents.

mod background;
mod delegating_tools;
mod delegation;
mod interviews;
mod modes;
mod permissions;
mod scripted_tools;
mod session_store;
mod variables;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use toolhost_contract::{
    AgentInfo, Answer, BoxFuture, Call, CallId, Failure, NoSink, PluginName, Policy, PolicySpec,
    Principal, Question, QuestionForm, UserAnswer, UserId,
};
use toolhost_store::Store;

use super::super::{CallRequest, Kernel, Report};
use super::test_world::{rules, shown};
use crate::hooks::{CallbackHook, HookEntry};
use crate::{AgentTask, Agents, Durability, KernelSettings, PluginInfo, Prompter, Subscription};
use scripted_tools::{ScriptedTools, tool, tools};

/// The result of an interview. The inner `None`: the user dismissed it.
type Replies = Option<Option<Vec<UserAnswer>>>;

/// A user who takes three seconds for everything.
#[derive(Default)]
struct ScriptedUser {
    /// Answers to questions whether a call may run; no user is available when the list is empty.
    answers: Mutex<VecDeque<Answer>>,
    replies: Mutex<VecDeque<Replies>>,
    /// The questions that were shown.
    shown: Mutex<Vec<String>>,
}

impl ScriptedUser {
    const TIME: Duration = Duration::from_secs(3);

    fn shown_questions(&self) -> Vec<String> {
        std::mem::take(&mut self.shown.lock().unwrap())
    }
}

impl Prompter for ScriptedUser {
    fn ask<'a>(&'a self, question: &'a Question, _: &'a Call) -> BoxFuture<'a, Answer> {
        let line = format!("may {} ({})", question.tool, question.reason);
        self.shown.lock().unwrap().push(line);
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(async {
            sleep(Self::TIME).await;
            answer.unwrap_or(Answer::NoPrompter)
        })
    }

    fn interview<'a>(&'a self, interview: &'a QuestionForm) -> BoxFuture<'a, Replies> {
        let questions = interview.questions.iter().map(|query| {
            let options: Vec<&str> = query.options.iter().map(|one| one.label.as_str()).collect();
            format!("{} {options:?}", query.question)
        });
        let questions: Vec<String> = questions.collect();
        let agent = interview.agent.as_deref().unwrap_or("-");
        let line = format!(
            "{agent} {}/{}: {}",
            interview.plugin,
            interview.tool,
            questions.join("; ")
        );
        self.shown.lock().unwrap().push(line);
        let replies = self.replies.lock().unwrap().pop_front();
        Box::pin(async {
            sleep(Self::TIME).await;
            replies.flatten()
        })
    }
}

/// `general` returns the task it was given, `slow` never ends.
struct FakeAgents(bool);

impl Agents for FakeAgents {
    fn agents(&self) -> Vec<AgentInfo> {
        let agent = |name: &str| AgentInfo {
            name: name.to_owned(),
            description: String::new(),
        };
        if self.0 {
            vec![agent("general"), agent("slow")]
        } else {
            Vec::new()
        }
    }

    fn run(&self, task: AgentTask) -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(async move {
            if task.agent == "slow" {
                std::future::pending::<()>().await;
            }
            sleep(Duration::from_secs(60)).await;
            let held = task.context.restriction.map_or("free", |_| "held");
            let mode = task.context.mode.unwrap_or_default();
            let (agent, parent, call) = (task.agent, task.caller.agent, task.call);
            let text = format!("{agent} for {parent} {call}, {mode}, {held}");
            Ok(json!({"text": text, "task": task.task}))
        })
    }
}

/// Builds the fixture.
#[derive(Default)]
struct ServicesFixtureBuilder {
    settings: KernelSettings,
    answers: Vec<Answer>,
    replies: Vec<Replies>,
    /// No sub-agents.
    alone: bool,
    hook: Option<CallbackHook>,
    store: Option<Store>,
}

impl ServicesFixtureBuilder {
    fn rules(text: &str) -> Self {
        Self::policy(|spec| spec.rules = rules(text))
    }

    fn policy(change: impl FnOnce(&mut PolicySpec)) -> Self {
        let mut spec = PolicySpec::default();
        change(&mut spec);
        let mut plan = Self::default();
        plan.settings.policy = Arc::new(Policy::new(spec).unwrap());
        plan
    }

    fn answers(mut self, answers: impl Into<Vec<Answer>>) -> Self {
        self.answers = answers.into();
        self
    }

    fn replies(mut self, replies: impl Into<Vec<Replies>>) -> Self {
        self.replies = replies.into();
        self
    }

    fn build(self) -> ServicesFixture {
        let person = Arc::new(ScriptedUser {
            answers: Mutex::new(self.answers.into()),
            replies: Mutex::new(self.replies.into()),
            shown: Mutex::default(),
        });
        let kernel = Kernel::builder(self.settings)
            .prompter(Arc::clone(&person) as Arc<dyn Prompter>)
            .agents(Arc::new(FakeAgents(!self.alone)));
        let kernel = match self.store {
            Some(store) => kernel.store(store, Durability::default()),
            None => kernel,
        };
        let kernel = match self.hook {
            Some(hook) => kernel.hook(HookEntry::new("hook", Arc::new(hook))),
            None => kernel,
        };
        let kernel = kernel.build().unwrap().share();
        let mut draft = tool("draft", false);
        draft.kind = "edit".to_owned();
        let mut chain = tool("chain", false);
        chain.requires = vec!["tools".to_owned()];
        chain.can_background = true;
        let held = ScriptedTools::new(vec![draft, chain], true);
        for (name, backend) in [
            ("p", ScriptedTools::new(tools(), false)),
            ("q", ScriptedTools::new(vec![tool("other", true)], false)),
            ("h", Arc::clone(&held)),
        ] {
            let plugin = PluginInfo {
                name: PluginName::parse(name).unwrap(),
                version: "1.0.0".to_owned(),
                digest: None,
                timeout: None,
            };
            kernel.register(plugin, backend).unwrap();
        }
        ServicesFixture {
            subscription: Mutex::new(kernel.subscribe(None, None)),
            kernel,
            person,
            held,
            calls: Mutex::new(0),
        }
    }
}

struct ServicesFixture {
    kernel: Arc<Kernel>,
    person: Arc<ScriptedUser>,
    held: Arc<ScriptedTools>,
    calls: Mutex<usize>,
    subscription: Mutex<Subscription>,
}

impl ServicesFixture {
    /// `TOOL`, `TOOL@SESSION`, `TOOL@SESSION/AGENT` or `TOOL@USER:SESSION`. The ids are `c1`, `c2`, …
    fn requested_call(&self, who: &str, input: Value) -> CallRequest {
        let (tool, location) = who.split_once('@').unwrap_or((who, "s"));
        let (session, agent) = location.split_once('/').unwrap_or((location, "main"));
        let (user, session) = match session.split_once(':') {
            Some((user, session)) => (UserId::token(user), session),
            None => (UserId::Local, session),
        };
        let caller = Principal {
            user,
            session: session.into(),
            agent: agent.to_owned(),
            parent_agent: (agent != "main").then(|| "main".to_owned()),
            ..Principal::default()
        };
        let mut calls = self.calls.lock().unwrap();
        *calls += 1;
        CallRequest::new(CallId(format!("c{calls}")), tool, input, caller)
    }

    async fn request(&self, request: CallRequest) -> Report {
        Box::pin(self.kernel.call(request, Arc::new(NoSink))).await
    }

    async fn report(&self, who: &str, script: &str) -> Report {
        let wanted = self.requested_call(who, json!({"do": script}));
        self.request(wanted).await
    }

    /// Returns the results of the lines.
    async fn call(&self, who: &str, script: &str) -> String {
        let output = shown(&self.report(who, script).await);
        output.trim_start_matches("ok: ").replace('\n', "; ")
    }

    /// Makes the calls and checks their results.
    async fn check(&self, calls: &[(&str, &str, &str)]) {
        for (who, script, expected) in calls {
            assert_eq!(self.call(who, script).await, *expected, "{who}: {script}");
        }
    }

    /// Starts the call in a task.
    fn start(&self, who: &str, script: &str) -> tokio::task::JoinHandle<Report> {
        let kernel = Arc::clone(&self.kernel);
        let request = self.requested_call(who, json!({"do": script}));
        tokio::spawn(async move { kernel.call(request, Arc::new(NoSink)).await })
    }

    /// Returns `PARENT > TOOL (ORIGIN) STATE` from the record of every ended call.
    fn records(&self) -> Vec<String> {
        let mut subscription = self.subscription.lock().unwrap();
        let events = std::iter::from_fn(|| subscription.try_next()).map(Result::unwrap);
        let ends = events.filter(|event| event.kind.is_terminal());
        let mut lines: Vec<String> = ends
            .map(|event| {
                let record = event.snapshot.as_ref().unwrap().json();
                let member = |name: &str| record[name].as_str().unwrap_or("-").to_owned();
                let (parent, name, origin) =
                    (member("parentCallId"), member("name"), member("origin"));
                format!("{parent} > {name} ({origin}) {}", member("state"))
            })
            .collect();
        lines.sort();
        lines
    }
}
