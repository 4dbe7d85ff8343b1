//! Tickets: what the form of a question contains so that an answer belongs to what was shown.
//!
//! A ticket is bound to the browser's session, to one question and its digest, and to the time when the page was
//! delivered. It also protects the form against requests of other sites.

use toolhost_contract::lifecycle::Timestamp;

use crate::access::{Secret, Session};
use crate::inbox::PendingEntry;

/// How long a question has to be visible before it can be approved, in milliseconds.
pub const ARMING_MS: i64 = 500;

/// Why a ticket is not valid for a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketError {
    /// Not issued by this host to this session for this question.
    Foreign,
    /// The question was shown too recently.
    TooEarly,
}

/// Issues a ticket for a page that is delivered now.
pub fn issue(secret: &Secret, session: &Session, entry: &PendingEntry, now: Timestamp) -> String {
    let signature = sign(secret, session, entry, now.0);
    format!("{}.{signature}", now.0)
}

/// Checks a ticket. The time is checked too if the answer is an approval.
pub fn check(
    secret: &Secret,
    session: &Session,
    entry: &PendingEntry,
    ticket: &str,
    now: Timestamp,
    approves: bool,
) -> Result<(), TicketError> {
    let (delivered, signature) = ticket.split_once('.').ok_or(TicketError::Foreign)?;
    let delivered: i64 = delivered.parse().map_err(|_| TicketError::Foreign)?;
    // Compared as digests, so that the duration does not depend on the position of the first difference.
    let expected = sign(secret, session, entry, delivered);
    if blake3::hash(expected.as_bytes()) != blake3::hash(signature.as_bytes()) {
        return Err(TicketError::Foreign);
    }
    // A clock that was set back must not allow it earlier.
    if approves && now.0.saturating_sub(delivered) < ARMING_MS {
        return Err(TicketError::TooEarly);
    }
    Ok(())
}

fn sign(secret: &Secret, session: &Session, entry: &PendingEntry, delivered: i64) -> String {
    let text = format!("ticket/{}/{}/{delivered}", entry.number, entry.digest);
    secret.sign(session, &text)
}
