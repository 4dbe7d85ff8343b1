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
    ApplyError, Conflict, Op, Roots, Source,
    moves::{exchange, remove, rename_new, take_away},
    plan::{Plan, Planned, Step},
    prepare::{self, Ready, inherit_group},
    roots::{PERMISSIONS, Seen, Spot, same},
};
use crate::{BaseStat, Blobs, FileImage, Image, Location, blobs::MADE};

/// Above this number of files, one `syncfs` is faster than one `fsync` per file.
const FEW: usize = 32;

/// Name of the marker of an applied list of changes.
pub(super) fn made(id: &str) -> String {
    format!("{MADE}{id}")
}

pub(super) struct Run<'a> {
    pub roots: &'a Roots,
    pub plan: &'a Plan,
    pub id: &'a str,
    pub blobs: &'a Blobs,
    pub step: &'a mut dyn FnMut(&str),
    /// Number of steps that may have run.
    pub begun: usize,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        roots: &'a Roots,
        plan: &'a Plan,
        id: &'a str,
        blobs: &'a Blobs,
        step: &'a mut dyn FnMut(&str),
    ) -> Self {
        Self {
            roots,
            plan,
            id,
            blobs,
            step,
            begun: 0,
        }
    }

    pub(super) fn apply(&mut self, ops: &[Op]) -> Result<(), ApplyError> {
        let mut ready = self.prepare(ops)?;
        for (n, planned) in self.plan.steps.iter().enumerate() {
            let base = ops.get(planned.change).and_then(|op| op.base.as_ref());
            let done = self.carry_out(n, planned, base, ready.remove(&n));
            match done.map_err(named(planned.step.place())) {
                Ok(()) => self.begun = n + 1,
                // The step found a conflict and changed nothing, so it needs no rollback.
                Err(error @ ApplyError::Changed(_)) => return Err(error),
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
            .mark(&made(self.id))
            .map_err(ApplyError::Journal)?;
        // Leftovers do not make the changes unapplied; recovery removes them.
        if self.clean_up().is_ok() {
            let _ = self.sync_directories();
        }
        Ok(())
    }

    /// Prepared files are not visible, so a full disk is detected before the first change.
    fn prepare(&mut self, ops: &[Op]) -> Result<HashMap<usize, Ready>, ApplyError> {
        let mut all = HashMap::new();
        for (n, planned) in self.plan.steps.iter().enumerate() {
            let ready = self.prepare_one(planned, ops);
            all.extend(
                ready
                    .map_err(named(planned.step.place()))?
                    .map(|ready| (n, ready)),
            );
        }
        self.sync_files(&all)?;
        Ok(all)
    }

    fn prepare_one(&mut self, planned: &Planned, ops: &[Op]) -> Result<Option<Ready>, ApplyError> {
        let Step::Put {
            at, before, after, ..
        } = &planned.step
        else {
            return Ok(None);
        };
        let aside = self.roots.spot(&planned.aside)?;
        match after {
            Image::Link { target } => {
                (self.step)("make a link aside");
                rustix::fs::symlinkat(target.as_os_str(), &aside.dir, &aside.name)
                    .map_err(aside.failed("write"))?;
                Ok(None)
            }
            Image::File(image) => {
                let op = ops.get(planned.change);
                let place = self.roots.parent(at)?;
                let replaces = matches!(before, Image::File(_));
                match op.and_then(|op| op.source.as_ref()) {
                    Some(source) => {
                        (self.step)("prepare a file");
                        prepare::file(source, image, place.as_ref(), &aside, replaces)
                    }
                    None => self.prepare_kept(at, image, place.as_ref(), &aside, replaces),
                }
                .map(Some)
            }
            Image::Absent | Image::Dir { .. } => Ok(None),
        }
    }

    /// Prepares a file from the blob store.
    pub(super) fn prepare_kept(
        &mut self,
        at: &Location,
        image: &FileImage,
        place: Option<&Spot>,
        aside: &Spot,
        replaces: bool,
    ) -> Result<Ready, ApplyError> {
        if !self.blobs.has(image.hash, image.size) {
            return Err(ApplyError::NotKept(at.clone()));
        }
        let source = Source::Keep(self.blobs.path(image.hash));
        (self.step)("prepare a file");
        match prepare::file(&source, image, place, aside, replaces) {
            // The blob was damaged after it was saved.
            Err(ApplyError::Content(_)) => Err(ApplyError::NotKept(at.clone())),
            prepared => prepared,
        }
    }

    fn sync_files(&mut self, all: &HashMap<usize, Ready>) -> Result<(), ApplyError> {
        let at = |n: &usize| self.plan.steps[*n].step.place();
        if all.len() <= FEW {
            for (n, ready) in all {
                if let Ready::Aside(file) = ready {
                    file.sync_all().map_err(|source| ApplyError::Io {
                        what: "write",
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

    fn carry_out(
        &mut self,
        n: usize,
        planned: &Planned,
        base: Option<&BaseStat>,
        ready: Option<Ready>,
    ) -> Result<(), ApplyError> {
        match &planned.step {
            Step::Remove { at, was, .. } => {
                let (spot, seen) = self.expect(at, was, base)?;
                let aside = self.roots.spot(&planned.aside)?;
                (self.step)("move aside");
                if !take_away(&spot, &aside, &seen)? {
                    return Err(self.conflict(at, was));
                }
                if matches!(was, Image::Dir { .. })
                    && let Some(name) = first_name(&aside)?
                {
                    (self.step)("restore a directory");
                    rename_new(&aside, &spot)?;
                    return Err(self.conflict(&inside(at, &name), &Image::Absent));
                }
            }
            Step::Move { from, to, what, .. } => {
                let (old, _) = self.expect(from, what, base)?;
                let new = self.roots.spot(to)?;
                (self.step)("move");
                if !rename_new(&old, &new)? {
                    return Err(self.conflict(to, &Image::Absent));
                }
            }
            Step::MakeDir { at, mode, .. } => {
                let spot = self.roots.spot(at)?;
                let aside = self.roots.spot(&planned.aside)?;
                self.make_dir(&aside, &spot, *mode)?;
                (self.step)("make a directory");
                if !rename_new(&aside, &spot)? {
                    return Err(self.conflict(at, &Image::Absent));
                }
            }
            Step::Put {
                at, before, after, ..
            } => {
                if let (Some(Ready::InPlace(content)), Image::File(image)) = (ready, after) {
                    let (spot, _) = self.expect(at, before, base)?;
                    return self.write_in_place(n, &spot, content, image);
                }
                let aside = self.roots.spot(&planned.aside)?;
                let done = if *before == Image::Absent {
                    let spot = self.roots.spot(at)?;
                    (self.step)("put");
                    rename_new(&aside, &spot)?
                } else {
                    let (spot, seen) = self.expect(at, before, base)?;
                    (self.step)("replace");
                    match (exchange(&aside, &spot, &seen), before, after) {
                        // For example another user's file in `/tmp`, which has the sticky bit.
                        (Err(error), Image::File(_), Image::File(image)) if is_denied(&error) => {
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
                let (spot, _) = self.expect(at, &Image::Dir { mode: *before }, None)?;
                self.set_mode(&spot, *after)?;
            }
        }
        Ok(())
    }

    pub(super) fn make_dir(
        &mut self,
        aside: &Spot,
        place: &Spot,
        mode: u32,
    ) -> Result<(), ApplyError> {
        (self.step)("make a directory aside");
        rustix::fs::mkdirat(&aside.dir, &aside.name, Mode::from_raw_mode(0o700))
            .map_err(aside.failed("make"))?;
        let dir = aside
            .open(OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(aside.failed("make"))?;
        let inherited = if inherit_group(&dir, place) {
            0o2000
        } else {
            0
        };
        rustix::fs::fchmod(&dir, Mode::from_raw_mode(mode & 0o7777 | inherited))
            .map_err(aside.failed("set the mode of"))
    }

    /// Sets the permissions of a directory and keeps its other mode bits.
    pub(super) fn set_mode(&mut self, spot: &Spot, mode: u32) -> Result<(), ApplyError> {
        (self.step)("set the mode");
        let failed = spot.failed("set the mode of");
        let dir = spot
            .open(OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(&failed)?;
        let now = rustix::fs::fstat(&dir).map_err(&failed)?.st_mode & 0o7000;
        rustix::fs::fchmod(&dir, Mode::from_raw_mode(now | mode & PERMISSIONS)).map_err(&failed)
    }

    /// Readers can see partial content, and a crash leaves it; the marker then proves that this commit wrote it.
    pub(super) fn write_in_place(
        &mut self,
        n: usize,
        spot: &Spot,
        content: File,
        image: &FileImage,
    ) -> Result<(), ApplyError> {
        let marker = self.marker(n);
        (self.step)("mark a file written in place");
        self.blobs.mark(&marker).map_err(keep_failed(&spot.at))?;
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
        image: &Image,
        base: Option<&BaseStat>,
    ) -> Result<(Spot, Seen), ApplyError> {
        let Some(spot) = self.roots.parent(at)? else {
            return Err(self.conflict(at, image));
        };
        let seen = spot.look(base.map(|base| (image, base)))?;
        if seen.is(image) {
            Ok((spot, seen))
        } else {
            Err(ApplyError::Changed(vec![Conflict {
                at: at.clone(),
                expected: image.clone(),
                found: seen.image,
            }]))
        }
    }

    pub(super) fn conflict(&self, at: &Location, expected: &Image) -> ApplyError {
        match self.roots.look(at, None) {
            Ok(seen) => ApplyError::Changed(vec![Conflict {
                at: at.clone(),
                expected: expected.clone(),
                found: seen.image,
            }]),
            Err(error) => error,
        }
    }

    /// From here on a rollback needs the blob store.
    fn clean_up(&mut self) -> Result<(), ApplyError> {
        for planned in &self.plan.steps {
            if let Step::Remove { .. } | Step::Put { .. } = planned.step {
                let aside = self.roots.spot(&planned.aside)?;
                (self.step)("remove what was replaced");
                remove(&aside)?;
            }
        }
        self.unmark_all()
    }

    pub(super) fn unmark_all(&self) -> Result<(), ApplyError> {
        for (n, planned) in self.plan.steps.iter().enumerate() {
            let place = planned.step.place();
            if let Step::Put {
                before: Image::File(_),
                ..
            } = planned.step
            {
                self.blobs
                    .unmark(&self.marker(n))
                    .map_err(keep_failed(place))?;
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
                .chain([planned.step.place(), &planned.aside])
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

fn open_dir(spot: &Spot) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(&spot.dir, ".", flags, Mode::empty())
}

/// Name of any entry of a directory.
pub(super) fn first_name(dir: &Spot) -> Result<Option<String>, ApplyError> {
    Ok(names(dir)?.into_iter().next())
}

pub(super) fn names(dir: &Spot) -> Result<Vec<String>, ApplyError> {
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

pub(super) fn inside(dir: &Location, name: &str) -> Location {
    Location {
        root: dir.root.clone(),
        path: format!("{}/{name}", dir.path),
    }
}

fn io_at<'a>(what: &'static str, at: &'a Location) -> impl Fn(Errno) -> ApplyError + 'a {
    move |errno| ApplyError::Io {
        what,
        at: at.clone(),
        source: errno.into(),
    }
}

pub(super) fn keep_failed(at: &Location) -> impl Fn(io::Error) -> ApplyError + '_ {
    move |source| ApplyError::Keep {
        at: at.clone(),
        source,
    }
}

/// Reports errors under the user's file name instead of the temporary one.
pub(super) fn named(place: &Location) -> impl Fn(ApplyError) -> ApplyError + '_ {
    move |error| match error {
        ApplyError::Io { what, source, .. } => ApplyError::Io {
            what,
            at: place.clone(),
            source,
        },
        ApplyError::Content(_) => ApplyError::Content(place.clone()),
        other => other,
    }
}

/// Compares the observed state with the expected one, for checks that collect all conflicts.
pub(super) fn differs(at: &Location, expected: &Image, seen: Seen) -> Option<Conflict> {
    let equal = seen
        .image
        .as_ref()
        .is_some_and(|image| same(image, expected));
    (!equal).then(|| Conflict {
        at: at.clone(),
        expected: expected.clone(),
        found: seen.image,
    })
}
