//! Decides whether a call fits into the remaining budget and how much output it may generate.
//!
//! Tokens are reserved before a call (an upper bound of its usage) and settled with its actual usage, so that
//! concurrent calls cannot use the same remainder. A call without concurrent calls may use the whole remainder, with
//! its output limited to it, so that a budget can be used completely. With concurrent calls, it must leave room for a
//! useful answer, or wait until they release tokens.
//!
//! A budget smaller than the system prompt and the tools of a single call could never be used. In that case, calls may
//! start one at a time until it is exhausted, as long as the messages are smaller than the budget.

/// Assumed output limit in tokens if neither the settings nor the price table define one.
pub(crate) const ASSUMED_OUTPUT: u64 = 8_192;
/// Minimum output in tokens, unless the call requests less.
const MIN_OUTPUT: u64 = 16;
/// Minimum output in tokens that a call needs while others are reserved.
const MIN_SHARED_OUTPUT: u64 = 1_024;

/// Upper bound of a call's usage, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallBound {
    /// The whole prompt.
    pub(crate) prompt: u64,
    /// Part of the prompt: the messages, without the system prompt and the tools.
    pub(crate) messages: u64,
    pub(crate) output: u64,
}

/// State of a budget, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetState {
    pub(crate) limit: u64,
    pub(crate) used: u64,
    /// Reserved for other calls in progress.
    pub(crate) reserved: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Maximum number of output tokens.
    Granted(u64),
    /// Currently too much is reserved for other calls.
    Busy,
    Exhausted,
}

impl BudgetState {
    pub(crate) fn fit(&self, call: &CallBound) -> Fit {
        let free = self.limit.saturating_sub(self.used);
        let min_output = MIN_OUTPUT.min(call.output);
        let is_tiny = self.limit <= call.prompt.saturating_add(min_output);
        let available = match is_tiny {
            false => free.saturating_sub(call.prompt),
            true if call.messages < self.limit => free,
            true => 0,
        };
        if available == 0 || (!is_tiny && available < min_output) {
            return Fit::Exhausted;
        }
        if self.reserved == 0 {
            return Fit::Granted(call.output.min(available));
        }
        let left = free.saturating_sub(self.reserved).saturating_sub(call.prompt);
        match left >= call.output.min(MIN_SHARED_OUTPUT) && left > 0 && !is_tiny {
            true => Fit::Granted(call.output.min(left)),
            false => Fit::Busy,
        }
    }
}

impl CallBound {
    /// Number of tokens to reserve for this call with `output` output tokens.
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
    fn single_call_receives_the_remainder() {
        assert_eq!(fit(10_000, 0, 0), Fit::Granted(2_000));
        assert_eq!(fit(10_000, 9_000, 0), Fit::Granted(500));
        assert_eq!(fit(10_000, 9_484, 0), Fit::Granted(16));
        // The prompt fits, an answer does not.
        assert_eq!(fit(10_000, 9_485, 0), Fit::Exhausted);
        assert_eq!(fit(10_000, 10_000, 0), Fit::Exhausted);
        assert_eq!(fit(10_000, 12_000, 0), Fit::Exhausted);
    }

    #[test]
    fn concurrent_call_requires_a_useful_output() {
        assert_eq!(fit(10_000, 0, 7_500), Fit::Granted(2_000));
        assert_eq!(fit(10_000, 0, 8_000), Fit::Granted(1_500));
        assert_eq!(fit(10_000, 0, 8_476), Fit::Granted(1_024));
        assert_eq!(fit(10_000, 0, 8_477), Fit::Busy);
        assert_eq!(fit(10_000, 0, 10_000), Fit::Busy);
        // Even if the others release everything, this call does not fit.
        assert_eq!(fit(10_000, 9_600, 400), Fit::Exhausted);
    }

    #[test]
    fn tiny_budget_allows_one_call_at_a_time() {
        assert_eq!(fit(400, 0, 0), Fit::Granted(400));
        assert_eq!(fit(400, 399, 0), Fit::Granted(1));
        assert_eq!(fit(400, 0, 500), Fit::Busy);
        assert_eq!(fit(400, 400, 0), Fit::Exhausted);
        // The messages alone exceed the budget.
        assert_eq!(fit(100, 0, 0), Fit::Exhausted);
        assert_eq!(fit(0, 0, 0), Fit::Exhausted);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Begin {
            prompt: u64,
            messages: u64,
            output: u64,
        },
        /// Ends the call at this index; it used this percentage of its reservation.
        End {
            index: usize,
            percent: u64,
        },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let begin = (1..2_000_u64, 0..2_000_u64, 1..5_000_u64).prop_map(|(prompt, messages, output)| Step::Begin {
            prompt,
            messages: messages.min(prompt),
            output,
        });
        let end = (0..32_usize, 0..=100_u64).prop_map(|(index, percent)| Step::End { index, percent });
        prop::collection::vec(prop_oneof![2 => begin, 1 => end], 1..200)
    }

    proptest! {
        #[test]
        fn concurrent_calls_stay_within_the_budget(limit in 2_100..60_000_u64, steps in steps()) {
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
                            // A call only waits for other calls.
                            Fit::Busy => prop_assert!(reserved > 0),
                            Fit::Exhausted => prop_assert!(used + prompt + 16.min(output) > limit),
                        }
                    }
                    Step::End { index, percent } => {
                        if let Some(id) = running.keys().copied().nth(index) {
                            used += running.remove(&id).unwrap_or(0) * percent / 100;
                        }
                    }
                }
                prop_assert!(used + running.values().sum::<u64>() <= limit);
            }
        }

        #[test]
        fn budget_can_be_used_completely(limit in 0..20_000_u64, prompt in 1..3_000_u64, output in 1..3_000_u64) {
            let call = CallBound { prompt, messages: 1, output };
            let mut used = 0;
            while let Fit::Granted(granted) = (BudgetState { limit, used, reserved: 0 }).fit(&call) {
                used += call.reserved(granted);
            }
            // The remainder is less than another call needs; a tiny budget is used completely.
            prop_assert!(limit.saturating_sub(used) < prompt + 16);
            prop_assert!(limit <= 1 || used > 0);
        }
    }
}
