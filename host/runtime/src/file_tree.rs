//! File access of a call: the real tree or a staged view of it.

use std::os::fd::BorrowedFd;

use toolhost_vfs::{Access, DirListing, NewTime, OpenHow, Opened, PathError, Scope, Stage, Stat};

/// Both variants have the same operations; writes to a stage are applied when it is committed.
#[derive(Clone)]
pub enum FileTree {
    Direct(Scope),
    Staged(Stage),
}

/// Forwards a method to the active variant.
macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        pub fn $name(&self, $($argument: $type),*) -> Result<$result, PathError> {
            match self {
                FileTree::Direct(scope) => scope.$name($($argument),*),
                FileTree::Staged(stage) => stage.$name($($argument),*),
            }
        }
    )*};
}

impl FileTree {
    pub fn scope(&self) -> &Scope {
        match self {
            FileTree::Direct(scope) => scope,
            FileTree::Staged(stage) => stage.scope(),
        }
    }

    pub fn is_staged(&self) -> bool {
        matches!(self, FileTree::Staged(_))
    }

    forward! {
        open_at(dir: BorrowedFd<'_>, access: Access, path: &str, how: &OpenHow) -> Opened;
        read_dir(dir: BorrowedFd<'_>, limit: usize) -> DirListing;
        stat_at(dir: BorrowedFd<'_>, path: &str, follow: bool) -> Stat;
        read_link_at(dir: BorrowedFd<'_>, path: &str) -> String;
        create_dir_at(dir: BorrowedFd<'_>, access: Access, path: &str) -> ();
        remove_dir_at(dir: BorrowedFd<'_>, access: Access, path: &str) -> ();
        unlink_at(dir: BorrowedFd<'_>, access: Access, path: &str) -> ();
        rename_at(dir: BorrowedFd<'_>, access: Access, path: &str, to: BorrowedFd<'_>, to_access: Access, to_path: &str) -> ();
        link_at(dir: BorrowedFd<'_>, access: Access, path: &str, to: BorrowedFd<'_>, to_access: Access, to_path: &str) -> ();
        symlink_at(dir: BorrowedFd<'_>, access: Access, target: &str, path: &str) -> ();
        set_times_at(dir: BorrowedFd<'_>, access: Access, path: &str, follow: bool, accessed: NewTime, modified: NewTime) -> ();
    }
}
