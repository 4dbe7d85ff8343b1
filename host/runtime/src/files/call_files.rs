//! The granted directories of a plugin, and the part that a call gets.

use std::os::fd::AsFd;
use std::sync::Arc;

use toolhost_contract::policy::ReadGuard;
use toolhost_vfs::{Access, DeniedPaths, OpenHow, ReadTracker, Scope, Stage};
use wasmtime_wasi::filesystem::Dir;
use wasmtime_wasi::{FsPerms, OpenMode};

use crate::file_tree::FileTree;
use crate::path_view::{DirRestriction, PathView, is_host_dir};

/// Directories shared by all calls of a plugin: the scope, and the roots as wasmtime preopens.
#[derive(Clone)]
pub struct Files {
    pub(super) tree: FileTree,
    pub(super) preopens: Arc<[(Dir, String)]>,
    /// The accessible parts of the roots, if the call is limited to a part of them.
    path_views: Option<Arc<[PathView]>>,
    /// Make system calls on the calling thread. Only if all roots are on local disks: a hung network file system
    /// would block an executor thread.
    pub(super) inline: bool,
}

impl Files {
    /// No directories.
    pub fn none() -> Self {
        Self {
            tree: FileTree::Direct(Scope::empty()),
            preopens: Arc::new([]),
            path_views: None,
            inline: true,
        }
    }

    pub fn new(scope: Scope) -> std::io::Result<Self> {
        let inline = scope.all_local();
        let mut preopens: Vec<(Dir, String)> = scope
            .roots()
            .iter()
            .map(|root| {
                let file = std::fs::File::from(root.dir().as_fd().try_clone_to_owned()?);
                Ok((
                    directory(file, root.access(), inline),
                    root.guest().to_owned(),
                ))
            })
            .collect::<std::io::Result<_>>()?;
        // Relative paths resolve to the first root. The C libraries of all languages use this preopen name for
        // that; their working directory starts as `/`, regardless of WASI's initial cwd.
        if let Some((first, _)) = preopens.first().cloned() {
            preopens.push((first, ".".to_owned()));
        }
        Ok(Self {
            tree: FileTree::Direct(scope),
            preopens: preopens.into(),
            path_views: None,
            inline,
        })
    }

    /// Whether system calls are made on the calling thread.
    pub fn is_inline(&self) -> bool {
        self.inline
    }

    pub fn scope(&self) -> &Scope {
        self.tree.scope()
    }

    /// The same directories for one call whose reads are recorded.
    #[must_use]
    pub fn recording_reads(&self, reads: Arc<ReadTracker>) -> Self {
        Self {
            tree: FileTree::Direct(self.scope().recording_reads(reads)),
            ..self.clone()
        }
    }

    /// The same directories for one call, without what read rules deny.
    #[must_use]
    pub fn with_read_guard(&self, guard: Option<&Arc<ReadGuard>>) -> Self {
        let Some(guard) = guard.cloned() else {
            return self.clone();
        };
        let denied = DeniedPaths::new(move |path| guard.denies_read(&path.to_string_lossy()));
        Self {
            tree: FileTree::Direct(self.scope().with_denied_paths(denied)),
            ..self.clone()
        }
    }

    /// The same directories for a call that is limited to other directories: only their intersection with the
    /// grants, under the same guest names. Directories that cannot be opened are omitted.
    pub async fn restricted_to(self, restriction: &DirRestriction) -> Self {
        if restriction.is_unlimited() {
            return self;
        }
        let scope = self.scope().clone();
        let (restriction, inline) = (restriction.clone(), self.inline);
        let open_dirs = move || intersect(&scope, &restriction, inline);
        let (preopens, windows) = if inline {
            open_dirs()
        } else {
            // If the task fails, the call gets no directories.
            tokio::task::spawn_blocking(open_dirs)
                .await
                .unwrap_or_default()
        };
        Self {
            preopens: preopens.into(),
            path_views: Some(windows.into()),
            ..self
        }
    }

    /// The accessible parts of the granted directories for this call.
    pub fn path_views(&self) -> Arc<[PathView]> {
        match &self.path_views {
            Some(windows) => Arc::clone(windows),
            None => self.scope().roots().iter().map(PathView::of).collect(),
        }
    }

    /// The same directories with staged writes.
    #[must_use]
    pub fn staged(&self, stage: Stage) -> Self {
        Self {
            tree: FileTree::Staged(stage),
            ..self.clone()
        }
    }
}

fn intersect(
    scope: &Scope,
    restriction: &DirRestriction,
    inline: bool,
) -> (Vec<(Dir, String)>, Vec<PathView>) {
    let how = OpenHow {
        read: true,
        directory: true,
        ..OpenHow::default()
    };
    let (mut preopens, mut windows) = (Vec::new(), Vec::new());
    for (index, root) in scope.roots().iter().enumerate() {
        let left = if is_host_dir(root.guest()) {
            vec![root.host().to_owned()]
        } else {
            restriction.intersect(root.host())
        };
        for left in left {
            let Some(rest) = left
                .strip_prefix(root.host())
                .ok()
                .and_then(std::path::Path::to_str)
            else {
                continue;
            };
            let name = |base: &str| match rest {
                "" => base.to_owned(),
                rest => format!("{}/{rest}", base.trim_end_matches('/')),
            };
            let (dir, window) = if rest.is_empty() {
                let Ok(dir) = root.dir().try_clone() else {
                    continue;
                };
                (
                    directory(dir.into(), root.access(), inline),
                    PathView::of(root),
                )
            } else {
                // Opened like a guest would, so that excluded and protected paths stay inaccessible.
                let opened = scope.open_at(root.dir().as_fd(), root.access(), rest, &how);
                let Ok(opened) = opened else {
                    continue;
                };
                let Ok(dir) = opened.fd.try_clone() else {
                    continue;
                };
                let window = PathView {
                    guest: name(root.guest()),
                    host: left.clone(),
                    granted: (left.clone(), opened.access),
                    dir: Arc::new(dir),
                };
                (directory(opened.fd.into(), opened.access, inline), window)
            };
            windows.push(window);
            if index == 0 {
                preopens.push((dir.clone(), name(".")));
            }
            preopens.push((dir, name(root.guest())));
        }
    }
    (preopens, windows)
}

pub(super) fn directory(file: std::fs::File, access: Access, inline: bool) -> Dir {
    match access {
        Access::ReadOnly => Dir::new(file, FsPerms::ReadOnly, OpenMode::READ, inline),
        Access::ReadWrite => Dir::new(
            file,
            FsPerms::ReadWrite,
            OpenMode::READ | OpenMode::WRITE,
            inline,
        ),
    }
}
