//! Quotas per user and for all users together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolhost_contract::{QuotaError, QuotaKind, UserId, UserQuota};

/// Counts usage of one quota. Clones share the count.
#[derive(Debug, Clone)]
pub(crate) struct QuotaMeter(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    kind: QuotaKind,
    quota: UserQuota,
    held: Mutex<BTreeMap<UserId, u64>>,
}

/// A part of the quota, returned when dropped.
#[derive(Debug)]
#[must_use = "it is given back when it is dropped"]
pub(crate) struct QuotaReservation {
    counts: Arc<Counts>,
    user: UserId,
    amount: u64,
}

impl QuotaMeter {
    pub(crate) fn new(kind: QuotaKind, quota: UserQuota) -> Self {
        Self(Arc::new(Counts {
            kind,
            quota,
            held: Mutex::default(),
        }))
    }

    pub(crate) fn take(&self, user: &UserId, amount: u64) -> Result<QuotaReservation, QuotaError> {
        let mut holding = self.empty(user);
        holding.resize(amount)?;
        Ok(holding)
    }

    /// Checks the quota with usage that is not held by reservations, of the user and of all users.
    pub(crate) fn check_with(&self, user: &UserId, own: u64, all: u64) -> Result<(), QuotaError> {
        let held = self.0.held();
        let held_by_user = held.get(user).copied().unwrap_or_default();
        self.0
            .check(own + held_by_user, all + held.values().sum::<u64>())
    }

    /// Creates a reservation of 0, which can grow.
    pub(crate) fn empty(&self, user: &UserId) -> QuotaReservation {
        QuotaReservation {
            counts: Arc::clone(&self.0),
            user: user.clone(),
            amount: 0,
        }
    }
}

impl QuotaReservation {
    /// Changes the amount. Unchanged on error. A smaller amount always fits.
    pub(crate) fn resize(&mut self, amount: u64) -> Result<(), QuotaError> {
        let mut held = self.counts.held();
        let own = self.usage_after(&held, amount)?;
        if own == 0 {
            held.remove(&self.user);
        } else {
            held.insert(self.user.clone(), own);
        }
        self.amount = amount;
        Ok(())
    }

    /// Checks whether the reservation could be resized to `amount`.
    pub(crate) fn fits(&self, amount: u64) -> Result<(), QuotaError> {
        self.usage_after(&self.counts.held(), amount).map(drop)
    }

    /// Returns the usage of the user after resizing.
    fn usage_after(&self, held: &BTreeMap<UserId, u64>, amount: u64) -> Result<u64, QuotaError> {
        let own = held.get(&self.user).copied().unwrap_or_default() - self.amount;
        let own = own.saturating_add(amount);
        if amount > self.amount {
            let others = held.values().sum::<u64>() - self.amount;
            self.counts.check(own, others.saturating_add(amount))?;
        }
        Ok(own)
    }
}

impl Counts {
    /// Fails if this usage, of a user and of all users, exceeds the quota.
    fn check(&self, own: u64, all: u64) -> Result<(), QuotaError> {
        let Self { kind, quota, .. } = *self;
        if own > quota.user {
            let most = quota.user;
            return Err(QuotaError::User { kind, most });
        }
        if all > quota.all {
            let most = quota.all;
            return Err(QuotaError::All { kind, most });
        }
        Ok(())
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<UserId, u64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        let mut held = self.counts.held();
        if let Some(own) = held.get_mut(&self.user) {
            *own -= self.amount;
            if *own == 0 {
                held.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_10_one_user_does_not_use_up_the_quota_of_another() {
        let meter = QuotaMeter::new(QuotaKind::Questions, UserQuota { user: 2, all: 3 });
        let (ann, bob) = (UserId::token("ann"), UserId::token("bob"));
        let first = meter.take(&ann, 1).unwrap();
        let second = meter.take(&ann, 1).unwrap();
        let error = meter.take(&ann, 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the user has reached the limit of 2 pending questions"
        );
        let third = meter.take(&bob, 1).unwrap();
        let error = meter.take(&UserId::Local, 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "all users together have reached the limit of 3 pending questions"
        );
        drop((first, second, third));
        assert!(meter.0.held().is_empty());
        assert!(meter.take(&ann, u64::MAX).is_err());
        let mut first = meter.take(&ann, 2).unwrap();
        assert!(first.resize(3).is_err() && first.fits(3).is_err());
        first.resize(1).unwrap();
        let second = meter.take(&ann, 1).unwrap();
        assert!(first.fits(2).is_err());
        drop((first, second));
        assert!(meter.0.held().is_empty());
    }
}
