//! State machine of bootstrap: who may register and create keys until the first key exists.
//!
//! Both flags of the state change only from true to false. Revoking a key does not affect it.

use std::time::Duration;

use agentd_base::Timestamp;

/// Duration of anonymous access after the start if the daemon listens beyond loopback.
const ANONYMOUS_ACCESS_DURATION: Duration = Duration::from_secs(15 * 60);

/// Progress of the initial setup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootstrapState {
    /// Whether no account was ever created.
    pub needs_setup: bool,
    /// Whether no API key was ever created.
    pub bootstrap_mode: bool,
}

/// Requester of a state change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requester {
    /// Client without a credential, admitted by [`AnonymousAccess::admit`].
    Anonymous,
    /// Holder of a credential with the scope `full`.
    Credential,
    /// Owner on the daemon's machine, through the private socket.
    Owner,
}

/// Reason for rejecting a state change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    AccountExists,
    NeedsCredential,
}

impl BootstrapState {
    pub(crate) const FRESH: Self = Self { needs_setup: true, bootstrap_mode: true };

    /// Returns the state after creating the account.
    ///
    /// # Errors
    /// `AccountExists`, or `NeedsCredential` if a key exists and the requester is anonymous.
    pub(crate) fn register(self, requester: Requester) -> Result<Self, Refusal> {
        if !self.bootstrap_mode && requester == Requester::Anonymous {
            return Err(Refusal::NeedsCredential);
        }
        if !self.needs_setup {
            return Err(Refusal::AccountExists);
        }
        Ok(Self { needs_setup: false, ..self })
    }

    /// Returns the state after creating a key.
    ///
    /// # Errors
    /// `NeedsCredential` if a key exists and the requester is anonymous.
    pub(crate) fn create_key(self, requester: Requester) -> Result<Self, Refusal> {
        if !self.bootstrap_mode && requester == Requester::Anonymous {
            return Err(Refusal::NeedsCredential);
        }
        Ok(Self { bootstrap_mode: false, ..self })
    }
}

/// Rules of anonymous access until the first key exists, from the options of this process.
#[derive(Debug, Clone)]
pub(crate) struct AnonymousAccess {
    /// Value of `SVC_API_KEY_REQUIRED`.
    pub(crate) api_key_required: bool,
    pub(crate) listens_beyond_loopback: bool,
    pub(crate) started_at: Timestamp,
    /// Origins of the daemon's own pages.
    pub(crate) own_origins: Vec<String>,
}

/// Reason for rejecting an anonymous request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClosedReason {
    /// A key has been created.
    KeyExists,
    ByConfiguration,
    ByTime,
    /// The request comes from a page of another origin.
    ForeignOrigin,
}

impl AnonymousAccess {
    /// Checks whether an anonymous request is admitted. `origin` is the `Origin` header of the request.
    ///
    /// # Errors
    /// `ClosedReason`, if it is not.
    pub(crate) fn admit(
        &self,
        state: BootstrapState,
        origin: Option<&str>,
        now: Timestamp,
    ) -> Result<(), ClosedReason> {
        if !state.bootstrap_mode {
            return Err(ClosedReason::KeyExists);
        }
        if self.api_key_required {
            return Err(ClosedReason::ByConfiguration);
        }
        if self.listens_beyond_loopback && now.since(self.started_at) >= ANONYMOUS_ACCESS_DURATION {
            return Err(ClosedReason::ByTime);
        }
        let is_own = |origin: &str| self.own_origins.iter().any(|own| own.eq_ignore_ascii_case(origin));
        if origin.is_some_and(|origin| !is_own(origin)) {
            return Err(ClosedReason::ForeignOrigin);
        }
        Ok(())
    }

    /// Instruction for a client that calls a protected endpoint before the first key was created.
    #[must_use]
    pub(crate) fn next_step(&self, state: BootstrapState, now: Timestamp) -> &'static str {
        match self.admit(state, None, now) {
            Err(ClosedReason::ByConfiguration) => {
                "No API key exists yet, and SVC_API_KEY_REQUIRED disables setup over the network: create the first key on the \
                daemon's machine with `agentd keys create --name NAME`"
            }
            Err(_) => {
                "No API key exists yet, and setup over the network closed 15 minutes after the start: restart the \
                daemon, or create the first key on its machine with `agentd keys create --name NAME`"
            }
            Ok(()) if state.needs_setup => {
                "No API key exists yet: create an account with POST /api/auth/register, then the first key with POST \
                /api/auth/keys, and send it as `Authorization: Bearer <key>`"
            }
            Ok(()) => {
                "No API key exists yet: create the first one with POST /api/auth/keys and send it as `Authorization: \
                Bearer <key>`; sessions grant no access before that"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Input of the state machine.
    #[derive(Debug, Clone)]
    enum Input {
        Register(Asker),
        CreateKey(Asker),
        RevokeEveryKey,
        Wait(u64),
        Restart { api_key_required: bool, listens_beyond_loopback: bool },
    }

    #[derive(Debug, Clone, Copy)]
    enum Asker {
        Anonymous {
            origin: Option<&'static str>,
        },
        /// Holder of a session or key, which counts only once a key exists.
        Holder,
        Owner,
    }

    const OWN: &str = "http://localhost:7878";

    fn asker() -> impl Strategy<Value = Asker> {
        prop_oneof![
            prop::sample::select(vec![
                None,
                Some(OWN),
                Some("HTTP://LOCALHOST:7878"),
                Some("https://evil.example"),
                Some("null")
            ])
            .prop_map(|origin| Asker::Anonymous { origin }),
            Just(Asker::Holder),
            Just(Asker::Owner),
        ]
    }

    fn input() -> impl Strategy<Value = Input> {
        prop_oneof![
            3 => asker().prop_map(Input::Register),
            3 => asker().prop_map(Input::CreateKey),
            1 => Just(Input::RevokeEveryKey),
            2 => (0u64..20 * 60).prop_map(Input::Wait),
            1 => any::<(bool, bool)>().prop_map(|(api_key_required, listens_beyond_loopback)| Input::Restart {
                api_key_required,
                listens_beyond_loopback
            }),
        ]
    }

    /// State machine as used by the service: anonymous access is checked first, then the state.
    struct Machine {
        state: BootstrapState,
        anonymous_access: AnonymousAccess,
        now: Timestamp,
    }

    impl Machine {
        fn requester(&self, asker: Asker) -> Option<Requester> {
            let anonymous = |origin| {
                self.anonymous_access.admit(self.state, origin, self.now).is_ok().then_some(Requester::Anonymous)
            };
            match asker {
                Asker::Owner => Some(Requester::Owner),
                Asker::Holder if !self.state.bootstrap_mode => Some(Requester::Credential),
                Asker::Holder => anonymous(None),
                Asker::Anonymous { origin } => anonymous(origin),
            }
        }

        fn attempt(
            &mut self,
            asker: Asker,
            change: fn(BootstrapState, Requester) -> Result<BootstrapState, Refusal>,
        ) -> bool {
            let changed = self.requester(asker).map(|requester| change(self.state, requester));
            if let Some(Ok(state)) = changed {
                self.state = state;
            }
            matches!(changed, Some(Ok(_)))
        }
    }

    /// Reference implementation of the specified rules, based on the history of successful inputs.
    #[derive(Default)]
    struct Reference {
        accounts_created: usize,
        keys_created: usize,
        has_time_limit: bool,
        seconds_up: u64,
        key_required: bool,
    }

    impl Reference {
        fn is_admitted(&self, asker: Asker) -> bool {
            let open = self.keys_created == 0 && !self.key_required && !(self.has_time_limit && self.seconds_up >= 900);
            match asker {
                Asker::Owner => true,
                Asker::Holder => self.keys_created > 0 || open,
                Asker::Anonymous { origin } => open && !matches!(origin, Some("https://evil.example" | "null")),
            }
        }
    }

    proptest! {
        #[test]
        fn state_machine_matches_reference_for_any_history(inputs in prop::collection::vec(input(), 0..60)) {
            let anonymous_access = |api_key_required, listens_beyond_loopback, started_at| AnonymousAccess {
                api_key_required,
                listens_beyond_loopback,
                started_at,
                own_origins: vec![OWN.to_owned()],
            };
            let mut machine = Machine {
                state: BootstrapState::FRESH,
                anonymous_access: anonymous_access(false, false, Timestamp::default()),
                now: Timestamp::default(),
            };
            let mut reference = Reference::default();
            for input in inputs {
                let before = machine.state;
                match input {
                    Input::Register(asker) => {
                        let expected = reference.is_admitted(asker) && reference.accounts_created == 0;
                        prop_assert_eq!(machine.attempt(asker, BootstrapState::register), expected);
                        reference.accounts_created += usize::from(expected);
                    }
                    Input::CreateKey(asker) => {
                        let expected = reference.is_admitted(asker);
                        prop_assert_eq!(machine.attempt(asker, BootstrapState::create_key), expected);
                        reference.keys_created += usize::from(expected);
                    }
                    // No effect on the state.
                    Input::RevokeEveryKey => {}
                    Input::Wait(seconds) => {
                        machine.now = machine.now + Duration::from_secs(seconds);
                        reference.seconds_up += seconds;
                    }
                    Input::Restart { api_key_required, listens_beyond_loopback } => {
                        machine.anonymous_access = anonymous_access(api_key_required, listens_beyond_loopback, machine.now);
                        reference.key_required = api_key_required;
                        reference.has_time_limit = listens_beyond_loopback;
                        reference.seconds_up = 0;
                    }
                }
                prop_assert_eq!(machine.state.needs_setup, reference.accounts_created == 0);
                prop_assert_eq!(machine.state.bootstrap_mode, reference.keys_created == 0);
                prop_assert!(reference.accounts_created <= 1);
                // The flags never become true again.
                prop_assert!(before.needs_setup || !machine.state.needs_setup);
                prop_assert!(before.bootstrap_mode || !machine.state.bootstrap_mode);
                // Every state has an instruction for rejected clients.
                prop_assert!(machine.anonymous_access.next_step(machine.state, machine.now).len() > 40);
            }
        }
    }

    #[test]
    fn next_step_depends_on_state_and_options() {
        let anonymous_access = |api_key_required, listens_beyond_loopback| AnonymousAccess {
            api_key_required,
            listens_beyond_loopback,
            started_at: Timestamp::default(),
            own_origins: Vec::new(),
        };
        let later = Timestamp::default() + ANONYMOUS_ACCESS_DURATION;
        let registered = BootstrapState { needs_setup: false, bootstrap_mode: true };
        let step = |anonymous_access: AnonymousAccess, state| anonymous_access.next_step(state, later);
        assert!(step(anonymous_access(false, false), BootstrapState::FRESH).contains("/api/auth/register"));
        assert!(!step(anonymous_access(false, false), registered).contains("/api/auth/register"));
        assert!(step(anonymous_access(true, false), registered).contains("agentd keys create"));
        assert!(step(anonymous_access(false, true), registered).contains("restart"));
    }
}
