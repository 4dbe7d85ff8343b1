//! Property tests of the admission rules against a simple model.

use proptest::prelude::*;

use super::super::super::PathLock;
use super::*;

const LIMITS: PoolLimits = PoolLimits {
    all: 3,
    network: 2,
    processes: 1,
    agents: 2,
    interactive: 1,
};

#[derive(Debug, Clone)]
enum Step {
    Arrive(UserId, Claim),
    /// Index of a running or waiting call, modulo their number.
    Leave(usize),
}

fn claim() -> impl proptest::strategy::Strategy<Value = Claim> {
    let pool = prop_oneof![
        3 => Just(Pool::Plain),
        1 => Just(Pool::Network),
        1 => Just(Pool::Processes),
        1 => Just(Pool::Interactive),
    ];
    let path = prop::sample::select(vec!["/a", "/a/b", "/a/b/c", "/ab", "/c", "/"]);
    let lock = (path, any::<bool>()).prop_map(|(path, write)| {
        if write {
            PathLock::write(path)
        } else {
            PathLock::read(path)
        }
    });
    let lane = (0..3_u64, user()).prop_map(|(lane, user)| (lane, SessionKey::new(user, "s")));
    let lane = prop::option::weighted(0.3, lane);
    let share =
        (pool, lane, prop::collection::vec(lock, 0..3)).prop_map(|(pool, lane, path_locks)| {
            let path_locks = PathLocks::of(&path_locks);
            Claim::Share {
                pool,
                lane,
                path_locks,
            }
        });
    prop_oneof![10 => share, 1 => Just(Claim::Everything), 1 => Just(Claim::Agent(Pool::Agents))]
}

fn user() -> impl proptest::strategy::Strategy<Value = UserId> {
    prop::sample::select(vec![
        UserId::Local,
        UserId::token("ann"),
        UserId::token("bob"),
    ])
}

fn steps() -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (user(), claim()).prop_map(|(user, claim)| Step::Arrive(user, claim)),
        2 => any::<usize>().prop_map(Step::Leave),
    ];
    prop::collection::vec(step, 0..120)
}

/// A simple model: all calls in order of arrival.
struct AdmissionModel {
    room: AdmissionState,
    here: Vec<(Ticket, UserId, Claim, bool)>,
}

impl AdmissionModel {
    fn arrive(&mut self, user: UserId, claim: Claim) {
        let (ticket, runs) = self.room.arrive(user.clone(), claim.clone());
        self.here.push((ticket, user, claim, false));
        self.admit(runs.then_some(ticket).into_iter().collect());
    }

    fn leave(&mut self, index: usize) {
        let (ticket, ..) = self.here.remove(index);
        let admitted = self.room.leave(ticket);
        assert_eq!(self.room.leave(ticket), [], "a call left twice");
        self.admit(admitted);
    }

    fn admit(&mut self, tickets: Vec<Ticket>) {
        for ticket in tickets {
            let index = self.here.iter().position(|(one, ..)| *one == ticket);
            let index = index.expect("an unknown call was admitted");
            let (_, user, claim, runs) = &self.here[index];
            assert!(!runs, "a call was admitted twice");
            assert!(
                !self.here[..index].iter().enumerate().any(
                    |(older, (_, whose, other, runs))| !runs
                        && whose == user
                        && other.pool() == claim.pool()
                        && claim.pool().is_some()
                        && !self.is_blocked(older)
                ),
                "{ticket:?} went before an older one that needs nothing but the same pool"
            );
            self.here[index].3 = true;
        }
        self.check();
    }

    fn is_blocked(&self, index: usize) -> bool {
        let claim = &self.here[index].2;
        self.here[..index]
            .iter()
            .any(|(_, _, other, _)| other.conflicts_with(claim))
    }

    fn running(&self, user: &UserId, pool: Pool) -> usize {
        self.here
            .iter()
            .filter(|(_, whose, claim, runs)| *runs && whose == user && claim.pool() == Some(pool))
            .count()
    }

    fn check(&self) {
        let limit = |pool| match pool {
            Pool::Plain => LIMITS.all,
            Pool::Network => LIMITS.network,
            Pool::Processes => LIMITS.processes,
            Pool::Agents | Pool::Background => LIMITS.agents,
            Pool::Interactive => LIMITS.interactive,
        };
        for (index, (ticket, user, claim, runs)) in self.here.iter().enumerate() {
            if *runs {
                assert!(
                    claim
                        .pool()
                        .is_none_or(|pool| self.running(user, pool) <= limit(pool))
                );
                let mut others = self.here.iter().filter(|(other, ..)| other != ticket);
                assert!(
                    !others.any(|(_, _, other, runs)| *runs && other.conflicts_with(claim)),
                    "{claim:?} runs together with a conflicting call"
                );
            } else {
                let full = claim
                    .pool()
                    .is_some_and(|pool| self.running(user, pool) == limit(pool));
                assert!(
                    full || self.is_blocked(index),
                    "{claim:?} waits for nothing: a wake-up was lost"
                );
            }
        }
    }
}

proptest! {
    /// the limit is never exceeded, conflicting calls never run together, no call waits without a reason,
    /// and the oldest goes first.
    #[test]
    fn r_174_every_step_keeps_the_invariants_and_every_call_is_admitted(steps in steps()) {
        let mut house = AdmissionModel { room: AdmissionState::new(LIMITS).unwrap(), here: Vec::new() };
        for step in steps {
            match step {
                Step::Arrive(user, claim) => house.arrive(user, claim),
                Step::Leave(index) if !house.here.is_empty() => house.leave(index % house.here.len()),
                Step::Leave(_) => {}
            }
        }
        // Only running calls can end, so this terminates only without deadlocks.
        while !house.here.is_empty() {
            let running = house.here.iter().rposition(|(.., runs)| *runs);
            house.leave(running.expect("a call runs while calls are registered"));
        }
        prop_assert!(house.room.counters.is_empty(), "counters of ended calls remain");
        prop_assert_eq!(house.room.line.len(), 0);
    }
}
