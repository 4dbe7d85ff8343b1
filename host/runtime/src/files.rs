//! `wasi:filesystem` on top of `toolhost-vfs`.
//!
//! All path operations go through the call's [`Scope`]. wasmtime's implementation checks access per handle, so a
//! directory granted twice would have its widest access; opening a FIFO would block a thread; and listings would be
//! unbounded. Operations on open files are delegated to wasmtime.

mod call_files;
mod convert;
mod listing;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use toolhost_vfs::{Access, EntryKind, OpenHow, PathError, Stat};
use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::filesystem::{
    Descriptor, Dir, File, WasiFilesystemCtxView, WasiFilesystemView as _,
};
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};
use wasmtime_wasi::{FsPerms, OpenMode};

use self::call_files::directory;
use self::convert::{error_code, identity, new_time, stat_to_wasi};
use self::listing::Listing;
pub use self::listing::NonUtf8Names;
use crate::file_tree::FileTree;
use crate::quota::{QuotaStream, WriteQuota};
use crate::state::State;
use types::{ErrorCode, HostDescriptor};

pub use self::call_files::Files;

/// Maximum number of directory entries in all open listings of one call.
const MAX_LISTED: usize = 100_000;

/// Maximum size of a file beyond what was written to it, in bytes, because sparse files cost nothing until they are read.
const MAX_SET_SIZE: u64 = 1 << 30;

/// Accessor of [`FilesView`] for the linker.
pub struct HasFiles;

impl HasData for HasFiles {
    type Data<'a> = FilesView<'a>;
}

pub struct FilesView<'a> {
    wasi: WasiFilesystemCtxView<'a>,
    files: Files,
    dir_entries: usize,
    written: WriteQuota,
    /// Entries in the call's open listings; they use host memory, which no guest limit covers.
    listed: Arc<AtomicUsize>,
    non_utf8: NonUtf8Names,
}

impl<'a> FilesView<'a> {
    pub fn of(state: &'a mut State) -> Self {
        let files = state.files.clone();
        let dir_entries = state.dir_entries;
        let written = state.written.clone();
        let listed = Arc::clone(&state.listed);
        let unnamed = state.unnamed.clone();
        Self {
            wasi: state.filesystem(),
            files,
            dir_entries,
            written,
            listed,
            non_utf8: unnamed,
        }
    }

    fn counted(
        &mut self,
        stream: Resource<DynOutputStream>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let counted = QuotaStream {
            inner: self.wasi.table.delete(stream)?,
            quota: self.written.clone(),
        };
        Ok(self.wasi.table.push(Box::new(counted) as DynOutputStream)?)
    }

    /// Writing far behind the end of a file makes it sparse.
    fn check_offset(&self, fd: &Resource<Descriptor>, offset: types::Filesize) -> FsResult<()> {
        if offset > MAX_SET_SIZE
            && let Descriptor::File(file) = self.wasi.table.get(fd)?
            && offset > file.file.metadata()?.len()
        {
            return Err(ErrorCode::FileTooLarge.into());
        }
        Ok(())
    }

    fn dir(&self, fd: &Resource<Descriptor>) -> FsResult<(Arc<std::fs::File>, Access)> {
        match self.wasi.table.get(fd)? {
            Descriptor::Dir(dir) => {
                let access = if dir.perms.write_not_permitted() {
                    Access::ReadOnly
                } else {
                    Access::ReadWrite
                };
                Ok((Arc::clone(&dir.dir), access))
            }
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    /// Runs `work` on a directory. Copies what it needs from `self` first, because the table cannot be shared with
    /// a future.
    fn at<R, W>(
        &self,
        fd: &Resource<Descriptor>,
        work: W,
    ) -> impl Future<Output = FsResult<R>> + Send + use<R, W>
    where
        R: Send + 'static,
        W: FnOnce(&FileTree, BorrowedFd<'_>, Access) -> Result<R, PathError> + Send + 'static,
    {
        let dir = self.dir(fd);
        let files = self.files.clone();
        async move {
            let (dir, access) = dir?;
            run(files, move |tree| work(tree, dir.as_fd(), access)).await
        }
    }
}

/// Runs `work` where it may block.
async fn run<R: Send + 'static>(
    files: Files,
    work: impl FnOnce(&FileTree) -> Result<R, PathError> + Send + 'static,
) -> FsResult<R> {
    let result = if files.inline {
        work(&files.tree)
    } else {
        tokio::task::spawn_blocking(move || work(&files.tree))
            .await
            .map_err(|error| FsError::trap(wasmtime::Error::msg(error.to_string())))?
    };
    result.map_err(|refusal| error_code(refusal).into())
}

impl preopens::Host for FilesView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let mut out = Vec::with_capacity(self.files.preopens.len());
        for (dir, name) in self.files.preopens.iter() {
            out.push((
                self.wasi.table.push(Descriptor::Dir(dir.clone()))?,
                name.clone(),
            ));
        }
        Ok(out)
    }
}

impl types::Host for FilesView<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        self.wasi.filesystem_error_code(error)
    }
}

impl HostDescriptor for FilesView<'_> {
    async fn open_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: types::PathFlags,
        path: String,
        open: types::OpenFlags,
        flags: types::DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        let how = OpenHow {
            read: flags.contains(types::DescriptorFlags::READ),
            write: flags.contains(types::DescriptorFlags::WRITE),
            append: false,
            create: open.contains(types::OpenFlags::CREATE),
            exclusive: open.contains(types::OpenFlags::EXCLUSIVE),
            truncate: open.contains(types::OpenFlags::TRUNCATE),
            directory: open.contains(types::OpenFlags::DIRECTORY),
            follow: path_flags.contains(types::PathFlags::SYMLINK_FOLLOW),
        };
        let (dir, access) = self.dir(&fd)?;
        if flags.contains(types::DescriptorFlags::MUTATE_DIRECTORY) && access == Access::ReadOnly {
            return Err(ErrorCode::NotPermitted.into());
        }
        let mut files = self.files.clone();
        // The first open for writing copies the file.
        files.inline &= !(how.needs_write() && files.tree.is_staged());
        let opened = run(files, move |tree| {
            tree.open_at(dir.as_fd(), access, &path, &how)
        })
        .await?;
        let file = std::fs::File::from(opened.fd);
        let descriptor = if opened.kind == EntryKind::Directory {
            Descriptor::Dir(directory(file, opened.access, self.files.inline))
        } else {
            let perms = match opened.access {
                Access::ReadOnly => FsPerms::ReadOnly,
                Access::ReadWrite => FsPerms::ReadWrite,
            };
            let mut mode = OpenMode::empty();
            mode.set(OpenMode::READ, how.read || !how.needs_write());
            mode.set(OpenMode::WRITE, how.write || how.truncate);
            Descriptor::File(File::new(file, perms, mode, self.files.inline))
        };
        Ok(self.wasi.table.push(descriptor)?)
    }

    async fn read_directory(
        &mut self,
        fd: Resource<Descriptor>,
    ) -> FsResult<Resource<types::DirectoryEntryStream>> {
        let held = self.listed.load(Ordering::Relaxed);
        let limit = self.dir_entries.min(MAX_LISTED.saturating_sub(held));
        let unnamed = self.non_utf8.clone();
        let entries = self
            .at(&fd, move |tree, dir, _| {
                let listed = tree.read_dir(dir, limit)?;
                if listed.non_utf8 > 0 {
                    unnamed.add(Stat::of(dir)?.id, listed.non_utf8);
                }
                Ok(listed.entries)
            })
            .await?;
        // An empty listing has a cost too.
        let size = entries.len() + 1;
        self.listed.fetch_add(size, Ordering::Relaxed);
        let entries = entries.into_iter();
        let listing = self.wasi.table.push(Listing { entries, size })?;
        // wasmtime's own stream type cannot be constructed outside it. Only the table index matters, because both
        // ends are implemented here.
        Ok(Resource::new_own(listing.rep()))
    }

    async fn stat_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: types::PathFlags,
        path: String,
    ) -> FsResult<types::DescriptorStat> {
        let follow = path_flags.contains(types::PathFlags::SYMLINK_FOLLOW);
        let stat = self
            .at(&fd, move |tree, dir, _| tree.stat_at(dir, &path, follow))
            .await?;
        Ok(stat_to_wasi(&stat))
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: types::PathFlags,
        path: String,
    ) -> FsResult<types::MetadataHashValue> {
        let follow = path_flags.contains(types::PathFlags::SYMLINK_FOLLOW);
        let stat = self
            .at(&fd, move |tree, dir, _| tree.stat_at(dir, &path, follow))
            .await?;
        Ok(identity(&stat))
    }

    async fn metadata_hash(
        &mut self,
        fd: Resource<Descriptor>,
    ) -> FsResult<types::MetadataHashValue> {
        let file = match self.wasi.table.get(&fd)? {
            Descriptor::File(file) => Arc::clone(&file.file),
            Descriptor::Dir(dir) => Arc::clone(&dir.dir),
        };
        let stat = run(self.files.clone(), move |_| Stat::of(&*file)).await?;
        Ok(identity(&stat))
    }

    async fn create_directory_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        self.at(&fd, move |tree, dir, access| {
            tree.create_dir_at(dir, access, &path)
        })
        .await
    }

    async fn remove_directory_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        self.at(&fd, move |tree, dir, access| {
            tree.remove_dir_at(dir, access, &path)
        })
        .await
    }

    async fn unlink_file_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.at(&fd, move |tree, dir, access| {
            tree.unlink_at(dir, access, &path)
        })
        .await
    }

    async fn readlink_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<String> {
        self.at(&fd, move |tree, dir, _| tree.read_link_at(dir, &path))
            .await
    }

    async fn symlink_at(
        &mut self,
        fd: Resource<Descriptor>,
        target: String,
        path: String,
    ) -> FsResult<()> {
        self.at(&fd, move |tree, dir, access| {
            tree.symlink_at(dir, access, &target, &path)
        })
        .await
    }

    async fn rename_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        let (new_dir, new_access) = self.dir(&new_fd)?;
        self.at(&fd, move |tree, dir, access| {
            tree.rename_at(dir, access, &path, new_dir.as_fd(), new_access, &new_path)
        })
        .await
    }

    async fn link_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: types::PathFlags,
        path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        if path_flags.contains(types::PathFlags::SYMLINK_FOLLOW) {
            return Err(ErrorCode::Invalid.into());
        }
        let (new_dir, new_access) = self.dir(&new_fd)?;
        self.at(&fd, move |tree, dir, access| {
            tree.link_at(dir, access, &path, new_dir.as_fd(), new_access, &new_path)
        })
        .await
    }

    async fn set_times_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: types::PathFlags,
        path: String,
        accessed: types::NewTimestamp,
        modified: types::NewTimestamp,
    ) -> FsResult<()> {
        let follow = path_flags.contains(types::PathFlags::SYMLINK_FOLLOW);
        let (accessed, modified) = (new_time(accessed)?, new_time(modified)?);
        self.at(&fd, move |tree, dir, access| {
            tree.set_times_at(dir, access, &path, follow, accessed, modified)
        })
        .await
    }

    async fn set_size(&mut self, fd: Resource<Descriptor>, size: types::Filesize) -> FsResult<()> {
        if size > MAX_SET_SIZE {
            return Err(ErrorCode::FileTooLarge.into());
        }
        match self.wasi.table.get(&fd)? {
            Descriptor::File(file) if file.perms.write_not_permitted() => {
                return Err(ErrorCode::NotPermitted.into());
            }
            Descriptor::File(_) | Descriptor::Dir(_) => {}
        }
        HostDescriptor::set_size(&mut self.wasi, fd, size).await
    }

    // Operations on open files, delegated to wasmtime.

    async fn advise(
        &mut self,
        fd: Resource<Descriptor>,
        offset: types::Filesize,
        length: types::Filesize,
        advice: types::Advice,
    ) -> FsResult<()> {
        HostDescriptor::advise(&mut self.wasi, fd, offset, length, advice).await
    }

    async fn sync_data(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        HostDescriptor::sync_data(&mut self.wasi, fd).await
    }

    async fn sync(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        HostDescriptor::sync(&mut self.wasi, fd).await
    }

    async fn get_flags(&mut self, fd: Resource<Descriptor>) -> FsResult<types::DescriptorFlags> {
        HostDescriptor::get_flags(&mut self.wasi, fd).await
    }

    async fn get_type(&mut self, fd: Resource<Descriptor>) -> FsResult<types::DescriptorType> {
        HostDescriptor::get_type(&mut self.wasi, fd).await
    }

    async fn set_times(
        &mut self,
        fd: Resource<Descriptor>,
        accessed: types::NewTimestamp,
        modified: types::NewTimestamp,
    ) -> FsResult<()> {
        // Invalid times are rejected first.
        let times = (new_time(accessed)?, new_time(modified)?);
        if self.files.tree.is_staged() {
            match self.wasi.table.get(&fd)? {
                // The descriptor refers to the real directory.
                Descriptor::Dir(_) => {
                    let (accessed, modified) = times;
                    return self
                        .at(&fd, move |tree, dir, access| {
                            tree.set_times_at(dir, access, ".", false, accessed, modified)
                        })
                        .await;
                }
                // It refers to the real file, because it was opened for reading.
                Descriptor::File(file) if !file.open_mode.contains(OpenMode::WRITE) => {
                    return Err(ErrorCode::NotPermitted.into());
                }
                Descriptor::File(_) => {}
            }
        }
        HostDescriptor::set_times(&mut self.wasi, fd, accessed, modified).await
    }

    async fn read(
        &mut self,
        fd: Resource<Descriptor>,
        length: types::Filesize,
        offset: types::Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        HostDescriptor::read(&mut self.wasi, fd, length, offset).await
    }

    async fn write(
        &mut self,
        fd: Resource<Descriptor>,
        bytes: Vec<u8>,
        offset: types::Filesize,
    ) -> FsResult<types::Filesize> {
        self.check_offset(&fd, offset)?;
        if !self.written.take(bytes.len()) {
            return Err(ErrorCode::Quota.into());
        }
        HostDescriptor::write(&mut self.wasi, fd, bytes, offset).await
    }

    async fn stat(&mut self, fd: Resource<Descriptor>) -> FsResult<types::DescriptorStat> {
        let stat = match self.wasi.table.get(&fd)? {
            // By path, so that the read is recorded.
            Descriptor::Dir(dir) if self.files.scope().is_recording_reads() => {
                let dir = Arc::clone(&dir.dir);
                let look = move |tree: &FileTree| tree.stat_at(dir.as_fd(), ".", false);
                run(self.files.clone(), look).await?
            }
            Descriptor::Dir(Dir { dir: file, .. }) | Descriptor::File(File { file, .. }) => {
                let file = Arc::clone(file);
                run(self.files.clone(), move |_| Stat::of(&*file)).await?
            }
        };
        Ok(stat_to_wasi(&stat))
    }

    async fn is_same_object(
        &mut self,
        a: Resource<Descriptor>,
        b: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        HostDescriptor::is_same_object(&mut self.wasi, a, b).await
    }

    fn read_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: types::Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        self.wasi.read_via_stream(fd, offset)
    }

    fn write_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: types::Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        self.check_offset(&fd, offset)?;
        let stream = self.wasi.write_via_stream(fd, offset)?;
        self.counted(stream)
    }

    fn append_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let stream = self.wasi.append_via_stream(fd)?;
        self.counted(stream)
    }

    fn drop(&mut self, fd: Resource<Descriptor>) -> wasmtime::Result<()> {
        HostDescriptor::drop(&mut self.wasi, fd)
    }
}
