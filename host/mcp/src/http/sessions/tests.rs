//! Tests that idle and evicted sessions end in the kernel, which then ends the session's programs.

use tokio::time::{advance, sleep};
use toolhost_kernel::Settings;

use super::*;
use crate::http::limits::Limits;
use crate::http::share::{Current, TokenShares};
use crate::http::token::Tokens;

type Ended = Arc<Mutex<HashSet<SessionKey>>>;

/// Returns sessions, limited to one per token, and the keys of those that the kernel has ended.
fn sessions() -> (Arc<Sessions>, Ended) {
    let ended = Ended::default();
    let heard = Arc::clone(&ended);
    let kernel = Kernel::builder(Settings::default())
        .on_session_end(Arc::new(move |key| {
            lock(&heard).insert(key.clone());
        }))
        .build()
        .unwrap()
        .share();
    let sessions = Sessions::new(kernel, 1, Duration::from_mins(30));
    (Arc::new(sessions), ended)
}

fn owners() -> [Arc<TokenShare>; 2] {
    let (ann, bob) = ("a".repeat(30), "b".repeat(30));
    let tokens = Tokens::parse(&format!("ann {ann}\nbob {bob}"), "tokens").unwrap();
    let TokenShares::Known { named, .. } = TokenShares::new(Some(tokens), &Limits::default())
    else {
        panic!("tokens are known")
    };
    ["ann", "bob"].map(|name| Arc::clone(&named[name]))
}

/// Creates a session. Its worker runs as long as the transport exists.
async fn begin(
    sessions: &Sessions,
    owner: &Arc<TokenShare>,
) -> Result<(SessionKey, <Sessions as SessionManager>::Transport), SessionsError> {
    let created = CURRENT.scope(Current::new(owner), sessions.create_session());
    let (id, transport) = created.await?;
    Ok((lock(&sessions.open)[&id].key.clone(), transport))
}

#[tokio::test(start_paused = true)]
async fn a_newer_session_of_the_same_token_ends_the_one_that_was_unused_longest() {
    let (sessions, ended) = sessions();
    let [ann, bob] = owners();
    let _of_bob = begin(&sessions, &bob).await.unwrap();
    let (first, _transport) = begin(&sessions, &ann).await.unwrap();
    advance(FRESH.checked_sub(Duration::from_millis(1)).unwrap()).await;
    let refused = begin(&sessions, &ann).await.err();
    assert!(matches!(refused, Some(SessionsError::TooMany)));
    assert!(lock(&ended).is_empty());
    advance(Duration::from_millis(1)).await;
    let (second, _transport) = begin(&sessions, &ann).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(*lock(&ended), HashSet::from([first]));
    assert_eq!(sessions.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_idle_ends() {
    let (sessions, ended) = sessions();
    let [ann, bob] = owners();
    let (first, _transport) = begin(&sessions, &ann).await.unwrap();
    advance(Duration::from_mins(15)).await;
    let _of_bob = begin(&sessions, &bob).await.unwrap();
    sessions.sweep();
    sleep(Duration::from_mins(1)).await;
    assert!(lock(&ended).is_empty());
    advance(Duration::from_mins(14)).await;
    sessions.sweep();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(*lock(&ended), HashSet::from([first]));
    assert_eq!(sessions.count(), 1);
}
