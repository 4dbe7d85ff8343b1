//! Hooks implemented as closures, for programs that embed the host.

use std::sync::Arc;

use serde_json::Value;
use toolhost_contract::hook::{PostHookResponse, PreHookResponse};
use toolhost_contract::{BoxFuture, Descriptor, Outcome, PluginName};

use super::{Hook, HookCall, HookError, HookPoint};

type HookFuture<T> = BoxFuture<'static, Result<T, HookError>>;
type BeforeFn = dyn Fn(HookCall) -> HookFuture<PreHookResponse> + Send + Sync;
type AfterFn = dyn Fn(HookCall, Outcome) -> HookFuture<PostHookResponse> + Send + Sync;
type MessagesFn = dyn Fn(String, Value) -> HookFuture<()> + Send + Sync;

/// A hook made of closures. Events without a closure are ignored.
///
/// ```
/// use toolhost_contract::hook::{PreHookDecision, PreHookResponse};
/// use toolhost_kernel::hooks::CallbackHook;
///
/// let hook = CallbackHook::before(|call| async move {
///     let mut answer = PreHookResponse::default();
///     if call.call.input["command"].as_str().is_some_and(|command| command.contains("rm -rf")) {
///         answer.decision = PreHookDecision::Ask { reason: Some("it deletes".to_owned()), meta: None };
///     }
///     Ok(answer)
/// });
/// # drop(hook);
/// ```
#[derive(Clone, Default)]
pub struct CallbackHook {
    before: Option<Arc<BeforeFn>>,
    after: Option<Arc<AfterFn>>,
    messages_changed: Option<Arc<MessagesFn>>,
}

impl CallbackHook {
    /// Creates a hook with a closure that runs before calls. Use `CallbackHook::default()` for none.
    pub fn before<F, S>(say: F) -> Self
    where
        F: Fn(HookCall) -> S + Send + Sync + 'static,
        S: Future<Output = Result<PreHookResponse, HookError>> + Send + 'static,
    {
        Self {
            before: Some(Arc::new(move |call| Box::pin(say(call)))),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn after<F, S>(mut self, say: F) -> Self
    where
        F: Fn(HookCall, Outcome) -> S + Send + Sync + 'static,
        S: Future<Output = Result<PostHookResponse, HookError>> + Send + 'static,
    {
        self.after = Some(Arc::new(move |call, outcome| Box::pin(say(call, outcome))));
        self
    }

    #[must_use]
    pub fn messages_changed<F, S>(mut self, callback: F) -> Self
    where
        F: Fn(String, Value) -> S + Send + Sync + 'static,
        S: Future<Output = Result<(), HookError>> + Send + 'static,
    {
        self.messages_changed = Some(Arc::new(move |session, messages| {
            Box::pin(callback(session, messages))
        }));
        self
    }
}

impl Hook for CallbackHook {
    fn runs(&self, point: HookPoint, _: &PluginName, _: &Descriptor) -> bool {
        match point {
            HookPoint::Before => self.before.is_some(),
            HookPoint::After => self.after.is_some(),
        }
    }

    // The closures are called inside the futures, so that a panic of a closure is caught where the future is awaited.
    fn before<'a>(
        &'a self,
        call: &'a HookCall,
    ) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        Box::pin(async move {
            match &self.before {
                Some(say) => say(call.clone()).await,
                None => Ok(PreHookResponse::default()),
            }
        })
    }

    fn after<'a>(
        &'a self,
        call: &'a HookCall,
        outcome: &'a Outcome,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        Box::pin(async move {
            match &self.after {
                Some(say) => say(call.clone(), outcome.clone()).await,
                None => Ok(PostHookResponse::Keep),
            }
        })
    }

    fn messages_changed<'a>(
        &'a self,
        session: &'a str,
        messages: &'a Value,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            match &self.messages_changed {
                Some(callback) => callback(session.to_owned(), messages.clone()).await,
                None => Ok(()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;
    use toolhost_contract::hook::{OutcomePatch, PreHookDecision};
    use toolhost_contract::{Descriptor, ToolName};

    use super::*;
    use crate::hooks::tests::call;
    use crate::hooks::{HookDecision as Together, HookEntry, Hooks, Matcher, RevisedOutcome};

    fn hooks(hook: CallbackHook) -> Hooks {
        Hooks::new(vec![HookEntry::new("mine", Arc::new(hook))])
    }

    #[tokio::test]
    async fn r_210_a_closure_decides_before_a_call() {
        let hook = CallbackHook::before(|call| async move {
            assert_eq!(call.name.as_str(), "edit_file");
            Ok(PreHookResponse {
                decision: PreHookDecision::Deny {
                    reason: Some(format!("not {}", call.call.input["path"])),
                    outcome: None,
                },
                updated_input: None,
            })
        });
        let Together::Denied { reason, .. } = hooks(hook).before(&call()).await else {
            panic!("not denied")
        };
        assert_eq!(reason.as_deref(), Some("not \"a\""));
    }

    #[tokio::test]
    async fn r_211_a_closure_changes_the_result_of_a_call() {
        let hook = CallbackHook::default().after(|_, outcome| async move {
            Ok(PostHookResponse::Update(Box::new(OutcomePatch {
                summary: Some(format!("was {}", outcome.model_text())),
                ..OutcomePatch::default()
            })))
        });
        let RevisedOutcome {
            outcome, failures, ..
        } = hooks(hook).after(&call(), Outcome::text("x")).await;
        assert_eq!(outcome.summary.as_deref(), Some("was x"));
        assert!(failures.is_empty());
    }

    #[tokio::test]
    async fn r_212_a_closure_is_notified_of_changed_messages() {
        let received = Arc::new(Mutex::new(Vec::new()));
        let here = Arc::clone(&received);
        let hook = CallbackHook::default().messages_changed(move |session, messages| {
            here.lock().unwrap().push((session, messages));
            std::future::ready(Ok(()))
        });
        hooks(hook).messages_changed("s1", &json!(["hi"])).await;
        assert_eq!(
            *received.lock().unwrap(),
            [("s1".to_owned(), json!(["hi"]))]
        );
    }

    #[tokio::test]
    async fn r_218_hooks_for_one_tool_and_for_all_tools_both_run() {
        let received = Arc::new(Mutex::new(Vec::new()));
        let entry = |name: &'static str, pattern| {
            let received = Arc::clone(&received);
            let hook = CallbackHook::before(move |call| {
                received
                    .lock()
                    .unwrap()
                    .push(format!("{name}: {}", call.name.as_str()));
                std::future::ready(Ok(PreHookResponse::default()))
            });
            HookEntry {
                matcher: Matcher::parse(pattern).unwrap(),
                ..HookEntry::new(name, Arc::new(hook))
            }
        };
        let hooks = Hooks::new(vec![entry("tool", "edit_file"), entry("agent", "*")]);
        let mut other = call();
        other.name = ToolName::parse("grep").unwrap();
        let mut tool = Descriptor::clone(&other.tool);
        (tool.name, tool.aliases) = (other.name.clone(), Vec::new());
        other.tool = Arc::new(tool);
        hooks.before(&call()).await;
        hooks.before(&other).await;
        assert_eq!(
            *received.lock().unwrap(),
            ["tool: edit_file", "agent: edit_file", "agent: grep"]
        );
    }

    fn ouch(_: HookCall) -> std::future::Ready<Result<PreHookResponse, HookError>> {
        panic!("ouch")
    }

    #[tokio::test]
    async fn events_without_a_closure_are_ignored_and_a_panic_is_a_failure() {
        let silent = hooks(CallbackHook::default());
        assert_eq!(
            silent.before(&call()).await,
            Together::Proceed(crate::hooks::HookHints::default())
        );
        let RevisedOutcome { outcome, .. } = silent.after(&call(), Outcome::text("x")).await;
        assert_eq!(outcome, Outcome::text("x"));
        assert!(silent.messages_changed("s", &json!([])).await.is_empty());

        let decision = hooks(CallbackHook::before(ouch)).before(&call()).await;
        assert!(
            matches!(decision, Together::Denied { reason: Some(reason), .. } if reason.contains("panicked"))
        );
    }
}
