//! Bootstrap as a state machine: what may be done before, and by whom, until the first key exists.
//!
//! Both facts of the state only ever turn from true to false. Revoking a key is no input of it.

use std::time::Duration;

use agentd_base::Timestamp;

/// How long after a start anonymous access stays open where strangers can reach them.
const OPEN_BEYOND_LOOPBACK: Duration = Duration::from_secs(15 * 60);

/// How far the daemon has been taken into possession.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootstrapState {
    /// No account was ever made.
    pub needs_setup: bool,
    /// No API key was ever made.
    pub bootstrap_mode: bool,
}

/// Who asks for a change of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// Nobody known, let in by [`AnonymousAccess::admit`].
    Anonymous,
    /// The holder of a credential with the scope `full`.
    Credential,
    /// The owner on the daemon's own machine.
    Owner,
}

/// Why a change is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    AccountExists,
    NeedsCredential,
}

impl BootstrapState {
    pub(crate) const FRESH: Self = Self { needs_setup: true, bootstrap_mode: true };

    /// Making the account.
    ///
    /// # Errors
    /// There is one already, or somebody else owns the daemon through its keys.
    pub(crate) fn register(self, by: By) -> Result<Self, Refusal> {
        if !self.bootstrap_mode && by == By::Anonymous {
            return Err(Refusal::NeedsCredential);
        }
        if !self.needs_setup {
            return Err(Refusal::AccountExists);
        }
        Ok(Self { needs_setup: false, ..self })
    }

    /// Making a key.
    ///
    /// # Errors
    /// Only the first one may be made by nobody known.
    pub(crate) fn create_key(self, by: By) -> Result<Self, Refusal> {
        if !self.bootstrap_mode && by == By::Anonymous {
            return Err(Refusal::NeedsCredential);
        }
        Ok(Self { bootstrap_mode: false, ..self })
    }
}

/// Anonymous access until the first key exists, as this process was started.
#[derive(Debug, Clone)]
pub(crate) struct AnonymousAccess {
    /// `SVC_API_KEY_REQUIRED`
    pub(crate) api_key_required: bool,
    pub(crate) listens_beyond_loopback: bool,
    pub(crate) started_at: Timestamp,
    /// Origins whose pages are ours.
    pub(crate) own_origins: Vec<String>,
}

/// Why an anonymous request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// A key was made once.
    KeyExists,
    ByConfiguration,
    ByTime,
    /// The request comes from a page that is not ours.
    ForeignOrigin,
}

impl AnonymousAccess {
    /// Whether an anonymous request may pass. `origin` is what a browser says of the page.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn admit(&self, state: BootstrapState, origin: Option<&str>, now: Timestamp) -> Result<(), Closed> {
        if !state.bootstrap_mode {
            return Err(Closed::KeyExists);
        }
        if self.api_key_required {
            return Err(Closed::ByConfiguration);
        }
        if self.listens_beyond_loopback && now.since(self.started_at) >= OPEN_BEYOND_LOOPBACK {
            return Err(Closed::ByTime);
        }
        let is_own = |origin: &str| self.own_origins.iter().any(|own| own.eq_ignore_ascii_case(origin));
        if origin.is_some_and(|origin| !is_own(origin)) {
            return Err(Closed::ForeignOrigin);
        }
        Ok(())
    }

    /// What a person should do who meets a protected endpoint before the first key was made.
    #[must_use]
    pub(crate) fn next_step(&self, state: BootstrapState, now: Timestamp) -> &'static str {
        match self.admit(state, None, now) {
            Err(Closed::ByConfiguration) => {
                "No API key exists yet, and SVC_API_KEY_REQUIRED closes setup from outside: make the first key on the \
                 daemon's machine with `agentd keys create --name NAME`"
            }
            Err(_) => {
                "No API key exists yet, and setup from outside has closed 15 minutes after the start: restart the \
                 daemon, or make the first key on its machine with `agentd keys create --name NAME`"
            }
            Ok(()) if state.needs_setup => {
                "No API key exists yet: make an account with POST /api/auth/register, then the first key with POST \
                 /api/auth/keys, and send it as `Authorization: Bearer <key>`"
            }
            Ok(()) => {
                "No API key exists yet: make the first one with POST /api/auth/keys and send it as `Authorization: \
                 Bearer <key>`; a session opens nothing before that"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Something that happens to a daemon.
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
        /// Holds a session or key, which counts only once a key exists.
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

    /// The machine as the service drives it: anonymous access first, then the state.
    struct Machine {
        state: BootstrapState,
        anonymous_access: AnonymousAccess,
        now: Timestamp,
    }

    impl Machine {
        fn by(&self, asker: Asker) -> Option<By> {
            let anonymous =
                |origin| self.anonymous_access.admit(self.state, origin, self.now).is_ok().then_some(By::Anonymous);
            match asker {
                Asker::Owner => Some(By::Owner),
                Asker::Holder if !self.state.bootstrap_mode => Some(By::Credential),
                Asker::Holder => anonymous(None),
                Asker::Anonymous { origin } => anonymous(origin),
            }
        }

        fn attempt(&mut self, asker: Asker, change: fn(BootstrapState, By) -> Result<BootstrapState, Refusal>) -> bool {
            let changed = self.by(asker).map(|by| change(self.state, by));
            if let Some(Ok(state)) = changed {
                self.state = state;
            }
            matches!(changed, Some(Ok(_)))
        }
    }

    /// The rules of the interface over the plain history of what succeeded.
    #[derive(Default)]
    struct Reference {
        accounts_made: usize,
        keys_made: usize,
        minutes_matter: bool,
        seconds_up: u64,
        key_required: bool,
    }

    impl Reference {
        fn lets_in(&self, asker: Asker) -> bool {
            let open = self.keys_made == 0 && !self.key_required && !(self.minutes_matter && self.seconds_up >= 900);
            match asker {
                Asker::Owner => true,
                Asker::Holder => self.keys_made > 0 || open,
                Asker::Anonymous { origin } => open && !matches!(origin, Some("https://evil.example" | "null")),
            }
        }
    }

    proptest! {
        #[test]
        fn behaves_as_the_rules_over_its_history(inputs in prop::collection::vec(input(), 0..60)) {
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
                        let expected = reference.lets_in(asker) && reference.accounts_made == 0;
                        prop_assert_eq!(machine.attempt(asker, BootstrapState::register), expected);
                        reference.accounts_made += usize::from(expected);
                    }
                    Input::CreateKey(asker) => {
                        let expected = reference.lets_in(asker);
                        prop_assert_eq!(machine.attempt(asker, BootstrapState::create_key), expected);
                        reference.keys_made += usize::from(expected);
                    }
                    // No input of the machine: what was made stays made.
                    Input::RevokeEveryKey => {}
                    Input::Wait(seconds) => {
                        machine.now = machine.now + Duration::from_secs(seconds);
                        reference.seconds_up += seconds;
                    }
                    Input::Restart { api_key_required, listens_beyond_loopback } => {
                        machine.anonymous_access = anonymous_access(api_key_required, listens_beyond_loopback, machine.now);
                        reference.key_required = api_key_required;
                        reference.minutes_matter = listens_beyond_loopback;
                        reference.seconds_up = 0;
                    }
                }
                prop_assert_eq!(machine.state.needs_setup, reference.accounts_made == 0);
                prop_assert_eq!(machine.state.bootstrap_mode, reference.keys_made == 0);
                prop_assert!(reference.accounts_made <= 1);
                // Neither fact ever comes back.
                prop_assert!(before.needs_setup || !machine.state.needs_setup);
                prop_assert!(before.bootstrap_mode || !machine.state.bootstrap_mode);
                // Every state has something to tell a person who is refused.
                prop_assert!(machine.anonymous_access.next_step(machine.state, machine.now).len() > 40);
            }
        }
    }

    #[test]
    fn says_what_to_do_next() {
        let anonymous_access = |api_key_required, listens_beyond_loopback| AnonymousAccess {
            api_key_required,
            listens_beyond_loopback,
            started_at: Timestamp::default(),
            own_origins: Vec::new(),
        };
        let later = Timestamp::default() + OPEN_BEYOND_LOOPBACK;
        let registered = BootstrapState { needs_setup: false, bootstrap_mode: true };
        let step = |anonymous_access: AnonymousAccess, state| anonymous_access.next_step(state, later);
        assert!(step(anonymous_access(false, false), BootstrapState::FRESH).contains("/api/auth/register"));
        assert!(!step(anonymous_access(false, false), registered).contains("/api/auth/register"));
        assert!(step(anonymous_access(true, false), registered).contains("agentd keys create"));
        assert!(step(anonymous_access(false, true), registered).contains("restart"));
    }
}
