//! This crate exists so that a guest's path can only ever name what its grants name: it opens the granted
//! directories once, by inode, and answers every later path question below those descriptors.
//!
//! Read in this order: [`PathGrant`] and [`Protected`] say what is wanted, [`Scope::open`] turns them into held
//! descriptors, [`Scope::open_at`] and its sisters act below them, [`Refusal`] says why not. [`Stage`] has the same
//! operations for a call whose writes are looked at before they happen.
//!
//! Two resolvers answer a path. Where no grant lies inside another and nothing protected lies inside a grant, the
//! kernel does it in one `openat2`. Otherwise, and for everything that changes a directory, `walk.rs` goes
//! component by component, because the access may change at any inode on the way.
//!
//! Known limits, on purpose:
//! - A hard link that the person made beforehand to a file outside is a file of the grant like any other; so is one
//!   to a file that the grant leaves out by its name.
//! - Mount points below a grant are not crossed; what is mounted there needs its own grant.
//! - Two calls of one plugin, one moving a directory upwards while the other makes a link inside it, can leave a link
//!   that points out of the grant. No scope follows it; the host's own readers should go through a scope too.
//! - The kernel updates access times when a read-only grant is read.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "toolhost-vfs confines paths with Linux's openat2, and has no resolver for this system yet; build for Linux"
);

#[cfg(target_os = "linux")]
mod apply;
#[cfg(target_os = "linux")]
mod blobs;
#[cfg(target_os = "linux")]
mod change;
#[cfg(target_os = "linux")]
mod dir;
#[cfg(target_os = "linux")]
mod exclude;
#[cfg(target_os = "linux")]
mod grant;
#[cfg(target_os = "linux")]
mod links;
#[cfg(target_os = "linux")]
mod marks;
#[cfg(target_os = "linux")]
mod mutate;
#[cfg(target_os = "linux")]
mod open;
#[cfg(target_os = "linux")]
mod reads;
#[cfg(target_os = "linux")]
mod refusal;
#[cfg(target_os = "linux")]
mod roots;
#[cfg(target_os = "linux")]
mod scope;
#[cfg(target_os = "linux")]
mod site;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
mod stat;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod trace;
#[cfg(target_os = "linux")]
mod walk;

#[cfg(target_os = "linux")]
pub use self::{
    apply::{
        ApplyError, Conflict, Op, Roots, Source, apply, check, check_undo, inverted, is_made,
        keep_before, recover, tidy, undo,
    },
    blobs::{Blobs, Swept},
    change::{BaseStat, Change, ContentHash, FileImage, Image, LinkTarget, Location},
    dir::{DirListing, Entry},
    exclude::{DEFAULT_EXCLUDES, DeniedPaths},
    grant::{Access, PathGrant, Protected, Shield},
    mutate::NewTime,
    open::{OpenHow, Opened},
    reads::Reads,
    refusal::{Refusal, ScopeError},
    scope::{Root, Scope},
    stage::{Stage, StageError, StageLimits, Staged},
    stat::{FileId, Kind, Stat},
};
