use proptest::prelude::*;

use super::*;

fn chain(jobs: &str, edges: &[(&str, &str, ChainEdgeType)]) -> Chain {
    Chain {
        id: "chain_1".into(),
        name: "c".to_owned(),
        jobs: jobs.chars().map(|job| job.to_string().into()).collect(),
        edges: edges
            .iter()
            .map(|(from, to, kind)| ChainEdge { from: (*from).into(), to: (*to).into(), kind: *kind })
            .collect(),
        created_at: Timestamp::default(),
    }
}

fn steps(of: &[(&str, RunStatus)]) -> Vec<ChainStep> {
    let step = |(job, status): &(&str, RunStatus)| ChainStep {
        job_id: (*job).into(),
        run_id: format!("run_{job}").into(),
        status: *status,
    };
    of.iter().map(step).collect()
}

fn begins(chain: &Chain, of: &[(&str, RunStatus)]) -> Vec<String> {
    match chain.advance(&steps(of)) {
        Advance::Begin(jobs) => jobs.iter().map(ToString::to_string).collect(),
        Advance::Over(status) => vec![format!("over {}", status.as_str())],
    }
}

use ChainEdgeType::{OnComplete, OnFailure, OnSuccess};
use RunStatus::{Failed, Running, Skipped, Success};

#[test]
fn a_diamond_waits_for_both_sides() {
    let diamond =
        chain("abcd", &[("a", "b", OnSuccess), ("a", "c", OnSuccess), ("b", "d", OnSuccess), ("c", "d", OnSuccess)]);
    assert_eq!(begins(&diamond, &[("a", Running)]), [""; 0]);
    assert_eq!(begins(&diamond, &[("a", Success)]), ["b", "c"]);
    assert_eq!(begins(&diamond, &[("a", Success), ("b", Success), ("c", Running)]), [""; 0]);
    assert_eq!(begins(&diamond, &[("a", Success), ("b", Success), ("c", Success)]), ["d"]);
    assert_eq!(begins(&diamond, &[("a", Success), ("b", Failed), ("c", Success)]), ["over failed"]);
    let all = [("a", Success), ("b", Success), ("c", Success), ("d", Success)];
    assert_eq!(begins(&diamond, &all), ["over success"]);
}

#[test]
fn one_failure_calls_for_the_handler_once() {
    let handled = chain("abh", &[("a", "h", OnFailure), ("b", "h", OnFailure)]);
    assert_eq!(begins(&handled, &[("a", Failed), ("b", Running)]), [""; 0]);
    assert_eq!(begins(&handled, &[("a", Failed), ("b", Success)]), ["h"]);
    assert_eq!(begins(&handled, &[("a", Failed), ("b", Success), ("h", Success)]), ["over success"]);
    assert_eq!(begins(&handled, &[("a", Success), ("b", Success)]), ["over success"]);
    // Started by its root alone, `b` takes no part.
    assert_eq!(begins(&handled, &[("a", Failed)]), ["h"]);
}

#[test]
fn what_can_no_longer_begin_holds_nobody_up() {
    let line = chain("abcd", &[("a", "b", OnSuccess), ("b", "c", OnComplete), ("a", "d", OnComplete)]);
    assert_eq!(begins(&line, &[("a", Failed)]), ["d"]);
    assert_eq!(begins(&line, &[("a", Skipped), ("d", Success)]), ["over success"]);
}

#[test]
fn a_join_begins_behind_the_branch_that_was_taken() {
    let edges = [("a", "b", OnSuccess), ("a", "h", OnFailure), ("b", "d", OnSuccess), ("h", "d", OnSuccess)];
    let branches = chain("abhd", &edges);
    assert_eq!(begins(&branches, &[("a", Success)]), ["b"]);
    assert_eq!(begins(&branches, &[("a", Success), ("b", Running)]), [""; 0]);
    assert_eq!(begins(&branches, &[("a", Success), ("b", Success)]), ["d"]);
    assert_eq!(begins(&branches, &[("a", Failed), ("h", Success)]), ["d"]);
    assert_eq!(begins(&branches, &[("a", Failed), ("h", Failed)]), ["over failed"]);
    assert_eq!(begins(&branches, &[("a", Skipped)]), ["over success"]);
    let sides = chain("bcd", &[("b", "d", OnSuccess), ("c", "d", OnSuccess)]);
    assert_eq!(begins(&sides, &[("b", Skipped), ("c", Success)]), ["d"]);
    assert_eq!(begins(&sides, &[("b", Skipped), ("c", Skipped)]), ["over success"]);
}

#[test]
fn a_failure_on_one_side_keeps_the_join_from_beginning() {
    let edges = [("a", "x", OnSuccess), ("a", "h", OnFailure), ("x", "d", OnSuccess), ("c", "d", OnSuccess)];
    let sides = chain("acxhd", &edges);
    let failed = [("a", Failed), ("c", Success), ("h", Success)];
    assert_eq!(begins(&sides, &failed), ["over success"], "what was done about it does not lead to the join");
    assert_eq!(sides.left_out(&steps(&failed)), [JobId::from("x"), JobId::from("d")]);
}

#[test]
fn what_is_left_out_is_known_as_soon_as_it_is_decided() {
    let line =
        chain("abcde", &[("a", "b", OnSuccess), ("b", "c", OnSuccess), ("a", "d", OnFailure), ("e", "d", OnFailure)]);
    assert!(line.left_out(&steps(&[("a", Running)])).is_empty());
    assert_eq!(line.left_out(&steps(&[("a", Success), ("b", Running)])), [JobId::from("d")]);
    assert_eq!(line.left_out(&steps(&[("a", Failed), ("d", Running)])), [JobId::from("b"), JobId::from("c")]);
}

#[test]
fn a_chain_goes_on_without_jobs_and_nothing_in_it_begins_unbidden() {
    let line = chain("abcd", &[("a", "b", OnSuccess), ("b", "c", OnSuccess), ("a", "d", OnFailure)]);
    let left = line.without(&["b".into()]).unwrap();
    assert_eq!((left.jobs.len(), left.edges.len()), (2, 1), "{left:?}");
    assert_eq!(left.jobs, [JobId::from("a"), JobId::from("d")]);
    assert_eq!(line.without(&["a".into()]), None, "everything followed it");
    let joined = chain("abc", &[("a", "c", OnSuccess), ("b", "c", OnSuccess)]).without(&["a".into()]).unwrap();
    assert_eq!(joined.jobs, [JobId::from("b"), JobId::from("c")]);
    assert_eq!(line.without(&[]), Some(line.clone()));
}

#[test]
fn circles_and_strangers_are_refused() {
    let problems = |chain: &Chain| {
        let mut problems = Problems::new();
        chain.check(&mut problems);
        problems.into_result().err().unwrap_or_default().into_iter().map(|p| p.field).collect::<Vec<_>>()
    };
    assert_eq!(problems(&chain("ab", &[("a", "b", OnSuccess)])), [""; 0]);
    assert_eq!(problems(&chain("ab", &[("a", "b", OnSuccess), ("b", "a", OnFailure)])), ["edges"]);
    assert_eq!(problems(&chain("a", &[("a", "a", OnSuccess)])), ["edges"]);
    assert_eq!(problems(&chain("ab", &[("a", "x", OnSuccess)])), ["edges[0].to"]);
    assert_eq!(problems(&chain("aa", &[])), ["jobs"]);
    assert_eq!(problems(&chain("", &[])), ["jobs"]);
}

proptest! {
    /// However the jobs end, a chain comes to its end, and no job begins twice.
    #[test]
    fn a_chain_ends(
        edges in prop::collection::vec((0_usize..6, 0_usize..6, 0_usize..3), 0..15),
        ends in prop::collection::vec(0_usize..4, 6),
    ) {
        let names = ["a", "b", "c", "d", "e", "f"];
        let kinds = [OnSuccess, OnFailure, OnComplete];
        let mut pairs = BTreeSet::new();
        let forward: Vec<_> = edges
            .into_iter()
            .filter(|(from, to, _)| from < to && pairs.insert((*from, *to)))
            .map(|(from, to, kind)| (names[from], names[to], kinds[kind]))
            .collect();
        let chain = chain("abcdef", &forward);
        let mut problems = Problems::new();
        chain.check(&mut problems);
        prop_assert!(problems.is_empty());
        let mut run: Vec<(String, RunStatus)> =
            chain.roots().iter().map(|root| (root.to_string(), Running)).collect();
        let ways = [Success, Failed, Skipped, RunStatus::Timeout];
        for round in 0.. {
            prop_assert!(round < 20, "it does not end");
            for (job, status) in &mut run {
                let place = names.iter().position(|name| name == job).unwrap_or_default();
                *status = ways[ends[place]];
            }
            let named: Vec<_> = run.iter().map(|(job, status)| (job.as_str(), *status)).collect();
            match chain.advance(&steps(&named)) {
                Advance::Over(_) => break,
                Advance::Begin(jobs) => {
                    prop_assert!(!jobs.is_empty());
                    for job in jobs {
                        prop_assert!(run.iter().all(|(known, _)| *known != job.to_string()));
                        run.push((job.to_string(), Running));
                    }
                }
            }
        }
    }
}
