//! Capability file system: confines a guest's paths to its granted directories.
//!
//! The granted directories are opened once, by inode; all later paths are resolved below these descriptors.
//!
//! Start with [`PathGrant`] and [`ProtectedPath`], the configuration. [`Scope::open`] turns it into open
//! descriptors, [`Scope::open_at`] and the other `*_at` methods act below them, and [`PathError`] reports why an
//! operation was refused. [`Stage`] has the same operations for calls whose writes are staged.
//!
//! Two resolvers exist. If no grants are nested and no protected path is inside a grant, the kernel resolves a path
//! with one `openat2`. Otherwise, and for all operations that change a directory, `walk.rs` resolves one component
//! at a time, because the access can change at any inode.
//!
//! Known limits, by design:
//! - A hard link inside a grant to a file outside counts as a file of the grant; so does one to a file that is
//!   excluded by name.
//! - Mount points below a grant are not crossed; they need their own grant.
//! - Two concurrent calls of one plugin, one that moves a directory up while the other creates a link inside it,
//!   can leave a link that points out of the grant. No scope follows it; the host's own readers should also use a
//!   scope.
//! - The kernel updates access times when a read-only grant is read.

#[cfg(not(target_os = "linux"))]
compile_error!("toolhost-vfs requires Linux's openat2; build for Linux");

#[cfg(target_os = "linux")]
mod access_marks;
#[cfg(target_os = "linux")]
mod apply;
#[cfg(target_os = "linux")]
mod blob_store;
#[cfg(target_os = "linux")]
mod change;
#[cfg(target_os = "linux")]
mod dir;
#[cfg(target_os = "linux")]
mod dir_location;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod exclude;
#[cfg(target_os = "linux")]
mod grant;
#[cfg(target_os = "linux")]
mod mutate;
#[cfg(target_os = "linux")]
mod open;
#[cfg(target_os = "linux")]
mod read_tracker;
#[cfg(target_os = "linux")]
mod roots;
#[cfg(target_os = "linux")]
mod scope;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
mod stat;
#[cfg(target_os = "linux")]
mod symlinks;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod trace;
#[cfg(target_os = "linux")]
mod walk;

#[cfg(target_os = "linux")]
pub use self::{
    apply::{
        ApplyError, Conflict, ContentSource, FileOp, Roots, apply, check, check_undo, inverted,
        is_applied, recover, save_before_images, tidy, undo,
    },
    blob_store::{BlobStore, SweepStats},
    change::{
        BaseStat, Change, ContentHash, FileState, LinkTarget, Location, PERMISSIONS, PathState,
    },
    dir::{DirEntry, DirListing},
    error::{PathError, ScopeError},
    exclude::{DEFAULT_EXCLUDES, DeniedPaths},
    grant::{Access, PathGrant, ProtectedPath, Protection},
    mutate::NewTime,
    open::{OpenHow, Opened},
    read_tracker::ReadTracker,
    scope::{Root, Scope},
    stage::{Stage, StageError, StageLimits, StagedChange, WeakStage},
    stat::{EntryKind, FileId, Stat},
    sys::missing_kernel_support,
};
