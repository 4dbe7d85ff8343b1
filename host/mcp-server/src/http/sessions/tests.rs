//! Tests that idle and evicted sessions end in the kernel, which then ends the session's programs.

use tokio::time::{advance, sleep};
use toolhost_kernel::KernelSettings;

use super::*;
use crate::http::limits::HttpLimits;
use crate::http::token::Tokens;
use crate::http::token_quota::{CurrentRequest, TokenQuotas};

type EndedSessions = Arc<Mutex<HashSet<SessionKey>>>;

/// Returns sessions, limited to one per token, and the keys of those that the kernel has ended.
fn sessions() -> (Arc<HttpSessions>, EndedSessions) {
    let ended = EndedSessions::default();
    let received = Arc::clone(&ended);
    let kernel = Kernel::builder(KernelSettings::default())
        .on_session_end(Arc::new(move |key| {
            lock(&received).insert(key.clone());
        }))
        .build()
        .unwrap()
        .share();
    let sessions = HttpSessions::new(kernel, 1, Duration::from_mins(30));
    (Arc::new(sessions), ended)
}

fn owners() -> [Arc<TokenQuota>; 2] {
    let (ann, bob) = ("a".repeat(30), "b".repeat(30));
    let tokens = Tokens::parse(&format!("ann {ann}\nbob {bob}"), "tokens").unwrap();
    let TokenQuotas::ByToken { named, .. } = TokenQuotas::new(Some(tokens), &HttpLimits::default())
    else {
        panic!("tokens are known")
    };
    ["ann", "bob"].map(|name| Arc::clone(&named[name]))
}

/// Creates a session. Its worker runs as long as the transport exists.
async fn begin(
    sessions: &HttpSessions,
    owner: &Arc<TokenQuota>,
) -> Result<(SessionKey, <HttpSessions as SessionManager>::Transport), SessionsError> {
    let created = CURRENT_REQUEST.scope(CurrentRequest::new(owner), sessions.create_session());
    let (id, transport) = created.await?;
    Ok((lock(&sessions.open)[&id].key.clone(), transport))
}

#[tokio::test(start_paused = true)]
async fn a_new_session_evicts_the_longest_idle_one_of_the_same_token() {
    let (sessions, ended) = sessions();
    let [ann, bob] = owners();
    let _of_bob = begin(&sessions, &bob).await.unwrap();
    let (first, _transport) = begin(&sessions, &ann).await.unwrap();
    advance(
        MIN_IDLE_FOR_EVICTION
            .checked_sub(Duration::from_millis(1))
            .unwrap(),
    )
    .await;
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
async fn an_idle_session_ends() {
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
