//! How many calls run at once, and which ones must not run beside each other.

mod room;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use toolhost_contract::SessionKey;

use super::Place;
use super::line::Ticket;
use super::locks::Places;
use room::{Claim, Room};

/// A kind of call that has a number of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Pool {
    /// Counts in [`Limits::all`].
    #[default]
    Plain,
    Network,
    Processes,
    /// A call that does its work through other calls, which ask here for themselves. It takes its permit and nothing
    /// else: no lane, no place, and an exclusive call does not wait for it. Else it would hold what its own calls
    /// wait for.
    Agents,
    Interactive,
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "all",
            Self::Network => "network",
            Self::Processes => "processes",
            Self::Agents => "agents",
            Self::Interactive => "interactive",
        })
    }
}

/// How many calls of each pool run at once, for each user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub all: usize,
    pub network: usize,
    pub processes: usize,
    pub agents: usize,
    pub interactive: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            all: 3,
            network: 6,
            processes: 2,
            agents: 3,
            interactive: 1,
        }
    }
}

impl Limits {
    /// Calls that one user can have running at once.
    pub fn total(&self) -> usize {
        let Self {
            all,
            network,
            processes,
            agents,
            interactive,
        } = *self;
        // A call that works through others may call such a one in turn, which takes no number.
        [network, processes, agents, agents, interactive]
            .into_iter()
            .fold(all, usize::saturating_add)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the limit `{0}` is 0 and no call of it would ever run: give at least 1")]
pub struct LimitError(pub Pool);

/// Calls of serial tools that share one, as those of one plugin do, run one at a time within a session.
#[derive(Debug, PartialEq, Eq)]
pub struct Lane(u64);

impl Lane {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self::new()
    }
}

/// What a call must have before it runs.
#[derive(Debug, Clone, Copy)]
pub struct Needs<'a> {
    /// Who calls: the limits of the pools count for each user, and a lane for each session.
    pub session: &'a SessionKey,
    pub pool: Pool,
    /// The lane of its plugin, when its tool is serial.
    pub lane: Option<&'a Lane>,
    pub places: &'a [Place],
    /// Nothing else runs beside it; the rest does not matter then.
    pub exclusive: bool,
}

impl<'a> Needs<'a> {
    /// A place among the plain calls of a user, and nothing else.
    pub fn plain(session: &'a SessionKey) -> Self {
        Self {
            session,
            pool: Pool::Plain,
            lane: None,
            places: &[],
            exclusive: false,
        }
    }
}

/// Lets calls in, first come, first served. The numbers hold for each user and the lanes for each session, so that a user
/// with many long calls does not keep the others waiting; places are the same for all.
///
/// A call gets all it needs in one step or waits with empty hands, so no two calls can wait for each other. And a call
/// that waits is in the way of later ones that want its lane, its places or everything, so it is not overtaken for
/// ever; later ones that want none of these pass it, for it could not use what they take.
pub struct Pools {
    door: Mutex<Door>,
}

struct Door {
    room: Room,
    bells: HashMap<Ticket, oneshot::Sender<()>>,
}

impl Pools {
    pub fn new(limits: Limits) -> Result<Self, LimitError> {
        let door = Mutex::new(Door {
            room: Room::new(limits)?,
            bells: HashMap::new(),
        });
        Ok(Self { door })
    }

    /// Waits until the call may run. Dropping the future leaves no trace.
    pub async fn admit(&self, needs: Needs<'_>) -> Permit<'_> {
        let (permit, bell) = self.arrive(needs);
        if let Some(bell) = bell {
            bell.await
                .expect("a bell stays at the door until it rings or its permit is dropped");
        }
        permit
    }

    /// The permit exists from the start, so that whoever stops waiting gives back what they were just given.
    fn arrive(&self, needs: Needs) -> (Permit<'_>, Option<oneshot::Receiver<()>>) {
        let user = needs.session.user.clone();
        let claim = Claim::of(needs);
        let mut door = self.door();
        let (ticket, admitted) = door.room.arrive(user, claim);
        let bell = (!admitted).then(|| {
            let (bell, rings) = oneshot::channel();
            door.bells.insert(ticket, bell);
            rings
        });
        let pools = self;
        (Permit { pools, ticket }, bell)
    }

    fn leave(&self, ticket: Ticket) {
        let mut door = self.door();
        door.bells.remove(&ticket);
        for next in door.room.leave(ticket) {
            if let Some(bell) = door.bells.remove(&next) {
                // Nobody listens any more when that call is being dropped just now; its own permit then lets the
                // next one in.
                let _ = bell.send(());
            }
        }
    }

    fn door(&self) -> MutexGuard<'_, Door> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The call may run until this is dropped.
#[must_use = "the call may run only while it holds this"]
pub struct Permit<'a> {
    pools: &'a Pools,
    ticket: Ticket,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.pools.leave(self.ticket);
    }
}

impl Claim {
    fn of(needs: Needs) -> Self {
        let lane = needs.lane.map(|lane| (lane.0, needs.session.clone()));
        match needs {
            Needs {
                pool: Pool::Agents, ..
            } => Self::Agent,
            Needs {
                exclusive: true, ..
            } => Self::Everything,
            Needs { pool, places, .. } => Self::Share {
                pool,
                lane,
                places: Places::of(places),
            },
        }
    }
}

#[cfg(test)]
mod tests;
