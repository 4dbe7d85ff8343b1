//! Enforcement of read rules on the files that a call actually opens. Paths in the input are only names; links and
//! searches lead to other files.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::facts::{Facts, Part, What};
use super::place::{PathPattern, Spot};
use super::{Column, Decision, Inner, Policy, Request};

/// Maximum number of rules reported for a call.
const NAMED: usize = 4;

/// Denies reads. Queried for every file and directory with its host path, symlinks resolved.
pub struct ReadGuard {
    layers: Vec<Layer>,
    /// Labels of the rules that denied a read.
    hits: Mutex<Vec<String>>,
}

/// The rules of one policy.
struct Layer {
    policy: Arc<Inner>,
    /// Indices of rules, and of a form in each.
    forms: Vec<(usize, usize)>,
    /// Ask rules that match a path named by the call; the user has already answered them.
    answered: Vec<usize>,
}

/// Paths that a rule denies reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeniedPlace {
    /// The path and everything below it.
    Tree(String),
    /// Some names below the path.
    Below(String),
}

impl ReadGuard {
    /// Creates the guard; `None` if no rule restricts reads of the call.
    pub(super) fn of<'a>(
        policies: impl Iterator<Item = &'a Policy>,
        request: Request<'_>,
    ) -> Option<Arc<Self>> {
        let layers: Vec<Layer> = policies
            .filter_map(|policy| Layer::of(policy, request))
            .collect();
        (!layers.is_empty()).then(|| {
            Arc::new(Self {
                layers,
                hits: Mutex::default(),
            })
        })
    }

    /// Whether a rule denies reading this path. Records the rule for [`ReadGuard::hits`].
    pub fn refuses(&self, path: &str) -> bool {
        let mut layers = self.layers.iter();
        let Some(label) = layers.find_map(|layer| layer.refuses(path)) else {
            return false;
        };
        let mut hits = self.hits.lock().unwrap_or_else(PoisonError::into_inner);
        if hits.len() < NAMED && !hits.contains(&label) {
            hits.push(label);
        }
        true
    }

    /// The rules that denied a read so far.
    pub fn hits(&self) -> Vec<String> {
        let hits = self.hits.lock().unwrap_or_else(PoisonError::into_inner);
        hits.clone()
    }

    /// The paths that the rules deny, for the sandbox of child processes. Rules for tools only are omitted.
    pub fn places(&self) -> Vec<DeniedPlace> {
        self.layers.iter().flat_map(Layer::places).collect()
    }
}

impl Layer {
    fn of(policy: &Policy, request: Request<'_>) -> Option<Self> {
        let inner = &policy.inner;
        if !inner.guards_reads {
            return None;
        }
        let analysis = policy.facts(request);
        let live = policy.live_among(0..inner.rules.len(), &analysis);
        let probe = Part {
            what: What::Path {
                path_ref: Spot::anywhere(),
                shown: String::new(),
                write: false,
            },
            columns: vec![Column::Read],
            mentions: Vec::new(),
            redirected: false,
            protected: None,
        };
        let mut forms = Vec::new();
        let mut answered = Vec::new();
        for at in live {
            let rule = &inner.rules[at];
            let speaks = |form: &usize| rule.reads_by(*form, &probe, &analysis);
            forms.extend((0..rule.forms.len()).filter(speaks).map(|form| (at, form)));
            if rule.decision == Decision::Ask && speaks_of_a_part(policy, at, &analysis) {
                answered.push(at);
            }
        }
        let keeps = |(at, form): &(usize, usize)| {
            let rule = &inner.rules[*at];
            rule.decision != Decision::Allow && rule.paths_of(*form).next().is_some()
        };
        forms.iter().any(keeps).then(|| Self {
            policy: Arc::clone(inner),
            forms,
            answered,
        })
    }

    fn refuses(&self, path: &str) -> Option<String> {
        let rules = &self.policy.rules;
        let path_ref = Spot::on_host(path, &self.policy.places);
        let fits = |at: usize, form: usize| {
            let allows = rules[at].decision == Decision::Allow;
            rules[at].paths_of(form).all(|paths| {
                paths.iter().any(|pattern| {
                    if allows {
                        pattern.surely(&path_ref)
                    } else {
                        pattern.maybe(&path_ref)
                    }
                })
            })
        };
        let matched = self.forms.iter().filter(|(at, form)| fits(*at, *form));
        let winner = self
            .policy
            .strongest(matched.map(|(at, _)| *at).collect())?;
        let rule = &rules[winner];
        let answered = rule.decision == Decision::Ask && self.answered.contains(&winner);
        (rule.decision != Decision::Allow && !answered).then(|| rule.label())
    }

    fn places(&self) -> Vec<DeniedPlace> {
        let rules = &self.policy.rules;
        let kept = self.forms.iter().filter(|(at, _)| {
            let rule = &rules[*at];
            rule.decision != Decision::Allow && rule.programs && !self.answered.contains(at)
        });
        kept.flat_map(|(at, form)| rules[*at].paths_of(*form))
            .flatten()
            .map(PathPattern::place)
            .collect()
    }
}

/// Whether a rule matches an access of the call. If it asked, the user has answered for the paths that the call names.
fn speaks_of_a_part(policy: &Policy, at: usize, analysis: &Facts) -> bool {
    let rule = &policy.inner.rules[at];
    analysis
        .parts
        .iter()
        .any(|part| rule.covers(part, analysis))
}

impl fmt::Debug for ReadGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadGuard").finish_non_exhaustive()
    }
}

/// Compares the rules only, not the recorded hits.
impl PartialEq for ReadGuard {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, two): (&Layer, &Layer)| one.forms == two.forms;
        self.layers.len() == other.layers.len() && self.layers.iter().zip(&other.layers).all(same)
    }
}

impl Eq for ReadGuard {}
