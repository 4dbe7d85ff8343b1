//! Approvals are saved, counted, revoked, and never restored.

use super::{Home, approval};
use crate::{ApprovalError, ApprovalRow};

#[tokio::test]
async fn an_approval_is_used_only_while_it_holds() {
    let home = Home::new();
    let store = home.open();
    for (row, at_ms, expected) in [
        (approval("any number"), 0, true),
        (
            ApprovalRow {
                uses_left: Some(1),
                ..approval("one left")
            },
            0,
            true,
        ),
        (
            ApprovalRow {
                uses_left: Some(0),
                ..approval("none left")
            },
            0,
            false,
        ),
        (
            ApprovalRow {
                revoked_ms: Some(1),
                ..approval("revoked")
            },
            0,
            false,
        ),
        (
            ApprovalRow {
                expires_ms: Some(200),
                ..approval("in time")
            },
            199,
            true,
        ),
        (
            ApprovalRow {
                expires_ms: Some(200),
                ..approval("expired")
            },
            200,
            false,
        ),
        // The clock is before the approval's creation: it jumped back, so expiry cannot be determined.
        (
            ApprovalRow {
                expires_ms: Some(200),
                ..approval("jumped")
            },
            99,
            false,
        ),
    ] {
        let id = row.id.clone();
        store.put_approval(row).await.unwrap();
        assert_eq!(
            store.use_approval(&id, at_ms).await.unwrap(),
            expected,
            "{id}"
        );
    }
    assert!(!store.use_approval("unknown", 0).await.unwrap());
    assert!(!store.use_approval("one left", 0).await.unwrap());
    let rows = store.approvals().unwrap();
    let used: Vec<_> = rows.iter().map(|row| (row.uses_left, row.used)).collect();
    assert_eq!(used[..3], [(None, 1), (Some(0), 1), (Some(0), 0)]);
}

#[tokio::test]
async fn a_revoked_approval_stays_revoked() {
    let home = Home::new();
    let store = home.open();
    store.put_approval(approval("a1")).await.unwrap();
    store.revoke_approval("a1", 7).await.unwrap();
    store.revoke_approval("a1", 9).await.unwrap();
    assert_eq!(
        store.put_approval(approval("a1")).await,
        Err(ApprovalError::Exists {
            id: "a1".to_owned()
        })
    );
    assert_eq!(
        store.revoke_approval("a2", 9).await,
        Err(ApprovalError::Unknown {
            id: "a2".to_owned()
        })
    );
    assert_eq!(store.approvals().unwrap()[0].revoked_ms, Some(7));
    assert!(!store.use_approval("a1", 10).await.unwrap());
}

#[tokio::test]
async fn one_use_is_given_to_one_of_two_processes() {
    let home = Home::new();
    let (one, two) = (home.open(), home.open());
    let row = ApprovalRow {
        uses_left: Some(10),
        ..approval("a1")
    };
    one.put_approval(row).await.unwrap();
    let mut given = 0;
    for _ in 0..10 {
        let (first, second) = tokio::join!(one.use_approval("a1", 0), two.use_approval("a1", 0));
        given += i32::from(first.unwrap()) + i32::from(second.unwrap());
    }
    assert_eq!(given, 10);
}
