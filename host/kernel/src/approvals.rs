//! Saved approvals: an in-memory list for decisions, backed by the store.

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Value, json};
use toolhost_contract::policy::{Approval, ApprovalScope};
use toolhost_store::{ApprovalError, ApprovalRow};

use crate::journal::Journal;

pub(crate) struct ApprovalCache {
    journal: Arc<Journal>,
    /// The folder that the scope `project` refers to.
    project: Option<String>,
    known: RwLock<Arc<Vec<Approval>>>,
}

impl ApprovalCache {
    pub(crate) fn new(journal: Arc<Journal>, project: Option<String>) -> Self {
        let approvals = Self {
            journal,
            project,
            known: RwLock::default(),
        };
        approvals.refresh();
        approvals
    }

    pub(crate) fn all(&self) -> Arc<Vec<Approval>> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reloads the approvals from the store and returns whether there are new ones. Session approvals are kept, because
    /// without a store they exist only in memory.
    pub(crate) fn refresh(&self) -> bool {
        let Some(store) = &self.journal.store else {
            return false;
        };
        let Ok(rows) = store.approvals() else {
            return false;
        };
        let found: Vec<Approval> = rows.iter().filter_map(|row| self.of_row(row)).collect();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let changed = **known != found;
        *known = Arc::new(found);
        changed
    }

    /// Counts one use of each approval in the store. Returns false if one cannot be used any more.
    pub(crate) async fn take_use(&self, ids: &[String], now_ms: i64) -> bool {
        for id in ids {
            if !self.take_one(id, now_ms).await {
                self.refresh();
                return false;
            }
        }
        true
    }

    async fn take_one(&self, id: &str, now_ms: i64) -> bool {
        if let Some(store) = &self.journal.store {
            return store.use_approval(id, now_ms).await.unwrap_or(false);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Some(approval) = Arc::make_mut(&mut known)
            .iter_mut()
            .find(|approval| approval.id == id)
        else {
            return false;
        };
        match &mut approval.uses_left {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }

    pub(crate) async fn add(&self, approval: Approval) -> Result<(), ApprovalError> {
        if let Some(store) = &self.journal.store {
            store
                .put_approval(row(&approval, self.project.as_deref()))
                .await?;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut known).push(approval);
        Ok(())
    }

    /// Converts a stored approval, unless it cannot apply to this project.
    fn of_row(&self, row: &ApprovalRow) -> Option<Approval> {
        if row.revoked_ms.is_some() {
            return None;
        }
        let mut approval = Approval::from_value(row.body.get("approval")?).ok()?;
        if approval.scope == ApprovalScope::Project {
            let project = row.body.get("project").and_then(Value::as_str);
            if project.is_none() || project != self.project.as_deref() {
                return None;
            }
        }
        approval.uses_left = row.uses_left;
        Some(approval)
    }
}

/// Returns the stored form of an approval.
pub fn row(approval: &Approval, project: Option<&str>) -> ApprovalRow {
    let identity = &approval.identity;
    let digest = identity.digest.or(identity.definition);
    ApprovalRow {
        id: approval.id.clone(),
        tool: identity.tool.to_string(),
        plugin: identity.plugin.to_string(),
        identity: digest.map(|digest| digest.to_string()).unwrap_or_default(),
        scope: approval.scope.as_str().to_owned(),
        session: approval.session.as_ref().map(ToString::to_string),
        body: json!({"approval": approval.to_value(), "project": project}),
        created_ms: approval.created_ms,
        expires_ms: approval.expires_ms,
        uses_left: approval.uses_left,
        used: 0,
        revoked_ms: None,
    }
}
