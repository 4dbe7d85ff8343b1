//! Runs a query over the files below a place, and collects what the answer needs.

use std::ops::ControlFlow;

use ignore::types::Types;
use toolhost_sdk::prelude::*;

use super::{FileMatches, Input, LineMatch, OutputMode, answer};
use crate::clock::{self, Clock, Stop};
use crate::names::{self, Case, Names};
use crate::place::Place;
use crate::query::{Query, Reading};
use crate::reader::{Binary, Content, Reader};
use crate::rules::Honour;
use crate::scan::{self, Counter, Others, Spot, Spots};
use crate::walk::{Entry, Kind, Options, Tally, walk};

/// Characters of lines in one answer.
const MOST_CHARS: usize = 20_000;
/// With so many matches at most, so many lines around them are shown unasked.
const AUTO_CONTEXT: &[(u64, usize)] = &[(1, 50), (3, 15)];

/// Searches one text, which is shown by the name in the middle.
type Search<'a> = dyn FnMut(&mut Findings, &str, &[u8]) -> ControlFlow<Stop> + 'a;

/// Everything a search found out.
#[derive(Default)]
pub struct Findings {
    /// Files with a match, in the order of the walk; with lines only in the mode `content`.
    pub files: Vec<FileMatches>,
    pub total_matches: u64,
    pub total_files: u64,
    /// Matching lines, or files, that are not in `files`.
    pub truncated: bool,
    pub timed_out: bool,
    pub searched: u64,
    pub binary: u64,
    /// Files of which only the beginning was searched.
    pub shortened: u64,
    pub tally: Tally,
    pub notes: Vec<String>,
}

pub fn run(cx: &Context, input: &Input) -> Result<Outcome> {
    let mut clock = Clock::start(cx);
    let query = Query::new(
        &input.pattern,
        input.exclude_pattern.as_deref(),
        input.reading(),
    )?;
    let filter = Filter::new(input)?;
    let start = Place::find(cx, &input.path)?;
    let is_file = start.metadata(&input.path)?.is_file();
    let honour = Honour {
        git: !input.no_ignore,
        tool: !input.no_ignore,
    };
    let walked = Walked {
        start: &start,
        is_file,
        filter: &filter,
    };

    let (before, after) = input.around().unwrap_or((0, 0));
    let mut findings = Findings {
        notes: query.note.iter().cloned().collect(),
        ..Findings::default()
    };
    let mut collector = Collector {
        input,
        query: &query,
        before,
        after,
        skip: input.offset.into(),
        shown: 0,
        chars: 0,
    };
    let flow = walked.each_file(
        honour,
        &mut clock,
        &mut findings,
        &mut |findings, shown, text| {
            collector.file(findings, shown, text);
            ControlFlow::Continue(())
        },
    );
    match flow {
        ControlFlow::Break(Stop::Cancelled) => return Err(clock::cancelled()),
        ControlFlow::Break(Stop::Time) => findings.timed_out = true,
        ControlFlow::Break(Stop::Enough) | ControlFlow::Continue(()) => {}
    }
    if findings.total_matches == 0 {
        findings
            .notes
            .extend(walked.hints(input, clock.courtesy(), findings.tally));
    } else if input.output_mode == OutputMode::Content
        && input.around().is_none()
        && input.auto_context
    {
        let lines = AUTO_CONTEXT
            .iter()
            .find(|(matches, _)| findings.total_matches <= *matches)
            .map(|(_, lines)| *lines);
        if let Some(lines) = lines {
            collector.widen(&mut findings, &start, lines);
        }
    }
    Ok(answer::write(input, &start, findings))
}

/// Which files are searched, by their names.
struct Filter {
    only: Option<Names>,
    never: Names,
    types: Option<Types>,
}

impl Filter {
    fn new(input: &Input) -> Result<Self> {
        let glob = input.glob.as_deref().filter(|glob| !glob.is_empty());
        let turned = glob.and_then(|glob| glob.strip_prefix('!'));
        let only = if turned.is_some() { None } else { glob };
        let never = input.exclude.iter().map(String::as_str).chain(turned);
        Ok(Self {
            only: only
                .map(|glob| Names::wanted([glob], Case::Sensitive))
                .transpose()?,
            never: Names::unwanted(never, Case::Sensitive)?,
            types: input
                .file_type
                .as_deref()
                .map(names::file_type)
                .transpose()?,
        })
    }

    fn wants(&self, file: &Entry<'_>) -> bool {
        self.only.as_ref().is_none_or(|only| only.matches(file))
            && self
                .types
                .as_ref()
                .is_none_or(|types| types.matched(file.name, false).is_whitelist())
    }
}

/// A way over files, which can be gone more than once.
struct Walked<'a> {
    start: &'a Place,
    is_file: bool,
    filter: &'a Filter,
}

impl Walked<'_> {
    fn each_file(
        &self,
        honour: Honour,
        clock: &mut Clock<'_>,
        findings: &mut Findings,
        search: &mut Search<'_>,
    ) -> ControlFlow<Stop> {
        let mut reader = Reader::new();
        if self.is_file {
            // A file that is named is searched, whatever it is.
            return visit(
                &mut reader,
                Binary::Search,
                findings,
                self.start.path(),
                self.start.shown(),
                search,
            );
        }
        let excluded = |entry: &Entry<'_>| self.filter.never.matches(entry);
        let options = Options {
            honour,
            dot: true,
            depth: usize::MAX,
            excluded: &excluded,
        };
        let (tally, flow) = walk(self.start, &options, clock, &mut |entry| {
            if entry.kind == Kind::File && self.filter.wants(entry) {
                visit(
                    &mut reader,
                    Binary::Skip,
                    findings,
                    entry.path,
                    entry.shown,
                    search,
                )
            } else {
                ControlFlow::Continue(())
            }
        });
        findings.tally = tally;
        flow
    }

    /// Finds out what would have matched instead.
    fn hints(&self, input: &Input, mut clock: Clock<'_>, tally: Tally) -> Vec<String> {
        let reading = input.reading();
        let exclude = input.exclude_pattern.as_deref();
        let letters = input.pattern.chars().any(char::is_alphabetic);
        let mut hints = Vec::new();
        let mut hint =
            |parameter: &str, reading: Reading, honour: Honour| {
                let Ok(query) = Query::new(&input.pattern, exclude, reading) else {
                    return;
                };
                let mut found = None;
                let _ = self.each_file(
                    honour,
                    &mut clock,
                    &mut Findings::default(),
                    &mut |_, shown, text| {
                        if Spots::new(&query, text).next().is_some() {
                            found = Some(shown.to_owned());
                            return ControlFlow::Break(Stop::Enough);
                        }
                        ControlFlow::Continue(())
                    },
                );
                hints.extend(found.map(|file| {
                    format!("`{parameter} = true` would find it, for example in {file}")
                }));
            };
        if input.inverted() {
            return hints;
        }
        let honour = Honour {
            git: !input.no_ignore,
            tool: !input.no_ignore,
        };
        if letters && !reading.case_insensitive {
            hint(
                "case_insensitive",
                Reading {
                    case_insensitive: true,
                    ..reading
                },
                honour,
            );
        }
        if tally.git + tally.tool > 0 {
            hint(
                "no_ignore",
                reading,
                Honour {
                    git: false,
                    tool: false,
                },
            );
        }
        hints
    }
}

/// Reads one file and has it searched. A file that cannot be read is counted, and is no reason to stop.
fn visit(
    reader: &mut Reader,
    binary: Binary,
    findings: &mut Findings,
    path: &str,
    shown: &str,
    search: &mut Search<'_>,
) -> ControlFlow<Stop> {
    let text = match reader.read(path, binary) {
        Ok(Content::Text(text)) => text,
        Ok(Content::Beginning(text)) => {
            findings.shortened += 1;
            text
        }
        Ok(Content::Binary) => {
            findings.binary += 1;
            return ControlFlow::Continue(());
        }
        Err(_) => {
            findings.tally.unreadable += 1;
            return ControlFlow::Continue(());
        }
    };
    findings.searched += 1;
    search(findings, shown, text)
}

/// Takes what the answer shows, and only counts the rest.
struct Collector<'a> {
    input: &'a Input,
    query: &'a Query,
    before: usize,
    after: usize,
    /// Still to be left out because of `offset`.
    skip: u64,
    shown: u32,
    chars: usize,
}

impl Collector<'_> {
    fn file(&mut self, findings: &mut Findings, shown: &str, text: &[u8]) {
        let mut spots: Box<dyn Iterator<Item = Spot> + '_> = if self.input.inverted() {
            Box::new(Others::new(self.query, text))
        } else {
            Box::new(Spots::new(self.query, text))
        };
        let Some(first) = spots.next() else { return };
        findings.total_files += 1;
        let mut file = FileMatches {
            path: shown.to_owned(),
            count: None,
            matches: Vec::new(),
        };
        match self.input.output_mode {
            OutputMode::FilesWithMatches => {
                findings.total_matches += 1;
                findings.files.push(file);
            }
            OutputMode::Count => {
                let count = 1 + spots.count() as u64;
                findings.total_matches += count;
                file.count = Some(count);
                findings.files.push(file);
            }
            OutputMode::Content => {
                let mut count = 0;
                let mut counter = Counter::new(text);
                for spot in std::iter::once(first).chain(spots) {
                    count += 1;
                    if self.takes(file.matches.len()) {
                        let found = self.line(&mut counter, text, &spot);
                        self.chars += chars(&found);
                        // One line may be too much by itself and is shown all the same.
                        if self.chars > MOST_CHARS && self.shown > 0 {
                            findings.truncated = true;
                        } else {
                            self.shown += 1;
                            file.matches.push(found);
                        }
                    } else {
                        findings.truncated |= self.skip == 0;
                    }
                    self.skip = self.skip.saturating_sub(1);
                }
                findings.total_matches += count;
                file.count = Some(count);
                if !file.matches.is_empty() {
                    findings.files.push(file);
                }
            }
        }
    }

    fn takes(&self, of_this_file: usize) -> bool {
        self.skip == 0
            && self.shown < self.input.head_limit
            && self.chars <= MOST_CHARS
            && self
                .input
                .max_per_file
                .is_none_or(|most| of_this_file < most as usize)
    }

    fn line(&self, counter: &mut Counter<'_>, text: &[u8], spot: &Spot) -> LineMatch {
        let show = |lines: Vec<std::ops::Range<usize>>| {
            lines
                .iter()
                .map(|line| scan::show(text, line, line.start))
                .collect()
        };
        LineMatch {
            line: counter.line(spot.line.start),
            column: scan::column(text, &spot.line, spot.at) as u64 + 1,
            text: scan::show(text, &spot.line, spot.at),
            before: show(scan::lines_above(text, spot.line.start, self.before)),
            after: show(scan::lines_below(text, spot.line.end, self.after)),
        }
    }

    /// Goes back to the few files with a match for the lines around it.
    fn widen(&self, findings: &mut Findings, start: &Place, lines: usize) {
        let mut collector = Collector {
            before: lines,
            after: lines,
            skip: self.input.offset.into(),
            shown: 0,
            chars: 0,
            ..*self
        };
        let mut reader = Reader::new();
        let mut wider = Findings::default();
        for file in &findings.files {
            let path = start.absolute(&file.path);
            if let Ok(Content::Text(text) | Content::Beginning(text)) =
                reader.read(&path, Binary::Search)
            {
                collector.file(&mut wider, &file.path, text);
            }
        }
        // Too long lines, or a file that changed meanwhile: then the narrow answer stands.
        if !wider.truncated && wider.files.len() == findings.files.len() {
            findings.files = wider.files;
        }
    }
}

fn chars(found: &LineMatch) -> usize {
    let around = found
        .before
        .iter()
        .chain(&found.after)
        .map(String::len)
        .sum::<usize>();
    found.text.len() + around
}
