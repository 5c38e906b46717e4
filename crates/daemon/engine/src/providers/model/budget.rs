//! Whether a call fits into what is left of a budget, and how much it may write then.
//!
//! Tokens are set aside before a call (an upper bound of what it can use) and settled with its usage, so that calls
//! which run at once cannot each believe that the same rest is theirs. A call that is alone may take the whole rest,
//! with its output cut to it, so that a budget is used to its end; while others run, it must leave room for an answer
//! that is of use, or wait for what they give back.
//!
//! A budget that is smaller than the system prompt and the tools of a single call would never be used at all. There
//! one call after the other may begin until it is used up, as long as what is asked is smaller than the budget.

/// Of an output limit that nobody set, and no table knows.
pub(crate) const ASSUMED_OUTPUT: u64 = 8_192;
/// Fewer tokens are no answer, unless fewer are wanted.
const SMALLEST_ANSWER: u64 = 16;
/// What is set aside beside other calls has at least so much room for an answer.
const USEFUL_ANSWER: u64 = 1_024;

/// What a call can use at most, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallBound {
    /// The whole prompt.
    pub(crate) prompt: u64,
    /// Of the prompt: the messages, without the system prompt and the tools.
    pub(crate) messages: u64,
    pub(crate) output: u64,
}

/// A budget at one moment, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetState {
    pub(crate) limit: u64,
    pub(crate) used: u64,
    /// For other calls that are under way.
    pub(crate) reserved: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// So many tokens of output at most.
    Granted(u64),
    /// Not now: too much is set aside for others.
    Busy,
    UsedUp,
}

impl BudgetState {
    pub(crate) fn fit(&self, call: &CallBound) -> Fit {
        let free = self.limit.saturating_sub(self.used);
        let smallest = SMALLEST_ANSWER.min(call.output);
        let is_tiny = self.limit <= call.prompt.saturating_add(smallest);
        let room = match is_tiny {
            false => free.saturating_sub(call.prompt),
            true if call.messages < self.limit => free,
            true => 0,
        };
        if room == 0 || (!is_tiny && room < smallest) {
            return Fit::UsedUp;
        }
        if self.reserved == 0 {
            return Fit::Granted(call.output.min(room));
        }
        let left = free.saturating_sub(self.reserved).saturating_sub(call.prompt);
        match left >= call.output.min(USEFUL_ANSWER) && left > 0 && !is_tiny {
            true => Fit::Granted(call.output.min(left)),
            false => Fit::Busy,
        }
    }
}

impl CallBound {
    /// What is set aside for it when it may write so much.
    pub(crate) fn reserved(&self, output: u64) -> u64 {
        self.prompt.saturating_add(output)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const CALL: CallBound = CallBound { prompt: 500, messages: 100, output: 2_000 };

    fn fit(limit: u64, used: u64, reserved: u64) -> Fit {
        BudgetState { limit, used, reserved }.fit(&CALL)
    }

    #[test]
    fn the_rest_goes_to_a_call_that_is_alone() {
        assert_eq!(fit(10_000, 0, 0), Fit::Granted(2_000));
        assert_eq!(fit(10_000, 9_000, 0), Fit::Granted(500));
        assert_eq!(fit(10_000, 9_484, 0), Fit::Granted(16));
        // The prompt fits, an answer does not.
        assert_eq!(fit(10_000, 9_485, 0), Fit::UsedUp);
        assert_eq!(fit(10_000, 10_000, 0), Fit::UsedUp);
        assert_eq!(fit(10_000, 12_000, 0), Fit::UsedUp);
    }

    #[test]
    fn beside_others_an_answer_must_be_of_use() {
        assert_eq!(fit(10_000, 0, 7_500), Fit::Granted(2_000));
        assert_eq!(fit(10_000, 0, 8_000), Fit::Granted(1_500));
        assert_eq!(fit(10_000, 0, 8_476), Fit::Granted(1_024));
        assert_eq!(fit(10_000, 0, 8_477), Fit::Busy);
        assert_eq!(fit(10_000, 0, 10_000), Fit::Busy);
        // Whatever the others give back, this call will not fit.
        assert_eq!(fit(10_000, 9_600, 400), Fit::UsedUp);
    }

    #[test]
    fn a_budget_below_one_prompt_is_used_one_call_after_the_other() {
        assert_eq!(fit(400, 0, 0), Fit::Granted(400));
        assert_eq!(fit(400, 399, 0), Fit::Granted(1));
        assert_eq!(fit(400, 0, 500), Fit::Busy);
        assert_eq!(fit(400, 400, 0), Fit::UsedUp);
        // What is asked is itself too long for it.
        assert_eq!(fit(100, 0, 0), Fit::UsedUp);
        assert_eq!(fit(0, 0, 0), Fit::UsedUp);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Begin {
            prompt: u64,
            messages: u64,
            output: u64,
        },
        /// Ends the call at this place, having used this share of what was set aside.
        End {
            place: usize,
            percent: u64,
        },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let begin = (1..2_000_u64, 0..2_000_u64, 1..5_000_u64).prop_map(|(prompt, messages, output)| Step::Begin {
            prompt,
            messages: messages.min(prompt),
            output,
        });
        let end = (0..32_usize, 0..=100_u64).prop_map(|(place, percent)| Step::End { place, percent });
        prop::collection::vec(prop_oneof![2 => begin, 1 => end], 1..200)
    }

    proptest! {
        #[test]
        fn calls_that_run_at_once_stay_within_the_budget(limit in 2_100..60_000_u64, steps in steps()) {
            let (mut used, mut running) = (0, BTreeMap::new());
            for (id, step) in steps.into_iter().enumerate() {
                let reserved: u64 = running.values().sum();
                match step {
                    Step::Begin { prompt, messages, output } => {
                        let call = CallBound { prompt, messages, output };
                        match (BudgetState { limit, used, reserved }).fit(&call) {
                            Fit::Granted(granted) => {
                                prop_assert!(granted > 0 && granted <= output);
                                running.insert(id, call.reserved(granted));
                            }
                            // Nobody waits for nobody.
                            Fit::Busy => prop_assert!(reserved > 0),
                            Fit::UsedUp => prop_assert!(used + prompt + 16.min(output) > limit),
                        }
                    }
                    Step::End { place, percent } => {
                        if let Some(id) = running.keys().copied().nth(place) {
                            used += running.remove(&id).unwrap_or(0) * percent / 100;
                        }
                    }
                }
                prop_assert!(used + running.values().sum::<u64>() <= limit);
            }
        }

        #[test]
        fn a_budget_can_be_used_to_its_end(limit in 0..20_000_u64, prompt in 1..3_000_u64, output in 1..3_000_u64) {
            let call = CallBound { prompt, messages: 1, output };
            let mut used = 0;
            while let Fit::Granted(granted) = (BudgetState { limit, used, reserved: 0 }).fit(&call) {
                used += call.reserved(granted);
            }
            // Less is left than one more call takes, and of a tiny budget nothing.
            prop_assert!(limit.saturating_sub(used) < prompt + 16);
            prop_assert!(limit <= 1 || used > 0);
        }
    }
}
