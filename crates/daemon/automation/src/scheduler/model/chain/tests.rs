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

fn steps(statuses: &[(&str, RunStatus)]) -> Vec<ChainStep> {
    let step = |(job, status): &(&str, RunStatus)| ChainStep {
        job_id: (*job).into(),
        run_id: format!("run_{job}").into(),
        status: *status,
    };
    statuses.iter().map(step).collect()
}

fn next_jobs(chain: &Chain, statuses: &[(&str, RunStatus)]) -> Vec<String> {
    match chain.advance(&steps(statuses)) {
        Advance::Start(jobs) => jobs.iter().map(ToString::to_string).collect(),
        Advance::Finished(status) => vec![format!("finished {}", status.as_str())],
    }
}

use ChainEdgeType::{OnComplete, OnFailure, OnSuccess};
use RunStatus::{Failed, Running, Skipped, Success};

#[test]
fn join_waits_for_all_branches() {
    let diamond =
        chain("abcd", &[("a", "b", OnSuccess), ("a", "c", OnSuccess), ("b", "d", OnSuccess), ("c", "d", OnSuccess)]);
    assert_eq!(next_jobs(&diamond, &[("a", Running)]), [""; 0]);
    assert_eq!(next_jobs(&diamond, &[("a", Success)]), ["b", "c"]);
    assert_eq!(next_jobs(&diamond, &[("a", Success), ("b", Success), ("c", Running)]), [""; 0]);
    assert_eq!(next_jobs(&diamond, &[("a", Success), ("b", Success), ("c", Success)]), ["d"]);
    assert_eq!(next_jobs(&diamond, &[("a", Success), ("b", Failed), ("c", Success)]), ["finished failed"]);
    let all = [("a", Success), ("b", Success), ("c", Success), ("d", Success)];
    assert_eq!(next_jobs(&diamond, &all), ["finished success"]);
}

#[test]
fn failure_handler_starts_once() {
    let handled = chain("abh", &[("a", "h", OnFailure), ("b", "h", OnFailure)]);
    assert_eq!(next_jobs(&handled, &[("a", Failed), ("b", Running)]), [""; 0]);
    assert_eq!(next_jobs(&handled, &[("a", Failed), ("b", Success)]), ["h"]);
    assert_eq!(next_jobs(&handled, &[("a", Failed), ("b", Success), ("h", Success)]), ["finished success"]);
    assert_eq!(next_jobs(&handled, &[("a", Success), ("b", Success)]), ["finished success"]);
    // The chain run was started by `a` alone, so `b` does not participate.
    assert_eq!(next_jobs(&handled, &[("a", Failed)]), ["h"]);
}

#[test]
fn unreachable_job_does_not_block_others() {
    let line = chain("abcd", &[("a", "b", OnSuccess), ("b", "c", OnComplete), ("a", "d", OnComplete)]);
    assert_eq!(next_jobs(&line, &[("a", Failed)]), ["d"]);
    assert_eq!(next_jobs(&line, &[("a", Skipped), ("d", Success)]), ["finished success"]);
}

#[test]
fn join_starts_after_the_taken_branch() {
    let edges = [("a", "b", OnSuccess), ("a", "h", OnFailure), ("b", "d", OnSuccess), ("h", "d", OnSuccess)];
    let branches = chain("abhd", &edges);
    assert_eq!(next_jobs(&branches, &[("a", Success)]), ["b"]);
    assert_eq!(next_jobs(&branches, &[("a", Success), ("b", Running)]), [""; 0]);
    assert_eq!(next_jobs(&branches, &[("a", Success), ("b", Success)]), ["d"]);
    assert_eq!(next_jobs(&branches, &[("a", Failed), ("h", Success)]), ["d"]);
    assert_eq!(next_jobs(&branches, &[("a", Failed), ("h", Failed)]), ["finished failed"]);
    assert_eq!(next_jobs(&branches, &[("a", Skipped)]), ["finished success"]);
    let sides = chain("bcd", &[("b", "d", OnSuccess), ("c", "d", OnSuccess)]);
    assert_eq!(next_jobs(&sides, &[("b", Skipped), ("c", Success)]), ["d"]);
    assert_eq!(next_jobs(&sides, &[("b", Skipped), ("c", Skipped)]), ["finished success"]);
}

#[test]
fn failure_on_one_branch_blocks_the_join() {
    let edges = [("a", "x", OnSuccess), ("a", "h", OnFailure), ("x", "d", OnSuccess), ("c", "d", OnSuccess)];
    let sides = chain("acxhd", &edges);
    let failed = [("a", Failed), ("c", Success), ("h", Success)];
    assert_eq!(next_jobs(&sides, &failed), ["finished success"], "the failure handler does not lead to the join");
    assert_eq!(sides.unreachable_jobs(&steps(&failed)), [JobId::from("x"), JobId::from("d")]);
}

#[test]
fn unreachable_jobs_are_reported_once_decided() {
    let line =
        chain("abcde", &[("a", "b", OnSuccess), ("b", "c", OnSuccess), ("a", "d", OnFailure), ("e", "d", OnFailure)]);
    assert!(line.unreachable_jobs(&steps(&[("a", Running)])).is_empty());
    assert_eq!(line.unreachable_jobs(&steps(&[("a", Success), ("b", Running)])), [JobId::from("d")]);
    assert_eq!(line.unreachable_jobs(&steps(&[("a", Failed), ("d", Running)])), [JobId::from("b"), JobId::from("c")]);
}

#[test]
fn removing_jobs_keeps_the_chain_without_new_roots() {
    let line = chain("abcd", &[("a", "b", OnSuccess), ("b", "c", OnSuccess), ("a", "d", OnFailure)]);
    let left = line.without(&["b".into()]).unwrap();
    assert_eq!((left.jobs.len(), left.edges.len()), (2, 1), "{left:?}");
    assert_eq!(left.jobs, [JobId::from("a"), JobId::from("d")]);
    assert_eq!(line.without(&["a".into()]), None, "all jobs depended on it");
    let joined = chain("abc", &[("a", "c", OnSuccess), ("b", "c", OnSuccess)]).without(&["a".into()]).unwrap();
    assert_eq!(joined.jobs, [JobId::from("b"), JobId::from("c")]);
    assert_eq!(line.without(&[]), Some(line.clone()));
}

#[test]
fn cycles_and_unknown_jobs_are_rejected() {
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
    /// With any results of the jobs, a chain run ends and no job starts twice.
    #[test]
    fn every_chain_run_ends(
        edges in prop::collection::vec((0_usize..6, 0_usize..6, 0_usize..3), 0..15),
        outcome_indexes in prop::collection::vec(0_usize..4, 6),
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
        let outcomes = [Success, Failed, Skipped, RunStatus::Timeout];
        for round in 0.. {
            prop_assert!(round < 20, "the chain run does not end");
            for (job, status) in &mut run {
                let index = names.iter().position(|name| name == job).unwrap_or_default();
                *status = outcomes[outcome_indexes[index]];
            }
            let named: Vec<_> = run.iter().map(|(job, status)| (job.as_str(), *status)).collect();
            match chain.advance(&steps(&named)) {
                Advance::Finished(_) => break,
                Advance::Start(jobs) => {
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
