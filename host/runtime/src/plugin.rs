//! A loaded component with the operator's grants, as a backend of the kernel.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use toolhost_contract::path_members::is_path_member;
use toolhost_contract::policy::{Mode, RunningJob};
use toolhost_contract::{
    Backend, BoxFuture, Call, CallError, Descriptor, EffectBounds, ErrorClass, FileAccess, Grant,
    Limits, Outcome, PluginName, Preview, Principal, Rendering, SessionKey, Sink, StagedEffects,
    StagedResult,
};
use toolhost_vfs::{PathGrant, Scope, Stage, StageLimits};

use crate::api::v0_1;
use crate::caller_files::{CallerFiles, record_reads};
use crate::capabilities::{self, CallCapabilities, Capabilities};
use crate::executable;
use crate::files::Files;
use crate::functions;
use crate::instance::CallEnvironment;
use crate::linked_code::Tools;
use crate::load::Loaded;
use crate::missing_grants;
use crate::owners::job_owner;
use crate::path_view::DirRestriction;
use crate::programs::{AuthorizedAction, ProgramGrant};
use crate::request;
use crate::staging::{StagedFiles, Staging};

/// The operator's grants to a plugin. Each call gets the part that its own grant covers.
pub struct PluginGrants {
    pub scope: Scope,
    /// Host directories that differ between callers; `None` if the plugin has none.
    pub session_dirs: Option<SessionDirs>,
    pub env: Vec<(String, String)>,
    pub limits: Limits,
    /// `None`: writes are applied immediately, and cannot be reviewed or undone.
    pub staging: Option<Staging>,
    pub capabilities: Capabilities,
}

/// Host directories that each session has separately.
#[derive(Clone)]
pub struct SessionDirs {
    /// At least one of them is writable.
    pub writable: bool,
    /// Returns the directories of a session, and creates missing ones. May block.
    pub open: Arc<SessionDirsFn>,
}

type SessionDirsFn = dyn Fn(&SessionKey) -> Result<Vec<PathGrant>, SessionDirError> + Send + Sync;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SessionDirError(pub String);

pub struct Plugin {
    loaded: Loaded,
    limits: Limits,
    no_files: Files,
    read_only: Files,
    granted: Files,
    session_dirs: Option<SessionDirs>,
    /// The session directories that were opened last are on local disks, like all granted ones.
    opens_inline: AtomicBool,
    env: Vec<(String, String)>,
    staging: Option<Staging>,
    capabilities: Capabilities,
    /// The shell that runs the commands of its calls.
    shell: Option<&'static str>,
}

impl Plugin {
    pub fn new(loaded: Loaded, grants: PluginGrants) -> std::io::Result<Self> {
        Ok(Self {
            loaded,
            limits: grants.limits,
            no_files: Files::none(),
            read_only: Files::new(grants.scope.read_only())?,
            granted: Files::new(grants.scope)?,
            session_dirs: grants.session_dirs,
            opens_inline: AtomicBool::new(false),
            env: grants.env,
            staging: grants.staging,
            shell: grants
                .capabilities
                .programs
                .as_ref()
                .and_then(ProgramGrant::shell),
            capabilities: grants.capabilities,
        })
    }

    /// Compiles the code of a plugin that was loaded without it, so that its first call need not wait.
    pub async fn compile(&self) -> Result<(), CallError> {
        self.loaded.compile().await
    }

    /// Whether the code is being compiled or read now.
    pub fn is_preparing(&self) -> bool {
        self.loaded.is_preparing()
    }

    pub fn name(&self) -> &PluginName {
        &self.loaded.manifest().name
    }

    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn no_files(&self) -> &Files {
        &self.no_files
    }

    pub(crate) fn find_tool(&self, call: &Call) -> Option<&Descriptor> {
        self.loaded
            .tools()
            .iter()
            .find(|tool| tool.name == call.tool)
    }

    /// The operator's grants, limited to reading.
    pub(crate) fn read_only(&self) -> &Files {
        &self.read_only
    }

    /// The caller's files: the operator's grants and the session's directories.
    async fn caller_files(&self, call: &Call) -> Result<CallerFiles, CallError> {
        let tool = self.find_tool(call);
        let wants = tool.is_none_or(capabilities::uses_files);
        let Some(own) = self.session_dirs.as_ref().filter(|_| wants) else {
            return Ok(CallerFiles {
                read_only: self.read_only.clone(),
                granted: self.granted.clone(),
            });
        };
        let (folders, key) = (Arc::clone(&own.open), call.caller.session_key());
        let scope = self.granted.scope().clone();
        let open = move || {
            let scope = scope.with_host_dirs(&folders(&key)?)?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(CallerFiles {
                read_only: Files::new(scope.read_only())?,
                granted: Files::new(scope)?,
            })
        };
        let opened = if self.opens_inline.load(Ordering::Relaxed) {
            open()
        } else {
            let opened = tokio::task::spawn_blocking(open).await;
            opened.map_err(CallError::internal)?
        };
        let opened = opened.map_err(|error| {
            let message = format!("cannot open the directories of this session: {error}");
            CallError::new(ErrorClass::Failed, message).code("session_directories_failed")
        })?;
        self.opens_inline
            .store(opened.granted.is_inline(), Ordering::Relaxed);
        Ok(opened)
    }

    fn capabilities_of(
        &self,
        tool: Option<&Descriptor>,
        call: &Call,
        authorized: AuthorizedAction,
        is_staged: bool,
    ) -> CallCapabilities {
        let allowed = tool.map_or_else(CallCapabilities::default, |tool| {
            let owner = job_owner(&call.caller, self.name());
            self.capabilities.of(
                tool,
                &call.input,
                call.caller.user.name(),
                &owner,
                authorized,
            )
        });
        // No external effects from a call whose changes are authorized after it ran, whatever the tool.
        if is_staged {
            allowed.without_external_effects()
        } else {
            allowed
        }
    }

    async fn run(
        &self,
        mut call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
        own: &CallerFiles,
        stage: Option<&Stage>,
    ) -> Result<Outcome, CallError> {
        let tool = self.find_tool(&call);
        let files = own.for_tool(tool, &grant, stage, &self.no_files, &sink)?;
        use_guest_names(&mut call.input, files.scope());
        let authorized = AuthorizedAction::of(&grant, |path| use_guest_name(path, files.scope()));
        let restriction = DirRestriction::new(grant.directory_limits());
        let files = files.restricted_to(&restriction).await;
        let allowed = self.capabilities_of(tool, &call, authorized, grant.is_staged());
        // Only the command itself was authorized: the plugin may not write files or use the network directly.
        let (allowed, files) = if allowed.is_bound() {
            let allowed = allowed.only_programs(files.path_views());
            let files = own.read_only.with_read_guard(grant.guard());
            let files = record_reads(&files, &sink)
                .restricted_to(&restriction)
                .await;
            (allowed, files)
        } else if allowed.programs.is_some() {
            let folders = files.path_views();
            (
                CallCapabilities {
                    directories: folders,
                    ..allowed
                },
                files,
            )
        } else {
            (allowed, files)
        };
        let allowed = CallCapabilities {
            read_guard: grant.guard().cloned(),
            ..allowed
        };
        let mode = sink.services().map(|services| services.mode());
        let setting = CallEnvironment {
            allowed,
            limits: &self.limits,
            files,
            env: if grant.environment() { &self.env } else { &[] },
            timeout: grant.timeout(),
            inactivity: tool.and_then(|tool| tool.inactivity_timeout),
            processor_time: None,
            sink,
        };
        let output = tool.and_then(|tool| tool.max_output_bytes);
        let output = output.unwrap_or(u64::MAX).min(self.limits.output);
        let (mut outcome, notice) = match self.loaded.code().await?.tools()? {
            Tools::Interface(tools) => {
                let scope = setting.files.scope();
                let request = request::for_call(&call, scope, mode.unwrap_or_default());
                let (outcome, notice) = tools
                    .run(setting, async |store, plugin| {
                        let plugin = plugin.toolhost_plugin_tool();
                        let result = plugin.call_call(&mut *store, &request).await?;
                        let state = store.data();
                        let result = result.map_err(|error| state.explain(v0_1::error(error)));
                        Ok((result, state.unnamed.notice()))
                    })
                    .await?;
                (
                    outcome.and_then(|outcome| v0_1::outcome(outcome, output))?,
                    notice,
                )
            }
            Tools::Functions(functions) => {
                functions::call(functions, setting, &call, self.loaded.manifest(), output).await?
            }
        };
        if let Some(notice) = notice {
            outcome.add_notice(notice);
        }
        Ok(outcome)
    }
}

impl Plugin {
    async fn run_staged(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> Result<StagedResult, CallError> {
        let own = self.caller_files(&call).await?;
        let staging = self
            .staging
            .as_ref()
            // A call with external effects was authorized before it runs, so its writes are applied immediately.
            .filter(|_| grant.is_staged() && grant.files() == FileAccess::AsGranted);
        let Some(staging) = staging else {
            return Ok(StagedResult {
                outcome: self.run_unstaged(call, grant, sink, &own).await?,
                effects: StagedEffects::None,
            });
        };
        let stage = Stage::new(
            record_reads(&own.granted.with_read_guard(grant.guard()), &sink)
                .scope()
                .clone(),
            staging.stages.clone(),
            StageLimits {
                bytes: self.limits.written_bytes,
                files: self.limits.changed_files,
            },
        );
        let mut outcome = self.run(call, grant, sink, &own, Some(&stage)).await?;
        let bits = executable::take_bits(&mut outcome);
        let blobs = Arc::clone(&staging.blobs);
        let work = move || {
            let left = executable::set_bits(&stage, bits)?;
            Ok::<_, CallError>((StagedFiles::of(stage, blobs)?, left))
        };
        let (effects, left) = tokio::task::spawn_blocking(work)
            .await
            .map_err(CallError::internal)??;
        executable::report_unset(&mut outcome, &left);
        Ok(StagedResult { outcome, effects })
    }

    /// Without a stage: writes are applied immediately, and executable bits are not changed.
    async fn run_unstaged(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
        own: &CallerFiles,
    ) -> Result<Outcome, CallError> {
        let mut outcome = self.run(call, grant, sink, own, None).await?;
        let left = executable::take_bits(&mut outcome);
        executable::report_unset(&mut outcome, &left);
        Ok(outcome)
    }
}

impl Backend for Plugin {
    fn has_checked_schemas(&self) -> bool {
        self.loaded.has_checked_tools()
    }

    fn tools(&self) -> &[Descriptor] {
        self.loaded.tools()
    }

    fn prepare(&self) -> Option<BoxFuture<'_, Result<(), CallError>>> {
        if self.loaded.is_linked() {
            return None;
        }
        Some(Box::pin(async { self.loaded.code().await.map(drop) }))
    }

    fn invoke(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(async move {
            let own = self.caller_files(&call).await?;
            self.run_unstaged(call, grant, sink, &own).await
        })
    }

    fn runs_commands(&self) -> bool {
        // Programs are started only as the call's input specifies.
        self.capabilities.programs.is_some()
    }

    fn shell(&self) -> Option<&str> {
        self.shell
    }

    fn background_job(&self, caller: &Principal, name: &str) -> Option<RunningJob> {
        let programs = self.capabilities.programs.as_ref()?;
        programs.job(&job_owner(caller, self.name()), name)
    }

    fn has_external_effects(&self, tool: &Descriptor) -> bool {
        self.capabilities.can_send_out(tool)
    }

    fn effect_bounds(&self, tool: &Descriptor) -> EffectBounds {
        let writable = |files: &Files| {
            let mut roots = files.scope().roots().iter();
            roots.any(|root| root.granted().1 == toolhost_vfs::Access::ReadWrite)
        };
        let own_writable = self.session_dirs.as_ref().is_some_and(|own| own.writable);
        EffectBounds {
            sandboxed: true,
            can_change_files: capabilities::uses_files(tool)
                && (writable(&self.granted) || own_writable)
                || self.capabilities.can_send_out(tool),
            can_reach_network: self.capabilities.can_receive_external(tool),
        }
    }

    fn only_calls_tools(&self, tool: &Descriptor, input: &Value) -> bool {
        capabilities::delegates(tool, input)
    }

    fn missing_grants(&self, tool: &Descriptor, input: &Value) -> Vec<String> {
        let files = self.granted.scope();
        missing_grants::grants(
            self.loaded.manifest(),
            &self.capabilities,
            files,
            tool,
            input,
        )
    }

    fn preview(&self, call: Call, mode: Mode) -> BoxFuture<'_, Result<Preview, CallError>> {
        Box::pin(self.run_preview(call, mode))
    }

    fn render_permission(&self, call: Call, mode: Mode) -> BoxFuture<'_, Rendering> {
        Box::pin(self.run_render_permission(call, mode))
    }

    fn render_result(&self, call: Call, mode: Mode, outcome: Outcome) -> BoxFuture<'_, Rendering> {
        Box::pin(self.run_render_result(call, mode, outcome))
    }

    fn supports_staging(&self) -> bool {
        self.staging.is_some()
    }

    fn stage(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<StagedResult, CallError>> {
        Box::pin(self.run_staged(call, grant, sink))
    }
}

/// Replaces host paths in the input by guest paths. Models often know a granted directory by its host path, from
/// the user or another tool. The scope still decides which files are accessible.
fn use_guest_names(input: &mut Value, scope: &Scope) {
    let Some(members) = input.as_object_mut() else {
        return;
    };
    for (_, value) in members.iter_mut().filter(|(name, _)| is_path_member(name)) {
        match value {
            Value::String(path) => use_guest_name(path, scope),
            Value::Array(paths) => {
                for path in paths {
                    if let Value::String(path) = path {
                        use_guest_name(path, scope);
                    }
                }
            }
            _ => {}
        }
    }
}

fn use_guest_name(path: &mut String, scope: &Scope) {
    // A guest path that is already valid takes precedence over a host path.
    let known = |guest: &str| Path::new(path.as_str()).starts_with(guest);
    if scope.roots().iter().any(|root| known(root.guest())) {
        return;
    }
    let nearest = scope
        .roots()
        .iter()
        .filter_map(|root| {
            Some((
                root,
                Path::new(path.as_str()).strip_prefix(root.host()).ok()?,
            ))
        })
        .min_by_key(|(_, rest)| rest.as_os_str().len());
    if let Some((root, rest)) = nearest {
        *path = Path::new(root.guest())
            .join(rest)
            .to_string_lossy()
            .into_owned();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolhost_vfs::PathGrant;

    use super::*;

    #[test]
    fn host_paths_are_replaced_by_guest_paths() {
        let dir = tempfile::tempdir().unwrap();
        let host = dir.path().canonicalize().unwrap();
        std::fs::create_dir(host.join("inner")).unwrap();
        let grant = |host: &Path, guest: &str| PathGrant {
            host: host.to_owned(),
            guest: guest.to_owned(),
            access: toolhost_vfs::Access::ReadOnly,
            dangerous: false,
            exclude: Vec::new(),
        };
        let scope = Scope::open(
            &[
                grant(&host, "/workspace"),
                grant(&host.join("inner"), "/extra/1"),
            ],
            &[],
        )
        .unwrap();
        let real = host.display();
        for (given, expected) in [
            (
                json!({"path": format!("{real}/a.txt")}),
                json!({"path": "/workspace/a.txt"}),
            ),
            (
                json!({"path": format!("{real}/inner/a")}),
                json!({"path": "/extra/1/a"}),
            ),
            (
                json!({"file_path": format!("{real}/a"), "workdir": real.to_string()}),
                json!({"file_path": "/workspace/a", "workdir": "/workspace/"}),
            ),
            (
                json!({"paths": [format!("{real}/a"), "b", 3]}),
                json!({"paths": ["/workspace/a", "b", 3]}),
            ),
            (
                json!({"path": format!("{real}-other/a")}),
                json!({"path": format!("{real}-other/a")}),
            ),
            (
                json!({"path": "a/b", "content": format!("{real}/a")}),
                json!({"path": "a/b", "content": format!("{real}/a")}),
            ),
            (
                json!({"path": "/workspace/inner/a"}),
                json!({"path": "/workspace/inner/a"}),
            ),
            (json!("text"), json!("text")),
        ] {
            let mut input = given;
            use_guest_names(&mut input, &scope);
            assert_eq!(input, expected);
        }
    }
}
