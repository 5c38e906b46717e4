use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Add {
        agent: u64,
        minute: i64,
    },
    /// Adds a document of the agent that spoke last, one minute later.
    Follow,
    Remove(usize),
    CloseGaps,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0_u64..3, 0_i64..300).prop_map(|(agent, minute)| Step::Add { agent, minute }),
        6 => Just(Step::Follow),
        2 => (0_usize..40).prop_map(Step::Remove),
        1 => Just(Step::CloseGaps),
    ];
    proptest::collection::vec(step, 0..60)
}

fn record(row: u64, agent: u64, minute: i64) -> Record {
    Record { row, agent, source: 0, occurred_at: minute * 60_000_000, length: 1, is_question: row.is_multiple_of(3) }
}

/// Returns the links between rows according to the documentation.
fn expected_links(alive: &[(u64, u64, i64)]) -> Vec<(u64, u64)> {
    let mut sorted = alive.to_vec();
    sorted.sort_by_key(|(row, agent, minute)| (*agent, *minute, *row));
    let belong = |a: &(u64, u64, i64), b: &(u64, u64, i64)| a.1 == b.1 && a.1 != 0 && b.2 - a.2 <= 60;
    let mut links: Vec<_> =
        sorted.windows(2).filter(|pair| belong(&pair[0], &pair[1])).map(|pair| (pair[0].0, pair[1].0)).collect();
    links.sort_unstable();
    links
}

fn links(documents: &Documents) -> Vec<(u64, u64)> {
    let mut links = Vec::new();
    for slot in documents.alive().iter() {
        let next = documents.next(slot);
        if next != NONE {
            assert_eq!(documents.previous(next), slot);
            links.push((documents.row(slot), documents.row(next)));
        }
        let previous = documents.previous(slot);
        assert!(previous == NONE || documents.next(previous) == slot);
    }
    links.sort_unstable();
    links
}

/// Computes the reach without the cache.
fn expected_reach(documents: &Documents, slot: u32) -> Reach {
    let walk = |step: &dyn Fn(u32) -> u32| {
        let linked = |slot: &u32| Some(step(*slot)).filter(|next| *next != NONE);
        std::iter::successors(linked(&slot), linked).take(WINDOW).collect::<Vec<_>>()
    };
    let (before, after) = (walk(&|slot| documents.previous(slot)), walk(&|slot| documents.next(slot)));
    let beside = before.iter().zip(1..).all(|(found, distance)| found + distance == slot)
        && after.iter().zip(1..).all(|(found, distance)| *found == slot + distance);
    if beside { Reach::Beside { before: before.len(), after: after.len() } } else { Reach::Scattered }
}

proptest! {
    #[test]
    fn links_equal_those_of_a_sorted_list(steps in steps()) {
        let mut documents = Documents::default();
        let mut alive: Vec<(u64, u64, i64)> = Vec::new();
        for (row, step) in (1_u64..).zip(steps) {
            match step {
                Step::Add { agent, minute } => {
                    documents.push(record(row, agent, minute));
                    alive.push((row, agent, minute));
                }
                Step::Follow => {
                    let (_, agent, minute) = alive.last().copied().unwrap_or((0, 1, 0));
                    documents.push(record(row, agent, minute + 1));
                    alive.push((row, agent, minute + 1));
                }
                Step::Remove(index) if !alive.is_empty() => {
                    let gone = alive.remove(index % alive.len());
                    prop_assert!(documents.remove(gone.0).is_some());
                }
                Step::Remove(_) => {}
                Step::CloseGaps => {
                    let mut dead = Bitmap::default();
                    (0..documents.slot_count()).filter(|slot| !documents.is_alive(*slot)).for_each(|slot| dead.insert(slot));
                    documents.close_gaps(&dead);
                    prop_assert_eq!(documents.slot_count() as usize, alive.len());
                }
            }
            for slot in documents.alive().iter() {
                prop_assert_eq!(documents.reach(slot), expected_reach(&documents, slot));
            }
            prop_assert_eq!(links(&documents), expected_links(&alive));
            prop_assert_eq!(documents.len(), alive.len());
            prop_assert_eq!(documents.total_length(), alive.len() as u64);
            for (row, agent, minute) in &alive {
                let slot = documents.slot_of(*row).unwrap_or(NONE);
                prop_assert_eq!(documents.record(slot), record(*row, *agent, *minute));
            }
            for agent in 0..3 {
                let mut found: Vec<u64> = documents.slots_of_agent(agent).map(|slot| documents.row(slot)).collect();
                found.sort_unstable();
                let expected: Vec<u64> = alive.iter().filter(|known| known.1 == agent).map(|known| known.0).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
