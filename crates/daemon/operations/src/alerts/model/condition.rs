//! Variables and evaluation of conditions. All values are numbers. Unknown values are omitted, so a condition that
//! depends on one evaluates to unknown.

use std::collections::BTreeMap;

use agentd_conditions::{Condition, ConditionError, Input, Values, Variable};
use serde_json::{Map, Value, json};

use super::lifecycle::Truth;

/// Variable of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    ErrorRate,
    RequestsPerMinute,
    LatencyP95Ms,
    Tokens,
    Cost,
    QueuePending,
    DeadLetters,
    FailedRuns,
    CpuPercent,
    MemoryPercent,
    DiskPercent,
    BudgetPercent,
    ModelCalls,
    FailedModelCalls,
    ConsecutiveFailedRuns,
    /// Threshold of the alert itself.
    Threshold,
}

impl Figure {
    pub(crate) const ALL: [Self; 16] = [
        Self::ErrorRate,
        Self::RequestsPerMinute,
        Self::LatencyP95Ms,
        Self::Tokens,
        Self::Cost,
        Self::QueuePending,
        Self::DeadLetters,
        Self::FailedRuns,
        Self::CpuPercent,
        Self::MemoryPercent,
        Self::DiskPercent,
        Self::BudgetPercent,
        Self::ModelCalls,
        Self::FailedModelCalls,
        Self::ConsecutiveFailedRuns,
        Self::Threshold,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ErrorRate => "error_rate",
            Self::RequestsPerMinute => "requests_per_minute",
            Self::LatencyP95Ms => "latency_p95_ms",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::QueuePending => "queue_pending",
            Self::DeadLetters => "dead_letters",
            Self::FailedRuns => "failed_runs",
            Self::CpuPercent => "cpu_percent",
            Self::MemoryPercent => "memory_percent",
            Self::DiskPercent => "disk_percent",
            Self::BudgetPercent => "budget_percent",
            Self::ModelCalls => "model_calls",
            Self::FailedModelCalls => "failed_model_calls",
            Self::ConsecutiveFailedRuns => "consecutive_failed_runs",
            Self::Threshold => "threshold",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.name() == name)
    }
}

const VARIABLES: [Variable; Figure::ALL.len()] = {
    let mut variables = [Variable { name: "", max_size: 1 }; Figure::ALL.len()];
    let mut at = 0;
    while at < variables.len() {
        variables[at] = Variable { name: Figure::ALL[at].name(), max_size: 1 };
        at += 1;
    }
    variables
};

/// Known values of a period.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Figures(BTreeMap<Figure, f64>);

impl Figures {
    pub(crate) fn set(&mut self, figure: Figure, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.0.insert(figure, value);
        }
    }

    pub(crate) fn get(&self, figure: Figure) -> Option<f64> {
        self.0.get(&figure).copied()
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    /// Returns all names with their values; `null` if unknown.
    pub(crate) fn view(&self) -> Map<String, Value> {
        Figure::ALL.into_iter().map(|figure| (figure.name().to_owned(), json!(self.get(figure)))).collect()
    }

    /// Returns the known values only.
    pub(crate) fn to_json(&self) -> Value {
        self.0.iter().map(|(figure, value)| (figure.name().to_owned(), json!(value))).collect::<Map<_, _>>().into()
    }

    pub(crate) fn from_json(json: &Value) -> Self {
        let known = json.as_object().into_iter().flatten();
        Self(known.filter_map(|(name, value)| Some((Figure::named(name)?, value.as_f64()?))).collect())
    }

    fn values(&self) -> Values {
        self.0
            .iter()
            .fold(Values::new(), |values, (figure, value)| values.with(figure.name(), Input::Json(json!(value))))
    }
}

/// Parsed condition.
#[derive(Debug)]
pub(crate) struct CompiledCondition {
    condition: Condition,
    named: Vec<Figure>,
}

impl CompiledCondition {
    /// Parses a condition.
    pub(crate) fn compile(text: &str) -> Result<Self, ConditionError> {
        let condition = Condition::compile(text, &VARIABLES)?;
        let named = condition.names(&VARIABLES).iter().filter_map(|variable| Figure::named(variable.name)).collect();
        Ok(Self { condition, named })
    }

    /// Parses a condition and evaluates it with example values, so that a condition that can never be evaluated is
    /// rejected.
    pub(crate) fn check(text: &str) -> Result<Self, ConditionError> {
        let compiled = Self::compile(text)?;
        let examples =
            [1.0, 0.0].map(|value| Figures(Figure::ALL.into_iter().map(|figure| (figure, value)).collect()).values());
        compiled.condition.check_with_examples(&examples)?;
        Ok(compiled)
    }

    pub(crate) fn names(&self, figure: Figure) -> bool {
        self.named.contains(&figure)
    }

    /// Returns all variables of the condition, including the threshold.
    pub(crate) fn figures(&self) -> &[Figure] {
        &self.named
    }

    /// Returns the value shown for the alert: the first variable other than the threshold.
    pub(crate) fn value(&self, figures: &Figures) -> Option<f64> {
        figures.get(*self.named.iter().find(|figure| **figure != Figure::Threshold)?)
    }

    /// Returns the value farthest from the threshold, or the highest if the condition does not use the threshold.
    pub(crate) fn peak(&self, threshold: f64, before: Option<f64>, value: Option<f64>) -> Option<f64> {
        let distance = |value: f64| if self.names(Figure::Threshold) { (value - threshold).abs() } else { value };
        match (before, value) {
            (Some(before), Some(value)) => Some(if distance(value) > distance(before) { value } else { before }),
            (before, value) => before.or(value),
        }
    }

    /// Evaluates many conditions, each with the values of its period and its own threshold.
    pub(crate) fn evaluate_all(all: &[(&Self, &Figures, f64)]) -> Vec<Truth> {
        let values: Vec<Values> = all
            .iter()
            .map(|(condition, figures, threshold)| {
                let mut own = Figures::default();
                for figure in &condition.named {
                    own.set(
                        *figure,
                        if *figure == Figure::Threshold { Some(*threshold) } else { figures.get(*figure) },
                    );
                }
                own.values()
            })
            .collect();
        let pairs: Vec<(&Condition, &Values)> =
            all.iter().zip(&values).map(|((condition, _, _), values)| (&condition.condition, values)).collect();
        let truth = |evaluated| match evaluated {
            Ok(true) => Truth::True,
            Ok(false) => Truth::False,
            Err(_) => Truth::Unknown,
        };
        Condition::evaluate_all(&pairs).into_iter().map(truth).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(known: &[(Figure, f64)]) -> Figures {
        Figures(known.iter().copied().collect())
    }

    fn evaluate(text: &str, known: &[(Figure, f64)], threshold: f64) -> Truth {
        CompiledCondition::evaluate_all(&[(&CompiledCondition::check(text).unwrap(), &figures(known), threshold)])[0]
    }

    #[test]
    fn unknown_value_makes_condition_unknown() {
        let text = "error_rate > threshold";
        assert_eq!(evaluate(text, &[(Figure::ErrorRate, 0.5)], 0.1), Truth::True);
        assert_eq!(evaluate(text, &[(Figure::ErrorRate, 0.05)], 0.1), Truth::False);
        assert_eq!(evaluate(text, &[], 0.1), Truth::Unknown);
        assert_eq!(evaluate("error_rate != 1", &[], 0.0), Truth::Unknown);
        assert_eq!(evaluate("error_rate > 1 || dead_letters > 0", &[(Figure::DeadLetters, 2.0)], 0.0), Truth::True);
        assert_eq!(evaluate("tokens / requests_per_minute > 5", &[(Figure::Tokens, 9.0)], 0.0), Truth::Unknown);
    }

    #[test]
    fn invalid_condition_is_rejected() {
        for text in ["", "error_rat > 1", "error_rate", "error_rate > 'x'", "1 +", "cost.usd > 1", "size(tokens) > 1"] {
            assert!(CompiledCondition::check(text).is_err(), "{text}");
        }
        let huge = format!("cost > {}", "1 + ".repeat(500) + "1");
        assert!(CompiledCondition::check(&huge).is_err());
    }

    #[test]
    fn value_is_the_first_variable_and_peak_is_farthest_from_threshold() {
        let condition = CompiledCondition::check("threshold < cpu_percent && tokens > 0").unwrap();
        let known = figures(&[(Figure::CpuPercent, 70.0), (Figure::Tokens, 5.0)]);
        assert_eq!(condition.value(&known), Some(70.0));
        assert_eq!(condition.value(&Figures::default()), None);
        assert_eq!(condition.peak(50.0, Some(70.0), Some(60.0)), Some(70.0));
        assert_eq!(condition.peak(50.0, Some(70.0), Some(20.0)), Some(20.0));
        assert_eq!(condition.peak(50.0, Some(70.0), None), Some(70.0));
        let plain = CompiledCondition::check("tokens > 9").unwrap();
        assert_eq!(plain.peak(50.0, Some(10.0), Some(12.0)), Some(12.0));
        assert_eq!(plain.peak(50.0, None, Some(12.0)), Some(12.0));
    }

    #[test]
    fn figures_round_trip_through_json() {
        let known = figures(&[(Figure::Cost, 0.25), (Figure::Tokens, 7.0)]);
        assert_eq!(Figures::from_json(&known.to_json()), known);
        assert_eq!(Figures::from_json(&json!([1])), Figures::default());
        assert_eq!(known.view()["error_rate"], Value::Null);
    }
}
