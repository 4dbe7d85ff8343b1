//! Enforcement of read rules on the files that a call actually opens. Paths in the input are only names; links and
//! searches lead to other files.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::call_analysis::{AccessKind, AccessRequest, CallAnalysis};
use super::path_pattern::{PathPattern, PathRef, strip_dir};
use super::{AccessClass, Decision, Inner, Policy, PolicyRequest, Rule};

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
    /// Ask rules that the user is asked about before the call, with the paths that the question names.
    answered: Vec<AnsweredRule>,
}

#[derive(PartialEq)]
struct AnsweredRule {
    at: usize,
    /// Host paths. The rule no longer applies to them and to what is below them.
    paths: Vec<String>,
    /// The rule is about the call as a whole, so it no longer applies to any path.
    all_paths: bool,
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

    /// Whether a path below this one was named in a question that the user is asked before the call.
    pub fn has_answered_below(&self, path: &str) -> bool {
        let answered = self.layers.iter().flat_map(|layer| &layer.answered);
        let mut paths = answered.flat_map(|answered| &answered.paths);
        paths.any(|answered| strip_dir(answered, path).is_some_and(|rest| !rest.is_empty()))
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
            depends_on_other_directory: false,
            is_redirection: false,
            protection: None,
        };
        let covers_reads = |at: usize| {
            let rule = &inner.rules[at];
            (0..rule.forms.len())
                .filter(|form| rule.form_covers_reads(*form, &probe, &analysis))
                .map(move |form| (at, form))
                .collect::<Vec<_>>()
        };
        let forms: Vec<_> = live.iter().flat_map(|at| covers_reads(*at)).collect();
        let answered = policy.answered_rules(&analysis, &live, &forms);
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
        let matched: Vec<usize> = matched.map(|(at, _)| *at).collect();
        let winner = self.policy.deciding_rule(matched.clone())?;
        let denying = match rules[winner].decision {
            Decision::Allow => None,
            Decision::Deny => Some(winner),
            // Of equal rules that ask, each has to be answered.
            Decision::Ask => matched.into_iter().find(|at| {
                let is_equal = |key: fn(&Rule) -> _| key(&rules[*at]) == key(&rules[winner]);
                is_equal(|rule| (rule.decision, rule.tier, rule.priority))
                    && !self.is_answered(*at, &path_ref)
            }),
        };
        denying.map(|at| rules[at].label())
    }

    fn is_answered(&self, rule: usize, path_ref: &PathRef) -> bool {
        self.answered.iter().any(|answered| {
            let mut paths = answered.paths.iter();
            answered.at == rule
                && (answered.all_paths || paths.any(|named| path_ref.is_below(named)))
        })
    }

    fn denied_paths(&self) -> Vec<DeniedPath> {
        let rules = &self.policy.rules;
        let denying = self.forms.iter().filter(|(at, _)| {
            let rule = &rules[*at];
            let is_lifted = |answered: &AnsweredRule| answered.at == *at && answered.all_paths;
            rule.decision != Decision::Allow
                && rule.programs
                && !self.answered.iter().any(is_lifted)
        });
        denying
            .flat_map(|(at, form)| rules[*at].form_paths(*form))
            .flatten()
            .map(PathPattern::denied_path)
            .collect()
    }
}

impl Policy {
    /// The ask rules that match an access of the call which a rule requires to ask about. `forms` are those that cover
    /// reads.
    fn answered_rules(
        &self,
        analysis: &CallAnalysis,
        live: &[usize],
        forms: &[(usize, usize)],
    ) -> Vec<AnsweredRule> {
        let rules = &self.inner.rules;
        let is_general = |rule: usize| {
            forms
                .iter()
                .any(|(at, form)| *at == rule && rules[rule].form_paths(*form).next().is_none())
        };
        let asked = analysis.accesses.iter().filter_map(|access| {
            let decided = self.match_rules(access, analysis, live);
            (decided.decision == Decision::Ask).then_some((access, decided.matched))
        });
        asked
            .flat_map(|(access, matched)| {
                let paths: Vec<String> = named_paths(access).map(str::to_owned).collect();
                let asks = matched
                    .into_iter()
                    .filter(|at| rules[*at].decision == Decision::Ask);
                asks.map(move |at| (at, paths.clone()))
            })
            .map(|(at, paths)| AnsweredRule {
                at,
                paths,
                all_paths: is_general(at),
            })
            .collect()
    }
}

/// The host paths that a question about the access names.
fn named_paths(access: &AccessRequest) -> impl Iterator<Item = &str> {
    let path = match &access.kind {
        AccessKind::Path { path_ref, .. } => Some(path_ref),
        _ => None,
    };
    path.into_iter()
        .chain(&access.mentioned_paths)
        .flat_map(PathRef::host_paths)
}

impl fmt::Debug for ReadGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadGuard").finish_non_exhaustive()
    }
}

/// Compares the rules only, not the recorded hits.
impl PartialEq for ReadGuard {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, two): (&GuardLayer, &GuardLayer)| {
            one.forms == two.forms && one.answered == two.answered
        };
        self.layers.len() == other.layers.len() && self.layers.iter().zip(&other.layers).all(same)
    }
}

impl Eq for ReadGuard {}
