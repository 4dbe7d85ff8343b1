//! A kernel with tools of a few lines, its page, and a browser.

use std::io::{Seek as _, Write as _};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use toolhost_contract::lifecycle::Timestamp;
use toolhost_contract::{
    Annotations, Answer, Backend, BinaryContent, BoxFuture, Call, CallError, CallId, ChangeKind,
    ChangeSet, ChangeSide, CommitError, Descriptor, EditedChanges, FileChange, FileDiff, FileKind,
    Grant, LargeContent, NoSink, Outcome, PluginName, Principal, Question, Sink, StagedChanges,
    StagedEffects, StagedResult, ToolName, UndiffedContent, UserEdit,
};
use toolhost_kernel::{
    CallRequest, Clock, Durability, Kernel, KernelSettings, PluginInfo, Prompter, Report,
};
use toolhost_store::Store;
use tower::ServiceExt as _;

use crate::access::Access;
use crate::history::HistorySources;
use crate::state::{AppState, Permission, UiOptions};
use crate::{HostView, Inbox, UiPrompter, server};

pub const HOST: &str = "127.0.0.1:7070";

pub struct World {
    pub state: Arc<AppState>,
    pub kernel: Arc<Kernel>,
    pub router: Router,
    now: Arc<AtomicI64>,
    /// What was committed: `path: content`.
    pub committed: Arc<Mutex<Vec<String>>>,
}

/// A browser with a session.
pub struct Browser<'a> {
    world: &'a World,
    pub cookie: String,
}

pub struct Page {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl World {
    pub fn new() -> Self {
        Self::with(Permission::ReadWrite, Arc::new(toolhost_kernel::NoPrompter))
    }

    pub fn with(permission: Permission, terminal: Arc<dyn Prompter>) -> Self {
        Self::build(permission, terminal, None, None)
    }

    /// A host that keeps records.
    pub fn with_store(permission: Permission, store: Store, view: Arc<dyn HostView>) -> Self {
        let terminal = Arc::new(toolhost_kernel::NoPrompter);
        Self::build(permission, terminal, Some(store), Some(view))
    }

    /// The page of a store without a running host.
    pub fn history_only(store: Store) -> Self {
        let world = Self::new();
        let options = UiOptions {
            inbox: Inbox::new(Clock::system(), None),
            kernel: None,
            store: Some(store),
            view: None,
            permission: Permission::ReadOnly,
            user: "ann".to_owned(),
        };
        let state = app_state(options);
        Self {
            router: server::router(Arc::clone(&state)),
            state,
            ..world
        }
    }

    fn build(
        permission: Permission,
        terminal: Arc<dyn Prompter>,
        store: Option<Store>,
        view: Option<Arc<dyn HostView>>,
    ) -> Self {
        let now = Arc::new(AtomicI64::new(1_000_000));
        let time = Arc::clone(&now);
        let clock = Clock::new(move || Timestamp(time.load(SeqCst)));
        let inbox = Inbox::new(clock, Some("/project".to_owned()));
        inbox.set_served();
        let prompter = UiPrompter::new(terminal, Arc::clone(&inbox));
        let mut builder = Kernel::builder(KernelSettings::default()).prompter(Arc::new(prompter));
        if let Some(store) = &store {
            builder = builder.store(store.clone(), Durability::default());
        }
        let kernel = Arc::new(builder.build().unwrap());
        let committed: Arc<Mutex<Vec<String>>> = Arc::default();
        // The plugin `shell` does not stage changes, so its calls ask before they run.
        for name in ["files", "shell"] {
            register(&kernel, name, &committed);
        }
        let options = UiOptions {
            inbox,
            kernel: Some(Arc::clone(&kernel)),
            store,
            view,
            permission,
            user: "ann".to_owned(),
        };
        let state = app_state(options);
        Self {
            router: server::router(Arc::clone(&state)),
            state,
            kernel,
            now,
            committed,
        }
    }

    /// Unregisters a plugin and registers it again, as a host that reloads it does.
    pub fn register_again(&self, name: &str) {
        self.kernel.unregister(&PluginName::parse(name).unwrap());
        register(&self.kernel, name, &self.committed);
    }

    /// Lets time pass, in milliseconds.
    pub fn wait(&self, ms: i64) {
        self.now.fetch_add(ms, SeqCst);
    }

    pub async fn send(&self, request: Request<Body>) -> Page {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Page {
            status: parts.status,
            headers: parts.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    /// Opens a new link, as a browser does.
    pub async fn browser(&self) -> Browser<'_> {
        let link = self.state.access.new_link().unwrap();
        let token = link.split_once("token=").unwrap().1;
        let page = self.send(post("/open", "", &[("token", token)])).await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{}", page.body);
        let cookie = page.headers["set-cookie"].to_str().unwrap();
        let cookie = cookie.split_once(';').unwrap().0.to_owned();
        Browser {
            world: self,
            cookie,
        }
    }

    /// Starts a call and waits until its question is listed.
    pub async fn ask(&self, id: &str, tool: &str, input: Value) -> JoinHandle<Report> {
        let before = self.state.inbox().counts().questions();
        let request = CallRequest::new(CallId(id.to_owned()), tool, input, Principal::default());
        let kernel = Arc::clone(&self.kernel);
        let call = tokio::spawn(async move { kernel.call(request, Arc::new(NoSink)).await });
        while self.state.inbox().counts().questions() == before {
            assert!(!call.is_finished(), "the call has asked nothing");
            tokio::task::yield_now().await;
        }
        call
    }
}

/// The plugin `shell` does not stage changes, so its calls ask before they run.
fn register(kernel: &Kernel, name: &str, committed: &Arc<Mutex<Vec<String>>>) {
    let plugin = PluginInfo {
        name: PluginName::parse(name).unwrap(),
        version: "1.0.0".to_owned(),
        digest: Some(toolhost_contract::Digest([1; 32])),
        timeout: None,
    };
    let names = match name {
        "files" => ["write", "look"],
        _ => ["remove", "run"],
    };
    let backend = Tools {
        descriptors: names.map(tool).to_vec(),
        stages: name == "files",
        committed: Arc::clone(committed),
    };
    kernel.register(plugin, Arc::new(backend)).unwrap();
}

fn app_state(options: UiOptions) -> Arc<AppState> {
    let access = Access::new(HOST.parse().unwrap()).unwrap();
    let history = Arc::new(HistorySources::open(options.store.as_ref()).unwrap());
    Arc::new(AppState::new(options, access, history, 2))
}

/// A request with the headers of a browser that shows a page of this server.
pub fn request(method: Method, path: &str, cookie: &str, body: String) -> Request<Body> {
    let mut request = Request::builder()
        .method(method.clone())
        .uri(path)
        .header("host", HOST)
        .header("sec-fetch-site", "same-origin");
    if method == Method::POST {
        request = request.header("origin", format!("http://{HOST}"));
    }
    if !cookie.is_empty() {
        request = request.header("cookie", cookie);
    }
    request.body(Body::from(body)).unwrap()
}

pub fn post(path: &str, cookie: &str, fields: &[(&str, &str)]) -> Request<Body> {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(fields);
    request(Method::POST, path, cookie, body.finish())
}

impl<'a> Browser<'a> {
    /// A browser that has opened no link.
    pub fn without_session(world: &'a World) -> Self {
        Self {
            world,
            cookie: String::new(),
        }
    }

    pub async fn get(&self, path: &str) -> Page {
        let request = request(Method::GET, path, &self.cookie, String::new());
        self.world.send(request).await
    }

    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        self.world.send(post(path, &self.cookie, fields)).await
    }

    /// Sends the form of the question that a page shows, half a second after it was delivered.
    pub async fn answer(&self, page: &Page, answer: &str, more: &[(&str, &str)]) -> Page {
        self.world.wait(500);
        self.answer_now(page, answer, more).await
    }

    pub async fn answer_now(&self, page: &Page, answer: &str, more: &[(&str, &str)]) -> Page {
        let ticket = page.hidden("ticket");
        let csrf = page.hidden("csrf");
        let action = page.between("method=\"post\" action=\"/questions/", "\" class=\"answers");
        let path = format!("/questions/{action}");
        let mut fields = vec![("csrf", csrf), ("ticket", ticket), ("answer", answer)];
        fields.extend_from_slice(more);
        self.post(&path, &fields).await
    }
}

impl Page {
    pub fn between(&self, start: &str, end: &str) -> &str {
        // The last one, because the form of the answers comes last.
        let at = self
            .body
            .rfind(start)
            .unwrap_or_else(|| panic!("no {start} in {}", self.body));
        let rest = &self.body[at + start.len()..];
        &rest[..rest.find(end).unwrap()]
    }

    pub fn hidden(&self, name: &str) -> &str {
        self.between(&format!("name=\"{name}\" value=\""), "\"")
    }

    pub fn assert_contains(&self, text: &str) {
        assert!(self.body.contains(text), "{text} is not in {}", self.body);
    }
}

fn tool(name: &str) -> Descriptor {
    let mut tool = Descriptor::new(ToolName::parse(name).unwrap(), "");
    tool.input_schema = json!({"type": "object"});
    tool.annotations = Annotations {
        destructive: Some(name == "remove"),
        read_only: (name == "look").then_some(true),
        ..Annotations::default()
    };
    if name == "run" {
        tool.kind = "execute".to_owned();
    }
    tool
}

/// Tools whose calls propose the changes of their input: `write` takes `path`, `old` and `content`, and `target` for
/// a link. With `large` and `binary`, the change has no diff.
struct Tools {
    descriptors: Vec<Descriptor>,
    stages: bool,
    committed: Arc<Mutex<Vec<String>>>,
}

impl Backend for Tools {
    fn tools(&self) -> &[Descriptor] {
        &self.descriptors
    }

    fn invoke(
        &self,
        _: Call,
        _: Grant,
        _: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(async { Ok(Outcome::text("done")) })
    }

    fn supports_staging(&self) -> bool {
        self.stages
    }

    fn stage(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<StagedResult, CallError>> {
        Box::pin(async move {
            let input = call.input.clone();
            let outcome = self.invoke(call, grant, sink).await?;
            let effects = match input["content"].as_str() {
                Some(new) => StagedEffects::Staged(Box::new(Staged {
                    changes: change(&input, new),
                    committed: Arc::clone(&self.committed),
                })),
                None => StagedEffects::None,
            };
            Ok(StagedResult { outcome, effects })
        })
    }
}

fn change(input: &Value, new: &str) -> ChangeSet {
    let path = input["path"].as_str().unwrap();
    let old = input["old"].as_str();
    let unified = toolhost_contract::text::UnifiedDiff {
        header: Some(("a", "b")),
        ..Default::default()
    };
    let is_large = input["large"] == true;
    let large = || {
        let sides = [old.map(str::to_owned), Some(new.to_owned())];
        UndiffedContent::Large(LargeContent::new(move |side| {
            let content = match side {
                ChangeSide::Before => &sides[0],
                ChangeSide::After => &sides[1],
            };
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(content.as_ref()?.as_bytes()).unwrap();
            file.rewind().unwrap();
            Some(file)
        }))
    };
    let is_binary = input["binary"] == true;
    let binary = || {
        UndiffedContent::Binary(BinaryContent {
            before: old.map(|old| Arc::from(old.as_bytes())),
            after: Some(Arc::from(new.as_bytes())),
        })
    };
    let diff = FileDiff {
        file_name: path.to_owned(),
        diff: unified.of(old.unwrap_or_default(), new),
        original: old.map(str::to_owned),
        new: new.to_owned(),
    };
    let change = FileChange {
        path: path.to_owned(),
        kind: old.map_or(ChangeKind::Created, |_| ChangeKind::Modified),
        file_kind: FileKind::File,
        sizes: (old.map(|old| old.len() as u64), Some(new.len() as u64)),
        link_targets: (None, input["target"].as_str().map(str::to_owned)),
        modes: None,
        executable: false,
        diff: (!is_large && !is_binary).then_some(diff),
        no_diff_reason: match (is_large, is_binary) {
            (true, _) => Some("too large to show"),
            (_, true) => Some("binary"),
            _ => None,
        },
        content: is_large.then(large).or_else(|| is_binary.then(binary)),
    };
    ChangeSet {
        changes: vec![change],
    }
}

struct Staged {
    changes: ChangeSet,
    committed: Arc<Mutex<Vec<String>>>,
}

impl StagedChanges for Staged {
    fn changes(&self) -> &ChangeSet {
        &self.changes
    }

    fn prepare(&self) -> BoxFuture<'_, Result<Value, CommitError>> {
        Box::pin(async { Ok(json!({})) })
    }

    fn edit(
        mut self: Box<Self>,
        edits: Vec<UserEdit>,
    ) -> BoxFuture<'static, Result<EditedChanges, CallError>> {
        Box::pin(async move {
            for edit in edits {
                let change = &mut self.changes.changes[0];
                assert_eq!(edit.path, change.path);
                change.diff.as_mut().unwrap().new = edit.text;
            }
            Ok(EditedChanges {
                effects: StagedEffects::Staged(self),
                diffs: Vec::new(),
            })
        })
    }

    fn commit(self: Box<Self>, _: String) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(async move {
            let change = &self.changes.changes[0];
            let content = &change.diff.as_ref().unwrap().new;
            let line = format!("{}: {content}", change.path);
            self.committed.lock().unwrap().push(line);
            Ok(())
        })
    }
}

/// A terminal whose user answers when the test says so.
#[derive(Default)]
pub struct TestTerminal {
    pub answer: tokio::sync::Notify,
    pub elsewhere: Mutex<Vec<String>>,
}

impl Prompter for TestTerminal {
    fn name(&self) -> &'static str {
        "the terminal"
    }

    fn ask<'a>(&'a self, _: &'a Question, _: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(async {
            self.answer.notified().await;
            Answer::once()
        })
    }

    fn answered_elsewhere(&self, call: &CallId, by: &str) {
        self.elsewhere.lock().unwrap().push(format!("{call}: {by}"));
    }
}
