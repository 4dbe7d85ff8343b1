//! Enforcement of read rules on the files that a call actually opens. Paths in the input are only names; links and
//! searches lead to other files.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::call_analysis::{AccessKind, AccessRequest, CallAnalysis};
use super::path_pattern::{PathPattern, PathRef};
use super::{AccessClass, Decision, Inner, Policy, PolicyRequest};

/// Maximum number of rules reported for a call.
const MAX_REPORTED_RULES: usize = 4;

/// Denies reads. Queried for every file and directory with its host path, symlinks resolved.
pub struct ReadGuard {
    layers: Vec<GuardLayer>,
    /// Labels of the rules that denied a read.
    hits: Mutex<Vec<String>>,
}

/// The rules of one policy.
struct GuardLayer {
    policy: Arc<Inner>,
    /// Indices of rules, and of a form in each.
    forms: Vec<(usize, usize)>,
    /// Ask rules that match a path named by the call; the user has already answered them.
    answered: Vec<usize>,
}

/// Paths that a rule denies reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeniedPath {
    /// The path and everything below it.
    Tree(String),
    /// Some names below the path.
    Below(String),
}

impl ReadGuard {
    /// Creates the guard; `None` if no rule restricts reads of the call.
    pub(super) fn of<'a>(
        policies: impl Iterator<Item = &'a Policy>,
        request: PolicyRequest<'_>,
    ) -> Option<Arc<Self>> {
        let layers: Vec<GuardLayer> = policies
            .filter_map(|policy| GuardLayer::of(policy, request))
            .collect();
        (!layers.is_empty()).then(|| {
            Arc::new(Self {
                layers,
                hits: Mutex::default(),
            })
        })
    }

    /// Whether a rule denies reading this path. Records the rule for [`ReadGuard::hits`].
    pub fn denies_read(&self, path: &str) -> bool {
        let mut layers = self.layers.iter();
        let Some(label) = layers.find_map(|layer| layer.denying_rule(path)) else {
            return false;
        };
        let mut hits = self.hits.lock().unwrap_or_else(PoisonError::into_inner);
        if hits.len() < MAX_REPORTED_RULES && !hits.contains(&label) {
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
    pub fn denied_paths(&self) -> Vec<DeniedPath> {
        self.layers
            .iter()
            .flat_map(GuardLayer::denied_paths)
            .collect()
    }
}

impl GuardLayer {
    fn of(policy: &Policy, request: PolicyRequest<'_>) -> Option<Self> {
        let inner = &policy.inner;
        if !inner.restricts_reads {
            return None;
        }
        let analysis = policy.analyze(request);
        let live = policy.filter_applicable(0..inner.rules.len(), &analysis);
        let probe = AccessRequest {
            kind: AccessKind::Path {
                path_ref: PathRef::unknown(),
                shown: String::new(),
                write: false,
            },
            classes: vec![AccessClass::Read],
            mentioned_paths: Vec::new(),
            is_redirection: false,
            protection: None,
        };
        let mut forms = Vec::new();
        let mut answered = Vec::new();
        for at in live {
            let rule = &inner.rules[at];
            let speaks = |form: &usize| rule.form_covers_reads(*form, &probe, &analysis);
            forms.extend((0..rule.forms.len()).filter(speaks).map(|form| (at, form)));
            if rule.decision == Decision::Ask && matches_any_access(policy, at, &analysis) {
                answered.push(at);
            }
        }
        let keeps = |(at, form): &(usize, usize)| {
            let rule = &inner.rules[*at];
            rule.decision != Decision::Allow && rule.form_paths(*form).next().is_some()
        };
        forms.iter().any(keeps).then(|| Self {
            policy: Arc::clone(inner),
            forms,
            answered,
        })
    }

    fn denying_rule(&self, path: &str) -> Option<String> {
        let rules = &self.policy.rules;
        let path_ref = PathRef::from_host(path, &self.policy.path_context);
        let fits = |at: usize, form: usize| {
            let allows = rules[at].decision == Decision::Allow;
            rules[at].form_paths(form).all(|paths| {
                paths.iter().any(|pattern| {
                    if allows {
                        pattern.matches_all(&path_ref)
                    } else {
                        pattern.may_match(&path_ref)
                    }
                })
            })
        };
        let matched = self.forms.iter().filter(|(at, form)| fits(*at, *form));
        let winner = self
            .policy
            .deciding_rule(matched.map(|(at, _)| *at).collect())?;
        let rule = &rules[winner];
        let answered = rule.decision == Decision::Ask && self.answered.contains(&winner);
        (rule.decision != Decision::Allow && !answered).then(|| rule.label())
    }

    fn denied_paths(&self) -> Vec<DeniedPath> {
        let rules = &self.policy.rules;
        let denying = self.forms.iter().filter(|(at, _)| {
            let rule = &rules[*at];
            rule.decision != Decision::Allow && rule.programs && !self.answered.contains(at)
        });
        denying
            .flat_map(|(at, form)| rules[*at].form_paths(*form))
            .flatten()
            .map(PathPattern::denied_path)
            .collect()
    }
}

/// Whether a rule matches an access of the call. If it asked, the user has answered for the paths that the call names.
fn matches_any_access(policy: &Policy, at: usize, analysis: &CallAnalysis) -> bool {
    let rule = &policy.inner.rules[at];
    analysis
        .accesses
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
        let same = |(one, two): (&GuardLayer, &GuardLayer)| one.forms == two.forms;
        self.layers.len() == other.layers.len() && self.layers.iter().zip(&other.layers).all(same)
    }
}

impl Eq for ReadGuard {}
