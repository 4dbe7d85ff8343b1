//! Converts principals to owner keys of the process crate, which has no notion of principals.

use toolhost_contract::{PluginName, Principal, SessionKey, UserId};
use toolhost_process::{JobOwner, OwnerKey, SessionOwner};

/// Owner of the programs of a session.
pub fn session_owner(key: &SessionKey) -> SessionOwner {
    let user = match &key.user {
        UserId::Local => OwnerKey::new(["local"]),
        UserId::Token(name) => OwnerKey::new(["token", name]),
    };
    SessionOwner {
        user,
        session: OwnerKey::new([key.session.as_str()]),
    }
}

/// Owner of a plugin's jobs in the caller's session. Other plugins cannot see them.
pub(crate) fn job_owner(caller: &Principal, plugin: &PluginName) -> JobOwner {
    JobOwner {
        session: session_owner(&caller.session_key()),
        group: OwnerKey::new([plugin.as_str()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_10_different_sessions_are_different_owners() {
        let key = |user: Option<&str>, session| SessionKey::new(UserId::from_name(user), session);
        let keys = [
            key(None, "a"),
            key(None, "b"),
            key(Some("local"), "a"),
            key(Some("a/b"), "c"),
            key(Some("a"), "b/c"),
        ];
        for (one, left) in keys.iter().enumerate() {
            for (other, right) in keys.iter().enumerate() {
                let same = session_owner(left) == session_owner(right);
                assert_eq!(same, one == other, "{left:?} {right:?}");
            }
        }
    }
}
