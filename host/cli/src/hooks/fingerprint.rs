//! The state of the files that a call would read, for the read cache.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use toolhost_contract::policy::Subject;
use toolhost_contract::{BoxFuture, Digest, Effect, PluginName};
use toolhost_kernel::hooks::{Fingerprint, HookCall};
use toolhost_vfs::{Kind, OpenHow, Scope, Stat};

/// A longer file is read again each time: looking at all of it would cost what the cache saves.
const MAX_FILE: u64 = 1 << 20;
/// Nobody names more files in one call and wants them from memory.
const MAX_FILES: usize = 64;

/// What each plugin may see, which is where its calls look for files.
#[derive(Default)]
pub struct Files(BTreeMap<PluginName, Sight>);

struct Sight {
    digest: Digest,
    scope: Scope,
}

impl Files {
    pub fn add(&mut self, plugin: PluginName, digest: Digest, scope: &Scope) {
        let scope = scope.read_only();
        self.0.insert(plugin, Sight { digest, scope });
    }
}

impl Fingerprint for Files {
    fn of<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Option<[u8; 32]>> {
        Box::pin(async move {
            let sight = self.0.get(&call.plugin)?;
            let subject = Subject::of(&call.tool, &call.call.input);
            // A search, a listing or a clock depends on more than the input names.
            let named = call.tool.kind == "read" && !subject.paths.is_empty();
            let pure = call.tool.effect() == Effect::Pure && subject.paths.is_empty();
            if !(named || pure) || subject.unclear || subject.paths.len() > MAX_FILES {
                return None;
            }
            let (digest, scope) = (sight.digest.to_string(), sight.scope.clone());
            let paths: Vec<String> = subject.paths.into_iter().map(|used| used.path).collect();
            let look = move || look(&digest, &scope, &paths);
            tokio::task::spawn_blocking(look).await.ok().flatten()
        })
    }
}

fn look(digest: &str, scope: &Scope, paths: &[String]) -> Option<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    add(&mut hasher, digest.as_bytes());
    for path in paths {
        add(&mut hasher, path.as_bytes());
        add_file(&mut hasher, scope, path)?;
    }
    Some(*hasher.finalize().as_bytes())
}

/// None: there is no such file, or no telling whether it is the same. A folder never is.
fn add_file(hasher: &mut blake3::Hasher, scope: &Scope, path: &str) -> Option<()> {
    let (root, rest) = place(scope, path)?;
    let how = OpenHow {
        read: true,
        follow: true,
        ..OpenHow::default()
    };
    let opened = scope
        .open_at(root.as_fd(), root.access(), &rest, &how)
        .ok()?;
    if opened.kind != Kind::File {
        return None;
    }
    let stat = Stat::of(&opened.fd).ok()?;
    if stat.size > MAX_FILE {
        return None;
    }
    for number in [stat.id.dev(), stat.id.ino(), stat.size] {
        hasher.update(&number.to_le_bytes());
    }
    for time in [stat.modified, stat.changed] {
        hasher.update(&nanoseconds(time?).to_le_bytes());
    }
    let mut bytes = Vec::new();
    let file = File::from(opened.fd);
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > MAX_FILE {
        return None;
    }
    add(hasher, &bytes);
    Some(())
}

/// The granted folder that a path is in, by the guest's name of it or the host's, and the way from there.
fn place<'a>(scope: &'a Scope, path: &str) -> Option<(&'a toolhost_vfs::Root, String)> {
    let path = Path::new(path);
    if path.is_relative() {
        return Some((scope.roots().first()?, below(path)?));
    }
    let nearest = |name: fn(&'a toolhost_vfs::Root) -> &'a Path| {
        let inside = scope.roots().iter().filter_map(|root| {
            let rest = path.strip_prefix(name(root)).ok()?;
            Some((root, rest.to_owned()))
        });
        inside.min_by_key(|(_, rest): &(_, PathBuf)| rest.as_os_str().len())
    };
    let (root, rest) =
        nearest(|root| Path::new(root.guest())).or_else(|| nearest(toolhost_vfs::Root::host))?;
    Some((root, below(&rest)?))
}

/// A way that goes down only: where `..` leads is for the tool to find out.
fn below(path: &Path) -> Option<String> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let path = path.components().all(plain).then_some(path)?;
    path.to_str()
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
}

fn nanoseconds(time: SystemTime) -> i128 {
    let signed = |nanoseconds: u128| i128::try_from(nanoseconds).unwrap_or(i128::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => signed(since.as_nanos()),
        Err(before) => -signed(before.duration().as_nanos()),
    }
}

/// With its length in front, so that no two lists have the same bytes.
fn add(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use serde_json::{Value, json};
    use toolhost_contract::{Call, CallId, Caller, Descriptor, ToolName};
    use toolhost_vfs::{Access, PathGrant};

    use super::*;

    fn files(dir: &Path) -> Files {
        let grant = PathGrant {
            host: dir.to_owned(),
            guest: "/workspace".to_owned(),
            access: Access::ReadOnly,
            dangerous: false,
            exclude: Vec::new(),
        };
        let scope = Scope::open(&[grant], &[]).unwrap();
        let mut files = Files::default();
        files.add(PluginName::parse("files").unwrap(), Digest([0; 32]), &scope);
        files
    }

    async fn of(files: &Files, kind: &str, input: Value) -> Option<[u8; 32]> {
        let name = ToolName::parse("read_file").unwrap();
        let mut tool = Descriptor::new(name.clone(), "");
        tool.kind = kind.to_owned();
        tool.annotations.read_only = Some(true);
        let call = HookCall {
            call: Call {
                id: CallId("1".to_owned()),
                tool: name.clone(),
                input,
                caller: Caller::default(),
            },
            name,
            plugin: PluginName::parse("files").unwrap(),
            tool: Arc::new(tool),
            mode: "default".to_owned(),
        };
        files.of(&call).await
    }

    //
    #[tokio::test]
    async fn r_217_a_file_has_the_same_fingerprint_until_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().canonicalize().unwrap();
        fs::write(at.join("a"), "one").unwrap();
        let files = files(&at);
        let read = |path: &str| of(&files, "read", json!({ "path": path }));
        let first = read("a").await.unwrap();
        assert_eq!(read("a").await, Some(first));
        fs::write(at.join("a"), "two").unwrap();
        assert!(read("a").await.is_some_and(|second| second != first));
        // Every name of the file is found, as the tool finds it.
        assert!(read("/workspace/a").await.is_some());
        assert!(read(at.join("a").to_str().unwrap()).await.is_some());
    }

    #[tokio::test]
    async fn where_there_is_no_telling_there_is_no_fingerprint() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().canonicalize().unwrap();
        fs::write(at.join("a"), "one").unwrap();
        fs::create_dir(at.join("d")).unwrap();
        let long = File::create(at.join("long")).unwrap();
        long.set_len(MAX_FILE + 1).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at.join("out")).unwrap();
        let files = files(&at);
        for path in [
            "d",
            "missing",
            "long",
            "out",
            "../x",
            "d/../a",
            "/etc/passwd",
            "",
        ] {
            let found = of(&files, "read", json!({ "path": path })).await;
            assert_eq!(found, None, "{path}");
        }
        // What a search finds depends on more than the file it names.
        assert_eq!(of(&files, "search", json!({"path": "a"})).await, None);
        assert_eq!(of(&files, "read", json!({})).await, None);
        assert_eq!(
            of(&files, "read", json!({"path": "a", "paths": [1]})).await,
            None
        );
    }
}
