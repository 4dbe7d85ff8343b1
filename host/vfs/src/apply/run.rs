//! Runs the steps of a plan. Displaced entries are kept until the last step is done.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Seek, SeekFrom},
    os::fd::OwnedFd,
};

use rustix::{
    fs::{Dir, Mode, OFlags},
    io::Errno,
};

use super::{
    ApplyError, Conflict, ContentSource, FileOp, Roots,
    plan::{Plan, Planned, Step},
    prepare::{self, PreparedContent, inherit_group},
    renames::{exchange, move_aside, remove, rename_new},
    roots::{EntryRef, Observation},
};
use crate::{
    BaseStat, BlobStore, FileState, Location, PERMISSIONS, PathState, blob_store::APPLIED_PREFIX,
};

/// Above this number of files, one `syncfs` is faster than one `fsync` per file.
const FEW: usize = 32;

/// Name of the marker of an applied list of changes.
pub(super) fn applied_marker(id: &str) -> String {
    format!("{APPLIED_PREFIX}{id}")
}

pub(super) struct Run<'a> {
    pub roots: &'a Roots,
    pub plan: &'a Plan,
    pub id: &'a str,
    pub blobs: &'a BlobStore,
    pub step: &'a mut dyn FnMut(&str),
    /// Number of steps that may have run.
    pub begun: usize,
    /// Number of steps that have run.
    pub done: usize,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        roots: &'a Roots,
        plan: &'a Plan,
        id: &'a str,
        blobs: &'a BlobStore,
        step: &'a mut dyn FnMut(&str),
    ) -> Self {
        Self {
            roots,
            plan,
            id,
            blobs,
            step,
            begun: 0,
            done: 0,
        }
    }

    pub(super) fn apply(&mut self, ops: &[FileOp]) -> Result<(), ApplyError> {
        let mut ready = self.prepare(ops)?;
        for (n, planned) in self.plan.steps.iter().enumerate() {
            let base = ops.get(planned.change).and_then(|op| op.base.as_ref());
            let done = self.run_step(n, planned, base, ready.remove(&n));
            match done.map_err(with_target_path(planned.step.location())) {
                Ok(()) => (self.begun, self.done) = (n + 1, n + 1),
                // The step found a conflict and changed nothing, so it needs no rollback.
                Err(error @ ApplyError::Conflicts(_)) => return Err(error),
                Err(error) => {
                    self.begun = n + 1;
                    return Err(error);
                }
            }
        }
        self.sync_directories()?;
        // From here on the changes count as applied, whatever happens to this process or to the files.
        (self.step)("mark as applied");
        self.blobs
            .mark(&applied_marker(self.id))
            .map_err(|source| ApplyError::Journal { source })?;
        // Leftovers do not make the changes unapplied; recovery removes them.
        if self.clean_up().is_ok() {
            let _ = self.sync_directories();
        }
        Ok(())
    }

    /// Prepared files are not visible, so a full disk is detected before the first change.
    fn prepare(&mut self, ops: &[FileOp]) -> Result<HashMap<usize, PreparedContent>, ApplyError> {
        let mut all = HashMap::new();
        for (n, planned) in self.plan.steps.iter().enumerate() {
            let ready = self.prepare_one(planned, ops);
            all.extend(
                ready
                    .map_err(with_target_path(planned.step.location()))?
                    .map(|ready| (n, ready)),
            );
        }
        self.sync_files(&all)?;
        Ok(all)
    }

    fn prepare_one(
        &mut self,
        planned: &Planned,
        ops: &[FileOp],
    ) -> Result<Option<PreparedContent>, ApplyError> {
        let Step::Put {
            at, before, after, ..
        } = &planned.step
        else {
            return Ok(None);
        };
        let aside = self.roots.entry(&planned.aside)?;
        match after {
            PathState::Link { target } => {
                (self.step)("make a link aside");
                rustix::fs::symlinkat(target.as_os_str(), &aside.dir, &aside.name)
                    .map_err(aside.failed("write"))?;
                Ok(None)
            }
            PathState::File(image) => {
                let op = ops.get(planned.change);
                let entry = self.roots.parent(at)?;
                let replaces = matches!(before, PathState::File(_));
                match op.and_then(|op| op.source.as_ref()) {
                    Some(source) => {
                        (self.step)("prepare a file");
                        prepare::file(source, image, entry.as_ref(), &aside, replaces)
                    }
                    None => self.prepare_from_blob(at, image, entry.as_ref(), &aside, replaces),
                }
                .map(Some)
            }
            PathState::Absent | PathState::Dir { .. } => Ok(None),
        }
    }

    /// Prepares a file from the blob store.
    pub(super) fn prepare_from_blob(
        &mut self,
        at: &Location,
        image: &FileState,
        entry: Option<&EntryRef>,
        aside: &EntryRef,
        replaces: bool,
    ) -> Result<PreparedContent, ApplyError> {
        if !self.blobs.has(image.hash, image.size) {
            return Err(ApplyError::ContentNotSaved(at.clone()));
        }
        let source = ContentSource::Copy(self.blobs.path(image.hash));
        (self.step)("prepare a file");
        match prepare::file(&source, image, entry, aside, replaces) {
            // The blob was damaged after it was saved.
            Err(ApplyError::ContentMismatch(_)) => Err(ApplyError::ContentNotSaved(at.clone())),
            prepared => prepared,
        }
    }

    fn sync_files(&mut self, all: &HashMap<usize, PreparedContent>) -> Result<(), ApplyError> {
        let at = |n: &usize| self.plan.steps[*n].step.location();
        if all.len() <= FEW {
            for (n, ready) in all {
                if let PreparedContent::Aside(file) = ready {
                    file.sync_all().map_err(|source| ApplyError::Io {
                        operation: "write",
                        at: at(n).clone(),
                        source,
                    })?;
                }
            }
            return Ok(());
        }
        let mut roots = HashMap::new();
        for n in all.keys() {
            roots.insert(&at(n).root, at(n));
        }
        for at in roots.into_values() {
            rustix::fs::syncfs(self.roots.root(at)?).map_err(io_at("write", at))?;
        }
        Ok(())
    }

    fn run_step(
        &mut self,
        n: usize,
        planned: &Planned,
        base: Option<&BaseStat>,
        ready: Option<PreparedContent>,
    ) -> Result<(), ApplyError> {
        match &planned.step {
            Step::Remove { at, was, .. } => {
                let (spot, observation) = self.expect(at, was, base)?;
                let aside = self.roots.entry(&planned.aside)?;
                (self.step)("move aside");
                if !move_aside(&spot, &aside, &observation)? {
                    return Err(self.conflict(at, was));
                }
                if matches!(was, PathState::Dir { .. })
                    && let Some(name) = first_name(&aside)?
                {
                    (self.step)("restore a directory");
                    rename_new(&aside, &spot)?;
                    return Err(self.conflict(&child_location(at, &name), &PathState::Absent));
                }
            }
            Step::Move {
                from, to, state, ..
            } => {
                let (old, _) = self.expect(from, state, base)?;
                let new = self.roots.entry(to)?;
                (self.step)("move");
                if !rename_new(&old, &new)? {
                    return Err(self.conflict(to, &PathState::Absent));
                }
            }
            Step::MakeDir { at, mode, .. } => {
                let spot = self.roots.entry(at)?;
                let aside = self.roots.entry(&planned.aside)?;
                self.make_dir(&aside, &spot, *mode)?;
                (self.step)("make a directory");
                if !rename_new(&aside, &spot)? {
                    return Err(self.conflict(at, &PathState::Absent));
                }
            }
            Step::Put {
                at, before, after, ..
            } => {
                if let (Some(PreparedContent::InPlace(content)), PathState::File(image)) =
                    (ready, after)
                {
                    let (spot, _) = self.expect(at, before, base)?;
                    return self.write_in_place(n, &spot, content, image);
                }
                let aside = self.roots.entry(&planned.aside)?;
                let done = if *before == PathState::Absent {
                    let spot = self.roots.entry(at)?;
                    (self.step)("put");
                    rename_new(&aside, &spot)?
                } else {
                    let (spot, observation) = self.expect(at, before, base)?;
                    (self.step)("replace");
                    match (exchange(&aside, &spot, &observation), before, after) {
                        // For example another user's file in `/tmp`, which has the sticky bit.
                        (Err(error), PathState::File(_), PathState::File(image))
                            if is_denied(&error) =>
                        {
                            let content = aside.open_file()?;
                            return self.write_in_place(n, &spot, content, image);
                        }
                        (exchanged, _, _) => exchanged?,
                    }
                };
                if !done {
                    return Err(self.conflict(at, before));
                }
            }
            Step::Mode {
                at, before, after, ..
            } => {
                let (spot, _) = self.expect(at, &PathState::Dir { mode: *before }, None)?;
                self.set_mode(&spot, *after)?;
            }
        }
        Ok(())
    }

    pub(super) fn make_dir(
        &mut self,
        aside: &EntryRef,
        entry: &EntryRef,
        mode: u32,
    ) -> Result<(), ApplyError> {
        (self.step)("make a directory aside");
        rustix::fs::mkdirat(&aside.dir, &aside.name, Mode::from_raw_mode(0o700))
            .map_err(aside.failed("make"))?;
        let dir = aside
            .open(OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(aside.failed("make"))?;
        let inherited = if inherit_group(&dir, entry) {
            0o2000
        } else {
            0
        };
        rustix::fs::fchmod(&dir, Mode::from_raw_mode(mode & 0o7777 | inherited))
            .map_err(aside.failed("set the mode of"))
    }

    /// Sets the permissions of a directory and keeps its other mode bits.
    pub(super) fn set_mode(&mut self, spot: &EntryRef, mode: u32) -> Result<(), ApplyError> {
        (self.step)("set the mode");
        let failed = spot.failed("set the mode of");
        let dir = spot
            .open(OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(&failed)?;
        let now = rustix::fs::fstat(&dir).map_err(&failed)?.st_mode & 0o7000;
        rustix::fs::fchmod(&dir, Mode::from_raw_mode(now | mode & PERMISSIONS)).map_err(&failed)
    }

    /// Readers can see partial content, and a crash leaves it. Recovery then finds the marker, and recognizes partial content
    /// with the help of the saved new content.
    pub(super) fn write_in_place(
        &mut self,
        n: usize,
        spot: &EntryRef,
        content: File,
        image: &FileState,
    ) -> Result<(), ApplyError> {
        if !self.blobs.has(image.hash, image.size) {
            (self.step)("save the content for a file written in place");
            self.blobs.put(&content).map_err(save_error(&spot.at))?;
        }
        let marker = self.marker(n);
        (self.step)("mark a file written in place");
        self.blobs.mark(&marker).map_err(save_error(&spot.at))?;
        let failed = |source: io::Error| spot.io("write", source);
        let mut file = spot.open(OFlags::WRONLY).map_err(spot.failed("write"))?;
        (self.step)("write in place");
        let mut content = content;
        content.seek(SeekFrom::Start(0)).map_err(failed)?;
        io::copy(&mut content, &mut file).map_err(failed)?;
        file.set_len(image.size).map_err(failed)?;
        // Only the owner may set the mode, and it rarely differs.
        let _ = rustix::fs::fchmod(&file, Mode::from_raw_mode(image.mode & PERMISSIONS));
        file.sync_all().map_err(failed)
    }

    pub(super) fn marker(&self, n: usize) -> String {
        format!("in-place-{}-{n}", self.id)
    }

    fn expect(
        &self,
        at: &Location,
        image: &PathState,
        base: Option<&BaseStat>,
    ) -> Result<(EntryRef, Observation), ApplyError> {
        let Some(spot) = self.roots.parent(at)? else {
            return Err(self.conflict(at, image));
        };
        let observation = spot.observe(base.map(|base| (image, base)))?;
        if observation.is(image) {
            Ok((spot, observation))
        } else {
            Err(ApplyError::Conflicts(vec![Conflict {
                at: at.clone(),
                expected: image.clone(),
                found: observation.image,
            }]))
        }
    }

    pub(super) fn conflict(&self, at: &Location, expected: &PathState) -> ApplyError {
        match self.roots.observe(at, None) {
            Ok(observation) => ApplyError::Conflicts(vec![Conflict {
                at: at.clone(),
                expected: expected.clone(),
                found: observation.image,
            }]),
            Err(error) => error,
        }
    }

    /// From here on a rollback needs the blob store.
    fn clean_up(&mut self) -> Result<(), ApplyError> {
        for planned in &self.plan.steps {
            if let Step::Remove { .. } | Step::Put { .. } = planned.step {
                let aside = self.roots.entry(&planned.aside)?;
                (self.step)("remove what was replaced");
                remove(&aside)?;
            }
        }
        self.unmark_all()
    }

    pub(super) fn unmark_all(&self) -> Result<(), ApplyError> {
        for (n, planned) in self.plan.steps.iter().enumerate() {
            let location = planned.step.location();
            if let Step::Put {
                before: PathState::File(_),
                ..
            } = planned.step
            {
                self.blobs
                    .unmark(&self.marker(n))
                    .map_err(save_error(location))?;
            }
        }
        Ok(())
    }

    pub(super) fn sync_directories(&mut self) -> Result<(), ApplyError> {
        let mut dirs = HashMap::new();
        for planned in &self.plan.steps {
            let from = match &planned.step {
                Step::Move { from, .. } => Some(from),
                Step::Remove { .. }
                | Step::MakeDir { .. }
                | Step::Put { .. }
                | Step::Mode { .. } => None,
            };
            for at in from
                .into_iter()
                .chain([planned.step.location(), &planned.aside])
            {
                let dir = at.path.rsplit_once('/').map(|(dir, _)| dir);
                dirs.insert((&at.root, dir), at);
            }
        }
        (self.step)("sync directories");
        if dirs.len() > FEW {
            let roots: HashMap<_, _> = dirs.values().map(|at| (&at.root, *at)).collect();
            for at in roots.into_values() {
                rustix::fs::syncfs(self.roots.root(at)?).map_err(io_at("write", at))?;
            }
            return Ok(());
        }
        for at in dirs.into_values() {
            let Some(spot) = self.roots.parent(at)? else {
                continue;
            };
            // A directory that is writable but not readable cannot be opened for this, and some file systems do not
            // support it.
            if let Ok(dir) = open_dir(&spot) {
                match rustix::fs::fsync(&dir) {
                    Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOENT) => {}
                    Err(errno) => return Err(spot.failed("write")(errno)),
                }
            }
        }
        Ok(())
    }
}

pub(super) fn is_denied(error: &ApplyError) -> bool {
    match error {
        ApplyError::Io { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
        _ => false,
    }
}

fn open_dir(spot: &EntryRef) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(&spot.dir, ".", flags, Mode::empty())
}

/// Name of any entry of a directory.
pub(super) fn first_name(dir: &EntryRef) -> Result<Option<String>, ApplyError> {
    Ok(names(dir)?.into_iter().next())
}

pub(super) fn names(dir: &EntryRef) -> Result<Vec<String>, ApplyError> {
    let failed = dir.failed("list");
    let opened = dir
        .open(OFlags::RDONLY | OFlags::DIRECTORY)
        .map_err(&failed)?;
    let mut names = Vec::new();
    for entry in Dir::new(opened).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

pub(super) fn child_location(dir: &Location, name: &str) -> Location {
    Location {
        root: dir.root.clone(),
        path: format!("{}/{name}", dir.path),
    }
}

fn io_at<'a>(operation: &'static str, at: &'a Location) -> impl Fn(Errno) -> ApplyError + 'a {
    move |errno| ApplyError::Io {
        operation,
        at: at.clone(),
        source: errno.into(),
    }
}

pub(super) fn save_error(at: &Location) -> impl Fn(io::Error) -> ApplyError + '_ {
    move |source| ApplyError::SaveContent {
        at: at.clone(),
        source,
    }
}

/// Reports errors under the user's file name instead of the temporary one.
pub(super) fn with_target_path(location: &Location) -> impl Fn(ApplyError) -> ApplyError + '_ {
    move |error| match error {
        ApplyError::Io {
            operation, source, ..
        } => ApplyError::Io {
            operation,
            at: location.clone(),
            source,
        },
        ApplyError::ContentMismatch(_) => ApplyError::ContentMismatch(location.clone()),
        other => other,
    }
}

/// Compares the observed state with the expected one, for checks that collect all conflicts.
pub(super) fn conflict_if_changed(
    at: &Location,
    expected: &PathState,
    observation: Observation,
) -> Option<Conflict> {
    let equal = observation
        .image
        .as_ref()
        .is_some_and(|image| image.is_same(expected));
    (!equal).then(|| Conflict {
        at: at.clone(),
        expected: expected.clone(),
        found: observation.image,
    })
}
